"""The catalog for Spark: the graphs of a folder in its SQL."""

from __future__ import annotations

import itertools
import os
import re
import runpy
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pipeline import random_statements
from pipeline.conftest import SCHEMA
from pipeline.random_statements import run_statements

import omnigraph as og
from omnigraph.spark.graph_catalog import JAR, graph_names

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

    before = people.head().at
    sql("INSERT INTO og.people.Person (email, age) VALUES ('cy', 50)")
    sql("INSERT INTO og.people.review.Person (email, age) VALUES ('dee', 51), ('eve', 52)")
    assert [people.show(branch).kind for branch in ("main", "review")] == ["load", "load"]
    count = "SELECT count(*), max(age) FROM og.people"
    assert sql(f"{count}.Person") == [(3, 50)]
    assert sql(f"{count}.review.Person") == [(4, 52)]
    assert sql(f"{count}.Person VERSION AS OF 'main~1'") == sql(f"{count}.Person VERSION AS OF 'v1'") == [(2, 36)]
    assert sql(f"{count}.Person VERSION AS OF 'review'") == [(4, 52)]
    assert sql(f"{count}.Person TIMESTAMP AS OF '{before.strftime('%Y-%m-%d %H:%M:%S.%f')}'") == [(2, 36)]


@pytest.mark.spark
def test_rows_change_in_sql(sql: Any, people: og.Graph) -> None:
    def everybody(branch: str = "main") -> list[Any]:
        rows = people.query(
            "query q() { match { $p: Person } return { $p.email, $p.age } order { $p.email } }", revision=branch
        )
        return [tuple(row.values()) for row in rows.rows]

    commits = len(people.commits())
    sql("UPDATE og.people.Person SET age = age + 1 WHERE email = 'ada'")
    assert everybody() == [("ada", 37), ("bo", 27)]
    sql("DELETE FROM og.people.review.Person WHERE age < 30")
    assert everybody("review") == [("ada", 36)]
    assert sql("SELECT count(*) FROM og.people.review.Knows") == [(0,)]
    assert sql("SELECT count(*) FROM og.people.Knows") == [(1,)]
    source = "SELECT * FROM VALUES ('ada', 1, false), ('bo', 2, true), ('cy', 3, false) AS s(email, age, gone)"
    sql(
        f"MERGE INTO og.people.Person p USING ({source}) s ON p.email = s.email WHEN MATCHED AND s.gone THEN DELETE "
        "WHEN MATCHED THEN UPDATE SET age = s.age WHEN NOT MATCHED THEN INSERT (email, age) VALUES (s.email, s.age)"
    )
    assert everybody() == [("ada", 1), ("cy", 3)]
    sql("UPDATE og.people.Knows SET weight = 0.75")  # Of a deleted node there is none.
    assert len(people.commits()) == commits + 2
    sql("INSERT INTO og.people.Knows (src, dst, weight) VALUES ('ada', 'cy', 0.25)")
    sql("UPDATE og.people.Knows SET weight = weight * 2")
    assert sql("SELECT src, dst, weight FROM og.people.Knows") == [("ada", "cy", 0.5)]
    for statement, refusal in (
        ("UPDATE og.people.Person SET id = 'eve'", "cannot change"),
        ("UPDATE og.people.Person SET age = 200", "150"),
        ("DELETE FROM og.people.history", "is only read|does not support"),
    ):
        with pytest.raises(Exception, match=refusal):
            sql(statement)
    assert everybody() == [("ada", 1), ("cy", 3)]


STATEMENTS = 1_000


@pytest.mark.spark
def test_a_few_random_statements_do_what_they_say(sql: Any, people: og.Graph) -> None:
    assert run_statements(sql, 4, seed=1) > 0


@pytest.mark.soak
@pytest.mark.spark
def test_random_statements_do_what_they_say(sql: Any, people: og.Graph) -> None:
    run_statements(sql, STATEMENTS, seed=35)
    assert people.maintenance.verify(deep=True).is_whole


@pytest.mark.soak
def test_random_statements_over_connect_do_what_they_say(people: og.Graph, tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    pytest.importorskip("zstandard", reason="Spark Connect needs pyspark[connect]")
    command = [sys.executable, random_statements.__file__, str(tmp_path / "graphs"), str(STATEMENTS), "36"]
    done = subprocess.run(command, env={**os.environ, "SPARK_REMOTE": "local[2]"}, capture_output=True, text=True)
    assert done.stdout == f"{STATEMENTS} statements in pyspark.sql.connect.session\n", done.stderr
    assert people.maintenance.verify(deep=True).is_whole


@pytest.mark.spark
def test_a_statement_is_refused_if_the_branch_moved_while_it_ran(sql: Any, people: og.Graph, spark: Any) -> None:
    uri = people.uri

    def busy(age: int) -> int:
        og.open(uri).mutate('query m() { insert Person { email: "eve" } }')
        return age

    spark.udf.register("busy", busy, "int")
    with pytest.raises(Exception, match="PreconditionFailed"):
        sql("UPDATE og.people.Person SET age = busy(age) WHERE email = 'ada'")
    assert people.query('query q() { match { $p: Person { email: "ada" } } return { $p.age } }').rows == [{"p.age": 36}]


@pytest.mark.spark
def test_a_scan_reads_what_a_query_needs(sql: Any, people: og.Graph) -> None:
    def scan(query: str) -> str:
        return str(sql(f"EXPLAIN {query}")[0][0])

    people.mutate('query m() { insert Person { email: "o\'neil", age: 40, big: 3 } }')
    some = "SELECT age FROM og.people.Person WHERE (age > 30 OR email IN ('x', 'o''neil')) AND big = 3 AND NOT active <=> true"
    assert "struct<" in scan(some)
    assert "joined" not in scan(some)
    assert "filter: (`age` > 30 OR `email` IN ('x', 'o''neil'))" in scan(some)
    assert sql(some) == [(40,)]
    assert "limit: 1" in scan("SELECT email FROM og.people.Person LIMIT 1")
    assert len(sql("SELECT email FROM og.people.Person LIMIT 1")) == 1
    assert "count: true" in scan("SELECT count(*) FROM og.people.Person")
    assert sql("SELECT count(*) FROM og.people.Person") == [(3,)]
    assert sql("SELECT count(*) FROM og.people.Person WHERE age IS NOT NULL AND age <= 36") == [(2,)]
    assert (
        "BroadcastHashJoin"
        in sql("EXPLAIN SELECT 1 FROM og.people.Person p JOIN og.people.Knows k ON k.src = p.id")[0][0]
    )


@pytest.mark.spark
def test_tables_about_a_graph_and_procedures(sql: Any, people: og.Graph, spark: Any) -> None:
    sql("INSERT INTO og.people.review.Person (email, age) VALUES ('cy', 50)")
    assert sql("SELECT op, id FROM og.people.review.changes WHERE type = 'Person' ORDER BY id")[-1] == ("insert", "cy")
    heads = {branch.name: branch.head.id for branch in people.branches.list()}
    assert dict(sql("SELECT branch, commit FROM og.people.branches")) == heads
    log = people.commits("review")
    assert sql("SELECT commit, kind FROM og.people.review.history") == [(commit.id, commit.kind) for commit in log]
    assert sql("SELECT max(commit) FROM og.people.history VERSION AS OF 'v1'") == [(people.show("v1").id,)]

    outcome, commit = sql("CALL og.system.merge(graph => 'people', branch => 'review')")[0]
    assert (outcome.replace(" ", "_"), commit) == ("fast_forward", people.head().id)
    assert sql("CALL og.system.create_tag('people', 'v2')") == [("created", commit)]
    assert sql("CALL og.system.delete_branch('people', 'review')") == [("deleted", heads["review"])]

    spark.conf.set("spark.wap.branch", "audit")
    try:
        sql("INSERT INTO og.people.Person (email, age) VALUES ('dee', 51)")
        sql("UPDATE og.people.Person SET age = 52 WHERE email = 'dee'")
        assert sql("SELECT count(*), max(age) FROM og.people.Person") == [(4, 52)]
    finally:
        spark.conf.unset("spark.wap.branch")
    assert sql("SELECT count(*), max(age) FROM og.people.Person") == [(3, 50)]
    sql("CALL og.system.merge('people', 'audit')")
    assert sql("SELECT count(*), max(age) FROM og.people.Person") == [(4, 52)]
    for call, refusal in (("merge('people', 'nobody')", "nobody"), ("drop('people')", "load routine")):
        with pytest.raises(Exception, match=refusal):
            sql(f"CALL og.system.{call}")


@pytest.mark.spark
def test_what_a_catalog_of_graphs_refuses(sql: Any, spark: Any) -> None:
    for statement, refusal in (
        ("SELECT * FROM og.people.Persn", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.peple.Person", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.people.rview.Person", "TABLE_OR_VIEW_NOT_FOUND"),
        ("SELECT * FROM og.people.Person VERSION AS OF 'v2'", "'v2'"),
        ("INSERT INTO og.people.Person (email) VALUES ('ada')", "Person 'ada' already exists"),
        ("CREATE TABLE og.people.Pet (name STRING)", "omnigraph schema apply"),
        ("CREATE TABLE og.people.Pet AS SELECT 'Tom' AS name", "omnigraph schema apply"),
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
