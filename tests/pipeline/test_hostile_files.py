"""Files that cannot be what they should be: each says what it is, where, and what to do, the same on both engines."""

from __future__ import annotations

import codecs
import gzip
import io
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.load.files import InputFile

SCHEMA = """
node Person { name: String @key  age: I32?  born: Date? }
node Item { code: I64 @key  label: String @default("none") }
edge Knows: Person -> Person { since: Date? }
"""
PERSON = "Person has: id, name, age, born"
KNOWS = "Knows has: id, from, to, since"
UTF_8 = "pass the file's encoding, for example encoding='latin-1'"
QUOTES = 'close every quote; write "" for a quote inside quotes'
CELLS = "put cells that contain the delimiter or a line break in double quotes"
NOT_PARQUET = "give its real format with format='jsonl' or format='csv', or write it as Parquet"
RECORD = b'{"type":"Person","data":{"name":"Ada"}}\n'


def parquet(**columns: list[Any]) -> bytes:
    out = io.BytesIO()
    pq.write_table(pa.table(columns), out)
    return out.getvalue()


def damaged(data: bytes, start: int, length: int) -> bytes:
    return data[:start] + b"\xff" * length + data[start + length :]


MANY = parquet(name=[f"name {n:06}" for n in range(5_000)])


@dataclass(frozen=True)
class Unreadable:
    """A file that refuses the load, whatever else is loaded."""

    name: str
    data: bytes
    line: int | None
    text: str
    hint: str | None
    options: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Rejected:
    """A file with one record that is rejected."""

    name: str
    data: bytes
    line: int
    text: str
    hint: str | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    kind: type[errors.InputError] = errors.RecordError


def latin(text: str) -> bytes:
    return text.encode("latin-1")


UNREADABLE = [
    # what it is not
    Unreadable("Person.csv", "name,age\nAda,1\n".encode("utf-16"), 1,
               "the file is UTF-16, not UTF-8", "pass encoding='utf-16'"),
    Unreadable("p.jsonl", RECORD.decode().encode("utf-16"), 1,
               "the file is UTF-16, not UTF-8", "pass encoding='utf-16'"),
    Unreadable("p.jsonl", codecs.BOM_UTF16_BE + RECORD.decode().encode("utf-16-be"), 1,
               "the file is UTF-16, not UTF-8", "pass encoding='utf-16'"),
    Unreadable("p.jsonl", RECORD.decode().encode("utf-16-le"), 1,
               "the file looks like UTF-16 without a byte order mark, not UTF-8", "pass encoding='utf-16-le'"),
    Unreadable("Person.csv", "name\nAda\n".encode("utf-16-be"), 1,
               "the file looks like UTF-16 without a byte order mark, not UTF-8", "pass encoding='utf-16-be'"),
    Unreadable("p.jsonl", gzip.compress(RECORD), None,
               "the file is gzip data, not JSON lines", "name it .jsonl.gz or .csv.gz"),
    Unreadable("Person.csv", gzip.compress(b"name\nAda\n"), None,
               "the file is gzip data, not CSV", "name it .jsonl.gz or .csv.gz"),
    Unreadable("Person.csv", b"PK\x03\x04" + b"\0" * 30, None,
               "the file is a ZIP archive or an Excel workbook, not CSV",
               "unpack it, or save the sheet as CSV (UTF-8)"),
    Unreadable("p.jsonl", MANY, None, "the file is a Parquet file, not JSON lines",
               "name it .parquet, or pass format='parquet'"),
    Unreadable("Person.csv", b"\x28\xb5\x2f\xfdxx", None,
               "the file is Zstandard data, not CSV", "name it .jsonl.zst or .csv.zst"),
    Unreadable("Person.csv", b"SQLite format 3\0", None,
               "the file is an SQLite database, not CSV", "convert it to JSON lines, CSV or Parquet first"),
    # JSON that is no JSON lines
    Unreadable("p.json", b"[" + RECORD.strip() + b"]", 1, "this is one JSON document, an array, not JSON lines",
               "write one record per line: jq -c '.[]' FILE > FILE.jsonl"),
    Unreadable("p.json", b"\n\n  [\n" + RECORD + b"]\n", 1, "this is one JSON document, an array, not JSON lines",
               "write one record per line: jq -c '.[]' FILE > FILE.jsonl"),
    Unreadable("p.json", codecs.BOM_UTF8 + b"[]", 1, "this is one JSON document, an array, not JSON lines",
               "write one record per line: jq -c '.[]' FILE > FILE.jsonl"),
    Unreadable("p.json", json.dumps(json.loads(RECORD), indent=2).encode(), 1,
               "this is one JSON document over several lines, not JSON lines",
               "write one record per line: jq -c . FILE > FILE.jsonl"),
    # encodings that are given
    Unreadable("Person.csv", b"name\nAda\nB\xffo\n", 3, "not valid ascii", "pass the file's encoding, encoding='NAME'",
               {"encoding": "ascii"}),
    Unreadable("p.jsonl", RECORD + b"\x81\n", 2, "not valid shift_jis", "pass the file's encoding, encoding='NAME'",
               {"encoding": "shift_jis"}),
    Unreadable("p.jsonl", RECORD.decode().encode("utf-16") + b"x", 2, "not valid utf-16",
               "pass the file's encoding, encoding='NAME'", {"encoding": "utf-16"}),
    Unreadable("Person.csv", latin("näme,age\nAda,1\n"), 1, "the header is not valid UTF-8", UTF_8),
    # the header
    Unreadable("Person.csv", b"name;age\nAda;1\n", 1,
               "the columns are separated by semicolons, not by commas", "pass delimiter=';'"),
    Unreadable("Person.csv", b"name\tage\nAda\t1\n", 1,
               "the columns are separated by tabs, not by commas", "pass delimiter='\\t'"),
    Unreadable("Person.csv", b"name|age\nAda|1\n", 1,
               "the columns are separated by vertical bars, not by commas", "pass delimiter='|'"),
    Unreadable("Person.csv", b"name,age\nAda,1\n", 1,
               "the columns are separated by commas, not by semicolons", "pass delimiter=','", {"delimiter": ";"}),
    Unreadable("Person.csv", RECORD.replace(b",", b" "), 1, "this looks like JSON lines, not CSV",
               "name the file .jsonl, or pass format='jsonl'"),
    Unreadable("Person.csv", b"\nname,age\nAda,1\n", 1, "the first line is empty; it must name the columns",
               "remove empty lines"),
    Unreadable("Person.csv", b"name,agee,born,nme\nAda,1,,\n", 1, "unknown columns 'agee', 'nme' for Person", PERSON),
    Unreadable("Person.csv", b"nam,age\nAda,1\n", 1,
               "unknown column 'nam' and missing column 'name' for Person", PERSON),
    Unreadable("Person.csv", b"Ada,36\nBo,27\n", 1,
               "unknown columns 'Ada', '36' and missing column 'name' for Person", PERSON),
    Unreadable("Person.csv", b"name,,age\nAda,,1\n", 1, "unknown column one without a name for Person", PERSON),
    Unreadable("Person.csv", b"name, age\nAda,1\n", 1, "unknown column ' age' for Person", PERSON),
    Unreadable("Person.csv", b"NAME\nAda\n", 1, "unknown column 'NAME' and missing column 'name' for Person", f"{PERSON}; upper and lower case differ"),
    Unreadable("Person.csv", b"age\n1\n", 1, "missing column 'name' for Person", PERSON),
    Unreadable("Person.csv", b"age\n", 1, "missing column 'name' for Person", PERSON),
    Unreadable("Person.csv", b"name,age,name\nAda,1,Bo\n", 1, "column 'name' appears twice", None),
    Unreadable("Person.csv", b"name,_rowid\nAda,1\n", 1, "unknown column '_rowid' for Person", PERSON),
    Unreadable("Person.csv", b"name,src\nAda,x\n", 1, "unknown column 'src' for Person", PERSON),
    Unreadable("Item.csv", b"code,lable\n1,x\n", 1, "unknown column 'lable' for Item", "Item has: id, code, label"),
    Unreadable("Knows.csv", b"since\n2020-01-01\n", 1, "missing columns 'from', 'to' for Knows", KNOWS),
    Unreadable("Knows.csv", b"from\nAda\n", 1, "missing column 'to' for Knows", KNOWS),
    Unreadable("Knows.csv", b"source,target\nAda,Bo\n", 1,
               "unknown columns 'source', 'target' and missing columns 'from', 'to' for Knows", KNOWS),
    Unreadable("Knows.csv", b"from,src,to\nAda,Ada,Bo\n", 1, "column 'src' appears twice", None),
    # quotes
    Unreadable("Person.csv", b'name,age\nAda,1\nBo,"2\nCy,3\n', 3, "a quote is not closed", QUOTES),
    Unreadable("Person.csv", b'age,name\n1,Ada\n2,"Bo', 3, "a quote is not closed", QUOTES),
    Unreadable("Person.csv", b'age,name\n1,Ada\n2,"' + b"x\n" * 10_000_000, 3,
               "a row is longer than 16 MiB, or a quote is not closed", QUOTES),
    Unreadable("Person.csv", b'"name,age\n' + b"x" * 200_000, 1, "a quote in the header is not closed", QUOTES),
    # Parquet
    Unreadable("Person.parquet", b"", None, "the file is not Parquet", NOT_PARQUET),
    Unreadable("Person.parquet", b"name,age\nAda,1\n", None, "the file is not Parquet", NOT_PARQUET),
    Unreadable("Person.parquet", gzip.compress(b"x"), None, "the file is gzip data, not Parquet", NOT_PARQUET),
    Unreadable("Person.parquet", MANY[:-200], None,
               "the Parquet file is damaged: Parquet magic bytes not found in footer. Either the file is corrupted or "
               "this is not a parquet file.", "write or copy it again"),
    Unreadable("Person.parquet", parquet(nam=["Ada"], x=[1]), None,
               "unknown columns 'nam', 'x' and missing column 'name' for Person", PERSON),
    Unreadable("Knows.parquet", parquet(src=["Ada"]), None, "missing column 'to' for Knows", KNOWS),
]  # fmt: skip

REJECTED = [
    Rejected(
        "people.jsonl",
        b'{"type":"Item","data":{"code":' + b"9" * 5_000 + b"}}\n",
        1,
        "a number is out of range: it has thousands of digits",
    ),
    Rejected(
        "people.jsonl",
        b'{"type":"Person","data":{"name":"a\0b"}}\n',
        1,
        "not valid JSON: Invalid control character at column 35",
    ),
    Rejected("Item.csv", b"code\n+1\n", 2, "Item.code expects I64, got '+1'"),
    Rejected("p.jsonl", RECORD + latin('{"type":"Person","data":{"name":"Zoë"}}\n'), 2,
             "not valid UTF-8: byte 0xeb at column 36", UTF_8),
    Rejected("p.jsonl", RECORD + b"\n\xff\xfe\n", 3, "not valid UTF-8: byte 0xff at column 1", UTF_8),
    Rejected("p.jsonl", RECORD + b"name,age\n", 2, "not valid JSON: Expecting value at column 1"),
    Rejected("p.jsonl", RECORD + b"[" + RECORD.strip() + b"]\n", 2, "a record must be a JSON object"),
    Rejected("p.jsonl", RECORD + b"]\n", 2, "not valid JSON: Expecting value at column 1"),
    Rejected("p.jsonl", RECORD + RECORD.strip() + b",\n", 2, "not valid JSON: Extra data at column 40"),
    Rejected("p.jsonl", RECORD[:-3], 1, "not valid JSON: Expecting ',' delimiter at column 38"),
    Rejected("p.jsonl", b'{"type":"Persn","data":{"name":"Ada"}}\n', 1, "unknown node type 'Persn'",
             "the schema has: Item, Person"),
    Rejected("p.jsonl", b'{"edge":"knows","from":"a","to":"b"}\n', 1, "unknown edge type 'knows'",
             "the schema has: Knows"),
    Rejected("p.jsonl", b'{"type":"Person","data":{"name":"Ada","agee":1,"nme":2}}\n', 1,
             "unknown properties 'agee', 'nme' on Person", "Person has: name, age, born"),
    Rejected("p.jsonl", b'{"edge":"Knows","from":"Ada"}\n', 1, "Knows needs 'to', the id of a node; got null"),
    Rejected("p.jsonl", b'{"name":"Ada"}\n', 1, "unknown member 'name'",
             "a record has type or edge, from, to and data; an edge between interfaces also from_type and to_type"),
    Rejected("Person.csv", latin("name,age\nAda,1\nZoë,2\n"), 3, "column 'name' is not valid UTF-8", UTF_8),
    Rejected("Person.csv", latin('name,age\n"two\nlines",1\nBo,"é"\n'), 4, "column 'age' is not valid UTF-8", UTF_8),
    Rejected("Person.csv", latin("name,age\nAda,1\nZoë,2,3\nBo,2\n"), 3, "expected 2 cells, got 3", CELLS),
    Rejected("Person.csv", b"name,age\nAda,1\nBo\n", 3, "expected 2 cells, got 1", CELLS),
    Rejected("Person.csv", b"name,age\nAda,one\n", 2, "Person.age expects I32, got 'one'"),
    Rejected("Person.csv", b"name,age\nAda, 1\n", 2, "Person.age expects I32, got ' 1'"),
    Rejected("Person.csv", b"name;age\nAda;1,5\n", 2, "Person.age expects I32, got '1,5'", None, {"delimiter": ";"}),
    Rejected("Person.csv", b"name,born\nAda,31.12.1999\n", 2, "Person.born: invalid Date literal '31.12.1999': a date is written YYYY-MM-DD"),
    Rejected("Knows.csv", b"from,to\nAda,\n", 2, "Knows needs 'to', the id of a node; got null"),
    Rejected("Person.parquet", parquet(name=["Ada", None]), 2, "key property Person.name is missing",
             kind=errors.ValueViolation),
    Rejected("Person.parquet", parquet(name=["Ada"], age=[1.5]), 1, "Person.age expects I32, got 1.5"),
    Rejected("Person.parquet", parquet(name=[["Ada"]]), 1, "Person.name expects String, got ['Ada']"),
    Rejected("p.jsonl", RECORD.decode().replace("Ada", "Zoë\\q").encode("utf-16"), 1,
             "not valid JSON: Invalid \\escape at column 37", None, {"encoding": "utf-16"}),
]  # fmt: skip


@pytest.fixture(scope="module")
def people(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    return og.init(tmp_path_factory.mktemp("hostile") / "graph", schema=SCHEMA, durability="process")


def written(folder: Path, cases: list[Any]) -> dict[str, Any]:
    """Each case in a folder of its own, so that it keeps its name; by path, in the order of the paths."""
    files = {}
    for number, case in enumerate(cases):
        path = folder / f"{number:03}" / case.name
        path.parent.mkdir()
        path.write_bytes(case.data)
        files[str(path)] = case
    return files


def batches(cases: list[Any]) -> list[list[Any]]:
    """Cases that one load can have together: as many as an error lists, with the same options."""
    groups: dict[str, list[list[Any]]] = {}
    for case in cases:
        runs = groups.setdefault(repr(case.options), [[]])
        if len(runs[-1]) == 20:
            runs.append([])
        runs[-1].append(case)
    return [run for runs in groups.values() for run in runs]


def test_files_that_cannot_be_read_are_named_with_the_reason(
    people: og.Graph, engine: dict[str, Any], tmp_path: Path
) -> None:
    for number, cases in enumerate(batches(UNREADABLE)):
        folder = tmp_path / f"batch{number}"
        folder.mkdir()
        files = written(folder, cases)
        with pytest.raises(errors.UnreadableInput) as caught:
            people.load(list(files), mode="append", rejects=tmp_path / "aside", **cases[0].options, **engine)
        assert caught.value.code == "unreadable_input"
        found = [(one["file"], one["line"], one["reason"], one["hint"]) for one in caught.value.problems]
        assert found == [(path, case.line, case.text, case.hint) for path, case in files.items()]
        first = caught.value.problems[0]
        assert (caught.value.file, caught.value.line, caught.value.message) == (
            first["file"], first["line"], first["reason"],
        )  # fmt: skip
        assert caught.value.total == len(cases)
    assert not (tmp_path / "aside").exists()
    assert len(people.commits()) == 1


def test_records_that_cannot_be_read_are_named_with_the_reason(
    people: og.Graph, engine: dict[str, Any], tmp_path: Path
) -> None:
    for number, cases in enumerate(batches(REJECTED)):
        folder = tmp_path / f"batch{number}"
        folder.mkdir()
        files = written(folder, cases)
        with pytest.raises(errors.RejectedRecords) as caught:
            people.load(list(files), mode="append", **cases[0].options, **engine)
        found = [
            (one["code"], one["file"], one["line"], one["reason"], one.get("hint")) for one in caught.value.rejects
        ]
        assert found == [(case.kind.code, path, case.line, case.text, case.hint) for path, case in files.items()]
        assert caught.value.hint is not None
        assert caught.value.hint.endswith("correct them, or set them aside with rejects='FILE'")
    assert len(people.commits()) == 1


def test_there_are_at_least_seventy() -> None:
    assert len(UNREADABLE) + len(REJECTED) >= 70


def frames() -> dict[str, tuple[dict[str, Any], str | None, str, str | None]]:
    """DataFrames that cannot be read: file, line and text of the error."""
    return {
        "unknown columns": (
            {"Person": pd.DataFrame({"name": ["Ada"], "agee": [1], "x": [2]})},
            "Person (DataFrame)", "unknown columns 'agee', 'x' for Person", PERSON,
        ),
        "missing ends": (
            {"Knows": pa.table({"since": ["2020-01-01"]})},
            "Knows (DataFrame)", "missing columns 'from', 'to' for Knows", KNOWS,
        ),
        "values of several types": (
            {"Person": pd.DataFrame({"name": ["Ada", 1]})},
            "Person (DataFrame)",
            "the columns cannot be converted to Arrow: (\"Expected bytes, got a 'int' object\", 'Conversion failed for "
            "column name with type object')",
            "give every column values of one type",
        ),
    }  # fmt: skip


@pytest.mark.parametrize("case", frames())
def test_data_frames_that_cannot_be_read_are_named_with_the_reason(
    case: str, people: og.Graph, engine: dict[str, Any]
) -> None:
    sources, name, text, hint = frames()[case]
    with pytest.raises(errors.UnreadableInput) as caught:
        people.load(sources, mode="append", **engine)
    assert (caught.value.file, caught.value.message, caught.value.hint) == (name, text, hint)


@pytest.mark.spark
def test_a_spark_data_frame_with_unknown_columns_is_named_once(people: og.Graph, spark: Any) -> None:
    frame = spark.createDataFrame([("Ada", 1), ("Bo", 2)], "name string, agee int")
    with pytest.raises(errors.UnreadableInput) as caught:
        people.load({"Person": frame}, mode="append", engine=spark)
    assert (caught.value.file, caught.value.line) == ("Person (DataFrame)", None)
    assert (caught.value.total, caught.value.message) == (1, "unknown column 'agee' for Person")


# ---------------------------------------------------------------- what helps


@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-16", "utf-16-le", "utf-8-sig", "UTF8"])
def test_the_encoding_of_a_file_can_be_given(encoding: str, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA, durability="process")
    (tmp_path / "Person.csv").write_bytes('name,age\n"Zoë\nZ.",2\n'.encode(encoding))
    record = json.dumps({"type": "Person", "data": {"name": "Özil"}}, ensure_ascii=False)
    (tmp_path / "p.jsonl").write_bytes((record + "\n").encode(encoding))
    graph.load([tmp_path / "Person.csv", tmp_path / "p.jsonl"], mode="append", encoding=encoding, engine="local")
    out = io.BytesIO()
    graph.export(out, engine="local")
    assert [json.loads(line)["data"]["name"] for line in out.getvalue().splitlines()] == ["Zoë\nZ.", "Özil"]


def test_the_delimiter_of_csv_can_be_given(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA, durability="process")
    (tmp_path / "Person.csv").write_text('name;age\n"Ada; Countess";36\n')
    receipt = graph.load(tmp_path / "Person.csv", mode="append", delimiter=";", engine="local")
    assert receipt.total_entities == 1


def test_a_file_named_twice_is_read_once(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", schema=SCHEMA, durability="process")
    (tmp_path / "p.jsonl").write_bytes(RECORD)
    paths = [tmp_path / "p.jsonl", tmp_path / "*.jsonl", f"{tmp_path}/../{tmp_path.name}/p.jsonl"]
    assert graph.load(paths, mode="append", engine="local").total_entities == 1


CALLS: dict[str, tuple[Callable[[Path], Any], dict[str, Any], str, str]] = {
    "no such encoding": (
        lambda folder: folder / "p.jsonl", {"encoding": "utf-9"}, "unknown encoding 'utf-9'",
        "for example utf-8, latin-1, cp1252, utf-16, shift_jis",
    ),
    "an encoding that is no text": (
        lambda folder: folder / "p.jsonl", {"encoding": "base64"}, "unknown encoding 'base64'",
        "for example utf-8, latin-1, cp1252, utf-16, shift_jis",
    ),
    "a delimiter of two characters": (
        lambda folder: folder / "Person.csv", {"delimiter": "||"}, "'||' cannot separate columns",
        "give one character, for example delimiter=';'",
    ),
    "a delimiter for JSON lines": (
        lambda folder: folder / "p.jsonl", {"delimiter": ";"}, "'delimiter' is for CSV files, and there are none",
        "leave delimiter= out",
    ),
    "an encoding for data frames": (
        lambda folder: {"Person": pa.table({"name": ["x"]})}, {"encoding": "latin-1"},
        "'encoding' is for JSON lines and CSV files, and there are none", "leave encoding= out",
    ),
    "a number": (
        lambda folder: 7, {}, "expected paths or DataFrames by type, got int",
        'give a path, several paths, or {"Person": frame}',
    ),
    "a data frame without its type": (
        lambda folder: [pa.table({"name": ["x"]})], {}, "expected a path, got Table",
        'give a path, several paths, or {"Person": frame}',
    ),
    "no such file": (
        lambda folder: folder / "none.csv", {}, "there is nothing to load at '{folder}/none.csv'",
        "check the path or the pattern",
    ),
    "a device": (
        lambda folder: "/dev/null", {}, "'/dev/null' is neither a file nor a folder", "write it to a file first",
    ),
    "a name that is no type": (
        lambda folder: folder / "persons.csv", {}, "'{folder}/persons.csv' is not named after a type of the schema",
        "pass type='TYPE'; the schema has: edge:Knows, node:Item, node:Person",
    ),
    "an unknown suffix": (
        lambda folder: folder / "p.txt", {}, "the format of '{folder}/p.txt' is not known",
        "name it .jsonl, .csv or .parquet, or pass format=",
    ),
    "a type for JSON lines": (
        lambda folder: folder / "p.jsonl", {"type": "Person"}, "records of JSON lines name their types themselves",
        "leave type= out",
    ),
    "a rejects file that exists": (
        lambda folder: folder / "p.jsonl", {"rejects": "p.jsonl"}, "'{folder}/p.jsonl' exists",
        "replace it with overwrite=True, or write to another name",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CALLS)
def test_calls_that_cannot_work_say_what_to_do(
    case: str, people: og.Graph, engine: dict[str, Any], tmp_path: Path
) -> None:
    (tmp_path / "p.jsonl").write_bytes(RECORD)
    for name in ("Person.csv", "persons.csv", "p.txt"):
        (tmp_path / name).write_text("name\nAda\n")
    make, options, text, hint = CALLS[case]
    if "rejects" in options:
        options = {"rejects": tmp_path / options["rejects"]}
    with pytest.raises((errors.UsageError, errors.AlreadyExists)) as caught:
        people.load(make(tmp_path), mode="append", **options, **engine)
    assert (caught.value.message, caught.value.hint) == (text.format(folder=tmp_path), hint)


def test_a_file_that_is_gone_when_it_is_read_is_named(tmp_path: Path) -> None:
    file = InputFile("p.jsonl", str(tmp_path / "gone.jsonl"), 10, {})
    with pytest.raises(errors.UnreadableInput, match="the file cannot be opened: No such file or directory"):
        file.open()
