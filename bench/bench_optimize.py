"""Optimize of a large table in 50 fragments: on Spark and in this process, beside Lance's own compaction of the same rows.

OmniGraph writes the rows again sorted by source, builds the three indexes of edges and publishes a commit that readers see at
once; "Lance" is `compact_files`, alone and with the same three indexes, in one process, in place.

    python bench/bench_optimize.py [rows] [spark master]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import lance
from many_fragments import FRAGMENTS, edges, make

ROWS_PER_FRAGMENT = 1_048_576
MAX_IN_PROCESS = 5_000_000
"""More rows are measured on Spark only."""


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def bare(folder: Path, rows: int) -> tuple[float, float]:
    """Lance's compaction, and its indexes."""
    uri = str(folder / "bare.lance")
    for number in range(FRAGMENTS):
        part = edges(number * (rows // FRAGMENTS), rows // FRAGMENTS, max(rows // 10, 1))
        lance.write_dataset(part, uri, mode="append" if number else "create", enable_stable_row_ids=True)
    dataset = lance.dataset(uri)
    compacted = seconds(lambda: dataset.optimize.compact_files(target_rows_per_fragment=ROWS_PER_FRAGMENT))
    dataset = lance.dataset(uri)
    indexed = seconds(lambda: [dataset.create_scalar_index(column, "BTREE") for column in ("id", "src", "dst")])
    return compacted, indexed


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    master = sys.argv[2] if len(sys.argv) > 2 else "local[2]"
    with tempfile.TemporaryDirectory() as folder:
        compacted, indexed = bare(Path(folder), rows)
        print(f"{rows:,} edges in {FRAGMENTS} fragments", flush=True)
        print(f"  Lance, compaction               {compacted:8.1f} s")
        print(f"  Lance, compaction and indexes   {compacted + indexed:8.1f} s")
        warm = make(Path(folder) / "warm", 400_000)
        warm.optimize(engine=master)
        engines = [("on Spark", master), ("in process", "local")]
        for name, engine in engines if rows <= MAX_IN_PROCESS else engines[:1]:
            graph = make(Path(folder) / name.replace(" ", "-"), rows)
            taken = seconds(lambda graph=graph, engine=engine: graph.maintenance.optimize(engine=engine))
            whole = compacted + indexed
            ratios = f"{taken / whole:.2f} x Lance with indexes, {taken / compacted:.2f} x its compaction alone"
            print(f"  optimize {name:<22} {taken:8.1f} s   {ratios}", flush=True)


if __name__ == "__main__":
    main()
