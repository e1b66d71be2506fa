"""What small commits cost besides their time (`bench_writes.py`), and what their rows cost readers until they are folded.

Requests and bytes are exact. Reads are compared by the clock, in turns, the median of many: a table with as many rows in commits as
there may be, and the same table after `optimize`. One process and twelve make the same number of commits on one branch, with Lance
loaded before; on S3 with a server that takes 15 ms for a request.

    python bench/bench_small_commits.py [--commits 10000] [reads feed sizes disk s3]
"""

from __future__ import annotations

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))

from s3_server import S3Server

import omnigraph as og

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person { since: I32? }\n"
POINT = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name, $p.age } }"
SCAN = "query q() { match { $p: Person $p.age > 20 } return { count($p) as n, sum($p.age) as s } }"
STORED, TURNS = 100_000, 300
PROCESSES = 12
S3_REQUEST_S = 0.015
FEED = 1_000


def commit(graph: og.Graph, name: str) -> None:
    with graph.transaction() as tx:
        tx.insert("Person", name=name, age=33)


def filled(uri: str, rows: int, options: Mapping[str, str] | None = None) -> og.Graph:
    graph = og.init(uri, SCHEMA, storage_options=options)
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": f"p{number}", "age": number % 90} for number in range(rows)])
    graph.maintenance.optimize()
    return graph


def reads(folder: Path) -> None:
    with_rows, folded = filled(str(folder / "with"), STORED), filled(str(folder / "folded"), STORED)
    for graph in (with_rows, folded):
        for number in range(32):
            commit(graph, f"q{number}")
        for number in range(16):
            with graph.transaction() as tx:
                tx.update("Person", f"p{number * 1_000}", age=50)
    folded.maintenance.optimize()
    state = with_rows._repository.head()[1].snapshot.tables["node:Person"]
    print(f"reads, {STORED:,} rows stored and {state.inline.row_count} in commits, 16 of which replace stored ones")
    questions: dict[str, Callable[[og.Graph, int], object]] = {
        "point": lambda graph, turn: graph.query(POINT, {"n": f"p{turn * 331 % STORED}"}),
        "scan": lambda graph, turn: graph.query(SCAN),
    }
    for name, ask in questions.items():
        taken: dict[str, list[float]] = {with_rows.uri: [], folded.uri: []}
        for turn in range(TURNS):
            for graph in (with_rows, folded):
                started = time.perf_counter()
                ask(graph, turn)
                taken[graph.uri].append(time.perf_counter() - started)
        mine, other = (1_000 * statistics.median(taken[graph.uri]) for graph in (with_rows, folded))
        print(f"  {name:>6}  {mine:6.2f} ms with rows in commits, {other:6.2f} ms folded: {mine / other:.2f}x")


def feed(s3: S3Server) -> None:
    uri = f"s3://{s3.new_bucket()}/graph"
    graph = filled(uri, 10, s3.options)
    start = graph.head().id
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


def work(uri: str, options: Mapping[str, str] | None, number: int, commits: int, barrier: Any, results: Any) -> None:
    """One of several processes: how long it took for its commits, and how many entries it tried to create. It ends when all have
    done theirs: what a process does at its end would slow the others down."""
    with tempfile.TemporaryDirectory() as name:
        own = og.init(Path(name) / "own", SCHEMA, durability="process")
        for turn in range(140):
            commit(own, f"warm {turn}")
    graph = og.open(uri, storage_options=options)
    commit(graph, f"w{number} first")
    chain, attempts = graph._repository.history.chain, 0
    create = chain._create

    def counted(*arguments: Any) -> Any:
        nonlocal attempts
        attempts += 1
        return create(*arguments)

    chain._create = counted  # type: ignore[method-assign]
    barrier.wait()
    started = time.perf_counter()
    for turn in range(commits):
        commit(graph, f"w{number} {turn}")
    results.put((time.perf_counter() - started, attempts))
    barrier.wait()


def rate(uri: str, options: Mapping[str, str] | None, processes: int, each: int) -> tuple[float, str]:
    context = multiprocessing.get_context("spawn")
    barrier, results = context.Barrier(processes + 1), context.Queue()
    workers = [
        context.Process(target=work, args=(uri, options, number, each, barrier, results)) for number in range(processes)
    ]
    for worker in workers:
        worker.start()
    barrier.wait()
    started = time.perf_counter()
    measured = [results.get() for _ in workers]
    taken = time.perf_counter() - started
    barrier.wait()
    for worker in workers:
        worker.join()
    commits, times = processes * each, sorted(each for each, _ in measured)
    tries = sum(attempts for _, attempts in measured) / commits
    return commits / taken, f"{tries:.2f} attempts a commit, slowest {times[-1] / times[0]:.1f} times the fastest"


def crowd(places: list[tuple[str, Mapping[str, str] | None]], where: str, each: int) -> None:
    """The same commits by one process and by several, each on a graph of its own."""
    rates = []
    for (uri, options), processes in zip(places, (1, PROCESSES), strict=True):
        graph = filled(uri, 10, options)
        commits_a_second, how = rate(uri, options, processes, PROCESSES * each // processes)
        landed = len(graph.query("query q() { match { $p: Person $p.age = 33 } return { $p.name } }")) - processes
        assert landed == PROCESSES * each
        rates.append(commits_a_second)
        print(f"{where}, {processes} processes, {landed} commits: {commits_a_second:.0f} a second, {how}")
    print(f"  {PROCESSES} processes: {rates[1] / rates[0]:.2f}x of one")


def main(commits: int, phases: list[str]) -> None:
    with tempfile.TemporaryDirectory() as name, S3Server() as s3:
        folder = Path(name)
        if "reads" in phases:
            reads(folder)
        if "feed" in phases:
            feed(s3)
        if "sizes" in phases:
            sizes(folder, commits)
        if "disk" in phases:
            crowd([(str(folder / place), None) for place in ("one", "many")], "disk", 60)
        if "s3" in phases:
            with s3.latency(S3_REQUEST_S):
                crowd([(f"s3://{s3.new_bucket()}/graph", s3.options) for _ in range(2)], "S3", 20)


if __name__ == "__main__":
    PHASES = ["reads", "feed", "sizes", "disk", "s3"]
    parser = argparse.ArgumentParser()
    parser.add_argument("--commits", type=int, default=10_000)
    parser.add_argument("phases", nargs="*", choices=[*PHASES, []], default=PHASES)
    given = parser.parse_args()
    main(given.commits, given.phases)
