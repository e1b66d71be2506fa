"""Single-row durable inserts on local disk: OmniGraph beside DuckDB and SQLite, with 1, 16 and 64 threads.

Every insert is a transaction of its own that is on disk before it is acknowledged. DuckDB and SQLite write a file database
with a primary key; SQLite in WAL mode with synchronous=FULL, each thread on its own connection; DuckDB with one cursor a thread.
OmniGraph's insert also makes a commit with its own record in the history. "bare" is the floor of a commit that is one object, in
a plain program without checks, keys or history: a small file written, synced, linked to its name, and its folder synced.

    python bench/bench_writes.py [seconds per measurement]
"""

from __future__ import annotations

import os
import sqlite3
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import duckdb

import omnigraph as og

THREADS = (1, 16, 64)
ROUNDS = 5
"""The systems take turns, so that whatever else a machine does meets all of them."""
Insert = Callable[[str], None]


def omnigraph_at(folder: Path) -> Callable[[], Insert]:
    graph = og.init(folder / "graph", schema="node Person { name: String @key  age: I32? }")

    def insert(name: str) -> None:
        with graph.transaction() as tx:
            tx.insert("Person", name=name, age=1)

    return lambda: insert


def duckdb_at(folder: Path) -> Callable[[], Insert]:
    database = duckdb.connect(str(folder / "duck.db"))
    database.execute("CREATE TABLE person (id TEXT PRIMARY KEY, age INTEGER)")

    def writer() -> Insert:
        cursor = database.cursor()

        def insert(name: str) -> None:
            cursor.execute("INSERT INTO person VALUES (?, 1)", [name])

        return insert

    return writer


def sqlite_at(folder: Path) -> Callable[[], Insert]:
    file = folder / "lite.db"
    with sqlite3.connect(file) as database:
        database.execute("PRAGMA journal_mode = WAL")
        database.execute("CREATE TABLE person (id TEXT PRIMARY KEY, age INTEGER)")
    database.close()

    def writer() -> Insert:
        own = sqlite3.connect(file, timeout=60, isolation_level=None)
        own.execute("PRAGMA synchronous = FULL")

        def insert(name: str) -> None:
            own.execute("INSERT INTO person VALUES (?, 1)", (name,))

        return insert

    return writer


def bare_at(folder: Path) -> Callable[[], Insert]:
    chain = folder / "chain"
    chain.mkdir()

    def writer() -> Insert:
        own = f"{threading.get_ident()}-{time.monotonic_ns()}"

        def insert(name: str) -> None:
            temporary = chain / f".{own} {name}"
            temporary.write_bytes(b"x" * 4_000)
            sync(temporary)
            os.link(temporary, chain / f"{own} {name}")
            temporary.unlink()
            sync(chain)

        return insert

    return writer


def sync(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    os.fsync(handle)
    os.close(handle)


SYSTEMS = {"omnigraph": omnigraph_at, "bare": bare_at, "duckdb": duckdb_at, "sqlite": sqlite_at}


def measure(new_writer: Callable[[], Insert], threads: int, seconds: float, label: str) -> float:
    """Inserts per second of all threads together."""
    done = [0] * threads
    ready = threading.Barrier(threads + 1)
    stop = threading.Event()

    def work(number: int) -> None:
        insert = new_writer()
        insert(f"{label} {number} warm")
        ready.wait()
        while not stop.is_set():
            insert(f"{label} {number} {done[number]}")
            done[number] += 1

    workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
    for worker in workers:
        worker.start()
    ready.wait()
    started = time.perf_counter()
    stop.wait(seconds)
    stop.set()
    for worker in workers:
        worker.join()
    return sum(done) / (time.perf_counter() - started)


def main(seconds: float) -> None:
    with tempfile.TemporaryDirectory() as name:
        writers = {system: make(Path(name)) for system, make in SYSTEMS.items()}
        print(f"durable single-row inserts per second, best of {ROUNDS} rounds of {seconds / ROUNDS:g} s")
        print(f"{'':>12}" + "".join(f"{count:>10} threads" for count in THREADS))
        rates = {system: [0.0] * len(THREADS) for system in writers}
        for round in range(ROUNDS):
            for place, count in enumerate(THREADS):
                for system, new_writer in writers.items():
                    rate = measure(new_writer, count, seconds / ROUNDS, f"r{round} t{count}")
                    rates[system][place] = max(rates[system][place], rate)
        for system, best in rates.items():
            print(f"{system:>12}" + "".join(f"{rate:>18.0f}" for rate in best))
        for system in ("bare", "duckdb", "sqlite"):
            ratios = (ours / theirs for ours, theirs in zip(rates["omnigraph"], rates[system], strict=True))
            print(f"omnigraph / {system:<7}" + "".join(f"{ratio:>11.2f}x      " for ratio in ratios))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
