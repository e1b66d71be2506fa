"""The Spark data source: reading and writing types of a graph, and queries on Spark."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pipeline.conftest import Write, knows, person

import omnigraph as og
from omnigraph.load.assembly import IN_PROCESS_ROWS
from omnigraph.spark.frames import FragmentsReader
from omnigraph.tasks.target import TableVersion, Target

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: Any) -> Any:
    from omnigraph.spark.source import register

    register(spark)
    return spark


@pytest.fixture
def people(graph: og.Graph, write: Write) -> og.Graph:
    records = [
        person(f"p{n}", age=n, big=2**63 + n, tags=["t"] * n, vec=[n, 1], joined=1000 * n, photo="base64:aGk=")
        for n in range(8)
    ]
    edges = [knows(f"p{n}", f"p{n + 1}", weight=n / 2) for n in range(7)]
    graph.load(write("a.jsonl", *records[:4]), mode="append", engine="local")
    graph.load(write("b.jsonl", *records[4:], *edges), mode="append", engine="local")
    return graph


def read(session: Any, graph: og.Graph, **options: str) -> Any:
    reader = session.read.format("omnigraph").option("graph", graph._repository.store.uri)
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader


def test_a_type_is_a_dataframe(session: Any, people: og.Graph) -> None:
    frame = read(session, people, type="Person").load()
    rows = frame.where("age >= 6").orderBy("id").collect()
    assert [(row.id, row.age, int(row.big), row.tags, row.vec, row.photo) for row in rows] == [
        (f"p{n}", n, 2**63 + n, ["t"] * n, [n, 1.0], b"hi") for n in (6, 7)
    ]
    # The same DataFrame without its filter gives every row: no filter of an earlier query sticks to it.
    assert frame.count() == 8
    assert frame.rdd.getNumPartitions() == 1
    narrow = read(session, people, type="Person", columns="age,id", filter="age < 3 AND `id` != 'p1'").load()
    assert narrow.columns == ["age", "id"]
    assert sorted(tuple(row) for row in narrow.collect()) == [(0, "p0"), (2, "p2")]
    assert read(session, people, type="Note").load().count() == 0


def test_an_older_snapshot_is_read_as_it_was(session: Any, people: og.Graph) -> None:
    assert read(session, people, type="Person", revision="main~1").load().count() == 4
    assert read(session, people, type="Person", revision="main").load().count() == 8


def test_a_relative_path_starts_where_the_source_was_registered(
    spark: Any, people: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not where Spark was started: another graph of that name may be there."""
    from omnigraph.spark.source import register

    monkeypatch.chdir(tmp_path)
    register(spark)
    assert spark.read.format("omnigraph").option("graph", "./graph").option("type", "Person").load().count() == 8
    more = spark.createDataFrame([("n1",)], "email string")
    more.write.format("omnigraph").option("graph", "graph").option("type", "Person").mode("append").save()
    assert people._repository.head()[1].rows("node:Person") == 9


def test_views_read_only_the_chosen_columns_and_rows(session: Any, people: og.Graph) -> None:
    tables = people.spark(session)
    with pytest.raises(og.errors.UsageError, match="has no column 'emial'"):
        tables.table("Person", ["emial"])
    for call in (
        lambda: tables.table(7),  # type: ignore[arg-type]
        lambda: tables.table("Person", "id"),
        lambda: tables.table("Person", ["id", 7]),  # type: ignore[list-item]
        lambda: tables.table("Person", filter=7),  # type: ignore[arg-type]
        lambda: tables.diff("main", None),  # type: ignore[arg-type]
    ):
        with pytest.raises(og.errors.UsageError, match=r"must be (text|a list of texts), got"):
            call()
    frame = tables.table("Person", ["id", "age"], "age > 5")
    assert sorted(tuple(row) for row in frame.collect()) == [("p6", 6), ("p7", 7)]
    view = people._repository.head()[1]
    table = view.table("node:Person")
    assert table is not None
    target, place = Target.of(people._repository, view), TableVersion.of(table)
    fragments = [fragment.id for fragment in table.fragments]

    def bytes_read(columns: list[str], filter: str | None) -> int:
        return sum(batch.nbytes for batch in FragmentsReader(target, place, columns, filter).batches(fragments))

    everything = bytes_read(list(table.schema.names), None)
    assert bytes_read(["age"], None) < everything / 4
    assert bytes_read(list(table.schema.names), "age = 3") < everything / 4


def test_wrong_columns_are_refused_before_any_row_is_computed(session: Any, people: og.Graph) -> None:
    from pyspark.errors import PySparkException

    for column, refusal in (
        ("1 AS nme", "unknown column 'nme' for Person"),
        ("1 AS Age", "unknown column 'Age' for Person .*upper and lower case differ"),
        ("INTERVAL '1' YEAR AS age", "'age' holds intervals of months"),
        ("array(INTERVAL '1' YEAR) AS age", "'age' holds intervals of months"),
    ):
        frame = session.range(1).selectExpr("raise_error('computed') AS email", column)
        with pytest.raises(og.errors.UnreadableInput) as refused:
            people.load({"Person": frame}, mode="append")
        assert re.search(refusal, f"{refused.value.message} {refused.value.hint}")
        writer = frame.write.format("omnigraph").option("graph", people._repository.store.uri)
        with pytest.raises(PySparkException, match=refusal):
            writer.option("type", "Person").mode("append").save()
        with pytest.raises(PySparkException, match=r"'nme'|'Age'|intervals of months|'type' nor a column"):
            writer.option("type_column", "email").mode("append").save()


def test_text_that_is_not_utf_8_is_rejected_with_its_row(session: Any, people: og.Graph, tmp_path: Path) -> None:
    rows = session.sql(
        "SELECT 'ok' AS email, array('t') AS tags UNION ALL SELECT 'bad', array(cast(X'ff61' AS STRING))"
    )
    receipt = people.load({"Person": rows}, mode="append", rejects=tmp_path / "rejects.jsonl")
    assert (receipt.total.inserted, receipt.rejected) == (1, 1)
    (rejected,) = [json.loads(line) for line in (tmp_path / "rejects.jsonl").read_text().splitlines()]
    assert rejected["reason"] == r"Person.tags: item 0 expects String, got text that is not UTF-8 ('\xffa')"
    assert json.loads(rejected["record"])["email"] == "bad"


def test_a_dataframe_is_written_as_one_commit(session: Any, people: og.Graph) -> None:
    frame = session.createDataFrame([(f"n{n}", n) for n in range(10)], "email string, age int").repartition(4)
    writer = frame.write.format("omnigraph").option("graph", people._repository.store.uri).option("type", "Person")
    writer.option("message", "from spark").mode("append").save()
    head = people.commits()[0]
    assert (head.kind, head.message) == ("load", "from spark")
    assert len(people.commits()) == 4
    assert people._repository.head()[1].rows("node:Person") == 18
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="Person 'n0' already exists"):
        writer.mode("append").save()
    bad = session.createDataFrame([("x", 500)], "email string, age int")
    with pytest.raises(PySparkException, match="value 500 > max 150"):
        bad.write.format("omnigraph").option("graph", people._repository.store.uri).option("type", "Person").mode(
            "append"
        ).save()
    assert len(people.commits()) == 4
    assert people.recovery.list() == []


def test_many_rows_are_checked_and_indexed_by_tasks(session: Any, tmp_path: Path) -> None:
    """Though Spark runs the commit of a data source in a process of its own."""
    graph = og.init(tmp_path / "many", schema="node Tag { name: String @key }", durability="process")
    frame = session.range(IN_PROCESS_ROWS + 1).selectExpr("concat('t', id) AS name")
    writer = frame.write.format("omnigraph").option("graph", graph.uri).option("type", "Tag")
    writer.mode("append").save()
    jobs = session._jsc.sc().statusStore().jobsList(None)
    done = {jobs.apply(place).description().toString() for place in range(min(8, jobs.size()))}
    assert {"Some(omnigraph write many: check keys)", "Some(omnigraph write many: indexes)"} <= done
    assert graph._repository.head()[1].rows("node:Tag") == IN_PROCESS_ROWS + 1


def test_a_write_that_is_aborted_leaves_nothing_visible(session: Any, people: og.Graph, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    def broken(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            if "w7" in batch.column(0).to_pylist():
                raise RuntimeError("no such number")
            yield batch

    frame = session.range(8).selectExpr("concat('w', id) AS email").mapInArrow(broken, "email string")
    with pytest.raises(PySparkException, match="no such number"):
        frame.write.format("omnigraph").option("graph", people._repository.store.uri).option("type", "Person").mode(
            "append"
        ).save()
    assert len(people.commits()) == 3
    assert people._repository.head()[1].rows("node:Person") == 8


QUERIES = [
    "query q($least: I32) { match { $p: Person  $p.age > $least } return { $p.email, $p.age, $p.big, $p.joined } order { $p.age desc } }",
    "query q($least: I32) { match { $p: Person  $p knows $q  $p.age > $least } return { $p.email, $q.email } }",
    "query q($least: I32) { match { $p: Person  $p knows{1,3} $q  $p.age >= $least } return { $q.email } limit 5 }",
    "query q($least: I32) { match { $p: Person  $p knows $q  $p.age > $least } return { count($q) as n, sum($q.age) as s } }",
    "query q($least: I32) { match { $p: Person  not { $p knows $_ } } return { $p } }",
]


@pytest.mark.parametrize("query", QUERIES)
def test_a_query_gives_the_same_rows_on_spark(query: str, spark: Any, people: og.Graph) -> None:
    here = people.query(query, {"least": 3})
    there = people.query(query, {"least": 3}, engine=spark)
    assert there.rows == here.rows
    assert there.to_arrow().schema == here.to_arrow().schema
    assert here.num_rows > 0


def failing_reads() -> dict[str, tuple[dict[str, str], str]]:
    """Options of a read that cannot work, beside the graph, and the sentence."""
    known = "id, email, age, tier, handle, tags, vec, photo, joined, born, big, score, small, active"
    types = "edge:Knows, edge:LivesIn, node:City, node:Note, node:Person"
    return {
        "no type": ({}, "UsageError: the option 'type' is missing (for example .option(\"graph\", \"./people\"))"),
        "an unknown type": ({"type": "Persn"}, f"UsageError: the schema has no type 'Persn' (it has: {types})"),
        "an unknown column": (
            {"type": "Person", "columns": "emial"}, f"UsageError: node:Person has no column 'emial' (it has: {known})",
        ),
        "an unknown revision": (
            {"type": "Person", "revision": "nope"},
            "CommitNotFound: 'nope' is not a branch, branch~N, tag or commit id (see 'omnigraph branch list', 'omnigraph "
            "tag list' and 'omnigraph log')",
        ),
        "a filter that is none": (
            {"type": "Person", "filter": "age >"},
            "UsageError: the filter 'age >' cannot be used: Error parsing statement: SELECT 1 FROM t WHERE age > (sql parser "
            "error: Expected: an expression, found: EOF) (write a condition on columns, such as age > 30 AND tier = 'pro')",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", failing_reads())
def test_a_read_that_cannot_work_says_so_in_one_sentence(case: str, session: Any, people: og.Graph) -> None:
    from pyspark.errors import PySparkException

    options, sentence = failing_reads()[case]
    with pytest.raises(PySparkException) as caught:
        read(session, people, **options).load().collect()
    first, state = str(caught.value).splitlines()
    assert first.endswith(f": omnigraph.errors.{sentence}")
    assert state.strip() == "SQLSTATE: 38000"


def failing_writes() -> dict[str, tuple[list[Any], str, dict[str, str], str]]:
    person_has = "Person has: id, email, age, tier, handle, tags, vec, photo, joined, born, big, score, small, active"
    return {
        "a key that is there": (
            [("p1", 1)], "email string, age int", {},
            "KeyConflict: Person 'p1' already exists (use an upsert (`upsert`, or load mode merge) to replace it)",
        ),
        "a value out of range": (
            [("x", 500)], "email string, age int", {},
            'RejectedRecords: 1 record was rejected: Person (DataFrame): {"type":"Person","data":{"id":"x","email":"x","age":500}}: '
            "@range violation on Person.age: value 500 > max 150",
        ),
        "an unknown column": (
            [("x", 5)], "email string, agee int", {},
            f"UnreadableInput: unknown column 'agee' for Person ({person_has})",
        ),
        "an unknown branch": (
            [("x", 5)], "email string, age int", {"branch": "nope"},
            "BranchNotFound: branch 'nope' does not exist (see 'omnigraph branch list'; from_='main' makes the "
            "branch with the load)",
        ),
        "unknown options": (
            [("x", 5)], "email string, age int", {"modee": "patch", "Branches": "x"},
            "UsageError: unknown options 'branches', 'modee' (the options are actor, as_of, branch, changes, columns, filter, "
            "from, graph, if_commit, message, missing, mode, once, rejects, revision, sequence, type, type_column and storage.<name>)",
        ),
        "a mode that is none": (
            [("x", 5)], "email string, age int", {"mode": "upsert"},
            "UsageError: 'upsert' is not a load mode (choose one of append, merge, patch, delete, overwrite)",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", failing_writes())
def test_a_write_that_cannot_work_says_so_in_one_sentence(case: str, session: Any, people: og.Graph) -> None:
    from pyspark.errors import PySparkException

    rows, schema, options, sentence = failing_writes()[case]
    writer = session.createDataFrame(rows, schema).write.format("omnigraph").options(graph=people.uri, type="Person")
    with pytest.raises(PySparkException) as caught:
        writer.options(**options).mode("append").save()
    first, state = str(caught.value).splitlines()
    assert first.endswith(f": omnigraph.errors.{sentence}")
    assert state.strip() == "SQLSTATE: 38000"


def saved(frame: Any, graph: og.Graph, **options: str) -> None:
    frame.write.format("omnigraph").options(
        graph=graph.uri, **{name.rstrip("_"): value for name, value in options.items()}
    ).mode("append").save()


def rows_of(graph: og.Graph, type_name: str, branch: str = "main") -> dict[str, Any]:
    table = graph._repository.head(branch)[1].table(type_name)
    return {} if table is None else {row["id"]: row for row in table.read().to_pylist()}


def test_every_mode_types_in_a_column_and_a_new_branch(session: Any, people: og.Graph) -> None:
    """Through a source that was not registered for this folder: Spark finds it by itself."""
    scores = session.createDataFrame([("p0", 0.5), ("p1", 0.25)], "id string, score double")
    session.sparkContext.setJobGroup("mine", "my work")
    saved(scores, people, type="Person", mode="patch", branch="review", from_="main")
    mixed = session.createDataFrame(
        [("Person", "new", None, None, None), ("Note", None, "hi", None, None), ("Knows", None, None, "new", "p0")],
        "type string, email string, text string, `from` string, `to` string",
    )
    saved(mixed, people, branch="review", message="three types")
    saved(session.createDataFrame([("p7",)], "email string"), people, type="Person", mode="delete", branch="review")
    saved(
        session.createDataFrame([("p6", 60)], "email string, age int"),
        people,
        type="Person",
        mode="merge",
        branch="review",
    )
    assert session.sparkContext.getLocalProperty("spark.jobGroup.id") == "mine"
    now = rows_of(people, "node:Person", "review")
    assert (now["p0"]["score"], now["p0"]["age"], now["p0"]["tags"], now["p1"]["score"]) == (0.5, 0, [], 0.25)
    assert (now["p6"]["age"], now["p6"]["tags"], "p7" in now, "new" in now) == (60, None, False, True)
    assert len(rows_of(people, "node:Note", "review")) == 1
    assert len(people.commits("review")) == len(people.commits()) + 4
    assert len(rows_of(people, "node:Person")) == 8


def test_a_table_of_sql(session: Any, people: og.Graph) -> None:
    session.sql(f"CREATE TABLE people USING omnigraph OPTIONS (graph '{people.uri}', type 'Person')")
    patches = f"graph '{people.uri}', type 'Person', mode 'patch', columns 'id,score'"
    session.sql(f"CREATE TABLE scores USING omnigraph OPTIONS ({patches})")
    try:
        session.sql("INSERT INTO people (email, age) VALUES ('sql', 77)")
        session.sql("INSERT INTO scores VALUES ('sql', 0.5)")
        (row,) = session.sql("SELECT age, score FROM people WHERE email = 'sql'").collect()
        assert (row.age, row.score) == (77, 0.5)
        session.sql("ALTER TABLE scores ADD COLUMN extra INT")
        for statement in ("SELECT * FROM scores", "INSERT INTO scores VALUES ('sql', 0.5, 1)"):
            with pytest.raises(
                Exception, match=r"ALTER TABLE has added 'extra' to Spark's catalog.*CREATE TABLE again"
            ):
                session.sql(statement).collect()
        with pytest.raises(Exception, match=r"CREATE TABLE \.\.\. AS SELECT.*then INSERT INTO"):
            session.sql(f"CREATE TABLE copied USING omnigraph OPTIONS ({patches}) AS SELECT 'sql' AS id, 0.5 AS score")
        assert not session.catalog.tableExists("copied")
    finally:
        session.sql("DROP TABLE people")
        session.sql("DROP TABLE scores")


@pytest.mark.parametrize("name", ["aws_secret_access_key", "AWS_SESSION_TOKEN", "secret_access_key", "sas_token"])
def test_spark_s_catalog_keeps_no_secrets(session: Any, people: og.Graph, name: str) -> None:
    options = f"graph '{people.uri}', type 'Person', `storage.{name}` 'hush'"
    with pytest.raises(Exception, match="would keep") as refused:
        session.sql(f"CREATE TABLE kept USING omnigraph OPTIONS ({options})")
    assert "hush" not in str(refused.value)
    assert "createOrReplaceTempView" in str(refused.value)
    assert not session.catalog.tableExists("kept")
