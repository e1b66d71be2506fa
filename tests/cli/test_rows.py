"""Rows of a query in each format: the same rows, cut only on a terminal."""

from __future__ import annotations

import csv
import datetime as dt
import io
import json
import os
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from cli.transcript import RunCli

from omnigraph.cli import output
from omnigraph.cli.output import drawn_by_columns, print_table

EVERYONE = ["query", "everyone", "--query", "people.gq"]
MIXED = pa.table(
    {
        "name": ["Ada", "東京 tower", "a\x1b[31m", "x" * 60, None, ""],
        "age": pa.array([36, None, -1, 2**40, 0, 7], pa.int64()),
        "score": [0.5, 1e300, None, -2.0, 3.25, 100.0],
        "at": pa.array([dt.datetime(2026, 7, 1), None, None, None, None, dt.datetime(1, 1, 1)], pa.timestamp("us")),
        "plain": ["ends with spaces  ", "b", "c", "d", "", None],
    }
)


@pytest.mark.parametrize("columns", ["120", "60", "40"])
@pytest.mark.parametrize("names", [["name", "age", "score", "at", "plain"], ["age"], ["plain"]])
def test_many_rows_are_drawn_like_few(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, columns: str, names: list[str]
) -> None:
    monkeypatch.setenv("COLUMNS", columns)
    table = MIXED.select(names)
    numeric = [name for name in names if name in ("age", "score")]
    print_table(output._rows(table), names, 40, numeric=numeric)
    few = capsys.readouterr().out
    assert b"".join(map(bytes, drawn_by_columns(table, 40))).decode() == few


def test_a_result_of_many_rows_is_printed_whole(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    small = run_cli(EVERYONE).out
    monkeypatch.setattr(output, "MANY_ROWS", 1)
    assert run_cli(EVERYONE).out == small
    assert "Cy" in small


def test_a_terminal_shows_what_fits_and_how_many_more(run_cli: RunCli, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(output, "rows_on_screen", lambda: 1)
    assert run_cli([*EVERYONE, "--quiet"]).out.splitlines() == ["name  age", "Ada    36", "… 2 more"]
    assert run_cli([*EVERYONE, "--quiet", "--format", "kv"]).out.splitlines() == ["name  Ada", "age   36", "… 2 more"]
    assert len(run_cli([*EVERYONE, "--format", "csv"]).out.splitlines()) == 4


def test_csv_tells_null_from_empty_text_and_is_read_back(run_cli: RunCli) -> None:
    hostile = 'a "quoted", cell\nof two lines'
    insert = "query add($n: String) { insert Person { name: $n } }"
    run_cli(["mutate", "-e", insert, "--params", json.dumps({"n": hostile})])
    text = run_cli([*EVERYONE, "--format", "csv"]).out
    rows = list(csv.DictReader(io.StringIO(text)))
    assert [row["name"] for row in rows] == ["Ada", "Bo", "Cy", hostile]
    ages = "query q() { match { $p: Person } return { $p.age as age } order { $p.name } }"
    one = run_cli(["query", "-e", ages, "--format", "csv"])
    assert one.out.splitlines() == ["age", "36", "27", '""', '""']


def test_rows_go_to_files_in_the_format_of_their_name(run_cli: RunCli, tmp_path: Path) -> None:
    expected = [{"name": "Ada", "age": 36}, {"name": "Bo", "age": 27}, {"name": "Cy", "age": None}]
    for format in ("parquet", "arrow", "jsonl", "csv"):
        file = tmp_path / f"rows.{format}"
        assert run_cli([*EVERYONE, "--output", str(file)]).out == f"wrote 3 rows to {file}\n"
        if format == "parquet":
            assert pq.read_table(file).to_pylist() == expected
        elif format == "arrow":
            assert pa.ipc.open_stream(file).read_all().to_pylist() == expected
        elif format == "jsonl":
            assert [json.loads(line) for line in file.read_text().splitlines()] == expected
        else:
            assert file.read_text() == "name,age\nAda,36\nBo,27\nCy,\n"
    again = run_cli([*EVERYONE, "--output", str(tmp_path / "rows.csv")])
    assert (again.code, "exists" in again.err) == (1, True)
    assert run_cli([*EVERYONE, "--output", str(tmp_path / "rows.csv"), "--force"]).code == 0
    assert run_cli([*EVERYONE, "--output", "rows.txt"]).code == 2


def test_columns_of_bytes_are_not_written_to_a_terminal(run_cli: RunCli) -> None:
    master, terminal = os.openpty()
    try:
        for format in ("parquet", "arrow"):
            ran = run_cli([*EVERYONE, "--format", format, "--output", f"/dev/fd/{terminal}"])
            assert ran.code == 2
            assert f"{format} is not for a terminal" in ran.err
    finally:
        os.close(master)
        os.close(terminal)


def test_parquet_goes_into_a_pipe(run_cli: RunCli) -> None:
    reader, writer = os.pipe()
    assert run_cli([*EVERYONE, "--format", "parquet", "--output", f"/dev/fd/{writer}", "--quiet"]).code == 0
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        assert pq.read_table(pa.BufferReader(pipe.read())).num_rows == 3
