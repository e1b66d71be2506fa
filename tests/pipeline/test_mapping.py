"""Columns under other names than the schema's: `map=`, map files, several types from one file, JSON and databases."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import RejectedRecords, UnreadableInput, UsageError

SCHEMA = """
node Port { code: String @key  name: String?  depth: F64?  tags: [String]?  berths: [I32]? }
node Voyage { number: I64 @key }
edge Calls: Voyage -> Port { day: Date? }
node Note { body: String? }
edge Has: Voyage -> Note
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA, durability="process")


def load(graph: og.Graph, path: Path, map: Any, **options: Any) -> og.types.LoadReceipt:
    return graph.load(path, mode="append", map=map, **({"engine": "local"} | options))


def entry(type: str, columns: dict[str, str], **others: object) -> dict[str, object]:
    return {"type": type, "columns": columns, **others}


def sources(file: str, *entries: dict[str, object]) -> dict[str, object]:
    return {"sources": [{"file": file, **each} for each in entries]}


def test_columns_have_the_names_that_a_map_gives(graph: og.Graph, tmp_path: Path, engine: dict[str, Any]) -> None:
    (tmp_path / "Port.csv").write_text("LOCODE,Port Name,depth\nNLRTM,Rotterdam,24.5\n")
    names = {"LOCODE": "code", "Port Name": "name"}
    load(graph, tmp_path / "Port.csv", names, **engine)
    assert graph.entity("Port", "NLRTM") == {
        "id": "NLRTM", "code": "NLRTM", "name": "Rotterdam", "depth": 24.5, "tags": None, "berths": None
    }  # fmt: skip
    pq.write_table(pa.table({"LOCODE": ["DEHAM"], "Port Name": ["Hamburg"]}), tmp_path / "Port.parquet")
    assert load(graph, tmp_path / "Port.parquet", names, **engine).total_entities == 1


def test_one_file_gives_several_types_and_keeps_what_is_not_named(
    graph: og.Graph, tmp_path: Path, engine: dict[str, Any]
) -> None:
    (tmp_path / "calls.csv").write_text(
        "no;port;port;day;kind;tags;berths;\n7;NLRTM;x;2026-11-01;call;a|b;1|2;\n7;;x;;drift;;;\n7;NLRTM;x;2026-11-02;call;;;\n"
    )
    calls = {"where": {"kind": ["call"]}, "delimiter": ";"}
    map = sources(
        "calls.csv",
        entry("Voyage", {"number": "no"}, distinct=True, delimiter=";"),
        entry(
            "Port",
            {"code": "port", "name": "port (2)", "tags": "tags", "berths": "berths"},
            separators={"tags": "|", "berths": "|"},
            distinct=True,
            **calls,
        ),
        entry("Calls", {"from": "no", "to": "port", "day": "day"}, skip_empty=["to"], **calls),
    )
    (tmp_path / "map.json").write_text(json.dumps(map))
    receipt = load(graph, tmp_path / "calls.csv", tmp_path / "map.json", **engine)
    assert receipt.loaded == {"node:Voyage": 1, "node:Port": 1, "edge:Calls": 2}
    port = graph.entity("Port", "NLRTM")
    assert port is not None
    assert (port["name"], port["tags"], port["berths"]) == ("x", ["a", "b"], [1, 2])


DOCUMENTS = [
    {"number": 1, "port": {"code": "A", "tags": ["x"]}, "notes": [{"body": "hi"}, {"body": 5}]},
    {"number": 2, "port": {"code": "A", "tags": ["x"]}, "notes": []},
]
DOCUMENT_MAP = sources(
    "voyages.json",
    entry("Voyage", {"number": "number"}),
    entry("Port", {"code": "code", "tags": "tags"}, at=["port"], distinct=True),
    entry("Calls", {"from": "number", "to": "port.code"}),
    entry("Note", {"id": "#", "body": "body"}, at=["notes[]"]),
    entry("Has", {"from": "../number", "to": "#"}, at=["notes[]"]),
)


@pytest.mark.parametrize(
    "text", [json.dumps(DOCUMENTS), json.dumps(DOCUMENTS, indent=2), "\n".join(map(json.dumps, DOCUMENTS))]
)
def test_nested_json_gives_types_and_edges(text: str, graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "voyages.json").write_text(text)
    receipt = load(graph, tmp_path / "voyages.json", DOCUMENT_MAP)
    expected = {"node:Voyage": 2, "node:Port": 1, "edge:Calls": 2, "node:Note": 2, "edge:Has": 2}
    assert receipt.loaded == expected
    assert graph.entity("Note", "1/notes/1") == {"id": "1/notes/1", "body": "5"}


@pytest.mark.parametrize("kind", ["sqlite", "duckdb"])
def test_tables_of_databases_are_loaded(kind: str, graph: og.Graph, tmp_path: Path) -> None:
    path = tmp_path / "shop.db"
    connection: Any = sqlite3.connect(path) if kind == "sqlite" else duckdb.connect(str(path))
    connection.execute("create table ports (locode varchar, depth double)")
    connection.execute("insert into ports values ('NLRTM', 24.5), ('DEHAM', null)")
    connection.commit()
    connection.close()
    load(graph, path, sources("shop.db", entry("Port", {"code": "locode", "depth": "depth"}, table="ports")))
    assert [(graph.entity("Port", code) or {})["depth"] for code in ("NLRTM", "DEHAM")] == [24.5, None]
    with pytest.raises(UnreadableInput, match=r"the database cannot be read: .*nothing"):
        load(graph, path, sources("shop.db", entry("Port", {"code": "locode"}, table="nothing")))


def test_a_rejected_row_is_named_by_its_file_and_line(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "ports.csv").write_text("LOCODE,depth\nA,1\nB,deep\n")
    with pytest.raises(RejectedRecords, match=r"ports\.csv:3: .*depth"):
        load(graph, tmp_path / "ports.csv", sources("ports.csv", entry("Port", {"code": "LOCODE", "depth": "depth"})))


@pytest.mark.parametrize(
    ("map", "message"),
    [
        ({"LOCODE": 5}, "has a name for each name"),
        ({"sources": [{"file": "Port.csv", "type": "Port"}]}, "has no columns"),
        ({"sources": [{"file": "Port.csv", "columns": {"code": "LOCODE"}}]}, "needs 'type'"),
        ({"sources": [{"file": "Port.csv", "type": "Nope", "columns": {"code": "LOCODE"}}]}, "no type 'Nope'"),
        ({"sources": [{"file": "P", "type": "Port", "columns": {"code": "x"}, "form": 1}]}, "unknown member 'form'"),
        ({"sources": [5]}, "an entry of 'sources' is an object"),
    ],
)
def test_a_map_that_makes_no_sense_is_refused(map: Any, message: str, graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "Port.csv").write_text("LOCODE\nA\n")
    with pytest.raises(UsageError, match=message):
        load(graph, tmp_path / "Port.csv", map)


def test_a_column_that_is_not_there_is_named(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "Port.csv").write_text("LOCODE\nA\n")
    with pytest.raises(UnreadableInput, match="no column 'UNLOCODE' for Port") as caught:
        load(graph, tmp_path / "Port.csv", sources("Port.csv", entry("Port", {"code": "UNLOCODE"})))
    assert caught.value.hint == "did you mean 'LOCODE'?"
    with pytest.raises(UnreadableInput) as caught:
        load(graph, tmp_path / "Port.csv", sources("Port.csv", entry("Port", {"code": "harbour"})))
    assert caught.value.hint == "the columns are: LOCODE"


@pytest.mark.parametrize("dry_run", [False, True])
@pytest.mark.parametrize(
    ("wrong", "message", "hint"),
    [
        (entry("Note", {"body": "body"}, at=["note[]"]), "no record has 'note'", "did you mean 'notes'?"),
        (entry("Note", {"body": "body"}, at=["port.nots"]), "no record has 'nots'", "there are: code, tags"),
        (entry("Note", {"body": "bdy"}, at=["notes[]"]), "no record has 'bdy'", "did you mean 'body'?"),
        (entry("Voyage", {"number": "numbre"}), "no record has 'numbre'", "did you mean 'number'?"),
        (entry("Note", {"body": "body"}, at=["notes[]"], where={"kin": ["x"]}), "no record has 'kin'", "there are: "),
    ],
)
def test_an_entry_that_matches_nothing_is_refused(
    wrong: dict[str, object], message: str, hint: str, dry_run: bool, graph: og.Graph, tmp_path: Path
) -> None:
    (tmp_path / "voyages.json").write_text(json.dumps(DOCUMENTS))
    with pytest.raises(UnreadableInput, match=message) as caught:
        load(graph, tmp_path / "voyages.json", sources("voyages.json", wrong), dry_run=dry_run)
    assert str(caught.value.hint).startswith(hint)


def test_lists_without_items_and_objects_that_are_null_match(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "voyages.json").write_text('[{"number": 1, "port": null, "notes": []}]')
    map = sources(
        "voyages.json",
        entry("Voyage", {"number": "number"}),
        entry("Note", {"body": "body"}, at=["notes[]"]),
        entry("Calls", {"from": "number", "to": "port.code"}, skip_empty=["to"]),
    )
    assert load(graph, tmp_path / "voyages.json", map).loaded == {"node:Voyage": 1}


def test_lists_of_plain_values_are_read(graph: og.Graph, tmp_path: Path) -> None:
    documents = [{"number": 1, "ports": ["A", 7, None]}, {"number": 2, "ports": []}]
    (tmp_path / "voyages.json").write_text(json.dumps(documents))
    map = sources(
        "voyages.json",
        entry("Voyage", {"number": "number"}),
        entry("Port", {"code": "."}, at=["ports[]"]),
        entry("Calls", {"from": "../number", "to": "."}, at=["ports[]"]),
    )
    assert load(graph, tmp_path / "voyages.json", map).loaded == {"node:Voyage": 2, "node:Port": 2, "edge:Calls": 2}
    assert graph.entity("Port", "7") is not None


def test_a_load_under_another_map_is_another_load(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "Port.csv").write_text("LOCODE,other\nA,B\n")
    first = load(graph, tmp_path / "Port.csv", {"LOCODE": "code", "other": "name"}, once="ports")
    again = load(graph, tmp_path / "Port.csv", {"LOCODE": "code", "other": "name"}, once="ports")
    assert (first.repeated, again.repeated) == (False, True)
    with pytest.raises(og.errors.WriteKeyReused):
        load(graph, tmp_path / "Port.csv", {"LOCODE": "name", "other": "code"}, once="ports")
