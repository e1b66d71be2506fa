"""The same records in every format, encoding and compression, from a disk and from an object store, on both engines: the same rows, the
same rejects, the same words."""

from __future__ import annotations

import gzip
import io
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.storage import open_store

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


def csv(encoding: str = "utf-8", delimiter: str = ",", header: bool = True, null: str = "", quote: str = '"') -> bytes:
    def cell(value: Any) -> str:
        if value is None:
            return null
        text = json.dumps(value, ensure_ascii=False) if isinstance(value, list) else str(value)
        return quote + text.replace(quote, quote * 2) + quote

    lines = [delimiter.join(cell(value) for value in row) for row in ROWS]
    return "".join(f"{line}\n" for line in [delimiter.join(["name", "age", "tags"])] * header + lines).encode(encoding)


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
}  # fmt: skip


def loaded(graph: og.Graph, source: str, options: dict[str, Any], engine: Any, rejects: Path) -> tuple[Any, ...]:
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
            source = source.removesuffix(f"/{given.file}")
        rows, refused, total = loaded(graph, source, given.options, engine, tmp_path / "rejects.jsonl")
        assert rows == GOOD, name
        assert refused == [(given.line, REASON, "value_violation")], name
        assert (total.inserted, total.deleted) == (3, 3 if number else 0), name


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
