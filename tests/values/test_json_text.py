"""Columns as JSON text: what Arrow writes of a column is, byte for byte, what Python writes of each value."""

from __future__ import annotations

import datetime as dt
import json
import math
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from omnigraph.language.schema.compiler import compile_schema
from omnigraph.records.encoding import json_blocks, record_lines
from omnigraph.values.json_text import column_texts, object_texts, text_blocks
from omnigraph.values.json_values import json_value

FIRST, LAST = -62_135_596_800_000_000, 253_402_300_799_999_999
FLOATS = [0.0, -0.0, 1.0, 0.1, 1e-4, 9.9e-5, 1e-5, 1e10, 9_999_999_999.5, 1e15, 1e16, 1e22, 5e-324, 1.7e308]
COLUMNS = {
    "text": pa.array(["", "a", '"', "\\", "\n\t\x00\x1f\x7f", "é😀\u2028", None]),
    "long text": pa.array(["a", None, "\b"], pa.large_string()),
    "floats": pa.array([*FLOATS, *(-each for each in FLOATS), math.nan, math.inf, -math.inf, None]),
    "narrow floats": pa.array([0.1, 1e-5, 3e38, 2.0, None], pa.float32()),
    "small integers": pa.array([-(2**31), 2**31 - 1, None], pa.int32()),
    "safe integers": pa.array([-(2**53 - 1), 2**53 - 1, None]),
    "unsafe integers": pa.array([2**53, 1, -(2**63), None]),
    "unsafe unsigned integers": pa.array([2**64 - 1, 0, None], pa.uint64()),
    "truths": pa.array([True, False, None]),
    "days": pa.array([dt.date.min, dt.date(999, 12, 31), dt.date.max, None]),
    "instants": pa.array([FIRST, -1_000_001, -1_000, -1, 0, 1, 1_000, 123_456, LAST, None], pa.timestamp("us")),
    "instants with a zone": pa.array([FIRST, 1, None], pa.timestamp("us", "UTC")),
    "lists of text": pa.array([[], ["a", '"'], None, ["b"]]),
    "lists of instants": pa.array([[1, 1_000], None, []], pa.list_(pa.timestamp("us"))),
    "lists with nulls": pa.array([[1, None], None, [2]]),
    "vectors": pa.array([[1.0, 1e-9], None, [0.1, 2.5]], pa.list_(pa.float32(), 2)),
    "bytes": pa.array([b"x", b"", None], pa.large_binary()),
    "entities": pa.array([{"id": "a", "at": dt.datetime(2024, 1, 1)}, None]),
    "nulls": pa.nulls(2),
}


def by_hand(column: pa.Array) -> list[str | None]:
    return [None if value is None else _text(json_value(value)) for value in column.to_pylist()]


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


@pytest.mark.parametrize("name", COLUMNS)
def test_a_column_as_text_is_each_value_as_text(name: str) -> None:
    column = COLUMNS[name]
    for part in (column, column.slice(1), column.slice(1, 1), column.slice(0, 0)):
        assert column_texts(part).to_pylist() == by_hand(part)


@given(st.lists(st.one_of(st.none(), st.floats())), st.lists(st.one_of(st.none(), st.text())))
def test_any_float_and_any_text_are_written_as_python_writes_them(
    floats: list[float | None], texts: list[str | None]
) -> None:
    for column in (pa.array(floats, pa.float64()), pa.array(texts, pa.string())):
        assert column_texts(column).to_pylist() == by_hand(column)


@given(st.lists(st.integers(FIRST, LAST)))
def test_any_instant_is_written_as_python_writes_it(ticks: list[int]) -> None:
    column = pa.array(ticks, pa.timestamp("us"))
    assert column_texts(column).to_pylist() == by_hand(column)


def test_a_null_member_is_left_out_unless_it_is_to_be_written() -> None:
    members = {"id": pa.array(["a", "b"]), "x": pa.array([1, None]), "y": pa.array([None, True])}
    texts = object_texts(members, written_nulls=frozenset({"y"}))
    assert texts.to_pylist() == ['{"id":"a","x":1,"y":null}', '{"id":"b","y":true}']


def test_a_block_ends_with_the_text_that_fills_it() -> None:
    texts = pa.array(["12345", "", "1234", "1", "a text that is longer", "é"], pa.large_string())
    assert list(text_blocks(texts, 9)) == [b"123451234", b"1a text that is longer", "é".encode()]
    assert list(text_blocks(texts.slice(2, 2), 9)) == [b"12341"]
    assert list(text_blocks(texts.slice(0, 0), 9)) == []


def test_a_batch_of_wide_rows_is_made_into_text_a_part_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    entity = compile_schema("node A { text: String }").tables["node:A"]
    rows = pa.record_batch({"id": [f"{n}" for n in range(10)], "text": ["x" * 1_000] * 10})
    monkeypatch.setattr("omnigraph.records.encoding.ENCODED_BYTES", rows.nbytes // 4)
    encoded: list[int] = []

    def counted(entity: Any, part: pa.RecordBatch) -> pa.LargeStringArray:
        encoded.append(part.num_rows)
        return record_lines(entity, part)

    monkeypatch.setattr("omnigraph.records.encoding.record_lines", counted)
    lines = b"".join(json_blocks(entity, rows)).splitlines()
    assert ([json.loads(line)["data"]["id"] for line in lines], max(encoded)) == ([f"{n}" for n in range(10)], 2)
