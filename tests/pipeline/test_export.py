"""What comes out goes in again: export at any snapshot, in every format, on both engines."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest
from pipeline.conftest import SCHEMA, Write, content, knows, person

import omnigraph as og
from omnigraph.errors import AlreadyExists, UsageError
from omnigraph.export import ranges
from omnigraph.spark import frames

RECORDS = [
    person("b", age=1, tier="pro", tags=[], vec=[1, 2.5], photo="base64:", joined=1767323045123, handle=""),
    person("a", born="1969-12-31", big=2**64 - 1, score=-0.0, small=0.1, active=False, tags=["x,\"y'", "é\n"]),
    person('q"u,o\nte', score=1e300),
    {"type": "Note", "data": {"id": "n1", "text": "two\r\nlines", "stars": -(2**63)}},
    {"type": "City", "data": {"name": "Paris", "country": "FR"}},
    knows("a", "b", id="e2", weight=0.1, since=-1),
    knows("b", "a", id="e1"),
    {"edge": "LivesIn", "from": "a", "to": '["Paris","FR"]', "data": {"id": "l1"}},
]


@pytest.fixture
def full(graph: og.Graph, write: Write) -> og.Graph:
    city = graph.schema.catalog.nodes["City"].key
    at = json.dumps([{"name": "Paris", "country": "FR"}[name] for name in city], separators=(",", ":"))
    records = [{**record, "to": at} if record.get("edge") == "LivesIn" else record for record in RECORDS]
    graph.load(write("all.jsonl", *records), mode="append", engine="local")
    return graph


def test_types_and_rows_come_in_order(full: og.Graph, tmp_path: Path) -> None:
    exported = content(full, tmp_path)
    assert [record.get("edge") or record["type"] for record in exported] == [
        "Knows", "Knows", "LivesIn", "City", "Note", "Person", "Person", "Person",
    ]  # fmt: skip
    assert [record["data"]["id"] for record in exported if record.get("type") == "Person"] == ["a", "b", 'q"u,o\nte']
    assert exported[0] == {"edge": "Knows", "from": "b", "to": "a", "data": {"id": "e1"}}
    assert exported[1]["data"] == {"id": "e2", "weight": 0.1, "since": "1969-12-31"}


@pytest.mark.parametrize("format", ["jsonl", "csv", "parquet"])
def test_export_then_load_gives_an_equal_graph(
    format: str, full: og.Graph, engine: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ranges, "ROWS_PER_RANGE", 2)  # so that a type has several ranges
    target = tmp_path / ("out.jsonl" if format == "jsonl" else "out")
    assert full.export(target, format=format, **engine) == len(RECORDS)  # type: ignore[arg-type]
    copy = og.init(tmp_path / "copy", schema=SCHEMA, durability="process")
    copy.load(target, mode="append", engine="local")
    assert content(copy, tmp_path) == content(full, tmp_path)
    assert not list((tmp_path / "graph" / "staging").rglob("*")) or not any(
        path.is_file() for path in (tmp_path / "graph" / "staging").rglob("*")
    )


@pytest.mark.spark
@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_spark_writes_a_folder_of_files_for_each_type(
    format: Any, full: og.Graph, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    full.mutate('query n() { insert Note { id: "n2", text: "later" } }')
    monkeypatch.setattr(frames, "GROUP_ROWS", 1)
    (tmp_path / "out").mkdir()
    assert full.export(tmp_path / "out", format=format, engine=spark) == len(RECORDS) + 1
    files = {path.relative_to(tmp_path / "out").parts[0]: path.name for path in (tmp_path / "out").rglob("*.*")}
    assert sorted(files) == ["City", "Knows", "LivesIn", "Note", "Person"]
    assert all(name.startswith("part-000") for name in files.values())
    with pytest.raises(AlreadyExists, match="Knows/part-00000"):
        full.export(tmp_path / "out", format=format, engine=spark)
    assert full.export(tmp_path / "out", format=format, engine=spark, overwrite=True) == len(RECORDS) + 1
    copy = og.init(tmp_path / "copy", schema=SCHEMA, durability="process")
    copy.load(tmp_path / "out", mode="append", engine="local")
    assert content(copy, tmp_path) == content(full, tmp_path)


def test_some_types_at_an_older_snapshot_to_a_stream(full: og.Graph, write: Write) -> None:
    full.load(write("more.jsonl", person("zz")), mode="append", engine="local")
    out = io.BytesIO()
    assert full.export(out, types=["Person"], revision="main~1", engine="local") == 3  # type: ignore[arg-type]
    assert [json.loads(line)["data"]["id"] for line in out.getvalue().splitlines()] == ["a", "b", 'q"u,o\nte']


def test_what_cannot_be_exported_says_so(full: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="the schema has no type 'Nope'"):
        full.export(tmp_path / "x.jsonl", types=["Nope"], engine="local")
