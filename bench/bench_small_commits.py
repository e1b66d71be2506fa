"""What small commits cost besides their time (`bench_writes.py`), and what their rows cost readers until they are folded.

Requests and bytes are exact. Reads are compared in processor time, in turns, best of many: a table with as many rows in commits as
there may be, and the same table after `optimize`.

    python bench/bench_small_commits.py [commits to measure the size of]
"""

from __future__ import annotations

import multiprocessing
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from s3_server import S3Server

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: I32? }\n"
POINT = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
SCAN = "query q() { match { $p: Person $p.age > 20 } return { count($p) as n, sum($p.age) as s } }"
STORED, TURNS = 100_000, 300
PROCESSES, EACH = 12, 10
FEED = 1_000


def commit(graph: og.Graph, name: str) -> None:
    with graph.transaction() as tx:
        tx.insert("Person", name=name, age=33)


def filled(uri: str, rows: int, options: Mapping[str, str] | None = None) -> og.Graph:
    graph = og.init(uri, SCHEMA, storage_options=options)
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": f"p{number}", "age": number % 90} for number in range(rows)])
    graph.optimize()
    return graph


def reads(folder: Path) -> None:
    with_rows, folded = filled(str(folder / "with"), STORED), filled(str(folder / "folded"), STORED)
    for graph in (with_rows, folded):
        for number in range(32):
            commit(graph, f"q{number}")
        for number in range(16):
            with graph.transaction() as tx:
                tx.update("Person", f"p{number * 1_000}", age=50)
    folded.optimize()
    state = with_rows._repository.head()[1].snapshot.tables["node:Person"]
    print(f"reads, {STORED:,} rows stored and {state.inline.row_count} in commits, 16 of which replace stored ones")
    questions: dict[str, Callable[[og.Graph, int], object]] = {
        "point": lambda graph, turn: graph.query(POINT, {"n": f"p{turn * 331 % STORED}"}),
        "scan": lambda graph, turn: graph.query(SCAN),
    }
    for name, ask in questions.items():
        best = {with_rows.uri: 9.0, folded.uri: 9.0}
        for turn in range(TURNS):
            for graph in (with_rows, folded):
                started = time.process_time()
                ask(graph, turn)
                best[graph.uri] = min(best[graph.uri], time.process_time() - started)
        mine, other = (1_000 * best[graph.uri] for graph in (with_rows, folded))
        print(f"  {name:>6}  {mine:6.2f} ms with rows in commits, {other:6.2f} ms folded: {mine / other:.2f}x")


def feed(s3: S3Server) -> None:
    uri = f"s3://{s3.new_bucket()}/graph"
    graph = filled(uri, 10, s3.options)
    start = graph.commit().id
    for number in range(FEED):
        commit(graph, f"f{number}")
    reader = og.open(uri, storage_options=s3.options)
    s3.reset()
    started, seen = time.perf_counter(), 0
    page = reader.changes(start=f"after:{start}")
    while True:
        seen += sum(len(block.changes) for block in page.blocks)
        if page.caught_up:
            break
        token = page.next_page_token
        page = reader.changes(page_token=token) if token else reader.changes(since=page.cursor)
    taken, log = time.perf_counter() - started, s3.requests()
    of_tables = [request.key for request in log if "/nodes/" in request.key or "/edges/" in request.key]
    assert seen == FEED
    print(f"feed of {FEED:,} commits on S3: {len(log):,} requests, {len(of_tables)} of tables, {taken:.1f} s")
    s3.reset()
    og.open(uri, storage_options=s3.options).query(POINT, {"n": "f1"})
    print(f"cold open to the first row on S3: {len(s3.requests())} requests")


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def sizes(folder: Path, commits: int) -> None:
    graph = og.init(folder / "sizes", SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="first")
    before, done = size(folder / "sizes"), 0
    for mark in (10, 1_000, commits):
        while done < mark:
            commit(graph, f"s{done}")
            done += 1
        print(f"bytes stored by {mark:,} commits of a row: {(size(folder / 'sizes') - before) / mark:,.0f} each")


def work(uri: str, options: Mapping[str, str] | None, number: int, barrier: object) -> None:
    graph = og.open(uri, storage_options=options)
    commit(graph, f"w{number} warm")
    barrier.wait()  # type: ignore[attr-defined]
    for turn in range(EACH):
        commit(graph, f"w{number} {turn}")


def crowd(uri: str, options: Mapping[str, str] | None, where: str) -> None:
    graph = filled(uri, 10, options)
    started = time.perf_counter()
    for number in range(3 * EACH):
        commit(graph, f"alone {number}")
    alone = 3 * EACH / (time.perf_counter() - started)
    context = multiprocessing.get_context("spawn")
    barrier = context.Barrier(PROCESSES + 1)
    workers = [context.Process(target=work, args=(uri, options, number, barrier)) for number in range(PROCESSES)]
    for worker in workers:
        worker.start()
    barrier.wait()
    started = time.perf_counter()
    for worker in workers:
        worker.join()
    together = PROCESSES * EACH / (time.perf_counter() - started)
    landed = len(graph.query("query q() { match { $p: Person $p.age = 33 } return { $p.name } }")) - 3 * EACH
    print(
        f"{PROCESSES} processes on one branch, {where}: {landed} of {PROCESSES * (EACH + 1)} landed, {together:.0f} commits a "
        f"second; one process {alone:.0f}"
    )


def main(commits: int) -> None:
    with tempfile.TemporaryDirectory() as name, S3Server() as s3:
        folder = Path(name)
        reads(folder)
        feed(s3)
        sizes(folder, commits)
        crowd(str(folder / "crowd"), None, "on disk")
        crowd(f"s3://{s3.new_bucket()}/graph", s3.options, "on S3")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 10_000)
