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
    """The median of a few cold reads: each by a graph that was just opened."""
    taken = []
    for _ in range(READS):
        opened = og.open(graph.uri)
        started = time.perf_counter()
        opened.query(query, {"name": f"p{number}"})
        taken.append(time.perf_counter() - started)
    return sorted(taken)[READS // 2] * 1_000


def main() -> None:
    last = int(sys.argv[1]) if len(sys.argv) > 1 else MARKS[-1]
    one = "query q($name: String) { match { $p: P { name: $name } } return { $p.age } }"
    every = "query q($name: String) { match { $p: P  $p.name != $name } return { count($p) as n } }"
    with tempfile.TemporaryDirectory() as folder:
        graph = og.init(Path(folder) / "g", "node P { name: String @key  age: I32? @index }", durability="process")
        print(
            f"{'commits':>8} {'fragments':>10} {'live KiB':>9} {'all KiB':>9} {'by key ms':>10} {'count ms':>9} {'commit ms':>10}"
        )
        started = time.perf_counter()
        before = 0
        for number in range(1, last + 1):
            with graph.transaction() as tx:
                tx.insert("P", name=f"p{number}", age=number)
            if number in MARKS:
                each = (time.perf_counter() - started) / (number - before) * 1_000
                (table,) = graph.optimize(dry_run=True).tables
                shape = table.before
                reads = milliseconds(graph, one, number // 2), milliseconds(graph, every, number // 2)
                print(
                    f"{number:8,} {shape.fragments:10} {shape.bytes / 1024:9,.0f} {size(Path(folder)) / 1024:9,.0f} "
                    f"{reads[0]:10.1f} {reads[1]:9.1f} {each:10.1f}"
                )
                started, before = time.perf_counter(), number


if __name__ == "__main__":
    main()
