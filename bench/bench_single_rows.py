"""A graph that is only ever written in single rows, and never optimized: how it looks and how it reads as it grows.

python bench/bench_single_rows.py [commits]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import omnigraph as og

MARKS = (10, 100, 1_000, 5_000)
READS = 20


def size(folder: Path) -> int:
    return sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())


def milliseconds(graph: og.Graph, query: str, number: int) -> float:
    """The best of a few cold reads, each by a graph that was just opened: what others do on the machine does not count."""
    taken = []
    for _ in range(READS):
        opened = og.open(graph.uri)
        started = time.perf_counter()
        opened.query(query, {"name": f"p{number}"})
        taken.append(time.perf_counter() - started)
    return min(taken) * 1_000


ONE = "query q($name: String) { match { $p: P { name: $name } } return { $p.age } }"
EVERY = "query q($name: String) { match { $p: P  $p.name != $name } return { count($p) as n } }"


def line(graph: og.Graph, label: str, number: int, commit_ms: float) -> str:
    (table,) = graph.maintenance.optimize(dry_run=True).tables
    reads = milliseconds(graph, ONE, number // 2), milliseconds(graph, EVERY, number // 2)
    return (
        f"{label:>10} {table.before.fragments:10} {table.before.bytes / 1024:9,.0f} {size(Path(graph.uri)) / 1024:9,.0f} "
        f"{reads[0]:10.1f} {reads[1]:9.1f} {commit_ms:10.1f}"
    )


def main() -> None:
    last = int(sys.argv[1]) if len(sys.argv) > 1 else MARKS[-1]
    with tempfile.TemporaryDirectory() as folder:
        graph = og.init(Path(folder) / "g", "node P { name: String @key  age: I32? @index }", durability="process")
        names = ("fragments", "live KiB", "all KiB", "by key ms", "count ms", "commit ms")
        print(f"{'commits':>10} {names[0]:>10} {names[1]:>9} {names[2]:>9} {names[3]:>10} {names[4]:>9} {names[5]:>10}")
        started = time.perf_counter()
        before = 0
        for number in range(1, last + 1):
            with graph.transaction() as tx:
                tx.insert("P", name=f"p{number}", age=number)
            if number in MARKS:
                each = (time.perf_counter() - started) / (number - before) * 1_000
                print(line(graph, f"{number:,}", number, each), flush=True)
                started, before = time.perf_counter(), number
        started = time.perf_counter()
        graph.maintenance.optimize()
        print(line(graph, "optimized", last, (time.perf_counter() - started) * 1_000))


if __name__ == "__main__":
    main()
