"""A stream of one-row batches into a graph: what a day of them leaves, and whether the last batch costs what the first did.

    python bench/bench_streams.py [--batches 2000] [--way sink|foreach|local] [--folder DIR]

`local` makes the commits of the batches without Spark: what is left of a batch's time is the graph's own part.

Prints, every so many batches: fragments, files and bytes of the table, bytes of the newest entry, milliseconds a batch,
and how many of them this process computed (all of them with `local`).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from pathlib import Path
from typing import Any

import omnigraph as og

SCHEMA = "node Reading { name: String @key  value: I64 }"
LINES = 10


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--batches", type=int, default=2_000)
    parser.add_argument("--way", choices=["sink", "foreach", "local"], default="sink")
    parser.add_argument("--folder", type=Path)
    arguments = parser.parse_args()
    folder = arguments.folder or Path(tempfile.mkdtemp(prefix="omnigraph-streams-"))
    graph = og.init(folder / "graph", SCHEMA)
    stream = Local(graph) if arguments.way == "local" else OnSpark(graph, folder, arguments.way)
    print(
        f"{'commits':>8} {'fragments':>10} {'files':>7} {'table bytes':>12} {'entry bytes':>12} {'ms a batch':>11} {'CPU here':>9}"
    )
    done, since, spent = 0, time.monotonic(), time.process_time()
    for step in range(1, LINES + 1):
        stream.advance(arguments.batches * step // LINES)
        commits, now, used = graph.head().ref.seq, time.monotonic(), time.process_time()
        batches = max(1, commits - done)
        times = f"{1000 * (now - since) / batches:11.0f} {1000 * (used - spent) / batches:9.0f}"
        print(f"{line(graph, folder)} {times}", flush=True)
        done, since, spent = commits, time.monotonic(), time.process_time()
    stream.stop()
    rows = graph._repository.head()[1].rows("node:Reading")
    assert rows == graph.head().ref.seq, "one row a commit"


class OnSpark:
    """A query whose batches have one row each."""

    def __init__(self, graph: og.Graph, folder: Path, way: str) -> None:
        from omnigraph.spark.sessions import spark_session
        from omnigraph.spark.source import register

        spark = spark_session()
        register(spark)
        self.graph = graph
        self.query = started(spark, graph, folder, way)

    def advance(self, commits: int) -> None:
        while self.graph.head().ref.seq < commits and self.query.isActive:
            time.sleep(0.1)
        if self.query.exception() is not None:
            raise SystemExit(str(self.query.exception()))

    def stop(self) -> None:
        self.query.stop()


class Local:
    """The same commits, made here."""

    def __init__(self, graph: og.Graph) -> None:
        self.graph = graph
        self.batch = 0

    def advance(self, commits: int) -> None:
        import pyarrow as pa

        while self.batch < commits:
            row = pa.table({"name": [str(self.batch)], "value": pa.array([self.batch], pa.int64())})
            self.graph.load({"Reading": row}, mode="append", engine="local", once=("bench", self.batch))
            self.batch += 1

    def stop(self) -> None:
        """Nothing runs."""


def started(spark: Any, graph: og.Graph, folder: Path, way: str) -> Any:
    rows = spark.readStream.format("rate-micro-batch").option("rowsPerBatch", 1).option("numPartitions", 1).load()
    rows = rows.selectExpr("CAST(value AS STRING) AS name", "value")
    writer = rows.writeStream.option("checkpointLocation", str(folder / "checkpoint"))
    if way == "sink":
        return writer.format("omnigraph").option("graph", graph.uri).option("type", "Reading").start()
    return writer.foreachBatch(graph.stream_into("Reading", mode="append")).start()


def line(graph: og.Graph, folder: Path) -> str:
    entry, view = graph._repository.head()
    table = view.table("node:Reading")
    assert table is not None
    files = [path for path in (folder / "graph" / table.path).rglob("*") if path.is_file()]
    size = sum(path.stat().st_size for path in files)
    newest = min((folder / "graph" / "branches" / "main").iterdir())
    commits = entry.head.commit.ref.seq
    return f"{commits:8,} {len(table.fragments):10} {len(files):7,} {size:12,} {newest.stat().st_size:12,}"


if __name__ == "__main__":
    main()
