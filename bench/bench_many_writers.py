"""Twelve clients that write at once: how many succeed, how often each tries, how long they wait, and whether all get their share.

Every client inserts, upserts, updates, deletes or loads (`mode="merge"`), each its own rows, or all of them the same row; as threads
of one handle, as processes, and as clients of one server; on disk and on S3. "attempts" are attempts to create the next entry for each
commit: below 1 where writers share an entry; those of a server are not counted. "share" is the time of the fastest client as a part
of that of the slowest, all of which make the same number of writes. On a disk, a turn of a process holds some thirty writes: make
more of them (`--writes 100`) to see shares.

    python bench/bench_many_writers.py [--clients 12] [--writes 10] [disk s3] [threads processes http]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from s3_server import S3Server
from server_processes import running

import omnigraph as og
from omnigraph import errors
from omnigraph.history.chain import Chain

SCHEMA = "node Person { name: String @key  age: I32? }"
TEXTS = {
    "insert": "query q($n: String, $a: I32) { create Person { name: $n, age: $a } }",
    "upsert": "query q($n: String, $a: I32) { upsert Person { name: $n, age: $a } }",
    "update": "query q($n: String, $a: I32) { update Person set { age: $a } where name = $n }",
    "delete": "query q($n: String) { delete Person where name = $n }",
}
KINDS = (*TEXTS, "merge load")
Options = Mapping[str, str] | None


@dataclass(frozen=True)
class Outcome:
    """Of one client: the seconds of each write, and how many were refused."""

    taken: list[float]
    refused: int
    attempts: int | None


def row_of(kind: str, client: int, turn: int, *, is_own: bool) -> str:
    if kind == "insert":
        return f"new {client} {turn}" if is_own else f"new {turn}"
    return f"{client} {turn}" if is_own else "shared"


def write(graph: Any, kind: str, name: str, age: int, folder: Path) -> None:
    if kind == "merge load":
        path = folder / f"{threading.get_ident()}-{name}.jsonl"
        path.write_text(json.dumps({"type": "Person", "data": {"name": name, "age": age}}))
        graph.load(path, mode="merge", **({"engine": "local"} if isinstance(graph, og.Graph) else {}))
    else:
        parameters: dict[str, object] = {"n": name} if kind == "delete" else {"n": name, "a": age}
        graph.mutate(TEXTS[kind], parameters)


def client_of(
    graph: Any, kind: str, client: int, writes: int, is_own: bool, folder: Path, begin: Callable[[], object]
) -> Outcome:
    write(graph, "upsert", f"warm {client}", 0, folder)
    begin()
    taken, refused = [], 0
    for turn in range(writes):
        started = time.perf_counter()
        try:
            write(graph, kind, row_of(kind, client, turn, is_own=is_own), client * 1_000 + turn + 1, folder)
        except (errors.Conflict, errors.InputError):
            refused += 1
        taken.append(time.perf_counter() - started)
    return Outcome(taken, refused, None)


@contextlib.contextmanager
def counted() -> Iterator[list[int]]:
    """The attempts to create an entry in this process, as the only number of a list."""
    attempts, append, lock = [0], Chain.append, threading.Lock()

    def counting(self: Chain, *arguments: Any, **named: Any) -> Any:
        with lock:
            attempts[0] += 1
        return append(self, *arguments, **named)

    Chain.append = counting  # type: ignore[method-assign]
    try:
        yield attempts
    finally:
        Chain.append = append  # type: ignore[method-assign]


def as_threads(
    graphs: list[Any], kind: str, writes: int, is_own: bool, folder: Path, begin: Callable[[], None] | None = None
) -> list[Outcome]:
    outcomes: list[Outcome] = []
    barrier = threading.Barrier(len(graphs), begin)

    def run(client: int) -> None:
        outcomes.append(client_of(graphs[client], kind, client, writes, is_own, folder, barrier.wait))

    threads = [threading.Thread(target=run, args=(client,)) for client in range(len(graphs))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return outcomes


def as_process(
    uri: str, options: Options, kind: str, client: int, writes: int, is_own: bool, barrier: Any, results: Any
) -> None:
    with tempfile.TemporaryDirectory() as folder, counted() as attempts:
        graph, before = og.open(uri, storage_options=options), [0]

        def begin() -> None:
            barrier.wait()
            before[0] = attempts[0]

        outcome = client_of(graph, kind, client, writes, is_own, Path(folder), begin)
        results.put(Outcome(outcome.taken, outcome.refused, attempts[0] - before[0]))
        barrier.wait()  # What a process does at its end would slow the others down.


def as_processes(uri: str, options: Options, kind: str, clients: int, writes: int, is_own: bool) -> list[Outcome]:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["lance", "omnigraph.graph.graph", "omnigraph.load.job"])
    barrier, results = context.Barrier(clients), context.Queue()
    workers = [
        context.Process(target=as_process, args=(uri, options, kind, client, writes, is_own, barrier, results))
        for client in range(clients)
    ]
    for worker in workers:
        worker.start()
    outcomes = [results.get() for _ in workers]
    for worker in workers:
        worker.join()
    return outcomes


def filled(uri: str, options: Options, kind: str, clients: int, writes: int) -> og.Graph:
    graph = og.init(uri, SCHEMA, storage_options=options)
    names = [f"{client} {turn}" for client in range(clients) for turn in range(writes)]
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": name, "age": 0} for name in ["shared", *names]])
    return graph


def measure(uri: str, options: Options, way: str, kind: str, clients: int, writes: int, is_own: bool) -> str:
    graph = filled(uri, options, kind, clients, writes)
    attempts: int | None = None
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        if way == "threads":
            with counted() as made:
                outcomes = as_threads([graph] * clients, kind, writes, is_own, folder, lambda: made.__setitem__(0, 0))
            attempts = made[0]
        elif way == "processes":
            outcomes = as_processes(uri, options, kind, clients, writes, is_own)
            attempts = sum(outcome.attempts or 0 for outcome in outcomes)
        else:
            environment = {} if options is None else {name.upper(): value for name, value in options.items()}
            environment["OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX"] = str(2 * clients)
            with running(folder, uri, "--unauthenticated", **environment) as server:
                graph_name = server_graph(server.url)
                remotes = [og.connect(server.url, graph=graph_name) for _ in range(clients)]
                outcomes = as_threads(remotes, kind, writes, is_own, folder)
    every = sorted(second * 1000 for outcome in outcomes for second in outcome.taken)
    totals = [sum(outcome.taken) for outcome in outcomes]
    successes = len(every) - sum(outcome.refused for outcome in outcomes)
    p50, p99 = statistics.median(every), every[min(len(every) - 1, int(len(every) * 0.99))]
    shown = "-" if attempts is None else f"{attempts / max(successes, 1):.2f}"
    row = "own row" if is_own else "one row"
    return (
        f"{way:10} {kind:11} {row:8} {successes:5}/{len(every):<5} {shown:>8} {p50:8.1f} {p99:8.1f} "
        f"{min(totals) / max(totals):6.2f}"
    )


def server_graph(url: str) -> str:
    import httpx

    return str(httpx.get(f"{url}/graphs", timeout=60).json()["graphs"][0]["graph_id"])


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--clients", type=int, default=12)
    parser.add_argument("--writes", type=int, default=10)
    parser.add_argument("what", nargs="*")
    arguments = parser.parse_args()
    stores = [store for store in ("disk", "s3") if store in arguments.what] or ["disk", "s3"]
    ways = [way for way in ("threads", "processes", "http") if way in arguments.what]
    kinds = [kind for kind in KINDS if kind.replace(" ", "-") in arguments.what] or KINDS
    for store in stores:
        print(f"{store}: {arguments.clients} clients, {arguments.writes} writes each")
        print(f"{'':31} {'succeeded':>11} {'attempts':>8} {'p50 ms':>8} {'p99 ms':>8} {'share':>6}")
        with contextlib.ExitStack() as stack:
            folder = stack.enter_context(tempfile.TemporaryDirectory())
            server = stack.enter_context(S3Server()) if store == "s3" else None
            for number, (way, kind, is_own) in enumerate(
                (way, kind, is_own)
                for way in ways or ("threads", "processes", "http")
                for kind in kinds
                for is_own in (True, False)
            ):
                uri = f"{folder}/{number}" if server is None else f"s3://{server.new_bucket()}/graph"
                options = None if server is None else server.options
                print(measure(uri, options, way, kind, arguments.clients, arguments.writes, is_own), flush=True)


if __name__ == "__main__":
    main()
