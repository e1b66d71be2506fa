"""Loads of millions of edges from JSON lines, CSV and Parquet, against Spark writing the JSON lines as Parquet, unchecked.

    python bench/bench_sources.py --edges 10000000 [--nodes 1000000] [--sources jsonl,csv,parquet] [--engine spark]
                                  [--folder DIR] [--no-least]

Prints for each source wall and processor time, the ratio to Spark's JSON to Parquet and to Spark reading the same source, the stages, the
peak memory of each kind of process, the peak of temporary files, and what the stored graph takes.
"""

from __future__ import annotations

import argparse
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
from omnigraph.pipeline.choices import FileFormat
from omnigraph.pipeline.load.job import load
from omnigraph.pipeline.spark.session import spark_session

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


def bare(spark: Any, source: str, data: Path, out: Path) -> None:
    """Spark reads the files and writes them as Parquet."""
    person, knows = "email string, age int, tier string, joined timestamp", "weight double, since date"
    schemas = {"Person": person, "Knows": f"`from` string, `to` string, {knows}"}
    if source == "jsonl":
        schemas = {
            "Person": f"type string, data struct<{_members(person)}>",
            "Knows": f"edge string, `from` string, `to` string, data struct<{_members(knows)}>",
        }
    for name, schema in schemas.items():
        reader = spark.read if source == "parquet" else spark.read.schema(schema)
        path = str(data / name)
        rows = {
            "jsonl": lambda r=reader, p=path: r.json(p),
            "csv": lambda r=reader, p=path: r.csv(p, header=True),
            "parquet": lambda r=reader, p=path: r.parquet(p),
        }[source]()
        rows.write.mode("overwrite").parquet(str(out / name))


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
    for path in folder.rglob("*"):
        try:
            total += path.stat().st_size if path.is_file() else 0
        except OSError:  # gone meanwhile
            continue
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
    edges, engine, sources = options.edges, options.engine, options.sources.split(",")
    rows = nodes + edges
    print(f"{nodes:,} nodes, {edges:,} edges, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True)
    spark = spark_session(memory=options.memory)
    json_times: Times | None = None
    for source in ["warm", *sources]:
        is_warm = source == "warm"
        kind = sources[0] if is_warm else source
        data, graph = folder / f"data-{source}", og.init(folder / f"graph-{source}", schema=SCHEMA)
        size = write_data(data, kind, *((1000, 10_000) if is_warm else (nodes, edges)))
        if is_warm:
            bare(spark, kind, data, folder / "parquet-warm")
            load(graph._repository, data, mode="append", engine=engine)
            continue
        print(f"{source}: {size / 2**20:,.0f} MiB", flush=True)
        least: Times | None = None
        if not options.no_least:
            write = functools.partial(bare, spark, source, data, folder / "parquet")
            least = measured(f"Spark: {source} to Parquet", rows, temporary, write)
            json_times = least if source == "jsonl" else json_times
            shutil.rmtree(folder / "parquet")
        stages = Stages()
        loading = functools.partial(load, graph._repository, data, mode="append", engine=engine, progress=stages)
        seconds, spent = measured(f"load of {source} ({engine})", rows, temporary, loading)
        ratios = [
            f"{seconds / base[0]:.2f} (CPU {spent / base[1]:.2f}) of {name} to Parquet"
            for name, base in dict.fromkeys((("jsonl", json_times), (source, least)))
            if base
        ]
        print(f"{'':34} {', '.join(ratios)}; stages {shown(stages, seconds)}", flush=True)
        stored = bytes_below(folder / f"graph-{source}")
        print(f"{'':34} stored {stored / 2**20:,.0f} MiB, {stored / edges:.1f} bytes an edge", flush=True)
        shutil.rmtree(data)
        shutil.rmtree(folder / f"graph-{source}")
    spark.stop()


if __name__ == "__main__":
    main()
