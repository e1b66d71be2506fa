"""Loads of millions of edges from JSON lines, CSV and Parquet, against Spark writing the JSON lines as Parquet, unchecked.

    python bench/bench_sources.py --edges 10000000 [--nodes 1000000] [--sources jsonl,csv,parquet] [--engine spark]
                                  [--folder DIR] [--least WALL,CPU | --no-least]

Prints for each source wall and processor time, the ratio to Spark's JSON to Parquet, the stages, the peak memory of each kind of process,
the peak of temporary files, and what the stored graph takes. `--least` gives the seconds of Spark's JSON to Parquet as an earlier run of
the same size printed them; otherwise it is run first, whatever the sources.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, get_args

import duckdb
from bench_load import SCHEMA, Memory, Stages, shown
from bench_scan import cpu_seconds

import omnigraph as og
from omnigraph.load.job import load
from omnigraph.spark.sessions import spark_session
from omnigraph.tasks.engines import FileFormat

FILES = 4
Times = tuple[float, float]
PEOPLE = """SELECT 'p' || i || '@example.org' AS email, (i % 90)::INT AS age, ['free', 'pro', 'vip'][1 + i % 3] AS tier,
    TIMESTAMP '2026-01-01 03:04:05' + to_days((i % 28)::INT) AS joined FROM range({nodes}) AS t(i)"""
KNOWS = """SELECT 'p' || (i % {nodes}) || '@example.org' AS "from", 'p' || (hash(i) % {nodes}) || '@example.org' AS "to",
    (i % 1000) / 4 AS weight, DATE '2020-01-01' + (i % 28)::INT AS since FROM range({start}, {end}) AS t(i)"""
PERSON_RECORD = """'Person' AS type, {{'email': email, 'age': age, 'tier': tier,
    'joined': strftime(joined, '%Y-%m-%dT%H:%M:%SZ')}} AS data"""
KNOWS_RECORD = """'Knows' AS edge, "from", "to", {{'weight': weight, 'since': since}} AS data"""


def write_data(folder: Path, source: str, nodes: int, edges: int) -> int:
    """The bytes of the files."""
    connection = duckdb.connect()
    form = {"jsonl": "FORMAT json", "csv": "FORMAT csv, HEADER", "parquet": "FORMAT parquet"}[source]
    parts = [("Person", 0, PEOPLE.format(nodes=nodes))]
    step = edges // FILES
    parts += [
        ("Knows", file, KNOWS.format(nodes=nodes, start=file * step, end=(file + 1) * step)) for file in range(FILES)
    ]
    for name, file, rows in parts:
        record = (PERSON_RECORD if name == "Person" else KNOWS_RECORD).format()
        query = f"SELECT {record} FROM ({rows})" if source == "jsonl" else rows
        (folder / name).mkdir(parents=True, exist_ok=True)
        connection.execute(f"COPY ({query}) TO '{folder / name / f'{file}.{source}'}' ({form})")
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


def bare(spark: Any, data: Path, out: Path) -> None:
    """Spark reads JSON lines and writes them as Parquet."""
    person, knows = "email string, age int, tier string, joined timestamp", "weight double, since date"
    schemas = {
        "Person": f"type string, data struct<{_members(person)}>",
        "Knows": f"edge string, `from` string, `to` string, data struct<{_members(knows)}>",
    }
    for name, schema in schemas.items():
        spark.read.schema(schema).json(str(data / name)).write.mode("overwrite").parquet(str(out / name))


def _members(columns: str) -> str:
    return ",".join(":".join(column.split()) for column in columns.split(", "))


class TemporaryFiles:
    """The peak of the bytes in some folders."""

    def __init__(self, *folders: Path) -> None:
        self.peak = 0
        self._folders = folders
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)

    def __enter__(self) -> TemporaryFiles:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._ended.wait(0.5):
            self.peak = max(self.peak, sum(bytes_below(folder) for folder in self._folders))


def bytes_below(folder: Path) -> int:
    total = 0
    for place, _, names in os.walk(folder):  # passes over what is gone meanwhile
        for name in names:
            with contextlib.suppress(OSError):
                total += os.lstat(os.path.join(place, name)).st_size
    return total


def measured(name: str, rows: int, temporary: Path, action: Callable[[], object]) -> Times:
    """Wall and processor time."""
    with Memory() as memory, TemporaryFiles(temporary) as files:
        started, cpu = time.monotonic(), cpu_seconds()
        action()
        seconds, spent = time.monotonic() - started, cpu_seconds() - cpu
    print(
        f"{name:34} {seconds:8.1f} s (CPU {spent:7.1f}) {rows / seconds:12,.0f} rows/s   {memory.text()}, "
        f"temporary files {files.peak / 2**20:,.0f} MiB",
        flush=True,
    )
    return seconds, spent


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--nodes", type=int)
    parser.add_argument("--edges", type=int, default=1_000_000)
    parser.add_argument("--sources", default=",".join(get_args(FileFormat)))
    parser.add_argument("--engine", choices=["spark", "local"], default="spark")
    parser.add_argument("--memory", default="4g")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--least")
    parser.add_argument("--no-least", action="store_true")
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    temporary = folder / "temporary"
    temporary.mkdir()
    os.environ["TMPDIR"] = os.environ["SPARK_LOCAL_DIRS"] = str(temporary)
    tempfile.tempdir = str(temporary)
    nodes = options.nodes or max(1, options.edges // 10)
    try:
        run(folder, options, nodes, temporary)
    finally:
        shutil.rmtree(folder)


def run(folder: Path, options: argparse.Namespace, nodes: int, temporary: Path) -> None:
    edges, engine = options.edges, options.engine
    rows = nodes + edges
    print(f"{nodes:,} nodes, {edges:,} edges, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    spark = spark_session(memory=options.memory)
    least: Times | None = None
    if options.least:
        wall, cpu = (float(each) for each in options.least.split(","))
        least = wall, cpu
    elif not options.no_least:
        for count in (10_000, edges):  # the first run compiles
            data = folder / "data-least"
            write_data(data, "jsonl", max(1, count * nodes // edges), count)
            writing = functools.partial(bare, spark, data, folder / "parquet")
            least = measured("Spark: jsonl to Parquet", max(1, count * nodes // edges) + count, temporary, writing)
            shutil.rmtree(data)
            shutil.rmtree(folder / "parquet")
    for source in options.sources.split(","):
        for count in (10_000, edges):
            data, place = folder / f"data-{source}", folder / f"graph-{source}"
            graph = og.init(place, schema=SCHEMA)
            size = write_data(data, source, max(1, count * nodes // edges), count)
            stages = Stages()
            loading = functools.partial(load, graph._repository, data, mode="append", engine=engine, progress=stages)
            if count < edges:
                loading()
            else:
                print(f"{source}: {size / 2**20:,.0f} MiB", flush=True)
                seconds, spent = measured(f"load of {source} ({engine})", rows, temporary, loading)
                ratio = f"{seconds / least[0]:.2f} (CPU {spent / least[1]:.2f}) of jsonl to Parquet; " if least else ""
                print(f"{'':34} {ratio}stages {shown(stages, seconds)}", flush=True)
                stored = bytes_below(place)
                print(f"{'':34} stored {stored / 2**20:,.0f} MiB, {stored / edges:.1f} bytes an edge", flush=True)
            shutil.rmtree(data)
            shutil.rmtree(place)
    spark.stop()


if __name__ == "__main__":
    main()
