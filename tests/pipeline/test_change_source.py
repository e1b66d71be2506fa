"""Changes through the Spark data source: a span of commits as a DataFrame, the feed of a branch as a stream."""

from __future__ import annotations

import datetime as dt
import io
import json
import shutil
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from changes.changed_graph import changed_graph
from history.sweeping import sweep
from merge import model

import omnigraph as og
from omnigraph.spark.change_rows import entity_text
from omnigraph.values.json_values import json_value

pytestmark = pytest.mark.spark


@pytest.fixture
def session(spark: Any) -> Any:
    from omnigraph.spark.source import register

    register(spark)
    return spark


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return changed_graph(tmp_path / "g")


def reader(session: Any, graph: og.Graph, way: str = "read", **options: str) -> Any:
    return getattr(session, way).format("omnigraph").options(**{"graph": graph.uri, "changes": "true", **options})


def expected(graph: og.Graph, **arguments: Any) -> list[tuple[Any, ...]]:
    """The feed as the library gives it, in the form of rows."""

    def text(entity: Any) -> Any:
        return None if entity is None else json_value(entity)

    page = graph.changes(**arguments, limit=8_192)
    assert page.caught_up
    return sorted(
        (c.op, c.type_name, c.id, text(c.before), text(c.after), block.commit.id, block.commit.actor, block.commit.at)
        for block in page.blocks
        for c in block.changes
    )  # fmt: skip


def rows_of(frame: Any) -> list[tuple[Any, ...]]:

    def text(value: str | None) -> Any:
        return None if value is None else json.loads(value)

    return sorted(
        (r.op, r.type, r.id, text(r.before), text(r.after), r.commit, r.actor, r.time.astimezone(dt.UTC))
        for r in frame.collect()
    )


# ---------------------------------------------------------------- batch


def test_a_span_of_commits_is_the_feed_as_rows(session: Any, graph: og.Graph) -> None:
    frame = reader(session, graph).load()
    assert frame.columns == ["op", "type", "id", "before", "after", "commit", "actor", "time"]
    found = rows_of(frame)
    assert found == expected(graph, start="beginning")
    assert len(found) == 8
    (edge,) = [row for row in found if row[:2] == ("insert", "Knows")]
    assert edge[4] == {"id": "e1", "from": "a", "to": "b", "since": None}


def test_from_and_to_name_revisions_of_the_branch(session: Any, graph: og.Graph) -> None:
    second = graph.show("main~1")
    graph.tags.create("first", "main~2")
    everything = expected(graph, start="beginning")
    of_second = [row for row in everything if row[5] == second.id]
    for options in (
        {"from": "main~2", "to": "main~1"},
        {"from": "first", "to": second.id},
        {"from_time": graph.show("main~2").at.isoformat(), "to": "main~1"},
        {"cursor": graph.changes(start="beginning", max_commits=1).cursor, "to": "main~1"},
    ):
        assert rows_of(reader(session, graph, **options).load()) == of_second, options
    assert rows_of(reader(session, graph, **{"from": "main"}).load()) == []
    work = rows_of(reader(session, graph, branch="work", **{"from": "main~2"}).load())
    assert [row[:3] for row in work] == [("delete", "Knows", "e1"), ("delete", "Person", "b")]


def test_types_kinds_and_operations_can_be_chosen(session: Any, graph: og.Graph) -> None:
    frame = reader(session, graph, type="Person, Knows", kind="node", op="update,delete").load()
    assert rows_of(frame) == expected(graph, start="beginning", kinds=["node"], ops=["update", "delete"])
    narrow = reader(session, graph).schema("id string, op string").load()
    assert ("a", "update") in {tuple(row) for row in narrow.collect()}


FAILING: dict[str, tuple[str, dict[str, str], str]] = {
    "an option of tables": ("read", {"revision": "main"}, "UsageError: changes are not read with the option 'revision'"),
    "an option of streams": ("read", {"max_commits": "3"}, "UsageError: the option 'max_commits' is for spark.readStream"),
    "an option of reads": ("readStream", {"to": "main"}, "UsageError: the option 'to' is for spark.read "),
    "two beginnings": (
        "read", {"from": "main", "from_time": "2026-01-01"},
        "UsageError: the options 'from' and 'from_time' both say where the changes begin (give one)",
    ),
    "no start": (
        "readStream", {"start": "yesterday"},
        "UsageError: 'yesterday' is not a value of the option 'start' (now, beginning, baseline; ",
    ),
    "no number": (
        "readStream", {"max_rows": "many"}, "UsageError: the option 'max_rows' is a number of at least 1, not 'many'",
    ),
    "no names": ("read", {"kind": " , "}, "UsageError: the option 'kind' names nothing"),
    "a number with many digits": (
        "readStream", {"max_commits": "9" * 5_000}, "UsageError: the option 'max_commits' is a number of at least 1",
    ),
    "an unknown type": ("read", {"type": "Persn"}, "UsageError: 'Persn' is not a type of changes"),
    "an unknown word": ("read", {"changes": "yes"}, "UsageError: 'yes' is not a value of the option 'changes'"),
    "the wrong order": (
        "read", {"from": "main", "to": "main~1"}, "UsageError: the changes end at commit ",
    ),
    "a commit of another branch": ("read", {"from": "work"}, "CommitNotFound: commit "),
    "a broken cursor": ("readStream", {"cursor": "x"}, "CursorRejected: change cursor rejected: it is not a cursor"),
    "a stream of rows": (
        "readStream", {"changes": "false", "type": "Person"},
        "UsageError: a stream reads the changes of a branch, not its rows (.option(\"changes\", \"true\")",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FAILING)
def test_what_cannot_work_says_so_in_one_sentence(case: str, session: Any, graph: og.Graph, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    way, options, sentence = FAILING[case]

    def read() -> None:
        frame = reader(session, graph, way, **options).load()
        if way == "readStream":
            run(frame, tmp_path / "checkpoint", lambda _frame, _batch: None)
        else:
            frame.collect()

    with pytest.raises(PySparkException) as caught:
        read()
    message = str(caught.value)
    assert f"omnigraph.errors.{sentence}" in message, message
    assert "Traceback" not in message


# ---------------------------------------------------------------- streams


def run(frame: Any, checkpoint: Path, each: Callable[[Any, int], None]) -> None:
    """Everything that is there now, batch by batch, as a query that is started again with its checkpoint."""
    query = (
        frame.writeStream.foreachBatch(each)
        .option("checkpointLocation", str(checkpoint))
        .trigger(availableNow=True)
        .start()
    )
    try:
        query.awaitTermination()
    finally:
        query.stop()


class Collected:
    """What a query gave, batch by batch; a batch that comes again replaces what it gave before."""

    def __init__(self, session: Any, graph: og.Graph, checkpoint: Path, **options: str) -> None:
        self.reader = reader(session, graph, "readStream", **options)
        self.checkpoint = checkpoint
        self.batches: dict[int, list[tuple[Any, ...]]] = {}

    def start(self, fail_at: int | None = None) -> None:
        def each(frame: Any, batch: int) -> None:
            self.batches[batch] = rows_of(frame)
            if batch == fail_at:
                raise RuntimeError("the consumer died")

        run(self.reader.load(), self.checkpoint, each)

    @property
    def rows(self) -> list[tuple[Any, ...]]:
        return sorted(row for rows in self.batches.values() for row in rows)

    @property
    def sizes(self) -> list[int]:
        return [len(rows) for _, rows in sorted(self.batches.items())]


def add(graph: og.Graph, name: str) -> None:
    with graph.transaction() as tx:
        tx.insert("Person", name=name)


def test_a_stream_goes_on_where_it_stopped(session: Any, graph: og.Graph, tmp_path: Path) -> None:
    stream = Collected(session, graph, tmp_path / "checkpoint", start="beginning")
    stream.start()
    assert stream.rows == expected(graph, start="beginning")
    add(graph, "e")
    stream.start()
    stream.start()
    assert stream.sizes == [8, 1]
    assert stream.rows == expected(graph, start="beginning")
    # The offset is the cursor of the feed.
    (last,) = [path for path in (tmp_path / "checkpoint" / "offsets").iterdir() if path.name == "1"]
    cursor = json.loads(last.read_text().splitlines()[-1])["cursor"]
    assert graph.changes(since=cursor).caught_up


def rows_at(graph: og.Graph, **options: str) -> list[dict[str, Any]]:
    return [row for batch in batches_of(graph, **options) for row in batch]


def batches_of(graph: og.Graph, **options: str) -> list[list[dict[str, Any]]]:
    """What a stream gives until there is nothing new: its reader is asked as Spark asks it."""
    from omnigraph.spark.change_rows import spark_schema
    from omnigraph.spark.change_source import ChangesStreamReader
    from omnigraph.tasks.target import Address

    reader = ChangesStreamReader(Address.of_graph(graph._repository), options, spark_schema())
    found = []
    start = reader.initialOffset()
    while (end := reader.latestOffset(start, reader.getDefaultReadLimit())) != start:
        batches = [batch for part in reader.partitions(start, end) for batch in reader.read(part)]
        found.append([row for batch in batches for row in batch.to_pylist()])
        start = json.loads(json.dumps(end))
    return found


@pytest.mark.parametrize(
    ("limits", "sizes"),
    [({"max_commits": "2"}, [6, 2]), ({"max_rows": "4"}, [4, 4]), ({"max_rows": "1"}, [4, 2, 2]), ({}, [8])],
)
def test_a_batch_has_so_many_commits_or_rows(limits: dict[str, str], sizes: list[int], graph: og.Graph) -> None:
    found = batches_of(graph, start="beginning", **limits)
    assert [len(rows) for rows in found] == sizes
    assert sorted(changed(found)) == [row[:3] for row in expected(graph, start="beginning")]


def test_a_stream_begins_after_a_commit_a_time_or_a_cursor(graph: og.Graph) -> None:
    third = [("delete", "Person", "b"), ("delete", "Knows", "e1")]
    baseline = graph.baseline(io.BytesIO())
    time = graph.show("main~1").at
    assert changed(batches_of(graph, **{"from": "main~1"})) == third
    assert changed(batches_of(graph, from_time=time.isoformat())) == third
    assert changed(batches_of(graph, from_time=(time - dt.timedelta(microseconds=1)).isoformat()))[2:] == third
    assert len(changed(batches_of(graph, from_time="2000-01-01"))) == 8
    assert batches_of(graph, cursor=baseline.resume_cursor) == [[]]
    add(graph, "e")
    assert changed(batches_of(graph, cursor=baseline.resume_cursor)) == [("insert", "Person", "e")]
    assert batches_of(graph) == [[]], "now"


def changed(batches: list[list[dict[str, Any]]]) -> list[tuple[str, ...]]:
    return [(row["op"], row["type"], row["id"]) for rows in batches for row in rows]


@pytest.mark.parametrize("start", ["now", "baseline"])
def test_a_first_batch_that_is_tried_again_is_the_same(
    start: str, session: Any, graph: og.Graph, tmp_path: Path
) -> None:
    """Spark asks for the beginning of the first batch again, when it may mean something else."""
    from pyspark.errors import PySparkException

    stream = Collected(session, graph, tmp_path / "checkpoint", start=start)
    with pytest.raises(PySparkException, match="the consumer died"):
        stream.start(fail_at=0)
    first = {0: list(stream.batches[0])}
    later = graph.changes().cursor
    add(graph, "e")
    stream.start()
    assert stream.batches[0] == first[0]
    assert [row for batch, rows in stream.batches.items() if batch for row in rows] == expected(graph, since=later)


def test_a_baseline_is_every_row_and_then_the_changes(session: Any, graph: og.Graph, tmp_path: Path) -> None:
    head = graph.head()
    stream = Collected(session, graph, tmp_path / "checkpoint", start="baseline", type="Person")
    stream.start()
    assert [(row[0], row[2], row[5], row[6]) for row in stream.rows] == [
        ("insert", name, head.id, "bob") for name in "acd"
    ]
    assert stream.rows[0][4] == {"id": "a", "name": "a", "age": 2, "nick": None, "mail": None}
    with graph.transaction() as tx:
        tx.delete("Person", "a")
    stream.start()
    assert [row[:3] for row in stream.batches[1]] == [("delete", "Person", "a")]


def test_a_stream_below_the_watermark_fails_with_the_gap(session: Any, graph: og.Graph, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    stream = Collected(session, graph, tmp_path / "checkpoint", start="beginning", max_commits="1")
    with pytest.raises(PySparkException, match="the consumer died"):
        stream.start(fail_at=1)
    sweep(graph._repository.history, "main")
    with pytest.raises(PySparkException, match=r"omnigraph\.errors\.HistoryGap: .* removed by cleanup"):
        stream.start()


def test_a_graph_that_took_the_place_of_another_is_read(graph: og.Graph) -> None:
    """Spark's workers live long."""
    assert len(batches_of(graph, start="beginning")[0]) == 8
    shutil.rmtree(graph.uri)
    again = og.init(graph.uri, schema=model.SCHEMA, durability="process")
    add(again, "z")
    assert changed(batches_of(again, start="beginning")) == [("insert", "Person", "z")]


def test_a_schema_change_is_a_row_of_the_stream(graph: og.Graph) -> None:
    cursor = graph.changes().cursor
    assert cursor is not None
    graph.schema.apply(model.SCHEMA.replace("nick: String?", 'alias: String? @rename_from("nick")'), actor="eve")
    with graph.transaction() as tx:
        tx.update("Person", "a", alias="al")
    schema, update = rows_at(graph, cursor=cursor)
    assert (schema["op"], schema["type"], schema["id"], schema["before"]) == ("schema", None, None, None)
    assert (schema["commit"], schema["actor"]) == (graph.show("main~1").id, "eve")
    (block, _) = graph.changes(since=cursor).blocks
    assert [step["kind"] for step in json.loads(schema["after"])] == [step.kind for step in block.schema_steps]
    assert len(block.schema_steps) == 1
    assert (update["op"], json.loads(update["after"])["alias"]) == ("update", "al")
    updates = rows_at(graph, op="update", **{"from": graph.show("main~2").id})
    assert [row["op"] for row in updates] == ["update"]


# ---------------------------------------------------------------- diffs


def test_a_diff_as_a_dataframe_is_the_diff(session: Any, graph: og.Graph) -> None:
    graph.maintenance.optimize()  # rows that are only stored anew are no changes
    tables = graph.spark(session)
    for a, b in ("main~4", "main"), ("main~3", "main~1"), ("main", "main~3"), ("work", "main"), ("main~1", "main"):
        found = sorted(tuple(row) for row in tables.diff(a, b).collect())
        assert found == sorted(
            (each.op, each.type_name, each.id, entity_text(each.before), entity_text(each.after))
            for each in graph.diff(a, b)
        ), (a, b)
    assert tables.diff("main~4", "main").count() == 3


def test_a_diff_of_one_type_has_typed_columns(session: Any, tmp_path: Path) -> None:
    from pipeline.conftest import SCHEMA as EVERY_TYPE

    graph = og.init(tmp_path / "typed", schema=EVERY_TYPE, durability="process")
    values: dict[str, Any] = {
        "age": 3, "tier": "pro", "tags": ["x"], "vec": [1, 2], "photo": b"hi", "big": 2**64 - 1, "score": 0.5, "active": True,
        "joined": dt.datetime(2026, 7, 1, 12, tzinfo=dt.UTC), "born": dt.date(2000, 2, 29),
    }  # fmt: skip
    with graph.transaction() as tx:
        tx.insert("Person", email="a", **values)
        tx.insert("Person", email="b")
        tx.insert("Person", email="c")
    with graph.transaction() as tx:
        tx.update("Person", "a", age=4)
        tx.delete("Person", "b")
        tx.insert("Knows", {"id": "k"}, from_="a", to="c", weight=1.5)
    tables = graph.spark(session)
    people = {row.id: row for row in tables.diff("main~1", "main", type="Person").collect()}
    assert {id: row.op for id, row in people.items()} == {"a": "update", "b": "delete"}
    before, after = people["a"].before.asDict(), people["a"].after.asDict()
    joined = before["joined"].astimezone(dt.UTC)
    assert {**before, "joined": joined}.items() >= {**values, "big": Decimal(2**64 - 1), "age": 3}.items()
    assert (after["age"], after["born"]) == (4, values["born"])
    assert (people["b"].before.email, people["b"].after) == ("b", None)
    (edge,) = tables.diff("main~1", "main", type="Knows").collect()
    assert (edge.before, edge.after["from"], edge.after["to"], edge.after.weight) == (None, "a", "c", 1.5)
    assert tables.diff("main~1", "main", type="City").count() == 0
    assert tables.diff("main~1", "main", type="Person").schema["after"].dataType.names == ["id", "email", *PROPERTIES]


PROPERTIES = ["age", "tier", "handle", "tags", "vec", "photo", "joined", "born", "big", "score", "small", "active"]
