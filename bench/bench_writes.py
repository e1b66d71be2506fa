"""Single-row durable inserts on local disk: OmniGraph beside DuckDB and SQLite, with 1 and with 16 threads.

Every insert is a transaction of its own that is on disk before it is acknowledged. DuckDB and SQLite write a file database
with a primary key; SQLite in WAL mode with synchronous=FULL, each thread on its own connection; DuckDB with one cursor a thread.
OmniGraph's insert also makes a commit with its own record in the history. "bare" is the least that one such commit needs of
what it is built on, in a plain program without checks, keys or history: one row written, one version that names it, both
synced with their folders, and one small file linked to its name and synced. Each thread has a table of its own.

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

THREADS = (1, 16)
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
    import lance
    import pyarrow as pa
    from lance import LanceDataset, LanceOperation
    from lance.fragment import write_fragments

    chain = folder / "chain"
    chain.mkdir()
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), pa.field("age", pa.int32())])

    def writer() -> Insert:
        table = folder / f"bare-{threading.get_ident()}-{time.monotonic_ns()}"
        first = lance.write_dataset(schema.empty_table(), str(table), mode="create", enable_stable_row_ids=True)

        def insert(name: str) -> None:
            rows = pa.table({"id": [name], "age": [1]}, schema=schema)
            (part,) = write_fragments(rows, first, mode="append")
            made = LanceDataset.commit(first, LanceOperation.Append([part]), read_version=1, detached=True)
            named = [table / "data" / part.files[0].path, table / "_versions" / f"d{made.version}.manifest"]
            temporary = chain / f".{table.name} {name}"
            temporary.write_bytes(b"x" * 2_000)
            for path in (*named, *(path.parent for path in named), temporary):
                sync(path)
            os.link(temporary, chain / f"{table.name} {name}")
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
        print(f"durable single-row inserts per second, {seconds:g} s each")
        print(f"{'':>12}" + "".join(f"{count:>10} threads" for count in THREADS))
        rates: dict[str, list[float]] = {}
        for system, new_writer in writers.items():
            rates[system] = [measure(new_writer, count, seconds, f"t{count}") for count in THREADS]
            print(f"{system:>12}" + "".join(f"{rate:>18.0f}" for rate in rates[system]))
        for system in ("bare", "duckdb", "sqlite"):
            ratios = (ours / theirs for ours, theirs in zip(rates["omnigraph"], rates[system], strict=True))
            print(f"omnigraph / {system:<7}" + "".join(f"{ratio:>11.2f}x      " for ratio in ratios))


if __name__ == "__main__":
    main(float(sys.argv[1]) if len(sys.argv) > 1 else 5.0)
