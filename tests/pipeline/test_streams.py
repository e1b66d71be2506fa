"""Streams into a graph: one commit a micro-batch, whatever is tried again."""

from __future__ import annotations

import json
import os
import shutil
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import UsageError

pytestmark = pytest.mark.spark

SCHEMA = """
node Person { name: String @key  age: I32?  @range(age, 0..150) }
node Total { name: String @key  n: I64? }
edge Knows: Person -> Person
edge Met: Person -> Person @key(src, dst) { age: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA, durability="process")


@pytest.fixture
def session(spark: Any) -> Any:
    from omnigraph.spark.source import register

    register(spark)
    return spark


FIRST_FILE_AT = 1_700_000_000


class Inbox:
    """A folder of files, each of which is a micro-batch."""

    def __init__(self, folder: Path, session: Any) -> None:
        self.folder = folder / "inbox"
        self.folder.mkdir()
        self.session = session
        self.files = 0

    def put(self, *rows: dict[str, Any]) -> None:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        file = self.folder / f"{self.files:06}.json"
        file.write_text(text)
        # Spark takes files in the order of their times, which may be equal for two that were written at once.
        os.utime(file, (FIRST_FILE_AT + self.files,) * 2)
        self.files += 1

    def stream(self, columns: str = "name string, age int") -> Any:
        reader = self.session.readStream.schema(columns).option("maxFilesPerTrigger", "1")
        return reader.option("latestFirst", "false").json(str(self.folder))


@pytest.fixture
def inbox(tmp_path: Path, session: Any) -> Inbox:
    return Inbox(tmp_path, session)


def finish(writer: Any, checkpoint: Path, **options: str) -> Any:
    """Run a stream until it has read what is there."""
    for name, value in options.items():
        writer = writer.option(name, value)
    query = writer.option("checkpointLocation", str(checkpoint)).trigger(availableNow=True).start()
    query.awaitTermination(120)
    return query


def sink(
    graph: og.Graph, stream: Any, checkpoint: Path, type: str = "Person", output: str = "append", **options: str
) -> Any:
    writer = stream.writeStream.format("omnigraph").option("graph", graph.uri).option("type", type).outputMode(output)
    return finish(writer, checkpoint, **options)


def names(graph: og.Graph, type: str = "Person") -> list[str]:
    return sorted(row["id"] for row in graph._repository.head()[1].table(f"node:{type}").read(["id"]).to_pylist())  # type: ignore[union-attr]


def commits(graph: og.Graph) -> int:
    return graph.head().ref.seq


def forget_last_batch(checkpoint: Path) -> None:
    """As if the driver had died after the sink's commit and before it noted that."""
    done = sorted((checkpoint / "commits").glob("[0-9]*"), key=lambda path: int(path.name))
    for path in (done[-1], checkpoint / "commits" / f".{done[-1].name}.crc"):
        path.unlink(missing_ok=True)


def test_each_batch_is_one_commit_and_a_batch_that_is_tried_again_stays_one(
    graph: og.Graph, inbox: Inbox, tmp_path: Path
) -> None:
    for number in range(3):
        inbox.put({"name": f"a{number}", "age": 1}, {"name": f"b{number}"})
    sink(graph, inbox.stream(), tmp_path / "cp", actor="stream")
    assert commits(graph) == 3
    assert {commit.actor for commit in graph.commits(limit=3)} == {"stream"}
    shutil.copytree(tmp_path / "cp", tmp_path / "copy")
    forget_last_batch(tmp_path / "cp")
    inbox.put({"name": "later"})
    sink(graph, inbox.stream(), tmp_path / "cp")
    assert commits(graph) == 4
    sink(graph, inbox.stream(), tmp_path / "copy")
    assert commits(graph) == 4, "a second query on a copy of the checkpoint finds every batch written"
    assert names(graph) == ["a0", "a1", "a2", "b0", "b1", "b2", "later"]


def test_streams_and_frames_meet_the_edge_with_the_same_key(graph: og.Graph, inbox: Inbox, tmp_path: Path) -> None:
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": "Ada"}, {"name": "Bo"}])
    inbox.put({"from": "Ada", "to": "Bo", "age": 1})
    inbox.put({"from": "Ada", "to": "Bo", "age": 2}, {"from": "Bo", "to": "Ada"})
    stream = inbox.stream("`from` string, `to` string, age int")
    written = sink(graph, stream, tmp_path / "cp", type="Met", mode="merge")
    assert written.exception() is None
    rows = graph._repository.head()[1].table("edge:Met").read(["id", "age"]).to_pylist()  # type: ignore[union-attr]
    assert {row["id"]: row["age"] for row in rows} == {'["Ada","Bo"]': 2, '["Bo","Ada"]': None}
    frame = inbox.session.createDataFrame([("Ada", "Bo", 2), ("Ada", "Ada", 3)], "`from` string, `to` string, age int")
    counts = graph.load({"Met": frame}, mode="merge", engine="spark").total
    assert (counts.unchanged, counts.inserted) == (1, 1)
    gone = inbox.session.createDataFrame([("Ada", "Bo")], "`from` string, `to` string")
    assert graph.load({"Met": gone}, mode="delete", engine="spark").total.deleted == 1


def test_a_stream_in_mode_merge_replaces_and_in_mode_complete_is_the_whole_type(
    graph: og.Graph, inbox: Inbox, tmp_path: Path
) -> None:
    inbox.put({"name": "Ada", "age": 1}, {"name": "Bo", "age": 2})
    inbox.put({"name": "Ada", "age": 3})
    sink(graph, inbox.stream(), tmp_path / "merge", mode="merge")
    assert graph.entity("Person", "Ada")["age"] == 3  # type: ignore[index]
    counts = inbox.stream().groupBy("name").count().withColumnRenamed("count", "n")
    before = commits(graph)
    sink(graph, counts, tmp_path / "complete", type="Total", output="complete")
    assert commits(graph) == before + 2
    totals = graph._repository.head()[1].table("node:Total").read(["id", "n"]).to_pylist()  # type: ignore[union-attr]
    assert sorted((row["id"], row["n"]) for row in totals) == [("Ada", 2), ("Bo", 1)]
    forget_last_batch(tmp_path / "complete")
    sink(graph, counts, tmp_path / "complete", type="Total", output="complete")
    assert commits(graph) == before + 2


def test_several_types_of_a_batch_are_one_commit_through_foreach_batch(
    graph: og.Graph, inbox: Inbox, tmp_path: Path
) -> None:
    def frames(batch: Any) -> dict[str, Any]:
        ends = batch.selectExpr("name AS `from`", "friend AS `to`").where("`to` IS NOT NULL")
        return {"Person": batch.select("name"), "Knows": ends}

    inbox.put({"name": "Ada"}, {"name": "Bo", "friend": "Ada"})
    inbox.put({"name": "Cy", "friend": "Bo"})
    stream = inbox.stream("name string, friend string")
    for _ in range(2):
        finish(stream.writeStream.foreachBatch(graph.stream_into(frames, mode="append")), tmp_path / "cp")
        forget_last_batch(tmp_path / "cp")
    assert commits(graph) == 2
    assert [len(graph.commit_changes(revision).changes) for revision in ("main~1", "main")] == [3, 2]
    assert {change.kind for change in graph.commit_changes("main").changes} == {"node", "edge"}


@pytest.mark.parametrize("way", ["sink", "foreach"])
def test_rejected_records_go_to_a_folder_or_stop_the_query(
    graph: og.Graph, inbox: Inbox, tmp_path: Path, way: str
) -> None:
    from pyspark.errors import StreamingQueryException

    inbox.put({"name": "Ada", "age": 1}, {"name": "Bad", "age": 200})
    inbox.put({"name": "Bo", "age": 2})
    dead = tmp_path / "dead letters"

    def run(rejects: str | None) -> Any:
        stream = inbox.stream()
        if way == "sink":
            return sink(graph, stream, tmp_path / "cp", **({} if rejects is None else {"rejects": rejects}))
        into = graph.stream_into("Person", mode="append", rejects=rejects)
        return finish(stream.writeStream.foreachBatch(into), tmp_path / "cp")

    with pytest.raises(StreamingQueryException, match="1 record was rejected"):
        run(None)
    assert commits(graph) == 0
    query = run(str(dead))
    assert names(graph) == ["Ada", "Bo"]
    (file,) = dead.iterdir()
    assert file.name == f"{query.id}-00000000.jsonl"
    assert json.loads(file.read_text())["code"] == "value_violation"
    forget_last_batch(tmp_path / "cp")
    run(str(dead))
    assert commits(graph) == 2


def test_many_small_batches_leave_few_fragments(graph: og.Graph, inbox: Inbox, tmp_path: Path) -> None:
    for number in range(20):
        inbox.put({"name": f"p{number:02}"})
    sink(graph, inbox.stream(), tmp_path / "cp")
    table = graph._repository.head()[1].table("node:Person")
    assert table is not None
    assert commits(graph) == table.rows == 20
    assert len(table.fragments) <= 8


def test_what_a_stream_cannot_do_is_said(graph: og.Graph, inbox: Inbox, tmp_path: Path) -> None:
    inbox.put({"name": "Ada"})
    for wrong, words in (({"once": "k"}, "write keys of its batches"), ({"mode": "replace"}, "not a mode of a stream")):
        with pytest.raises(Exception, match=words):
            sink(graph, inbox.stream(), tmp_path / f"cp-{words[:3]}", **wrong)
    with pytest.raises(UsageError, match="a type or a function"):
        graph.stream_into(7, mode="append")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="'upsert' is not a load mode"):
        graph.stream_into("Person", mode="upsert")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="called by a streaming query"):
        graph.stream_into("Person", mode="append")(inbox.session.createDataFrame([("Ada",)], "name string"), 0)


def test_a_dataframe_is_written_once_under_its_key(graph: og.Graph, session: Any) -> None:
    frame = session.createDataFrame([("Ada",), ("Bo",)], "name string")
    for options in ({"once": "k"}, {"once": "k"}, {"sequence": "app 1"}):
        writer = frame.write.format("omnigraph").option("graph", graph.uri).option("type", "Person")
        if "sequence" in options:
            writer = session.createDataFrame([("Cy",)], "name string").write.format("omnigraph")
            writer = writer.option("graph", graph.uri).option("type", "Person")
        for name, value in options.items():
            writer = writer.option(name, value)
        writer.mode("append").save()
    assert commits(graph) == 2
    with pytest.raises(Exception, match="cannot be the sequence of a write key"):
        frame.write.format("omnigraph").option("graph", graph.uri).option("type", "Person").option(
            "sequence", "17"
        ).mode("append").save()
