"""What a load does: modes, formats, receipts. The same on Spark and in process."""

from __future__ import annotations

import datetime as dt
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.conftest import SCHEMA, Write, content, knows, person

import omnigraph as og
from omnigraph.api.history import CommitJson
from omnigraph.api.writes import LoadJson
from omnigraph.errors import AlreadyExists, BranchNotFound, CommitNotFound, UsageError

FIRST = [
    person("a", age=1, tier="pro", tags=["x", "y"], vec=[1, 2.5], photo="base64:aGk=", joined="2026-01-02T03:04:05Z"),
    person("b", born="2020-02-29", big=2**64 - 1, score=0.1, small=0.1, active=True, handle="bee"),
    knows("a", "b", id="e1", weight=0.5, since="2020-01-01"),
]
SECOND = [person("b", age=50), person("c", age=7), knows("c", "a", id="e2"), knows("b", "a", id="e1")]


def inserted(count: int) -> dict[str, int]:
    return {"inserted": count, "updated": 0, "unchanged": 0, "deleted": 0}


def write_format(folder: Path, name: str, records: list[dict[str, Any]], format: str) -> Any:
    """The records as a source of this format."""
    if format == "jsonl":
        path = folder / f"{name}.jsonl"
        path.write_text("".join(json.dumps(record) + "\n" for record in records))
        return str(path)
    people = [record["data"] for record in records if "type" in record]
    edges = [{"from": r["from"], "to": r["to"], **r["data"]} for r in records if "edge" in r]
    if format == "frames":
        return {"Person": _typed(people), "Knows": _typed(edges).to_pandas()}
    target = folder / name
    target.mkdir()
    for type_name, rows in (("Person", people), ("Knows", edges)):
        if format == "parquet":
            pq.write_table(_typed(rows), target / f"{type_name}.parquet")
        else:
            _write_csv(target / f"{type_name}.csv", rows)
    return str(target)


def _typed(rows: list[dict[str, Any]]) -> pa.Table:
    """Columns as a typed source has them: dates, instants and bytes are no text there."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    values = {name: [row.get(name) for row in rows] for name in names}
    for name, convert in {
        "joined": lambda text: dt.datetime.fromisoformat(text),
        "born": dt.date.fromisoformat,
        "since": dt.date.fromisoformat,
        "photo": lambda _: b"hi",
    }.items():
        if name in values:
            values[name] = [None if value is None else convert(value) for value in values[name]]
    types = {"big": pa.uint64(), "age": pa.int64()}
    return pa.table({name: pa.array(column, types.get(name)) for name, column in values.items()})


def _write_csv(path: Path, rows: list[dict[str, Any]]) -> None:
    names = list(dict.fromkeys(name for row in rows for name in row))
    lines = [",".join(names)]
    for row in rows:
        cells = []
        for name in names:
            value = row.get(name)
            text = "" if value is None else value if isinstance(value, str) else json.dumps(value)
            cells.append('"' + text.replace('"', '""') + '"' if "," in text or '"' in text else text)
        lines.append(",".join(cells))
    path.write_text("\n".join(lines) + "\n")


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet", "frames"])
def test_every_mode_and_format(format: str, graph: og.Graph, engine: dict[str, Any], tmp_path: Path) -> None:
    receipt = graph.load(write_format(tmp_path, "first", FIRST, format), mode="append", actor="ada", **engine)
    told = LoadJson.to_json(receipt, uri="somewhere")
    assert (told.pop("engine"), told.pop("seconds")) == (receipt.engine, round(receipt.seconds or 0, 3))
    assert all(stage["tasks"] for stage in told.pop("stages", []))
    assert told == {
        "uri": "somewhere",
        "branch": "main",
        "branch_created": False,
        "mode": "append",
        "nodes": [{"name": "Person", "entities_loaded": 2, **inserted(2)}],
        "edges": [{"name": "Knows", "entities_loaded": 1, **inserted(1)}],
        "total_entities": 3,
        **inserted(3),
        "actor_id": "ada",
        "commit": CommitJson.to_json(graph.head()),
    }
    a = {"id": "a", "email": "a", "age": 1, "tier": "pro", "tags": ["x", "y"], "vec": [1.0, 2.5]}
    a |= {"photo": "base64:aGk=", "joined": "2026-01-02T03:04:05.000Z"}
    b = {
        "id": "b",
        "email": "b",
        "handle": "bee",
        "born": "2020-02-29",
        "big": str(2**64 - 1),
        "score": 0.1,
        "active": True,
    }
    b["small"] = pytest.approx(0.1)
    e1 = {"id": "e1", "weight": 0.5, "since": "2020-01-01"}
    assert content(graph, tmp_path) == [
        {"edge": "Knows", "from": "a", "to": "b", "data": e1},
        {"type": "Person", "data": a},
        {"type": "Person", "data": b},
    ]

    graph.load(write_format(tmp_path, "second", SECOND, format), mode="merge", **engine)
    c = {"id": "c", "email": "c", "age": 7}
    assert content(graph, tmp_path) == [
        {"edge": "Knows", "from": "b", "to": "a", "data": {"id": "e1"}},
        {"edge": "Knows", "from": "c", "to": "a", "data": {"id": "e2"}},
        {"type": "Person", "data": a},
        {"type": "Person", "data": {"id": "b", "email": "b", "age": 50}},
        {"type": "Person", "data": c},
    ]

    third = [person("z", age=9), knows("z", "z", id="e9")]
    graph.load(write_format(tmp_path, "third", third, format), mode="overwrite", message="all new", **engine)
    assert content(graph, tmp_path) == [
        {"edge": "Knows", "from": "z", "to": "z", "data": {"id": "e9"}},
        {"type": "Person", "data": {"id": "z", "email": "z", "age": 9}},
    ]
    assert [commit.kind for commit in graph.commits()] == ["load", "load", "load", "init"]
    assert graph.commits()[0].message == "all new"


@pytest.mark.spark
def test_spark_frames_load_without_leaving_spark(graph: og.Graph, spark: Any, tmp_path: Path) -> None:
    people = spark.createDataFrame([("a", 1), ("b", None), ("c", 3)], "email string, age int").repartition(3)
    edges = spark.createDataFrame([("a", "b"), ("b", "c")], "src string, dst string")
    receipt = graph.load({"Person": people, "Knows": edges}, mode="append", engine=spark)
    assert receipt.loaded == {"node:Person": 3, "edge:Knows": 2}
    rows = [record["data"] for record in content(graph, tmp_path) if "type" in record]
    assert rows == [{"id": "a", "email": "a", "age": 1}, {"id": "b", "email": "b"}, {"id": "c", "email": "c", "age": 3}]


def test_overwrite_leaves_other_types_alone(
    graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    graph.load(
        write("all.jsonl", person("a"), {"type": "Note", "data": {"id": "n1", "text": "x"}}), mode="append", **engine
    )
    graph.load(write("people.jsonl", person("b")), mode="overwrite", **engine)
    assert content(graph, tmp_path) == [
        {"type": "Note", "data": {"id": "n1", "text": "x", "stars": 3}},
        {"type": "Person", "data": {"id": "b", "email": "b"}},
    ]


def test_many_files_folders_and_globs_are_one_commit(graph: og.Graph, write: Write, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for number in range(5):
        write(f"in/p{number}.jsonl", person(f"p{number}"))
    assert graph.load(tmp_path / "in", mode="append", engine="local").total_entities == 5
    graph.branches.create("empty", "main~1")
    for sources, people in (
        (f"{tmp_path}/in/p[12].jsonl", 2),
        ([f"{tmp_path}/in/p0.jsonl", f"{tmp_path}/in/p3.jsonl"], 2),
    ):
        assert graph.load(sources, mode="append", engine="local", branch="empty").total_entities == people
    assert len(graph.commits()) == 2
    assert len(graph.commits("empty")) == 3


def test_type_and_format_may_be_given(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "people.txt").write_text("email\na\n")
    assert (
        graph.load(tmp_path / "people.txt", mode="append", engine="local", format="csv", type="Person").total_entities
        == 1
    )


def test_an_empty_source_commits_nothing(graph: og.Graph, write: Write) -> None:
    receipt = graph.load(write("empty.jsonl"), mode="append", engine="local")
    assert receipt.commit is None
    assert "commit" not in LoadJson.to_json(receipt, uri="x")
    assert len(graph.commits()) == 1


def test_text_that_is_not_ascii_and_windows_lines(graph: og.Graph, tmp_path: Path) -> None:
    line = json.dumps(person("größe", handle="日本"), ensure_ascii=False).encode()
    (tmp_path / "p.jsonl").write_bytes(
        b"\xef\xbb\xbf" + line + b"\r\n\r\n" + line.replace(b"gr", b"Gr").replace(b"\xe6\x97\xa5", b"x")
    )
    graph.load(tmp_path / "p.jsonl", mode="append", engine="local")
    assert [record["data"]["id"] for record in content(graph, tmp_path)] == ["Größe", "größe"]


def test_a_load_into_a_branch_leaves_main(graph: og.Graph, write: Write) -> None:
    receipt = graph.load(write("p.jsonl", person("a")), mode="append", branch="review", from_="main", engine="local")
    assert LoadJson.to_json(receipt, uri="x")["branch_created"] is True
    assert LoadJson.to_json(receipt, uri="x")["base_branch"] == "main"
    assert graph._repository.head()[1].rows("node:Person") == 0
    again = graph.load(write("q.jsonl", person("b")), mode="append", branch="review", from_="main", engine="local")
    assert (again.branch_created, again.base_branch) == (False, None)
    assert graph._repository.head("review")[1].rows("node:Person") == 2
    with pytest.raises(BranchNotFound, match="'nowhere' does not exist"):
        graph.load(write("p.jsonl", person("a")), mode="append", branch="nowhere", engine="local")
    with pytest.raises(CommitNotFound):
        graph.load(write("p.jsonl", person("a")), mode="append", branch="other", from_="nowhere", engine="local")


def test_a_load_makes_its_branch_from_any_revision(graph: og.Graph, write: Write) -> None:
    for name in ("a", "b", "c"):
        graph.load(write("p.jsonl", person(name)), mode="append", engine="local")
    graph.tags.create("v1", "main~1")
    for branch, revision, rows in (("x", "main~2", 2), ("y", "v1", 3), ("z", graph.commits()[0].id, 4)):
        receipt = graph.load(
            write("p.jsonl", person("d")), mode="append", branch=branch, from_=revision, engine="local"
        )
        assert receipt.base_branch == revision
        assert graph._repository.head(branch)[1].rows("node:Person") == rows


def test_a_load_that_wants_a_new_branch(graph: og.Graph, write: Write) -> None:
    source = write("p.jsonl", person("a"))
    with pytest.raises(UsageError, match="a new branch needs a revision to start from"):
        graph.load(source, mode="append", branch="review", new_branch=True, engine="local")
    receipt = graph.load(source, mode="append", branch="review", from_="main", new_branch=True, engine="local")
    assert receipt.branch_created
    for branch in ("review", "main"):
        with pytest.raises((AlreadyExists, UsageError)):
            graph.load(source, mode="append", branch=branch, from_="main", new_branch=True, engine="local")
    graph.tags.create("v1")
    with pytest.raises(AlreadyExists, match="'v1' is a tag"):
        graph.load(source, mode="append", branch="v1", from_="main", engine="local")
    assert [branch.name for branch in graph.branches.list()] == ["main", "review"]


def test_a_load_without_rows_makes_the_branch_all_the_same(graph: og.Graph, write: Write) -> None:
    receipt = graph.load(write("empty.jsonl"), mode="append", branch="review", from_="main", engine="local")
    assert (receipt.commit, receipt.branch_created, receipt.base_branch) == (None, True, "main")
    assert graph.branches.exists("review")
    assert not graph.load(
        write("empty.jsonl"), mode="append", branch="review", from_="main", engine="local"
    ).branch_created


def test_wrong_calls_are_named(graph: og.Graph, write: Write, tmp_path: Path) -> None:
    source = write("p.jsonl", person("a"))
    (tmp_path / "Unknown.csv").write_text("a\n1\n")
    (tmp_path / "p.xyz").write_text("")
    for sources, options, said in [
        (source, {"mode": "upsert"}, "'upsert' is not a load mode"),
        (source, {"mode": "append", "engine": "ray"}, "'ray' is not an engine"),
        (source, {"mode": "append", "format": "xml"}, "'xml' is read by Spark, and the engine is local"),
        (source, {"mode": "append", "type": "Person"}, "records of JSON lines name their types themselves"),
        (
            tmp_path / "Unknown.csv",
            {"mode": "append"},
            f"'{tmp_path}/Unknown.csv' is not named after a type of the schema",
        ),
        (tmp_path / "p.xyz", {"mode": "append"}, f"the format of '{tmp_path}/p.xyz' is not known"),
        (tmp_path / "none*.csv", {"mode": "append"}, f"there is nothing to load at '{tmp_path}/none*.csv'"),
        ({"Person": 3}, {"mode": "append"}, "expected a DataFrame for Person, got int"),
    ]:
        with pytest.raises(UsageError) as caught:
            graph.load(sources, **{"engine": "local", **options})
        assert caught.value.message == said


@pytest.mark.usefixtures("staged_loads")
def test_large_loads_build_their_indexes_in_the_same_commit(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch, write: Write
) -> None:
    from omnigraph.indexing.indexes import index_state
    from omnigraph.load import assembly

    graph.load(write("p.jsonl", *(person(f"p{number}") for number in range(30))), mode="append", engine="local")
    assert {state.covered_rows for state in index_state(graph._repository.head()[1], ["node:Person"])} == {0}
    monkeypatch.setattr(assembly, "MIN_INDEX_ROWS", 10)
    graph.load(write("q.jsonl", *(person(f"p{number}", age=1) for number in range(30))), mode="merge", engine="local")
    assert len(graph.commits()) == 3
    assert all(state.is_complete for state in index_state(graph._repository.head()[1], ["node:Person"]))


def test_edges_lie_by_their_source_within_a_part(graph: og.Graph, write: Write) -> None:
    cities = [{"type": "City", "data": {"country": "x", "name": name}} for name in "pqr"]
    ends = [(person, city) for city in "pqr" for person in "cab"]
    homes = [{"edge": "LivesIn", "from": a, "to": f'["x","{b}"]', "data": {"id": f"{a}{b}"}} for a, b in ends]
    graph.load(write("p.jsonl", *(person(name) for name in "abc"), *cities, *homes), mode="append", engine="local")
    table = graph._repository.head()[1].table("edge:LivesIn")
    assert table is not None
    assert "".join(table.read(["id"]).column("id").to_pylist()) == "apaqarbpbqbrcpcqcr"


def test_many_small_parts_are_packed(
    graph: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    from omnigraph.load import inputs

    monkeypatch.setattr(inputs, "MIN_SPLIT_BYTES", 500)
    monkeypatch.setattr(inputs, "MAX_SPLIT_BYTES", 500)
    records = [
        record for number in range(100) for record in (person(f"p{number}"), {"type": "Note", "data": {"text": "x"}})
    ]
    graph.load(write("p.jsonl", *records), mode="append", engine="local")
    view = graph._repository.head()[1]
    for key in ("node:Person", "node:Note"):
        table = view.table(key)
        assert table is not None
        assert [fragment.rows for fragment in table.fragments] == [100]
    assert len(content(graph, tmp_path)) == 200


@pytest.mark.s3
def test_sources_and_graph_on_an_object_store(s3: Any, tmp_path: Path) -> None:
    from omnigraph.storage.options import open_store

    bucket = s3.new_bucket()
    store = open_store(f"s3://{bucket}/in", storage_options=s3.options)
    store.put("people/a.jsonl", "".join(json.dumps(record) + "\n" for record in FIRST).encode())
    store.put("people/b.jsonl", json.dumps(person("zz")).encode())
    store.put("csv/Person.csv", b"email,age\nc1,4\n")
    sink = pa.BufferOutputStream()
    pq.write_table(pa.table({"email": ["q1"]}), sink)
    store.put("pq/Person.parquet", sink.getvalue().to_pybytes())
    graph = og.init(f"s3://{bucket}/graph", schema=SCHEMA, storage_options=s3.options)
    load = {"mode": "append", "engine": "local"}
    assert graph.load(f"s3://{bucket}/in/people", **load).total_entities == 4
    assert graph.load(f"s3://{bucket}/in/csv/*.csv", **load).total_entities == 1
    assert graph.load(f"s3://{bucket}/in/pq/Person.parquet", **load).total_entities == 1
    with pytest.raises(UsageError, match="nothing to load"):
        graph.load(f"s3://{bucket}/in/none.jsonl", **load)
    assert len(content(graph, tmp_path)) == 6
