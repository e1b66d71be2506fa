"""Columns of every Arrow type, offered to properties of every type: taken exactly, or refused with a reason."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from omnigraph.language.schema.compiler import compile_schema
from omnigraph.records.ids import FreshIds
from omnigraph.records.tabular import TabularReader

SCALARS = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "Date", "DateTime")
PROPERTIES = [*(f"{name}?" for name in SCALARS), *(f"[{name}]?" for name in SCALARS if name != "Blob"), "Vector(2)?"]
CATALOG = compile_schema("node A {\n" + "\n".join(f"  p{n}: {type}" for n, type in enumerate(PROPERTIES)) + "\n}")
FRESH = FreshIds.new()

MOMENT = dt.datetime(2024, 1, 1, 0, 0, 0, 1)
NOT_UTF_8 = pa.array([b"\xffa", None]).view(pa.string())
COLUMNS: dict[str, pa.Array] = {
    "null": pa.nulls(2),
    "bool": pa.array([True, None]),
    **{f"int{bits}": pa.array([-1, None], f"int{bits}") for bits in (8, 16, 32, 64)},
    **{f"uint{bits}": pa.array([2**bits - 1, None], f"uint{bits}") for bits in (8, 16, 32, 64)},
    "half": pa.array([0.5, None], pa.float16()),
    "float": pa.array([3.0, float("nan")], pa.float32()),
    "double": pa.array([2.0**53, 1e300]),
    "infinite": pa.array([float("inf"), None]),
    "text": pa.array(["2024-01-01", "\0"]),
    "large text": pa.array(["x", None], pa.large_string()),
    "view": pa.array(["x", None], pa.string_view()),
    "words": pa.array(["x", None]).dictionary_encode(),
    "viewed words": pa.DictionaryArray.from_arrays(pa.array([0, None], pa.int8()), pa.array(["x"], pa.string_view())),
    "not UTF-8": NOT_UTF_8,
    "large not UTF-8": pa.array([b"\xffa", None], pa.large_binary()).view(pa.large_string()),
    "words not UTF-8": NOT_UTF_8.dictionary_encode(),
    "list not UTF-8": pa.ListArray.from_arrays(pa.array([0, 1, 1], pa.int32()), NOT_UTF_8),
    "struct not UTF-8": pa.StructArray.from_arrays([NOT_UTF_8], ["a"]),
    "binary": pa.array([b"x", None]),
    "fixed binary": pa.array([b"xy", None], pa.binary(2)),
    "binary view": pa.array([b"x", None], pa.binary_view()),
    "day": pa.array([dt.date(2024, 1, 1), None]),
    "day64": pa.array([dt.date(2024, 1, 1), None], pa.date64()),
    "wild day": pa.array([2**31 - 1, None], pa.int32()).cast(pa.date32()),
    **{f"instant {unit}": pa.array([5, None], pa.timestamp(unit)) for unit in ("s", "ms", "us", "ns")},
    **{
        f"midnight {unit}": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp(unit))
        for unit in ("s", "ms", "us", "ns")
    },
    "zoned midnight": pa.array([dt.datetime(2024, 1, 1), None], pa.timestamp("us", tz="UTC")),
    "zoned": pa.array([MOMENT, None], pa.timestamp("us", tz="America/New_York")),
    "wild instant": pa.array([2**62, -(2**62)], pa.timestamp("s")),
    "time": pa.array([1, None], pa.time32("s")),
    "fine time": pa.array([1, None], pa.time64("ns")),
    "duration": pa.array([1, None], pa.duration("ns")),
    "interval": pa.array([(1, 2, 3), None], pa.month_day_nano_interval()),
    "decimal": pa.array([Decimal("1.50"), Decimal("2.00")], pa.decimal128(10, 2)),
    "wide decimal": pa.array([Decimal(10) ** 60, None], pa.decimal256(70, 2)),
    "struct": pa.array([{"a": 1}, None]),
    "map": pa.array([[("a", 1)], None], pa.map_(pa.string(), pa.int64())),
    "union": pa.UnionArray.from_dense(pa.array([0, 0], pa.int8()), pa.array([0, 1], pa.int32()), [pa.array([1, 2])]),
    "list": pa.array([[1, 2], None]),
    "list with null": pa.array([[1, None], []]),
    "large list": pa.array([["x"], None], pa.large_list(pa.large_string())),
    "fixed list": pa.array([[0.5, 1.0], None], pa.list_(pa.float64(), 2)),
    "list view": pa.array([[1.5, 2.5], None], pa.list_view(pa.float64())),
    "list of lists": pa.array([[[1]], None]),
    "list of instants": pa.array([[5], None], pa.list_(pa.timestamp("ns"))),
    "list of days": pa.array([[dt.date(2024, 1, 1)], None]),
    "list of decimals": pa.array([[Decimal("1.5"), Decimal("2")], None]),
    "list of structs": pa.array([[{"a": 1}], None]),
    "run ends": pa.RunEndEncodedArray.from_arrays(pa.array([2], pa.int32()), pa.array(["x"])),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_a_column_of_any_type_is_taken_or_refused_row_by_row(column: pa.Array) -> None:
    for number in range(len(PROPERTIES)):
        name = f"p{number}"
        reader = TabularReader(CATALOG, "node:A", [name], FRESH, text=False)
        read = list(reader.read(pa.table({name: column}), pa.array([1, 2])))
        assert sum(typed.rows.num_rows for typed in read) + len(reader.rejects) == 2
        assert all(reject.reason.startswith(f"A.{name}") for reject in reader.rejects)
        taken = [
            pair
            for typed in read
            for pair in zip(typed.lines.to_pylist(), typed.rows.column(name).to_pylist(), strict=True)
        ]
        for line, value in taken:
            assert (value is None) == (not column[line - 1].is_valid or column[line - 1].as_py() is None)


TAKEN: list[tuple[str, str, list[Any]]] = [
    ("uint8", "I32?", [255, None]),
    ("double", "F64?", [2.0**53, 1e300]),
    ("words", "String?", ["x", None]),
    ("viewed words", "String?", ["x", None]),
    ("view", "String?", ["x", None]),
    ("binary view", "Blob?", [b"x", None]),
    ("fixed binary", "Blob?", [b"xy", None]),
    ("day64", "Date?", [dt.date(2024, 1, 1), None]),
    ("zoned", "DateTime?", [MOMENT, None]),
    ("instant s", "DateTime?", [dt.datetime(1970, 1, 1, 0, 0, 5), None]),
    ("decimal", "F64?", [1.5, 2.0]),
    ("half", "F32?", [0.5, None]),
    ("large list", "[String]?", [["x"], None]),
    ("list view", "Vector(2)?", [[1.5, 2.5], None]),
    ("list of decimals", "[F64]?", [[1.5, 2.0], None]),
    ("list of days", "[Date]?", [[dt.date(2024, 1, 1)], None]),
    ("run ends", "String?", ["x", "x"]),
]


@pytest.mark.parametrize(("kind", "type", "values"), TAKEN, ids=[f"{kind} as {type}" for kind, type, _ in TAKEN])
def test_a_column_that_fits_is_taken(kind: str, type: str, values: list[Any]) -> None:
    name = f"p{PROPERTIES.index(type)}"
    reader = TabularReader(CATALOG, "node:A", [name], FRESH, text=False)
    (typed,) = reader.read(pa.table({name: COLUMNS[kind]}), pa.array([1, 2]))
    assert (typed.rows.column(name).to_pylist(), reader.rejects) == (values, [])
