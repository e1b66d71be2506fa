"""Spark and a graph on an object store: what a worker needs to reach it travels with its task, not in its environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pipeline.conftest import SCHEMA, knows, person

import omnigraph as og
from omnigraph.storage.options import open_store

pytestmark = [pytest.mark.spark, pytest.mark.s3]


@pytest.fixture
def address(s3: Any) -> str:
    return f"s3://{s3.new_bucket()}"


@pytest.fixture
def people(s3: Any, spark: Any, address: str) -> og.Graph:
    """Loaded on Spark, from files in the same bucket."""
    records = [*(person(f"p{n}", age=n) for n in range(6)), *(knows(f"p{n}", f"p{n + 1}") for n in range(5))]
    lines = "".join(json.dumps(record) + "\n" for record in records)
    open_store(address, storage_options=s3.options).put("in/people.jsonl", lines.encode())
    graph = og.init(f"{address}/graph", schema=SCHEMA, storage_options=s3.options)
    receipt = graph.load(f"{address}/in/people.jsonl", mode="append", engine=spark)
    assert receipt.total_entities == 11
    return graph


def source(s3: Any, work: Any, people: og.Graph) -> Any:
    """A reader or writer with the graph, its type and its store as options."""
    work = work.format("omnigraph").option("graph", people.uri).option("type", "Person")
    for name, value in s3.options.items():
        work = work.option(f"storage.{name}", value)
    return work


def test_a_graph_on_an_object_store_is_read_written_and_merged(s3: Any, spark: Any, people: og.Graph) -> None:
    from omnigraph.spark.source import register

    register(spark)
    frame = source(s3, spark.read, people).load()
    assert sorted(row.id for row in frame.where("age > 3").collect()) == ["p4", "p5"]
    assert people.spark(spark).table("Knows").count() == 5
    more = spark.createDataFrame([("p5", 50), ("p6", 60)], "email string, age int")
    people.load({"Person": more}, mode="merge", engine=spark)
    last = spark.createDataFrame([("p7", 70)], "email string, age int")
    source(s3, last.write, people).mode("append").save()
    ages = {row.id: row.age for row in people.spark(spark).table("Person").collect()}
    assert ages == {"p0": 0, "p1": 1, "p2": 2, "p3": 3, "p4": 4, "p5": 50, "p6": 60, "p7": 70}
    rows = people.query("query q() { match { $p: Person  $p.age > 40 } return { $p.email } }", engine=spark)
    assert rows.num_rows == 3


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_an_export_to_the_store_and_back(
    format: Any, s3: Any, spark: Any, address: str, people: og.Graph, tmp_path: Path
) -> None:
    out = f"{address}/out/all.jsonl" if format == "jsonl" else f"{address}/out"
    assert people.export(out, format=format, engine=spark) == 11
    copy = og.init(f"{address}/copy", schema=SCHEMA, storage_options=s3.options)
    copy.load(out, mode="append", engine=spark)
    for graph, name in ((people, "one"), (copy, "two")):
        graph.export(tmp_path / name, engine="local")
    assert (tmp_path / "one").read_bytes() == (tmp_path / "two").read_bytes()
    store = open_store(f"{address}/graph", storage_options=s3.options)
    assert list(store.list("staging")) == [], "pieces of an export are removed"
