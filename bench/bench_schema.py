"""Schema changes of a large table, beside the bare Lance rewrite of the same column.

A wider type moves no rows: the change is two small objects, and the column is put together while it is read. So the change is
set against Lance's rewrite of the column, and a scan of the column after the change against one before it. A stricter schema
reads the rows that it is about: in this process, and as tasks on Spark. `optimize` writes the rows into the new column, all columns
of them; it is set against Lance writing the same rows.

    python bench/bench_schema.py [rows] [spark master]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq
from lance import LanceDataset, LanceOperation

import omnigraph as og
from omnigraph.maintenance.optimize import maintain
from omnigraph.tasks.engines import make_workers
from omnigraph.tasks.progress import Status

BEFORE = "node T { k: I64 @key  n: I32?  m: I32? }"
WIDER = "node T { k: I64 @key  n: I64?  m: I32? }"
STRICTER = "node T { k: I64 @key  n: I64?  m: I32 @range(m, 0..) }"
STRICTEST = "node T { k: I64 @key  n: I64  m: I32 @range(m, 0..) }"


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def make(folder: Path, rows: int) -> og.Graph:
    file = folder / "T.parquet"
    numbers = pa.array(range(rows), pa.int32())
    pq.write_table(pa.table({"k": numbers.cast(pa.int64()), "n": numbers, "m": numbers}), file)
    graph = og.init(folder / "graph", schema=BEFORE)
    graph.load(file, mode="append", type="T", engine="local")
    return graph


def table_of(graph: og.Graph) -> Any:
    return graph._repository.head("main")[1].table("node:T")


def rewrite(dataset: Any) -> None:
    """The column as a wider one, fragment by fragment, and a version that has it."""

    def wider(batch: pa.RecordBatch) -> pa.RecordBatch:
        return pa.record_batch([batch.column("n").cast(pa.int64())], ["n_wider"])

    made = [fragment.merge_columns(wider, columns=["n"]) for fragment in dataset.get_fragments()]
    operation = LanceOperation.Merge([fragment for fragment, _ in made], made[0][1])
    LanceDataset.commit(dataset, operation, read_version=dataset.version, detached=True)


def rewrite_rows(dataset: Any) -> None:
    """All columns of all rows as new fragments, which `optimize` writes too, by one process."""
    names = [name for name in dataset.schema.names if not name.startswith("_")]
    lance.fragment.write_fragments(dataset.scanner(names).to_reader(), dataset.uri, mode="append")


class Stages:
    """How long each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def update(self, status: Status) -> None:
        self.seconds[status.stage] = status.seconds

    def close(self) -> None:
        """Nothing to close."""


def optimize(graph: og.Graph, master: str, stages: Stages) -> None:
    maintain(graph._repository, "main", rewrite=True, workers=make_workers(master, graph.uri, stages))


def scan(graph: og.Graph) -> None:
    for _ in table_of(graph).scan(["n"]):
        pass


def main() -> None:
    rows = int(sys.argv[1]) if len(sys.argv) > 1 else 2_000_000
    master = sys.argv[2] if len(sys.argv) > 2 else "local[2]"
    with tempfile.TemporaryDirectory() as folder:
        graph = make(Path(folder), rows)
        bare = seconds(lambda: rewrite(table_of(graph).dataset))
        scan(graph)
        before = min(seconds(lambda: scan(graph)) for _ in range(3))
        changed = seconds(lambda: graph.schema.apply(WIDER))
        scan(graph)
        after = min(seconds(lambda: scan(graph)) for _ in range(3))
        print(f"{rows:,} rows")
        print(f"  Lance, rewrite of a column   {bare:8.3f} s")
        print(f"  schema apply, wider type     {changed:8.3f} s   {changed / bare:.3f} x the rewrite")
        print(f"  scan of the column           {after:8.3f} s   {after / before:.2f} x before the change")
        checked = seconds(lambda: graph.schema.apply(STRICTER, engine="local"))
        print(f"  two rules checked here       {checked:8.3f} s   {checked / bare:.2f} x the rewrite")
        with og.open(graph.uri) as other:
            other.spark(master).table("T", columns=["n"]).count()
        on_spark = seconds(lambda: graph.schema.apply(STRICTEST, engine=master))
        print(f"  one rule checked on Spark    {on_spark:8.3f} s   {on_spark / bare:.2f} x the rewrite")
        whole = seconds(lambda: rewrite_rows(table_of(graph).dataset))
        stages = Stages()
        optimized = seconds(lambda: optimize(graph, master, stages))
        print(f"  Lance, rewrite of the rows   {whole:8.3f} s")
        print(
            f"  rows rewritten on Spark      {stages.seconds['compact']:8.3f} s   {stages.seconds['compact'] / whole:.2f} x that"
        )
        print(f"  the key's index on Spark     {stages.seconds['indexes']:8.3f} s   of {optimized:.3f} s for optimize")


if __name__ == "__main__":
    main()
