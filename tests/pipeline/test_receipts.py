"""What a load says it did: entities inserted, updated, unchanged and deleted; and that it commits nothing when nothing changed."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.conftest import Write, content, knows, person

import omnigraph as og
from omnigraph import errors
from omnigraph.api.writes import LoadJson
from omnigraph.load import assembly, replaced_rows
from omnigraph.testing.failpoints import Failpoint, arm

ALL_VALUES: dict[str, Any] = {
    "age": 7, "tier": "pro", "handle": "a h", "tags": ["x", ""], "vec": [0.5, -1.0], "photo": "base64:aGk=",
    "joined": "2026-01-02T03:04:05.678Z", "born": "1969-12-31", "big": str(2**64 - 1), "score": 0.1, "small": 0.1,
    "active": False,
}  # fmt: skip
FIRST = [
    person("a", **ALL_VALUES),
    person("b"),
    person("c", tags=[]),
    {"type": "Note", "data": {"id": "n", "text": ""}},
    knows("a", "b", id="k1", since="2020-01-01"),
]


def counts(inserted: int = 0, updated: int = 0, unchanged: int = 0, deleted: int = 0) -> dict[str, int]:
    return {"inserted": inserted, "updated": updated, "unchanged": unchanged, "deleted": deleted}


def by_type(receipt: Any) -> dict[str, dict[str, int]]:
    return {key: asdict(found) for key, found in receipt.types.items()}


def test_a_merge_of_what_is_there_commits_nothing(
    graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    graph.load(write("first.jsonl", *FIRST), mode="append", **engine)
    before, files = graph.commits(), data_files(tmp_path / "graph")
    receipt = graph.load(write("again.jsonl", *reversed(FIRST)), mode="merge", **engine)
    assert receipt.commit is None
    assert asdict(receipt.total) == counts(unchanged=5)
    assert by_type(receipt) == {
        "node:Person": counts(unchanged=3),
        "node:Note": counts(unchanged=1),
        "edge:Knows": counts(unchanged=1),
    }
    assert graph.commits() == before
    assert graph.recovery.list() == []
    assert data_files(tmp_path / "graph") == files, "what was written to compare is gone"


def test_rows_in_any_order_are_compared_with_those_of_their_id(graph: og.Graph, write: Write) -> None:
    people = [person(name, age=age) for age, name in enumerate("abcd")]
    graph.load(write("first.jsonl", *people), mode="append", engine="local")
    assert graph.load(write("turned.jsonl", *people[1:], people[0]), mode="merge", engine="local").commit is None


def data_files(folder: Path) -> set[Path]:
    return set(folder.glob("*/*/data/*"))


def test_an_export_merged_into_its_graph_commits_nothing(
    graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    graph.load(write("first.jsonl", *FIRST), mode="append", **engine)
    graph.export(tmp_path / "out.jsonl", engine="local")
    assert graph.load(tmp_path / "out.jsonl", mode="merge", **engine).commit is None


@pytest.mark.parametrize("many", [False, True], ids=["few rows", "compared by several tasks"])
def test_a_merge_counts_what_it_inserts_updates_and_leaves(
    many: bool, graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if many:
        monkeypatch.setattr(replaced_rows, "_task_rows", lambda table: 1)
        monkeypatch.setattr(assembly, "IN_PROCESS_ROWS", 0)
    graph.load(write("first.jsonl", *FIRST), mode="append", **engine)
    second = [person("a", **ALL_VALUES | {"tags": ["x"]}), person("b"), person("c"), person("d"), person("e")]
    receipt = graph.load(write("second.jsonl", *second, knows("a", "b", id="k1")), mode="merge", **engine)
    assert by_type(receipt) == {"node:Person": counts(2, 2, 1), "edge:Knows": counts(0, 1, 0)}
    assert asdict(receipt.total) == counts(2, 3, 1)
    assert LoadJson.to_json(receipt, uri="x")["updated"] == 3
    assert [change.op for change in graph.diff("main~1", "main")].count("update") == 3


def test_one_value_that_differs_is_an_update(graph: og.Graph, write: Write) -> None:
    """Each property by itself, to another value and to none."""
    graph.load(write("first.jsonl", person("a", **ALL_VALUES)), mode="append", engine="local")
    other: dict[str, Any] = {
        "age": 8, "tier": "free", "handle": "a  h", "tags": ["x"], "vec": [0.5, -1.5], "photo": "base64:aGg=",
        "joined": "2026-01-02T03:04:05.679Z", "born": "1970-01-01", "big": str(2**64 - 2), "score": 0.2, "small": 0.2,
        "active": True,
    }  # fmt: skip
    assert other.keys() == ALL_VALUES.keys()
    for name, value in other.items():
        for changed in (value, None):
            graph.load(write("base.jsonl", person("a", **ALL_VALUES)), mode="merge", engine="local")
            records = [person("a", **ALL_VALUES | {name: changed})]
            receipt = graph.load(write("changed.jsonl", *records), mode="merge", engine="local")
            assert asdict(receipt.total) == counts(updated=1), (name, changed)


def test_fresh_ids_are_always_new(graph: og.Graph, write: Write) -> None:
    note = {"type": "Note", "data": {"text": "x"}}
    for _ in range(2):
        assert asdict(graph.load(write("n.jsonl", note), mode="merge", engine="local").total) == counts(inserted=1)


RACES: dict[str, tuple[str, dict[str, int]]] = {
    "a row that the load inserts": ('insert Person { email: "d", age: 1 }', counts(0, 1, 2)),
    "a row that the load leaves": ('update Person set { age: 5 } where email = "a"', counts(1, 1, 1)),
    "another row": ('insert Person { email: "z" }', counts(1, 0, 2)),
}


@pytest.mark.parametrize("race", RACES)
def test_counts_follow_what_others_wrote_meanwhile(race: str, graph: og.Graph, write: Write, tmp_path: Path) -> None:
    mutation, expected = RACES[race]
    graph.load(write("first.jsonl", person("a"), person("b")), mode="append", engine="local")
    other = og.open(graph.uri, durability="process")
    arm(Failpoint.LOAD_BEFORE_PUBLISH, lambda: other.mutate(f"query q() {{ {mutation} }}"))
    receipt = graph.load(write("second.jsonl", person("a"), person("b"), person("d")), mode="merge", engine="local")
    assert asdict(receipt.total) == expected
    assert receipt.commit is not None
    rows = {record["data"]["id"]: record["data"].get("age") for record in content(graph, tmp_path)}
    assert {name: rows[name] for name in "abd"} == {"a": None, "b": None, "d": None}


# ---------------------------------------------------------------- types without rows


def empty_source(kind: str, folder: Path) -> Any:
    columns = pa.schema([("email", pa.string()), ("age", pa.int32())])
    match kind:
        case "frame":
            return {"Person": columns.empty_table().to_pandas()}
        case "arrow":
            return {"Person": columns.empty_table()}
        case "csv with a header":
            (folder / "Person.csv").write_text("email,age\n")
            return folder / "Person.csv"
        case "csv without a byte":
            (folder / "Person.csv").write_bytes(b"")
            return folder / "Person.csv"
        case "parquet":
            pq.write_table(columns.empty_table(), folder / "Person.parquet")
            return folder / "Person.parquet"
    raise AssertionError(kind)


KINDS = ["frame", "arrow", "csv with a header", "csv without a byte", "parquet"]


@pytest.mark.parametrize("kind", KINDS)
def test_a_given_type_without_rows_is_overwritten_with_nothing(
    kind: str, graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    note = {"type": "Note", "data": {"id": "n", "text": "x", "stars": 3}}
    graph.load(write("first.jsonl", person("a"), person("b"), note), mode="append", **engine)
    receipt = graph.load(empty_source(kind, tmp_path), mode="overwrite", **engine)
    assert receipt.commit == graph.commits()[0]
    assert by_type(receipt) == {"node:Person": counts(deleted=2)}
    assert LoadJson.to_json(receipt, uri="x")["nodes"] == [
        {"name": "Person", "entities_loaded": 0, **counts(deleted=2)}
    ]
    assert content(graph, tmp_path) == [note]
    again = graph.load(empty_source(kind, tmp_path), mode="overwrite", **engine)
    assert (again.commit, by_type(again)) == (None, {"node:Person": counts()})
    graph.load(write("more.jsonl", person("a")), mode="append", **engine)
    assert len(content(graph, tmp_path)) == 2


@pytest.mark.spark
def test_an_empty_spark_frame_overwrites_its_type(graph: og.Graph, write: Write, spark: Any, tmp_path: Path) -> None:
    from omnigraph.spark.source import register

    graph.load(write("first.jsonl", person("a")), mode="append", engine="local")
    graph.branches.create("other")
    empty = spark.createDataFrame([], "email string")
    assert by_type(graph.load({"Person": empty}, mode="overwrite", engine=spark)) == {"node:Person": counts(deleted=1)}
    register(spark)
    options = {"graph": graph.uri, "branch": "other", "type": "Person"}
    empty.write.format("omnigraph").options(**options).mode("overwrite").save()
    for branch in ("main", "other"):
        assert graph._repository.head(branch)[1].rows("node:Person") == 0


@pytest.mark.parametrize("mode", ["append", "merge"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_rows_are_nothing_to_append_or_merge(kind: str, mode: Any, graph: og.Graph, tmp_path: Path) -> None:
    receipt = graph.load(empty_source(kind, tmp_path), mode=mode, engine="local")
    assert (receipt.commit, receipt.types) == (None, {})


def test_types_with_and_without_rows_are_overwritten_together(graph: og.Graph, write: Write, tmp_path: Path) -> None:
    graph.load(write("first.jsonl", *FIRST), mode="append", engine="local")
    frames = {"Person": pa.table({"email": ["z"]}), "Knows": pa.table({"from": [], "to": []}).cast(ENDS)}
    receipt = graph.load(frames, mode="overwrite", engine="local")
    assert by_type(receipt) == {"node:Person": counts(1, 0, 0, 3), "edge:Knows": counts(deleted=1)}
    assert [record["data"]["id"] for record in content(graph, tmp_path)] == ["n", "z"]


ENDS = pa.schema([("from", pa.string()), ("to", pa.string())])


def test_nodes_that_edges_need_are_not_overwritten_with_nothing(graph: og.Graph, write: Write) -> None:
    graph.load(write("first.jsonl", *FIRST), mode="append", engine="local")
    with pytest.raises(
        errors.EndpointMissing, match="from 'a' not found in Person: edge Knows 'k1' still points to it"
    ):
        graph.load({"Person": pa.table({"email": pa.array([], pa.string())})}, mode="overwrite", engine="local")
    assert len(graph.commits()) == 2


def test_records_that_name_no_type_overwrite_nothing(graph: og.Graph, write: Write) -> None:
    graph.load(write("first.jsonl", person("a")), mode="append", engine="local")
    assert graph.load(write("empty.jsonl"), mode="overwrite", engine="local").commit is None
    assert graph._repository.head()[1].rows("node:Person") == 1


def lines_of(places: tuple[str, ...]) -> list[int]:
    return [int(place.partition("hostile.jsonl:")[2]) for place in places]


def test_a_dry_run_counts_what_would_be_taken_and_refused_and_writes_nothing(
    graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    graph.load(write("first.jsonl", *FIRST), mode="append", **engine)
    before, files, branches = graph.commits(), data_files(tmp_path / "graph"), graph.branches.list()
    hostile = write(
        "hostile.jsonl",
        person("new"),
        person("old", age=200),
        person("older", age=300),
        person("young", age=-1),
        {"type": "Persn", "data": {}},
        "no json",
        person("a", age=8),
        person("twice"),
        person("twice"),
        knows("a", "nobody"),
        knows("nobody", "a"),
        *(knows("b", each) for each in ("a", "c", "new")),
    )  # fmt: skip
    tried = graph.load(hostile, mode="merge", branch="tried", from_="main", dry_run=True, **engine)
    found = {
        (each.code, each.property): (each.count, lines_of(each.places), each.can_be_set_aside)
        for each in tried.refusals
    }
    assert found == {
        ("value_violation", "age"): (1, [4], True),
        ("record_error", None): (1, [6], True),
        ("unique_violation", "id"): (1, [9], False),
        ("endpoint_missing", "src"): (1, [11], False),
        ("endpoint_missing", "dst"): (1, [10], False),
        ("cardinality_violation", "src"): (1, [14], False),
    }
    assert (tried.refusals[0].count, lines_of(tried.refusals[0].places)) == (2, [2, 3])
    assert (tried.is_dry_run, tried.commit) == (True, None)
    # Each of the 14 records counts once: the first `twice` is accepted, and two of the three that `b` knows.
    assert (tried.total_entities, tried.rejected) == (5, 9)
    assert by_type(tried) == {"node:Person": counts(inserted=2, updated=1), "edge:Knows": counts(inserted=2)}
    fine = graph.load(write("fine.jsonl", person("a", age=8), person("b")), mode="merge", dry_run=True, **engine)
    assert (by_type(fine), fine.refusals) == ({"node:Person": counts(updated=1, unchanged=1)}, ())
    assert graph.commits() == before
    assert graph.branches.list() == branches
    assert data_files(tmp_path / "graph") == files
    for options in ({"rejects": tmp_path / "aside.jsonl"}, {"once": "k"}):
        with pytest.raises(errors.UsageError, match="a dry run sets no records aside and uses no write key"):
            graph.load(hostile, mode="merge", dry_run=True, **options, **engine)
