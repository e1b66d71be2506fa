"""A column as text holds what each of its values is written as alone."""

from __future__ import annotations

import datetime as dt
import json
import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st

from omnigraph.values.json_text import text_column
from omnigraph.values.json_values import json_value


def written(value: Any) -> str | None:
    shown = json_value(value)
    return shown if shown is None or isinstance(shown, str) else json.dumps(shown, ensure_ascii=False)


def check(values: list[Any], type: pa.DataType) -> None:
    column = pa.array(values, type)
    assert text_column(column).to_pylist() == [written(value) for value in column.to_pylist()]


ordinary = st.floats(-1e9, 1e9, allow_nan=False)


@given(st.lists(st.none() | st.floats() | ordinary | st.integers(-(2**31), 2**31).map(float)))
def test_floats(values: list[float | None]) -> None:
    check(values, pa.float64())


@given(st.lists(st.none() | ordinary))
def test_ordinary_floats(values: list[float | None]) -> None:
    check([value if value is None or value == 0 or abs(value) > 1e-3 else 1.0 for value in values], pa.float64())


@given(st.lists(st.floats(width=32, allow_nan=False, allow_infinity=False)))
def test_narrow_floats_have_the_digits_that_python_gives_them(values: list[float]) -> None:
    assert all(struct.unpack("<f", struct.pack("<f", value))[0] == value for value in values)
    check(values, pa.float32())


@given(st.lists(st.none() | st.datetimes()))
def test_instants(values: list[dt.datetime | None]) -> None:
    column = pa.array(values, pa.timestamp("us"))
    expected = [written(value) for value in values]
    assert text_column(column).to_pylist() == expected
    assert text_column(column.cast(pa.timestamp("us", "UTC"))).to_pylist() == expected


@given(st.lists(st.none() | st.dates()))
def test_days(values: list[dt.date | None]) -> None:
    check(values, pa.date32())


@pytest.mark.parametrize(
    ("values", "type"),
    [
        (["", "a\nb", None, "東"], pa.string()),
        ([True, None, False], pa.bool_()),
        ([2**53, -(2**63), None, 0], pa.int64()),
        ([2**64 - 1, 1], pa.uint64()),
        ([[1, 2], None, []], pa.list_(pa.int32())),
        ([{"id": "a", "at": dt.datetime(2026, 7, 1)}, None], pa.struct({"id": pa.string(), "at": pa.timestamp("us")})),
        ([b"\x00", None], pa.large_binary()),
        ([], pa.float64()),
        ([None, None], pa.null()),
    ],
)
def test_every_other_type(values: list[Any], type: pa.DataType) -> None:
    check(values, type)


def test_words_of_a_dictionary() -> None:
    assert text_column(pa.array(["a", "b", "a"]).dictionary_encode()).to_pylist() == ["a", "b", "a"]
