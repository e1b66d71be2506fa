"""Exports and baselines as streams of bytes: the same entities as in files, little held, nothing read ahead."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound, UsageError
from omnigraph.export.job import chunks
from omnigraph.records.encoding import BLOCK_BYTES
from omnigraph.tables.table import Table

SCHEMA = "node P { name: String @key  x: I64?  note: String? }  node Q { name: String @key }  edge E: P -> Q"
ROWS = 20_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    folder = tmp_path_factory.mktemp("streams")
    lines = [json.dumps({"type": "P", "data": {"name": f"p{n}", "x": n, "note": "é" * (n % 9)}}) for n in range(ROWS)]
    lines += [json.dumps({"type": "Q", "data": {"name": "q"}})]
    lines += [json.dumps({"edge": "E", "from": "p1", "to": "q", "data": {"id": "e"}})]
    (folder / "data.jsonl").write_text("\n".join(lines))
    made = og.init(folder / "g", SCHEMA, durability="process")
    made.load(str(folder / "data.jsonl"), mode="append", engine="local")
    return made


def lines_of(stream: Iterator[bytes]) -> list[Any]:
    return [json.loads(line) for line in b"".join(stream).splitlines()]


def test_a_stream_has_the_entities_of_the_file_nodes_first(graph: og.Graph, tmp_path: Path) -> None:
    graph.export(tmp_path / "all.jsonl")
    filed = [json.loads(line) for line in (tmp_path / "all.jsonl").read_text().splitlines()]
    streamed = lines_of(graph.export_stream())
    assert sorted(map(json.dumps, streamed)) == sorted(map(json.dumps, filed))
    assert [("type" in line) for line in streamed] == [True] * (ROWS + 1) + [False]


def test_a_stream_is_of_its_revision_and_its_types(graph: og.Graph) -> None:
    assert list(graph.export_stream(revision="main~1")) == []
    assert lines_of(graph.export_stream(types=["Q"])) == [{"type": "Q", "data": {"id": "q", "name": "q"}}]


def test_chunks_hold_whole_lines_of_64_to_128_kib(graph: og.Graph) -> None:
    stream = list(graph.export_stream())
    assert len(stream) > 10
    assert all(BLOCK_BYTES <= len(chunk) < 2 * BLOCK_BYTES + 200 for chunk in stream[:-1])
    assert all(chunk.endswith(b"\n") for chunk in stream)


def test_nothing_is_read_before_it_is_asked_for(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    batches, scan = [0], Table.scan

    def counted(table: Table, *arguments: Any, **options: Any) -> Iterator[pa.RecordBatch]:
        for batch in scan(table, *arguments, **options):
            batches[0] += 1
            yield batch

    monkeypatch.setattr(Table, "scan", counted)
    stream = graph.export_stream()
    assert batches == [0]
    next(stream)
    first = batches[0]
    for _ in stream:
        pass
    assert 0 < first <= batches[0] // 2


def test_other_formats_hold_one_type(graph: og.Graph) -> None:
    names = [f"p{n}" for n in range(ROWS)]
    arrow = pa.ipc.open_stream(b"".join(graph.export_stream(types=["P"], format="arrow"))).read_all()
    assert arrow.num_rows == ROWS
    assert sorted(arrow.column("name").to_pylist()) == sorted(names)
    parquet = pq.read_table(io.BytesIO(b"".join(graph.export_stream(types=["P"], format="parquet"))))
    assert parquet.equals(arrow)
    text = b"".join(graph.export_stream(types=["P"], format="csv")).decode()
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in rows] == arrow.column("name").to_pylist()
    edges = pa.ipc.open_stream(b"".join(graph.export_stream(types=["E"], format="arrow"))).read_all()
    assert edges.to_pylist() == [{"id": "e", "from": "p1", "to": "q"}]
    empty = pa.ipc.open_stream(b"".join(graph.export_stream(types=["P"], format="arrow", revision="main~1")))
    assert empty.read_all().num_rows == 0


def test_what_cannot_be_streamed_is_said_before_the_first_chunk(graph: og.Graph) -> None:
    wrong: Any = "xml"
    for options in ({"types": ["Nobody"]}, {"format": "csv"}, {"format": wrong}):
        with pytest.raises(UsageError):
            graph.export_stream(**options)  # type: ignore[arg-type]
    with pytest.raises(BranchNotFound):
        graph.baseline_stream(branch="nowhere")


def test_a_baseline_stream_is_the_file(graph: og.Graph, tmp_path: Path) -> None:
    graph.baseline(tmp_path / "base.jsonl", types=["P", "Q"])
    streamed = b"".join(graph.baseline_stream(types=["P", "Q"]))
    assert streamed == (tmp_path / "base.jsonl").read_bytes()
    *_, last = lines_of(iter([streamed]))
    page = graph.changes("main", since=last["baseline"]["resume_cursor"], types=["P", "Q"])
    assert (last["baseline"]["snapshot_commit_id"], page.caught_up) == (graph.head().id, True)


def test_chunks_keep_every_byte() -> None:
    pieces = [b"ab", b"", b"cdef", b"g"]
    assert list(chunks(pieces, 4)) == [b"abcdef", b"g"]
    assert list(chunks([], 4)) == []
