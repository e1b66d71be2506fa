"""What a load reads: compressed text, folders at any depth, standard input, partition columns, CSV in other dialects."""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pipeline.conftest import content, person

import omnigraph as og
from omnigraph import errors
from omnigraph.load import inputs
from omnigraph.load.files import InputFile, _Remote, find_files

LINES = b"".join(json.dumps(person(f"p{number}", age=number)).encode() + b"\n" for number in range(3))


def people(graph: og.Graph) -> dict[str, Any]:
    rows = graph.query("query q() { match { $p: Person } return { $p.email as email, $p.age as age } }").rows
    return {row["email"]: row["age"] for row in rows}


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as stream:
        stream.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def test_text_may_be_compressed(graph: og.Graph, tmp_path: Path, engine: dict[str, Any]) -> None:
    (tmp_path / "in").mkdir()
    half = LINES.index(b"\n") + 1
    (tmp_path / "in" / "two.jsonl.gz").write_bytes(gzip.compress(LINES[:half]) + gzip.compress(LINES[half:]))
    (tmp_path / "in" / "Person.csv.zst").write_bytes(zstd(b"email,age\nq,7\n"))
    graph.load(tmp_path / "in", mode="append", **engine)
    assert people(graph) == {"p0": 0, "p1": 1, "p2": 2, "q": 7}


@pytest.mark.parametrize("data", [gzip.compress(LINES)[:-9], b"not at all"], ids=["cut off", "not gzip"])
def test_damaged_compressed_text_is_named(graph: og.Graph, tmp_path: Path, data: bytes) -> None:
    (tmp_path / "p.jsonl.gz").write_bytes(data)
    with pytest.raises(errors.UnreadableInput, match="the file is not gzip data, or it is damaged"):
        graph.load(tmp_path / "p.jsonl.gz", mode="append")
    assert people(graph) == {}


def test_folders_are_searched_without_hidden_names(tmp_path: Path) -> None:
    for name in ("a.jsonl", "deep/er/b.jsonl", "_SUCCESS", ".c.jsonl", "_temporary/d.jsonl", "deep/.git/e.jsonl"):
        (tmp_path / "in" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "in" / name).touch()

    def found(source: str) -> list[str]:
        return [str(Path(file.address).relative_to(tmp_path / "in")) for file in find_files(source)]

    assert found(str(tmp_path / "in")) == ["a.jsonl", "deep/er/b.jsonl"]
    assert found(f"{tmp_path}/in/*") == ["a.jsonl", "deep/er/b.jsonl"]
    assert found(f"{tmp_path}/in/**/*.jsonl") == ["a.jsonl", "deep/er/b.jsonl"]
    assert found(f"{tmp_path}/in/_temporary") == ["_temporary/d.jsonl"], "what is asked for by name is read"


def test_folders_are_columns(graph: og.Graph, tmp_path: Path, engine: dict[str, Any]) -> None:
    for folder, email in (("age=41", "a"), ("age=__HIVE_DEFAULT_PARTITION__", "b"), ("age=7/tier=pro", "c")):
        place = tmp_path / "lake" / "Person" / folder
        place.mkdir(parents=True)
        pq.write_table(pa.table({"email": [email]}), place / "part-0.parquet")
    (tmp_path / "lake" / "Person" / "age=9").mkdir()
    (tmp_path / "lake" / "Person" / "age=9" / "part.csv").write_text("email\nd\n")
    graph.load(tmp_path / "lake", mode="append", **engine)
    assert people(graph) == {"a": 41, "b": None, "c": 7, "d": 9}


def test_a_folder_of_an_unknown_column_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "lake" / "dt=2026-11-15" / "hour=3").mkdir(parents=True)
    (tmp_path / "lake" / "dt=2026-11-15" / "hour=3" / "Person.csv").write_text("email,nick\na,b\n")
    with pytest.raises(errors.UnreadableInput, match="unknown columns 'nick', 'dt', 'hour' for Person"):
        graph.load(tmp_path / "lake", mode="append", rejects=tmp_path / "rejects.jsonl")
    assert not (tmp_path / "rejects.jsonl").exists()


def test_standard_input_is_a_source(graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "lines").write_bytes(LINES)
    (tmp_path / "cells").write_bytes(b"email,age\nx,200\n")
    with (tmp_path / "lines").open() as lines, (tmp_path / "cells").open() as cells:
        monkeypatch.setattr(sys, "stdin", lines)
        assert graph.load("-", mode="append").total_entities == 3
        monkeypatch.setattr(sys, "stdin", cells)
        with pytest.raises(errors.RejectedRecords, match="standard input:2: @range violation"):
            graph.load(["-"], mode="append", format="csv", type="Person")


def test_csv_in_another_dialect(graph: og.Graph, tmp_path: Path, engine: dict[str, Any]) -> None:
    (tmp_path / "x.csv").write_text("a|'x;|y'|NA|24.12.1990|24.12.2020 18:30\nb|'NA'|3|1990-12-25|\n")
    graph.load(
        tmp_path / "x.csv",
        mode="append",
        type="Person",
        columns=["email", "handle", "age", "born", "joined"],
        delimiter="|",
        quote="'",
        null="NA",
        date_format="%d.%m.%Y",
        time_format="%d.%m.%Y %H:%M",
        **engine,
    )
    first, second = (record["data"] for record in content(graph, tmp_path))
    assert first == {
        "id": "a", "email": "a", "handle": "x;|y", "born": "1990-12-24", "joined": "2020-12-24T18:30:00.000Z",
    }  # fmt: skip
    assert second == {"id": "b", "email": "b", "handle": "NA", "age": 3, "born": "1990-12-25"}


@pytest.mark.parametrize("day", ["12/24/1990", "31.02.1990", "24.12.90"])
def test_what_is_not_in_the_format_is_rejected_with_its_line(graph: og.Graph, tmp_path: Path, day: str) -> None:
    (tmp_path / "x.csv").write_text(f"email,born\na,24.12.1990\nb,{day}\n")
    with pytest.raises(errors.RejectedRecords, match=rf"x\.csv:3: .*{day}"):
        graph.load(tmp_path / "x.csv", mode="append", type="Person", date_format="%d.%m.%Y")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"quote": "''"}, "\"''\" cannot quote cells"),
        ({"quote": ","}, "',' cannot separate columns and quote cells"),
        ({"columns": ["a", ""]}, "a column has no name"),
        ({"date_format": "DD.MM.YYYY"}, "'DD.MM.YYYY' is not a format of dates"),
    ],
)
def test_options_that_make_no_sense_are_refused(
    graph: og.Graph, tmp_path: Path, options: dict[str, Any], said: str
) -> None:
    (tmp_path / "Person.csv").write_text("email\na\n")
    with pytest.raises(errors.UsageError, match=said):
        graph.load(tmp_path / "Person.csv", mode="append", **options)


def test_a_large_parquet_file_is_read_by_row_groups(
    graph: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(inputs, "MIN_SPLIT_BYTES", 1)
    monkeypatch.setattr(inputs, "MAX_SPLIT_BYTES", 1)
    table = pa.table({"email": [f"p{number}" for number in range(10)], "age": [*range(9), 200]})
    pq.write_table(table, tmp_path / "Person.parquet", row_group_size=3)
    with pytest.raises(errors.RejectedRecords, match=r"Person\.parquet:10: @range"):
        graph.load(tmp_path / "Person.parquet", mode="append")
    assert graph.load(tmp_path / "Person.parquet", mode="append", rejects=tmp_path / "rejects.jsonl").rejected == 1
    assert people(graph) == {f"p{number}": number for number in range(9)}


def test_parquet_in_an_object_store_is_read_by_ranges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read of the file is one request: the footer, and the columns of each row group."""
    rows = 100_000
    pq.write_table(
        pa.table({"email": [f"person {n * 7919}" for n in range(rows)]}), tmp_path / "p", row_group_size=50_000
    )
    data = (tmp_path / "p").read_bytes()
    asked: list[int] = []

    class Ranges:
        def get_range(self, key: str, start: int, length: int) -> bytes:
            asked.append(length)
            return data[start : start + length]

    monkeypatch.setattr("omnigraph.storage.objects.open_object_store", lambda *_: Ranges())
    file = InputFile("s3://b/Person.parquet", "s3://b/Person.parquet", len(data), {})
    with file.open_anywhere() as stream:
        assert isinstance(stream, _Remote)
        from omnigraph.load.reading import parquet_batches

        _, *batches = parquet_batches(stream, None)
    assert sum(batch.num_rows for batch in batches) == rows
    assert len(asked) <= 8, asked
    asked.clear()
    with file.open() as whole:
        assert whole.read() == data
    assert len(asked) <= 2, asked
