"""Reading every edge of a graph with Spark, against Spark reading the same rows from Parquet.

    python bench/bench_scan.py [--edges 4000000] [--rounds 7] [--memory 4g] [--batch-rows 8192]

The ways take turns in one warm session, so that a busy machine disturbs them alike. Printed per way: the median wall time
and the median CPU time of all processes together, and the ratio of Parquet's to it (1.0: as fast as Parquet).

One of the ways is the floor of any Python data source: it reads nothing, and yields one batch of these edges again and again.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench_load import SCHEMA, process_tree
from pyspark.sql.datasource import DataSource, DataSourceReader, InputPartition

import omnigraph as og
from omnigraph.spark.sessions import spark_session
from omnigraph.spark.source import register

Action = Callable[[Any], object]

ACTIONS: dict[str, Action] = {
    "every row, to nowhere": lambda frame: frame.write.format("noop").mode("overwrite").save(),
    "an aggregate over every column": lambda frame: frame.selectExpr(
        "sum(length(id) + length(src) + length(dst))", "sum(weight)", "max(since)"
    ).collect(),
}


def cpu_seconds() -> float:
    """User and system time of this process and all below it, those that ended included."""
    ticks = 0
    for process in process_tree(os.getpid()):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(int(field) for field in fields[11:15])
    return ticks / os.sysconf("SC_CLK_TCK")


def make_graph(folder: Path, edges: int) -> og.Graph:
    import numpy as np
    import pyarrow as pa

    nodes = edges // 10
    graph = og.init(folder / "graph", schema=SCHEMA, durability="process")
    emails = pa.array([f"p{number}@example.org" for number in range(nodes)])
    people = {
        "email": emails,
        "tier": pa.repeat(pa.scalar("free"), nodes),
        "joined": pa.repeat(pa.scalar(1_767_236_645_000, pa.timestamp("ms")), nodes),
    }
    dice, numbers = np.random.default_rng(7), np.arange(edges)
    knows = {
        "from": emails.take(pa.array(numbers % nodes)),
        "to": emails.take(pa.array(dice.integers(0, nodes, edges))),
        "weight": numbers % 1000 / 4,
        "since": pa.array((18_000 + numbers % 28).astype("int32")).cast(pa.date32()),
    }
    graph.load({"Person": pa.table(people), "Knows": pa.table(knows)}, mode="append", engine="local")
    return graph


def run(folder: Path, edges: int, rounds: int, memory: str, batch_rows: int) -> None:
    spark = spark_session(memory=memory)
    graph = make_graph(folder, edges)
    register(spark)
    view = graph.spark(spark).table("Knows")
    view.write.parquet(str(folder / "edges"))
    source = spark.read.format("omnigraph").option("graph", graph.uri).option("type", "Knows")
    frames = {
        "Parquet": spark.read.parquet(str(folder / "edges")),
        "data source": source.load(),
        'g.spark(session).table("Knows")': view,
        "floor of a Python data source": constant_frame(spark, folder / "edges", edges, batch_rows),
    }
    print(f"{edges:,} edges, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}, median of {rounds}")
    for name, action in ACTIONS.items():
        print(name)
        report(frames, action, rounds)
    spark.stop()


class ConstantSource(DataSource):
    """As many rows as asked for, all from one batch that is ready."""

    stream: bytes
    """The batch, as Arrow stream."""

    @classmethod
    def name(cls) -> str:
        return "constant"

    def schema(self) -> str:
        return str(self.options["schema"])

    def reader(self, schema: Any) -> DataSourceReader:
        return ConstantReader(type(self).stream, int(self.options["rows"]))


class ConstantReader(DataSourceReader):
    def __init__(self, stream: bytes, rows: int) -> None:
        self.stream, self.rows = stream, rows

    def partitions(self) -> list[InputPartition]:
        return [InputPartition(number) for number in range(os.cpu_count() or 1)]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        import pyarrow as pa

        (batch,) = pa.ipc.open_stream(self.stream).read_all().combine_chunks().to_batches()
        for _ in range(self.rows // (os.cpu_count() or 1) // batch.num_rows):
            yield batch


def constant_frame(spark: Any, parquet: Path, rows: int, batch_rows: int) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    (file, *_) = sorted(parquet.glob("*.parquet"))
    batch = next(pq.ParquetFile(file).iter_batches(batch_rows))
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    ConstantSource.stream = sink.getvalue().to_pybytes()
    spark.dataSource.register(ConstantSource)
    schema = ", ".join(
        f"`{field.name}` {field.dataType.simpleString()}" for field in spark.read.parquet(str(parquet)).schema
    )
    return spark.read.format("constant").option("rows", rows).option("schema", schema).load()


def report(frames: dict[str, Any], action: Action, rounds: int) -> None:
    taken: dict[str, list[tuple[float, float]]] = {name: [] for name in frames}
    for turn in range(rounds + 2):  # the first two compile
        for name, frame in frames.items():
            wall, cpu = time.monotonic(), cpu_seconds()
            action(frame)
            if turn >= 2:
                taken[name].append((time.monotonic() - wall, cpu_seconds() - cpu))
    least = [statistics.median(column) for column in zip(*taken["Parquet"], strict=True)]
    for name, times in taken.items():
        wall, cpu = (statistics.median(column) for column in zip(*times, strict=True))
        print(
            f"  {name:34} {wall:6.2f} s ({least[0] / wall:.2f}x)   CPU {cpu:6.2f} s ({least[1] / cpu:.2f}x)", flush=True
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=4_000_000)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--batch-rows", type=int, default=8_192, help="of the floor")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp())
    try:
        run(folder, options.edges, options.rounds, options.memory, options.batch_rows)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
