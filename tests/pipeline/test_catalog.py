"""The catalog for Spark: the graphs of a folder in its SQL."""

from __future__ import annotations

import itertools
import re
import runpy
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pipeline.conftest import SCHEMA

import omnigraph as og
from omnigraph.pipeline.spark.catalog import JAR, graph_names

numbers = itertools.count()
TOOL = Path(__file__).parents[2] / "tools" / "build_spark_catalog.py"


def test_the_jar_is_built_from_its_sources() -> None:
    tool = runpy.run_path(str(TOOL))
    sources = sorted(tool["SOURCES"].glob("*.java"))
    with zipfile.ZipFile(JAR) as jar:
        classes = {Path(name).stem for name in jar.namelist() if name.endswith(".class")}
        assert jar.read(tool["SOURCES_ENTRY"]).decode() == tool["sources_digest"](sources), f"run {TOOL.name}"
    assert classes == {path.stem for path in sources}


def test_the_graphs_of_a_folder(tmp_path: Path) -> None:
    for name in ("people", "orders"):
        og.init(tmp_path / name, SCHEMA, durability="process")
    (tmp_path / "other").mkdir()
    assert graph_names(str(tmp_path), None) == ["orders", "people"]
    assert graph_names("s3://bucket/graphs", "people, orders") == ["people", "orders"]
    assert graph_names(str(tmp_path / "missing"), None) == []
    with pytest.raises(og.errors.UsageError, match="an object store has no folders"):
        graph_names("s3://bucket/graphs", None)


@pytest.fixture
def people(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graphs" / "people", SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", email="ada", age=36)
        tx.insert("Person", email="bo", age=27)
        tx.insert("Knows", from_="ada", to="bo", weight=0.5)
    graph.branches.create("review")
    graph.tags.create("v1")
    return graph


@pytest.fixture
def sql(spark: Any, people: og.Graph, tmp_path: Path) -> Iterator[Any]:
    name = f"og{next(numbers)}"  # A session keeps a catalog that it has made.
    og.spark.catalog(spark, str(tmp_path / "graphs"), name)

    def run(statement: str) -> list[Any]:
        return [tuple(row) for row in spark.sql(re.sub(r"\bog\b", name, statement)).collect()]

    yield run
    for setting in ("", ".root"):
        spark.conf.unset(f"spark.sql.catalog.{name}{setting}")


@pytest.mark.spark
def test_a_graph_in_sql(sql: Any, people: og.Graph) -> None:
    assert sql("SHOW NAMESPACES IN og") == [("people",)]
    assert sql("SHOW NAMESPACES IN og.people") == [("people.main",), ("people.review",)]
    tables = [row[1] for row in sql("SHOW TABLES IN og.people")]
    assert tables == ["City", "Knows", "LivesIn", "Note", "Person"]
    assert [row[1] for row in sql("SHOW TABLES IN og.people.review")] == tables
    assert ("age", "int", None) in sql("DESCRIBE og.people.Person")
    joined = "SELECT p.age, k.weight FROM og.people.Person p JOIN og.people.Knows k ON k.src = p.id"
    assert sql(joined) == [(36, 0.5)]

    before = people.commit().at
    sql("INSERT INTO og.people.Person (email, age) VALUES ('cy', 50)")
    sql("INSERT INTO og.people.review.Person (email, age) VALUES ('dee', 51), ('eve', 52)")
    assert [people.commit(branch).kind for branch in ("main", "review")] == ["load", "load"]
    count = "SELECT count(*), max(age) FROM og.people"
    assert sql(f"{count}.Person") == [(3, 50)]
    assert sql(f"{count}.review.Person") == [(4, 52)]
    assert sql(f"{count}.Person VERSION AS OF 'main~1'") == sql(f"{count}.Person VERSION AS OF 'v1'") == [(2, 36)]
    assert sql(f"{count}.Person VERSION AS OF 'review'") == [(4, 52)]
    assert sql(f"{count}.Person TIMESTAMP AS OF '{before.strftime('%Y-%m-%d %H:%M:%S.%f')}'") == [(2, 36)]


@pytest.mark.spark
def test_what_a_catalog_of_graphs_refuses(sql: Any, spark: Any) -> None:
    for statement, refusal in (
        ("SELECT * FROM og.people.Persn", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.peple.Person", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.people.rview.Person", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.people.Person VERSION AS OF 'v2'", "'v2'"),
        ("INSERT INTO og.people.Person (email) VALUES ('ada')", "Person 'ada' already exists"),
        ("CREATE TABLE og.people.Pet (name STRING)", "omnigraph schema apply"),
        ("DROP TABLE og.people.Person", "omnigraph schema apply"),
        ("ALTER TABLE og.people.Person ADD COLUMN x INT", "omnigraph schema apply"),
        ("CREATE NAMESPACE og.pets", "omnigraph init"),
    ):
        with pytest.raises(Exception, match=refusal):
            sql(statement)
    with pytest.raises(og.errors.UsageError, match="name of a catalog"):
        og.spark.catalog(spark, "graphs", "no name")
    with pytest.raises(og.errors.UsageError, match="is a catalog of the session already"):
        og.spark.catalog(spark, "elsewhere", "spark_catalog")
