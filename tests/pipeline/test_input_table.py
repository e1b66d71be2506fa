"""The same records in every format, encoding and compression, from a disk and from an object store, on both engines: the same rows, the
same rejects, the same words."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph import errors
from omnigraph.errors import RejectedRecords, UsageError
from omnigraph.storage.options import open_store

SCHEMA = "node Person { name: String @key  age: I32?  tags: [String]?  @range(age, 0..150) }"
ROWS: list[tuple[str, Any, list[str] | None]] = [
    ("Zoë", 36, ["a", "ü"]),
    ("Bo", None, None),
    ("Old", 200, None),
    ("Cy", 4, []),
]
GOOD = {"Zoë": (36, ["a", "ü"]), "Bo": (None, None), "Cy": (4, [])}
REASON = "@range violation on Person.age: value 200 > max 150"


def json_lines(encoding: str = "utf-8") -> bytes:
    records = [{"name": name, "age": age, "tags": tags} for name, age, tags in ROWS]
    lines = [json.dumps({"type": "Person", "data": record}, ensure_ascii=False) for record in records]
    return "".join(f"{line}\n" for line in lines).encode(encoding)


def csv(
    encoding: str = "utf-8",
    delimiter: str = ",",
    header: bool = True,
    null: str = "",
    quote: str = '"',
    names: Sequence[str] = ("name", "age", "tags"),
) -> bytes:
    def cell(value: Any) -> str:
        if value is None:
            return null
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)
        return quote + text.replace(quote, quote * 2) + quote

    lines = [delimiter.join(cell(value) for value in row) for row in ROWS]
    return "".join(f"{line}\n" for line in [delimiter.join(names)] * header + lines).encode(encoding)


def parquet(**options: Any) -> bytes:
    names, ages, tags = zip(*ROWS, strict=True)
    out = io.BytesIO()
    columns = {"name": list(names), "age": list(ages), "tags": pa.array(tags, pa.list_(pa.string()))}
    pq.write_table(pa.table(columns), out, **options)
    return out.getvalue()


def zstd(data: bytes) -> bytes:
    out = pa.BufferOutputStream()
    with pa.CompressedOutputStream(out, "zstd") as stream:
        stream.write(data)
    return out.getvalue().to_pybytes()


@dataclass(frozen=True)
class Input:
    """`line`: where the record is that is refused."""

    file: str
    data: bytes
    line: int
    options: dict[str, Any] = field(default_factory=dict)


JSON, CSV, ROW = 3, 4, 3
NAMES = {"Full Name": "name", "years": "age"}
ENTRIES = {
    "sources": [
        {"file": "export.csv", "type": "Person", "columns": {"name": "Full Name", "age": "years", "tags": "tags"}}
    ]
}
INPUTS: dict[str, Input] = {
    "JSON lines": Input("p.jsonl", json_lines(), JSON),
    "JSON lines, gzip": Input("p.jsonl.gz", gzip.compress(json_lines()), JSON),
    "JSON lines, zstd": Input("p.jsonl.zst", zstd(json_lines()), JSON),
    "JSON lines with a mark": Input("p.ndjson", json_lines("utf-8-sig"), JSON),
    "JSON lines in UTF-16": Input("p.jsonl", json_lines("utf-16"), JSON, {"encoding": "utf-16"}),
    "JSON lines in Latin-1, gzip": Input("p.jsonl.gz", gzip.compress(json_lines("latin-1")), JSON, {"encoding": "latin-1"}),
    "JSON lines under another name": Input("p.txt", json_lines(), JSON, {"format": "jsonl"}),
    "CSV": Input("Person.csv", csv(), CSV),
    "CSV, gzip": Input("Person.csv.gz", gzip.compress(csv()), CSV),
    "CSV, zstd": Input("Person.csv.zst", zstd(csv()), CSV),
    "CSV with a mark": Input("Person.csv", csv("utf-8-sig"), CSV),
    "CSV in CP1252, semicolons": Input("Person.csv", csv("cp1252", ";"), CSV, {"encoding": "cp1252", "delimiter": ";"}),
    "CSV in UTF-16, tabs": Input("Person.csv", csv("utf-16", "\t"), CSV, {"encoding": "utf-16", "delimiter": "\t"}),
    "CSV without a header": Input("Person.csv", csv(header=False), CSV - 1, {"columns": ["name", "age", "tags"]}),
    "CSV with a text for null": Input("Person.csv", csv(null="NA"), CSV, {"null": "NA"}),
    "CSV in other quotes": Input("Person.csv", csv(quote="'"), CSV, {"quote": "'"}),
    "CSV of a type that is said": Input("export.csv", csv(), CSV, {"type": "Person"}),
    "Parquet": Input("Person.parquet", parquet(), ROW),
    "Parquet, zstd": Input("Person.parquet", parquet(compression="zstd"), ROW),
    "Parquet, unpacked, in row groups": Input("Person.parquet", parquet(compression="none", row_group_size=1), ROW),
    "Parquet with a dictionary": Input("Person.parquet", parquet(use_dictionary=True), ROW),
    "a folder of a type, with a marker": Input("Person/part-0.csv", csv(), CSV),
    "JSON lines in many tasks": Input("p.jsonl", json_lines(), JSON, {"conf": {"spark.omnigraph.splitBytes": "40"}}),
    "CSV in many tasks": Input("Person.csv", csv(), CSV, {"conf": {"spark.omnigraph.splitBytes": "20"}}),
    "Parquet in many tasks": Input(
        "Person.parquet", parquet(row_group_size=1), ROW, {"conf": {"spark.omnigraph.splitBytes": "100"}}
    ),
    "CSV under other names": Input("Person.csv", csv(names=["Full Name", "years", "tags"]), CSV, {"map": NAMES}),
    "CSV with an entry of a map": Input("export.csv", csv(names=["Full Name", "years", "tags"]), CSV, {"map": ENTRIES}),
}  # fmt: skip


def loaded(graph: og.Graph, source: Any, options: dict[str, Any], engine: Any, rejects: Path) -> tuple[Any, ...]:
    """What the graph holds afterwards, what was refused, and the receipt."""
    rejects.unlink(missing_ok=True)
    receipt = graph.load(source, mode="overwrite", engine=engine, rejects=rejects, **options)
    found = graph.query("query q() { match { $p: Person } return { $p.name as n, $p.age as a, $p.tags as t } }").rows
    refused = [json.loads(line) for line in rejects.read_text().splitlines()]
    rows = {row["n"]: (row["a"], row["t"]) for row in found}
    return rows, [(each["line"], each["reason"], each["code"]) for each in refused], receipt.total


def check_all(graph: og.Graph, engine: Any, put: Callable[[str, bytes], str], tmp_path: Path) -> None:
    for number, (name, given) in enumerate(INPUTS.items()):
        folder = f"in{number}"
        source = put(f"{folder}/{given.file}", given.data)
        if "/" in given.file:
            put(f"{folder}/{given.file.partition('/')[0]}/_SUCCESS", b"")
            put(f"{folder}/{given.file.partition('/')[0]}/.part-0.csv.crc", b"x")
            put(f"{folder}/_temporary/part-1.csv", b"x")
            source = source.removesuffix(f"/{given.file}")
        rows, refused, total = loaded(graph, source, given.options, engine, tmp_path / "rejects.jsonl")
        assert rows == GOOD, name
        assert refused == [(given.line, REASON, "value_violation")], name
        assert (total.inserted, total.deleted) == (3, 3 if number else 0), name
    globs = [
        put(f"globs/{name}", data) for name, data in (("a.jsonl", json_lines()), ("b.jsonl", b""), ("c.txt", b"x"))
    ]
    globs = [path.replace(f"{name}.jsonl", f"{name}*.jsonl") for path, name in zip(globs, "ab", strict=False)]
    rows, refused, _ = loaded(graph, globs, {}, engine, tmp_path / "rejects.jsonl")
    assert (rows, refused) == (GOOD, [(JSON, REASON, "value_violation")])


@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_from_a_disk(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    def put(name: str, data: bytes) -> str:
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
        return str(path)

    graph = og.init(tmp_path / "graph", SCHEMA, durability="process")
    check_all(graph, "local" if engine == "local" else request.getfixturevalue("spark"), put, tmp_path)


@pytest.mark.s3
@pytest.mark.parametrize("engine", ["local", pytest.param("spark", marks=pytest.mark.spark)])
def test_from_an_object_store(engine: str, request: pytest.FixtureRequest, s3: Any, tmp_path: Path) -> None:
    address = f"s3://{s3.new_bucket()}"
    store = open_store(address, storage_options=s3.options)

    def put(name: str, data: bytes) -> str:
        store.put(name, data)
        return f"{address}/{name}"

    graph = og.init(f"{address}/graph", SCHEMA, storage_options=s3.options)
    check_all(graph, "local" if engine == "local" else request.getfixturevalue("spark"), put, tmp_path)


TYPES = "node T { k: String @key  u: U64?  d: F64?  i: I64?  at: DateTime?  day: Date?  l: [I64]?  f: F32? }"
AT = datetime(2026, 11, 15, 12, 30, 45, 123456)
COLUMNS = {
    "k": pa.array(["a", "b"]),
    "u": pa.array([2**64 - 1, None], pa.uint64()),
    "d": pa.array([Decimal("1.25"), None], pa.decimal128(10, 2)),
    "i": pa.array([Decimal("7"), None], pa.decimal128(20, 0)),
    "at": pa.array([AT, None], pa.timestamp("us", "Europe/Berlin")),
    "day": pa.array([AT.date(), None], pa.date32()),
    "l": pa.array([[1, 2], None], pa.list_(pa.int32())),
    "f": pa.array([0.5, None], pa.float32()),
}
STORED = {
    "u": "18446744073709551615",
    "d": 1.25,
    "i": 7,
    "at": "2026-11-15T12:30:45.123456Z",
    "day": "2026-11-15",
    "l": [1, 2],
    "f": 0.5,
}


def sources_of(table: pa.Table, spark: Any, folder: Path) -> dict[str, Any]:
    """The same rows as a file of Parquet, and as DataFrames of every library."""
    pq.write_table(table, folder / "T.parquet")
    without_zone = table.set_column(
        4, "at", table.column("at").cast(pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
    )
    found = {
        "Parquet": str(folder / "T.parquet"),
        "Arrow": {"T": table},
        "Arrow, instants without a zone": {"T": without_zone},
        "pandas": {"T": table.to_pandas(types_mapper=pd.ArrowDtype)},
    }
    if spark is not None:
        wide = table.set_column(1, "u", table.column("u").cast(pa.decimal128(20, 0)))
        found["Spark"] = {"T": spark.createDataFrame(wide)}
    return found


@pytest.fixture(params=["local", pytest.param("spark", marks=pytest.mark.spark)])
def session(request: pytest.FixtureRequest) -> Any:
    return None if request.param == "local" else request.getfixturevalue("spark")


def test_types_that_other_systems_have(session: Any, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", TYPES, durability="process")
    for name, source in sources_of(pa.table(COLUMNS), session, tmp_path).items():
        graph.load(source, mode="overwrite", engine=session or "local")
        first, second = (json.loads(line)["data"] for line in exported(graph, tmp_path))
        assert {key: value for key, value in first.items() if key not in ("id", "k")} == STORED, name
        assert second == {"id": "b", "k": "b"}, name


def test_a_frame_alone_is_of_the_type_beside_it(session: Any, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node T { k: String @key  day: Date? }", durability="process")
    midnights = pd.DataFrame({"k": ["a", "b"], "day": [pd.Timestamp("2026-11-15"), None]})
    frames = [midnights, pa.table({"k": ["a"]}), pa.record_batch({"k": ["a"]})]
    if session is not None:
        frames = [session.createDataFrame([("a",)], "k string")]
    for frame in frames:
        graph.load(frame, type="T", mode="merge", engine=session or "local")
        assert graph.entity("T", "a") is not None
        with pytest.raises(UsageError, match="the type of the DataFrame is not known") as caught:
            graph.load(frame, mode="merge")
        assert caught.value.hint == 'load(frame, type="Person", ...)'
    if session is None:
        graph.load(midnights, type="T", mode="overwrite")
        assert graph.query("query q() { match { $t: T } return { $t.day as day } order { $t.k } }").rows == [
            {"day": date(2026, 11, 15)},
            {"day": None},
        ]
        with pytest.raises(UsageError, match="are given by their types"):
            graph.load({"T": midnights}, type="U", mode="merge")
        with pytest.raises(RejectedRecords, match=r"T.day expects Date, got the instant 2026-11-15T00:00:00\+00:00"):
            graph.load({"T": midnights.assign(day=midnights["day"].dt.tz_localize("UTC"))}, mode="merge")


def exported(graph: og.Graph, folder: Path) -> list[str]:
    (folder / "out.jsonl").unlink(missing_ok=True)
    graph.export(folder / "out.jsonl")
    return sorted((folder / "out.jsonl").read_text().splitlines())


REFUSED: dict[str, tuple[pa.Table, str]] = {
    "a struct": (pa.table({"k": ["a"], "l": pa.array([{"x": 1}])}), "T.l expects"),
    "unknown columns": (pa.table({"k": ["a"], "nick": ["x"], "mood": ["y"]}), "unknown columns 'nick', 'mood' for T"),
    "an instant that is too fine": (
        pa.table({"k": ["a"], "at": pa.array([1], pa.timestamp("ns"))}), "T.at",
    ),
    "a decimal that is no whole number": (
        pa.table({"k": ["a"], "i": pa.array([Decimal("1.5")], pa.decimal128(10, 2))}), "T.i expects I64, got 1.5",
    ),
}  # fmt: skip


@pytest.mark.parametrize("kind", REFUSED)
def test_what_is_refused_is_refused_with_the_same_words(kind: str, session: Any, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", TYPES, durability="process")
    table, said = REFUSED[kind]
    pq.write_table(table, tmp_path / "T.parquet")
    sources: list[Any] = [tmp_path / "T.parquet", {"T": table}]
    if session is not None and kind != "an instant that is too fine":  # Spark has no finer instants than we
        sources.append({"T": session.createDataFrame(table)})
    for source in sources:
        for rejects in (None, tmp_path / "rejects.jsonl"):
            whole = None if rejects is None or kind != "unknown columns" else rejects
            if rejects is not None and whole is None:
                receipt = graph.load(source, mode="append", engine=session or "local", rejects=rejects)
                assert receipt.rejected == 1
                (line,) = rejects.read_text().splitlines()
                rejects.unlink()
                assert said in json.loads(line)["reason"]
                assert '"k": "a"' in json.loads(line)["record"], "a row is named by its content"
            else:
                with pytest.raises(errors.InputError, match=said):
                    graph.load(source, mode="append", engine=session or "local", rejects=whole)
    assert graph.head().kind == "init"
