"""Everything a load refuses, with the exact words and the line. The same on Spark and in process."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pipeline.conftest import Write, content, knows, person

import omnigraph as og
from omnigraph import errors
from omnigraph.load import checks, keyed_rows

NOT_JSON = "not valid JSON: Expecting property name enclosed in double quotes at column 2"
RECORDS: list[tuple[Any, str]] = [
    ("{bad", NOT_JSON),
    ("null", "a record must be a JSON object"),
    ("[1]", "a record must be a JSON object"),
    ('{"type":"Person","data":{"email":"a"}}{"type":"Person"}', "not valid JSON: Extra data at column 39"),
    ('{"type":"Person","type":"Person","data":{"email":"a"}}', "duplicate member 'type'"),
    ('{"type":"Person","data":{"email":"a","email":"b"}}', "duplicate member 'email'"),
    ('{"type":"Person","data":{"email":"a","tags":["x"],"vec":[NaN,1]}}', "not valid JSON: NaN is not a number"),
    ('{"type":"Person","data":{"email":"a","score":1e999}}', "number 1e999 is out of range"),
    ('{"type":"Person","data":{"email":"\\ud800"}}', "a text contains half of a surrogate pair"),
    ({"type": "Person", "data": {"email": "a"}, "extra": 1}, "unknown member 'extra'"),
    ({"data": {}}, "a record needs exactly one of 'type' and 'edge'"),
    ({"type": "Person", "edge": "Knows", "data": {}}, "a record needs exactly one of 'type' and 'edge'"),
    ({"type": "Persons", "data": {}}, "unknown node type 'Persons'"),
    ({"edge": "knows", "from": "a", "to": "b"}, "unknown edge type 'knows'"),
    (
        {"type": "Knows", "from": "a", "to": "b", "data": {}},
        "Knows is an edge type: its records have 'edge', not 'type'",
    ),
    ({"edge": "Person", "data": {}}, "Person is a node type: its records have 'type', not 'edge'"),
    ({"type": 3, "data": {}}, "'type' must be the name of a type"),
    ({"type": "Person", "data": []}, "'data' must be an object"),
    ({"type": "Person", "data": None}, "'data' must be an object"),
    ({"type": "Person", "from": "a", "data": {"email": "a"}}, "'from' is for edges only"),
    ({"edge": "Knows", "to": "b"}, "Knows needs 'from', the id of a node; got null"),
    ({"edge": "Knows", "from": "a", "to": ""}, "Knows needs 'to', the id of a node; got ''"),
    (knows("a", "b", src="x"), "'src' is reserved and cannot be given"),
    (person("a", _rowid=1), "'_rowid' is reserved and cannot be given"),
    (person("a", nope=1), "unknown property 'nope' on Person"),
    (person("a", id="other"), "id 'other' of Person does not match its key: expected 'a'"),
    (person("a", id=5), "id of Person expects String, got 5"),
    (person("a", age="5"), "Person.age expects I32, got '5'"),
    (person("a", age=5.5), "Person.age expects I32, got 5.5"),
    (person("a", age=2**31), f"Person.age expects I32 (-2147483648 to 2147483647), got {2**31}"),
    (person("a", big=-1), "Person.big expects U64 (0 to 18446744073709551615), got -1"),
    (person("a", handle=7), "Person.handle expects String, got 7"),
    (person("a", active=1), "Person.active expects Bool, got 1"),
    (person("a", score=True), "Person.score expects a number, got true"),
    (person("a", small=1e39), "Person.small expects F32, got 1e+39"),
    (person("a", tags=["x", None]), "Person.tags expects a list without nulls"),
    (person("a", tags="x"), "Person.tags expects a list, got 'x'"),
    (person("a", vec=[1]), "Person.vec expects Vector(2), got 1 numbers"),
    (person("a", born="2026-02-30"), "Person.born: invalid Date literal '2026-02-30': there is no such day"),
    (person("a", born=2**31), f"Person.born: Date value out of range: {2**31}"),
    (
        person("a", joined="yesterday"),
        "Person.joined: invalid DateTime literal 'yesterday': an instant is written YYYY-MM-DDTHH:MM:SS with Z or an offset",
    ),
    (person("a", photo="http://x"), "Person.photo expects Blob as 'base64:...'; external addresses are not allowed"),
    ({"type": "Person", "data": {"age": 1}}, "key property Person.email is missing"),
    (person("a", age=-1), "@range violation on Person.age: value -1 < min 0"),
    (person("a", age=151), "@range violation on Person.age: value 151 > max 150"),
    (person("a", tier="gold"), "invalid enum value 'gold' for Person.tier (expected: free, pro)"),
    (person("a b"), "@check violation on Person.email: value 'a b' does not match pattern '^[^ ]+$'"),
    ({"type": "Note", "data": {}}, "required property Note.text is missing"),
    ({"type": "Note", "data": {"text": None}}, "required property Note.text is missing"),
]


def test_every_record_that_cannot_be_written_is_named_with_its_line(
    graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    lines: list[Any] = []
    expected = []
    for number, (record, reason) in enumerate(RECORDS):
        lines += [person(f"good{number}", age=number), "", record]
        expected.append((len(lines), reason))
    source = write("bad.jsonl", *lines)
    with pytest.raises(errors.RejectedRecords) as caught:
        graph.load(source, mode="append", **engine)
    error = caught.value
    assert error.total == len(RECORDS)
    assert error.message == f"{len(RECORDS)} records were rejected; the first: {source}:3: {NOT_JSON}"
    assert [(one["file"], one["line"], one["reason"]) for one in error.rejects] == [
        (source, line, reason) for line, reason in expected[:100]
    ]
    assert len(graph.commits()) == 1

    aside = tmp_path / "rejects.jsonl"
    receipt = graph.load(source, mode="append", rejects=aside, **engine)
    told = [json.loads(line) for line in aside.read_text().splitlines()]
    assert [(one["line"], one["reason"]) for one in told] == expected
    assert told[0] == {"file": source, "line": 3, "reason": NOT_JSON, "code": "record_error", "record": "{bad"}
    assert receipt.rejected == len(RECORDS)
    assert receipt.total_entities == len(RECORDS) == len(content(graph, tmp_path))
    assert not list((tmp_path / "graph" / "staging").rglob("*.jsonl"))


Setup = [person("a", handle="ah"), person("b"), knows("a", "b", id="e1")]
CASES: dict[str, tuple[str, list[Any], type[errors.OmnigraphError], str, int | None]] = {
    "an id twice in the batch": (
        "append", [person("c"), person("d"), person("c")],
        errors.UniqueViolation, "duplicate id 'c' for Person in one batch", 3,
    ),
    "an id twice in a merge": (
        "merge", [person("c"), person("c", age=2)],
        errors.UniqueViolation, "duplicate id 'c' for Person in one batch", 2,
    ),
    "an id that is there": ("append", [person("c"), person("a")], errors.KeyConflict, "Person 'a' already exists", None),
    "an edge id that is there": (
        "append", [knows("b", "a", id="e1")], errors.KeyConflict, "Knows 'e1' already exists", None,
    ),
    "a unique value twice": (
        "append", [person("c", handle="x"), person("d"), person("e", handle="x")],
        errors.UniqueViolation, "@unique violation on Person.handle: value 'x' held by 'c' and 'e'", 3,
    ),
    "a unique value that is held": (
        "append", [person("d"), person("c", handle="ah")],
        errors.UniqueViolation, "@unique violation on Person.handle: value 'ah' held by 'a' and 'c'", 2,
    ),
    "a unique pair of ends": (
        "append", [knows("a", "b", id="e2")],
        errors.UniqueViolation, "@unique violation on Knows.src, dst: value 'a, b' held by 'e1' and 'e2'", 1,
    ),
    "a source that is no node": (
        "append", [person("c"), knows("zz", "a")], errors.EndpointMissing, "from 'zz' not found in Person", 2,
    ),
    "a target that is no node": (
        "merge", [knows("a", "c"), person("c"), knows("a", "zz")],
        errors.EndpointMissing, "to 'zz' not found in Person", 3,
    ),
    "a target of another type": (
        "append", [{"edge": "LivesIn", "from": "a", "to": "b"}],
        errors.EndpointMissing, "to 'b' not found in City", 1,
    ),
    "too many edges": (
        "append", [person("c"), person("d"), knows("a", "c"), knows("a", "d")],
        errors.CardinalityViolation, "@card violation on edge Knows: source 'a' has 3 edges (max 2)", 4,
    ),
    "a node that edges still need": (
        "overwrite", [person("b")], errors.EndpointMissing,
        "from 'a' not found in Person: edge Knows 'e1' still points to it", None,
    ),
    "new edges against the new nodes": (
        "overwrite", [person("c"), knows("c", "a")], errors.EndpointMissing, "to 'a' not found in Person", 2,
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_a_broken_rule_between_records(
    case: str, graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path
) -> None:
    check_case(case, graph, write, engine, tmp_path)


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("way", ["buckets", "lookups"])
def test_a_broken_rule_is_found_in_buckets_and_through_lookups(
    case: str, way: str, graph: og.Graph, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As in large loads: a table checked bucket by bucket, and a small load into a table much larger."""
    if way == "buckets":
        monkeypatch.setattr(checks, "BUCKET_ROWS", 1)
        monkeypatch.setattr(keyed_rows, "MAX_LOOKUP", 0)
    else:
        monkeypatch.setattr(keyed_rows, "LOOKUP_FACTOR", 0)
    check_case(case, graph, write, {"engine": "local"}, tmp_path)


def check_case(case: str, graph: og.Graph, write: Write, engine: dict[str, Any], tmp_path: Path) -> None:
    mode, records, kind, message, line = CASES[case]
    graph.load(write("setup.jsonl", *Setup), mode="append", engine="local")
    before = content(graph, tmp_path)
    source = write("bad.jsonl", *records)
    with pytest.raises(kind) as caught:
        graph.load(source, mode=mode, **engine)  # type: ignore[arg-type]
    assert type(caught.value) is kind
    assert caught.value.message == message
    if isinstance(caught.value, errors.InputError):
        assert caught.value.line == line
        assert caught.value.file == (source if line else None)
    else:
        assert (
            caught.value.hint == f"{source}:{len(records)}; use an upsert (`upsert`, or load mode merge) to replace it"
        )
    assert content(graph, tmp_path) == before
    assert len(graph.commits()) == 2
    assert graph.recovery.list() == []


def test_what_looks_broken_but_is_not(graph: og.Graph, write: Write, engine: dict[str, Any]) -> None:
    """A merge that moves a unique value, swaps one, and replaces an edge of a full source."""
    graph.load(
        write("setup.jsonl", *Setup, person("c", handle="sea"), knows("a", "c", id="e2")), mode="append", engine="local"
    )
    moved = [person("a", handle="sea"), person("c", handle="ah"), knows("a", "a", id="e2")]
    assert graph.load(write("moved.jsonl", *moved), mode="merge", **engine).total_entities == 3


def test_rows_of_csv_and_parquet_are_named_by_line(graph: og.Graph, engine: dict[str, Any], tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    csv = tmp_path / "Person.csv"
    csv.write_text('email,age,handle\na,1,"two\nlines"\nb,x,\n\nc,1\nd,200,\ne,,\n')
    with pytest.raises(errors.RejectedRecords) as caught:
        graph.load(csv, mode="append", **engine)
    assert [(one["line"], one["reason"]) for one in caught.value.rejects] == [
        (4, "Person.age expects I32, got 'x'"),
        (6, "expected 3 cells, got 2"),
        (7, "@range violation on Person.age: value 200 > max 150"),
    ]
    parquet = tmp_path / "Person.parquet"
    pq.write_table(pa.table({"email": ["a", "b", None], "age": [1.5, 2.0, 3.0]}), parquet)
    with pytest.raises(errors.RejectedRecords) as caught:
        graph.load(parquet, mode="append", **engine)
    assert [(one["line"], one["reason"]) for one in caught.value.rejects] == [
        (1, "Person.age expects I32, got 1.5"),
        (3, "key property Person.email is missing"),
    ]


def test_lines_are_counted_across_the_splits_of_a_file(
    graph: og.Graph, write: Write, engine: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    from omnigraph.load import inputs

    monkeypatch.setattr(inputs, "MIN_SPLIT_BYTES", 1_000)
    monkeypatch.setattr(inputs, "MAX_SPLIT_BYTES", 1_000)
    records: list[Any] = [person(f"p{number}") for number in range(200)]
    records[150] = person("p150", age=-5)
    with pytest.raises(errors.RejectedRecords) as caught:
        graph.load(write("p.jsonl", *records), mode="append", **engine)
    assert [one["line"] for one in caught.value.rejects] == [151]
    records[150] = person("p7")
    with pytest.raises(errors.UniqueViolation) as twice:
        graph.load(write("p.jsonl", *records), mode="append", **engine)
    assert twice.value.line == 151


@pytest.mark.parametrize("bad", [2, 5, 11])
def test_an_edge_is_named_by_its_line_though_edges_are_written_in_another_order(
    bad: int, graph: og.Graph, write: Write, tmp_path: Path
) -> None:
    """Edges are written by source and target, and ids that the load makes are handed out in that order."""
    city = {"type": "City", "data": {"name": "X", "country": "CH"}}
    graph.load(write("nodes.jsonl", person("a"), person("b"), city), mode="append", engine="local")
    [id] = [record["data"]["id"] for record in content(graph, tmp_path) if record["type"] == "City"]
    edges = [{"edge": "LivesIn", "from": "ba"[number % 2], "to": id} for number in range(12)]
    edges[bad]["to"] = "nowhere"
    with pytest.raises(errors.EndpointMissing) as caught:
        graph.load(write("edges.jsonl", *edges), mode="append", engine="local")
    assert caught.value.line == bad + 1
    edges[bad]["to"] = id
    graph.load(write("edges.jsonl", *edges), mode="append", engine="local")
    table = graph._repository.head()[1].table("edge:LivesIn")
    assert table is not None
    rows = table.read(["src", "id"])
    assert rows.equals(rows.sort_by([("src", "ascending"), ("id", "ascending")]))
    assert rows.column("id").to_pylist() == sorted(rows.column("id").to_pylist())
