"""Loading into a graph against the least a load can be: Spark reading the same files and writing Parquet, unchecked.

    python bench/bench_load.py [--nodes 100000] [--edges 1000000] [--memory 6g] [--folder DIR]

Prints wall times, rows a second, ratios, the stages of each load, and the peak memory of all processes together.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import omnigraph as og
from omnigraph.pipeline.frames import graph_tables
from omnigraph.pipeline.load import load
from omnigraph.pipeline.progress import Status
from omnigraph.pipeline.session import spark_session
from omnigraph.pipeline.source import register

SCHEMA = """
node Person {
  email: String @key
  age: I32?
  tier: enum(free, pro, vip)
  joined: DateTime
  @range(age, 0..150)
}
edge Knows: Person -> Person @card(0..200) { weight: F64?  since: Date? }
"""
FILES = 4


class Stages:
    """A progress that only remembers how long each stage took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def update(self, status: Status) -> None:
        self.seconds[status.stage] = status.seconds

    def close(self) -> None:
        """Nothing is open."""


class Memory:
    """The peak of the resident memory of this process and all below it."""

    def __init__(self) -> None:
        self.peak = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> Memory:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.25):
            self.peak = max(self.peak, _tree_bytes(os.getpid()))


def _tree_bytes(root: int) -> int:
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            parents.setdefault(int(fields[1]), []).append(int(entry.name))
    total, todo = 0, [root]
    while todo:
        process = todo.pop()
        todo += parents.get(process, [])
        try:
            total += int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            continue
    return total


def write_nodes(path: Path, first: int, last: int) -> None:
    with path.open("w") as out:
        for number in range(first, last):
            tier = ("free", "pro", "vip")[number % 3]
            out.write(
                f'{{"type":"Person","data":{{"email":"p{number}@example.org","age":{number % 90},"tier":"{tier}",'
                f'"joined":"2026-01-{1 + number % 28:02}T03:04:05Z"}}}}\n'
            )


def write_edges(folder: Path, nodes: int, edges: int) -> None:
    dice = random.Random(7)
    for file in range(FILES):
        with (folder / f"knows-{file}.jsonl").open("w") as out:
            for number in range(edges // FILES):
                src, dst = number % nodes, dice.randrange(nodes)
                out.write(
                    f'{{"edge":"Knows","from":"p{src}@example.org","to":"p{dst}@example.org",'
                    f'"data":{{"weight":{number % 1000 / 4},"since":"2020-01-{1 + number % 28:02}"}}}}\n'
                )


def measured(name: str, rows: int, action: Callable[[], object]) -> float:
    with Memory() as memory:
        started = time.monotonic()
        action()
        seconds = time.monotonic() - started
    print(f"{name:34} {seconds:8.1f} s {rows / seconds:12,.0f} rows/s   peak {memory.peak / 2**30:.2f} GiB", flush=True)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--memory", default="6g")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--engine", choices=["spark", "local"], default="spark")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        run(folder, options.nodes, options.edges, options.memory, options.engine)
    finally:
        shutil.rmtree(folder)


def run(folder: Path, nodes: int, edges: int, memory: str, engine: str) -> None:
    data, more = folder / "data", folder / "more"
    data.mkdir(), more.mkdir()
    write_nodes(data / "people.jsonl", 0, nodes)
    write_edges(data, nodes, edges)
    write_nodes(more / "people.jsonl", nodes - nodes // 10, nodes + nodes // 10)
    size = sum(file.stat().st_size for file in data.iterdir())
    print(f"{nodes:,} nodes, {edges:,} edges, {size / 2**20:,.0f} MiB of JSON lines, {os.cpu_count()} cores")
    started = time.monotonic()
    spark = spark_session(memory=memory)
    spark.range(1).count()
    print(f"{'Spark, to the first result':34} {time.monotonic() - started:8.1f} s")
    total = nodes + edges
    bare(spark, more, folder / "warm")  # the first run compiles
    warm = og.init(folder / "warm-graph", schema=SCHEMA)
    load(warm.stores, more, mode="append", engine=engine, spark=spark)
    least = measured("Spark: JSON to Parquet, no checks", total, lambda: bare(spark, data, folder / "parquet"))
    graph = og.init(folder / "graph", schema=SCHEMA)
    stages = Stages()
    append = measured(
        f"append into an empty graph ({engine})",
        total,
        lambda: load(graph.stores, data, mode="append", engine=engine, spark=spark, progress=stages),
    )
    print(f"{'':34} {append / least:8.2f} times the least; stages {shown(stages, append)}")
    least_merge = measured("Spark: the merge's files to Parquet", nodes // 5, lambda: bare(spark, more, folder / "p2"))
    stages = Stages()
    merge = measured(
        f"merge: 10 % updated, 10 % new ({engine})",
        nodes // 5,
        lambda: load(graph.stores, more, mode="merge", engine=engine, spark=spark, progress=stages),
    )
    print(f"{'':34} {merge / least_merge:8.2f} times the least; stages {shown(stages, merge)}")
    assert graph.stores.head()[1].rows("node:Person") == nodes + nodes // 10
    scans(spark, graph, folder, edges)
    spark.stop()


def scans(spark: Any, graph: og.Graph, folder: Path, edges: int) -> None:
    """Every edge through the data source and as a view, against the same rows from Parquet."""
    register(spark)
    tables = graph_tables(graph.stores.head()[1], spark)
    source = spark.read.format("omnigraph").option("graph", str(folder / "graph")).option("type", "Knows")
    tables.table("Knows").write.parquet(str(folder / "edges"))
    frames = {
        "scan: Parquet": spark.read.parquet(str(folder / "edges")),
        "scan: data source": source.load(),
        "scan: view": tables.table("Knows"),
        "scan: data source, two columns": source.option("columns", "src,dst").load(),
        "scan: data source, filtered": source.option("filter", "weight < 10").load(),
    }
    for name, frame in frames.items():
        frame.write.format("noop").mode("overwrite").save()  # the first run compiles
        measured(name, edges, lambda frame=frame: frame.write.format("noop").mode("overwrite").save())


def bare(spark: Any, data: Path, out: Path) -> None:
    node = "type string, data struct<email:string,age:int,tier:string,joined:timestamp>"
    edge = "edge string, `from` string, `to` string, data struct<weight:double,since:date>"
    for name, schema in (("people*", node), ("knows*", edge)):
        if list(data.glob(name)):
            reader = spark.read.schema(schema)
            reader.json(str(data / name)).write.parquet(str(out / name.rstrip("*")))


def shown(stages: Stages, total: float) -> str:
    told = {stage: round(seconds, 1) for stage, seconds in stages.seconds.items()}
    return json.dumps({**told, "driver": round(total - sum(stages.seconds.values()), 1)})


if __name__ == "__main__":
    main()
