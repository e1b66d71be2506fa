"""Long ones: large upserts, many writers at once, and Spark Connect."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pipeline.conftest import Write, knows, person
from pipeline.test_races import many_writers

import omnigraph as og

pytestmark = pytest.mark.soak

WIDE = "node Row { k: I64 @key  a: String  b: F64 }"


def test_upsert_of_a_million_keys_into_five_million_rows(tmp_path: Path, engine: dict[str, Any]) -> None:
    graph = og.init(tmp_path / "wide", schema=WIDE, durability="process")
    base, change = 5_000_000, 1_000_000
    graph.load({"Row": wide(0, base, "old")}, mode="append", **engine)
    first = base - change // 2
    graph.load({"Row": wide(first, first + change, "new")}, mode="merge", **engine)
    table = graph._repository.head()[1].table("node:Row")
    assert table is not None
    assert table.rows == base + change // 2
    assert table.count("a = 'new'") == change
    assert table.count(f"a = 'old' AND k >= {first}") == 0
    ids = pa.chunked_array([batch.column(0) for batch in table.scan(["id"])])
    assert len(ids.unique()) == table.rows


def wide(first: int, last: int, word: str) -> pa.Table:
    import numpy as np

    keys = np.arange(first, last)
    return pa.table({"k": keys, "a": pa.repeat(pa.scalar(word), last - first), "b": keys / 2})


def test_two_loads_and_a_stream_of_mutations_at_once(graph: og.Graph, write: Write, tmp_path: Path) -> None:
    many_writers(graph, write, tmp_path, turns=8)


STREAM = """
import os, sys
import omnigraph as og
graph = og.open(sys.argv[1], durability="process")
count = 0
while not os.path.exists(sys.argv[2]):
    count += 1
    graph.mutate(f'query put() {{ insert Row {{ k: {-1 - count % 50}, a: "stream", b: {count}.0 }} }}')
    if count == 1:
        print("started", flush=True)
print(count, flush=True)
"""


@pytest.mark.parametrize("mode", ["append", "merge"])
def test_a_large_load_lands_beside_a_stream_without_pause(tmp_path: Path, mode: Any) -> None:
    """Another process commits to the same type as fast as it can while a million rows are loaded."""
    graph = og.init(tmp_path / "wide", schema=WIDE, durability="process")
    rows = 1_000_000
    graph.load({"Row": wide(0, rows, "old")}, mode="append", engine="local")
    ended = tmp_path / "ended"
    stream = subprocess.Popen([sys.executable, "-c", STREAM, graph.uri, str(ended)], stdout=subprocess.PIPE, text=True)
    assert stream.stdout is not None
    assert stream.stdout.readline() == "started\n"
    first = rows if mode == "append" else rows // 2
    try:
        graph.load({"Row": wide(first, first + rows, "new")}, mode=mode, engine="local")
    finally:
        ended.touch()
        count = int(stream.communicate()[0])
    table = graph._repository.head()[1].table("node:Row")
    assert table is not None
    assert table.rows == first + rows + min(count, 50)
    assert table.count("a = 'new'") == rows
    print(f"{mode}: landed among {count} commits of the stream, with {len(graph.recovery.list())} plans left")


# ---------------------------------------------------------------- Connect

CONNECTED = """
import sys
import omnigraph as og
from omnigraph.spark.sessions import spark_session
from omnigraph.spark.source import register
graph = og.open(sys.argv[1])
graph.load(sys.argv[2], mode="append", engine="spark", show_progress=True)
spark = spark_session()
assert type(spark).__module__ == "pyspark.sql.connect.session", type(spark)
graph.load({"Person": spark.createDataFrame([("b", 20), ("c", 30)], "email string, age int")}, mode="merge", engine=spark)
register(spark)
source = spark.read.format("omnigraph").option("graph", sys.argv[1]).option("type", "Person").option("columns", "id,age")
found = {tuple(row) for frame in (source.load(), graph.spark(spark).table("Person", ["id", "age"])) for row in frame.collect()}
assert found == {("a", 1), ("b", 20), ("c", 30)}, found
frame = spark.createDataFrame([("d", 40)], "email string, age int")
frame.write.format("omnigraph").option("graph", sys.argv[1]).option("type", "Person").mode("append").save()
try:
    graph.load({"Person": spark.createDataFrame([("z", 500)], "email string, age int")}, mode="append", engine=spark)
except og.errors.RejectedRecords as error:
    assert "value 500 > max 150" in error.message
query = "query q() { match { $p: Person  $p.age > 10 } return { $p.email } }"
assert graph.query(query, engine=spark).num_rows == 3
far = 'query q() { match { $p: Person { email: "a" }  $p knows{1,3} $q } return { $q.email as e } }'
assert graph.query(far, engine=spark).rows == [{"e": "b"}]
assert graph.export(sys.argv[3], engine=spark) == 5
spark.stop()
"""


def test_everything_works_through_a_connect_session(graph: og.Graph, write: Write, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    pytest.importorskip("zstandard", reason="Spark Connect needs pyspark[connect]")
    source = write("in.jsonl", person("a", age=1), person("b", age=2), knows("a", "b"))
    done = subprocess.run(
        [sys.executable, "-c", CONNECTED, graph.uri, source, str(tmp_path / "out.jsonl")],
        env={**os.environ, "SPARK_REMOTE": "local[2]"},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == 5
