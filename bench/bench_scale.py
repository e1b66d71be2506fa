"""What a graph costs on Spark as it grows: append, merge, patch, delete, export and optimize of the same shape at several sizes, and Spark's
own copy of the rows with and without the same checks as Catalyst plans.

    python bench/bench_scale.py [--edges 3000000] [--shapes uniform,skewed] [--folder DIR] [--only append,patch]

Edges have ids of their own and a double; of the skewed ones a tenth begin at one node. Prints processor and wall time, the largest process of
each kind, the temporary files (shuffle and spill), bytes and files of the graph after each step, and the ratio to Spark with the same checks.
Takes about 150 bytes of disk for each edge: 30,000,000 edges 5 GB, 100,000,000 16 GB.
"""

from __future__ import annotations

import argparse
import functools
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
from bench_sources import bytes_below, measured

import omnigraph as og
from omnigraph.spark.sessions import spark_session

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person @card(0..) { weight: F64? }
"""
PEOPLE = "SELECT 'p' || i AS name, (i % 90)::INT AS age FROM range({nodes}) AS t(i)"
KNOWS = """SELECT 'k' || i AS id, {source} AS "from", 'p' || (hash(i) % {nodes}) AS "to", {weight} AS weight
    FROM range({edges}) AS t(i) WHERE {which}"""
UNIFORM = "'p' || (hash(i + 7) % {nodes})"
SKEWED = "CASE WHEN i % 10 = 3 THEN 'p0' ELSE 'p' || (hash(i + 7) % {nodes}) END"
STEPS = ("bare", "append", "merge", "patch", "delete", "export", "optimize")


def written(folder: Path, query: str) -> Path:
    folder.mkdir(parents=True)
    duckdb.execute("SET memory_limit = '2GB'; SET threads = 2")
    duckdb.execute(f"COPY ({query}) TO '{folder}/Knows.parquet' (FORMAT parquet, ROW_GROUP_SIZE 200000)")
    return folder


def copied(spark: Any, data: Path, out: Path) -> None:
    for name in ("Person", "Knows"):
        spark.read.parquet(f"{data}/{name}.parquet").write.mode("overwrite").parquet(f"{out}/{name}")


def checked(spark: Any, data: Path) -> None:
    """Keys, endpoints and cardinality as typed plans: distinct before the shuffle, skew split and spill are Spark's."""
    people, knows = (spark.read.parquet(f"{data}/{name}.parquet") for name in ("Person", "Knows"))
    ends = knows.selectExpr("`from` AS name").union(knows.selectExpr("`to`")).distinct()
    for plan in (
        people.groupBy("name").count().where("count > 1"),
        knows.groupBy("id").count().where("count > 1"),
        ends.join(people, "name", "left_anti"),
        knows.groupBy("from").count().where("count < 0"),
    ):
        assert plan.limit(1).count() == 0


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--edges", type=int, default=3_000_000)
    parser.add_argument("--shapes", default="uniform,skewed")
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--memory", default="2g")
    parser.add_argument("--only", default=",".join(STEPS))
    options = parser.parse_args()
    folder = Path(tempfile.mkdtemp(dir=options.folder))
    temporary = folder / "temporary"
    temporary.mkdir()
    os.environ["TMPDIR"] = os.environ["SPARK_LOCAL_DIRS"] = str(temporary)
    tempfile.tempdir = str(temporary)
    try:
        spark = spark_session(memory=options.memory)
        spark.range(1).mapInArrow(lambda batches: batches, "id long").count()
        for shape in options.shapes.split(","):
            run(spark, folder / shape, options, shape, temporary)
            shutil.rmtree(folder / shape)
        spark.stop()
    finally:
        shutil.rmtree(folder)


def run(spark: Any, folder: Path, options: argparse.Namespace, shape: str, temporary: Path) -> None:
    edges, nodes, only = options.edges, options.edges // 10, options.only.split(",")
    source = {"uniform": UNIFORM, "skewed": SKEWED}[shape].format(nodes=nodes)

    def some(name: str, which: str, weight: str = "i / 4") -> Path:
        return written(folder / name, KNOWS.format(source=source, nodes=nodes, edges=edges, which=which, weight=weight))

    data = some("data", "true")
    duckdb.execute(f"COPY ({PEOPLE.format(nodes=nodes)}) TO '{data}/Person.parquet' (FORMAT parquet)")
    print(
        f"{nodes:,} nodes, {edges:,} edges, {shape}, {os.cpu_count()} cores, load {os.getloadavg()[0]:.1f}", flush=True
    )
    place = folder / "graph"
    graph = og.init(place, schema=SCHEMA)

    def step(name: str, rows: int, action: Callable[[], object]) -> float:
        if name.split()[0] not in only:
            return 0.0
        spent = measured(name, rows, temporary, action)[1]
        if not name.startswith("bare"):
            files = sum(1 for path in place.rglob("*") if path.is_file())
            size = bytes_below(place)
            print(
                f"{'':34} the graph has {size / 2**20:,.0f} MiB, {size / edges:.1f} bytes an edge, {files:,} files",
                flush=True,
            )
        return spent

    copy = step("bare copy", nodes + edges, lambda: copied(spark, data, folder / "copy"))
    checks = step("bare checks", nodes + edges, lambda: checked(spark, data))
    shutil.rmtree(folder / "copy", ignore_errors=True)
    load = functools.partial(graph.load, engine=spark)
    append = step("append", nodes + edges, lambda: load(data, mode="append"))
    if copy and append:
        print(f"{'':34} CPU {append / copy:.2f} of a bare copy, {append / (copy + checks):.2f} of one with the checks")
    shutil.rmtree(data)
    merge = some("merge", "i % 10 = 0", "-1.0")
    step("merge of a tenth", edges // 10, lambda: load(merge, mode="merge"))
    patch = folder / "patch"
    written(patch, f"SELECT 'k' || i AS id, -2.0 AS weight FROM range({edges}) AS t(i) WHERE i % 10 = 1")
    step("patch of a tenth", edges // 10, lambda: load(patch, mode="patch"))
    delete = written(folder / "delete", f"SELECT 'k' || i AS id FROM range({edges}) AS t(i) WHERE i % 100 = 2")
    step("delete of a hundredth", edges // 100, lambda: load(delete, mode="delete"))
    out = f"{folder / 'export'}/"
    step("export", nodes + edges, lambda: graph.export(out, format="parquet", engine=spark))
    step("optimize", nodes + edges, lambda: graph.maintenance.optimize(engine=spark))


if __name__ == "__main__":
    main()
