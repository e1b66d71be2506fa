"""Loading into a graph against the least a load can be: Spark reading the same files and writing Parquet, unchecked.

    python bench/bench_load.py [--nodes 100000] [--edges 1000000] [--memory 6g] [--folder DIR]
    python bench/bench_load.py --upsert 5000000    a fifth as many keys into so many rows, half of them new

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
from typing import Any, Literal

import omnigraph as og
from omnigraph.load.job import load
from omnigraph.spark.sessions import spark_session
from omnigraph.tasks.progress import Status

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
    """The peak of the resident memory of this process and all below it, and of the largest process of each kind."""

    def __init__(self) -> None:
        self.peak = 0
        self.largest: dict[str, int] = {}
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
            sizes = _tree_bytes(os.getpid())
            self.peak = max(self.peak, sum(size for _, size in sizes))
            for kind, size in sizes:
                self.largest[kind] = max(self.largest.get(kind, 0), size)

    def text(self) -> str:
        each = ", ".join(f"{kind} {size / 2**30:.2f}" for kind, size in sorted(self.largest.items()))
        return f"peak {self.peak / 2**30:.2f} GiB (largest {each})"


def process_tree(root: int) -> list[int]:
    """A process and all below it."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                fields = (entry / "stat").read_text().rpartition(")")[2].split()
            except OSError:
                continue
            children.setdefault(int(fields[1]), []).append(int(entry.name))
    found, todo = [], [root]
    while todo:
        found.append(todo.pop())
        todo += children.get(found[-1], [])
    return found


def _tree_bytes(root: int) -> list[tuple[str, int]]:
    """Kind and size of each process: this one, the JVM, a Python worker."""
    sizes = []
    for process in process_tree(root):
        try:
            size = int(Path(f"/proc/{process}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
            command = Path(f"/proc/{process}/cmdline").read_bytes()
        except OSError:
            continue
        kind = "driver" if process == root else "jvm" if b"java" in command.split(b"\0")[0] else "worker"
        sizes.append((kind, size))
    return sizes


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
    print(f"{name:34} {seconds:8.1f} s {rows / seconds:12,.0f} rows/s   {memory.text()}", flush=True)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int, default=100_000)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--memory", default="6g")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--engine", choices=["spark", "local"], default="spark")
    parser.add_argument("--upsert", type=int)
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    try:
        if options.upsert:
            upsert(folder, options.upsert, options.memory, options.engine)
            return
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
    load(warm._repository, more, mode="append", engine=engine)
    least = measured("Spark: JSON to Parquet, no checks", total, lambda: bare(spark, data, folder / "parquet"))
    graph = og.init(folder / "graph", schema=SCHEMA)
    stages = Stages()
    append = measured(
        f"append into an empty graph ({engine})",
        total,
        lambda: load(graph._repository, data, mode="append", engine=engine, progress=stages),
    )
    print(f"{'':34} {append / least:8.2f} times the least; stages {shown(stages, append)}")
    least_merge = measured("Spark: the merge's files to Parquet", nodes // 5, lambda: bare(spark, more, folder / "p2"))
    stages = Stages()
    merge = measured(
        f"merge: 10 % updated, 10 % new ({engine})",
        nodes // 5,
        lambda: load(graph._repository, more, mode="merge", engine=engine, progress=stages),
    )
    print(f"{'':34} {merge / least_merge:8.2f} times the least; stages {shown(stages, merge)}")
    assert graph._repository.head()[1].rows("node:Person") == nodes + nodes // 10
    spark.stop()


def upsert(folder: Path, rows: int, memory: str, engine: str) -> None:
    """Keys into rows, from Parquet files, and what is there afterwards."""
    keys = rows // 5
    first = rows - keys // 2
    write_rows(folder / "base", 0, rows, "old")
    write_rows(folder / "change", first, first + keys, "new")
    if engine == "spark":
        spark_session(memory=memory)
    graph = og.init(folder / "graph", schema="node Row { k: I64 @key  a: String  b: F64 }")
    steps: list[tuple[str, int, Literal["append", "merge"]]] = [("base", rows, "append"), ("change", keys, "merge")]
    for name, count, mode in steps:
        stages = Stages()
        seconds = measured(
            f"{mode} {count:,} keys ({engine})",
            count,
            lambda name=name, mode=mode, stages=stages: load(
                graph._repository, folder / name, mode=mode, type="Row", engine=engine, progress=stages
            ),
        )
        print(f"{'':34} stages {shown(stages, seconds)}")
    table = graph._repository.head()[1].table("node:Row")
    assert table is not None
    assert table.rows == rows + keys // 2
    assert table.count("a = 'new'") == keys
    assert table.count(f"a = 'old' AND k >= {first}") == 0
    print(f"{table.rows:,} rows, {keys:,} of them new or replaced: as it should be")


def write_rows(folder: Path, first: int, last: int, word: str) -> None:
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    folder.mkdir()
    for number, start in enumerate(range(first, last, 500_000)):
        keys = np.arange(start, min(start + 500_000, last))
        rows = pa.table({"k": keys, "a": pa.repeat(pa.scalar(word), len(keys)), "b": keys / 2})
        pq.write_table(rows, folder / f"{number}.parquet")


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
