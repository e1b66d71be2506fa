"""One value in and out: what each type takes, what it refuses and with which words, and what JSON gives back."""

from __future__ import annotations

import datetime as dt
import json
import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings, strategies as st

from omnigraph.values.arrow import arrow_type
from omnigraph.values.json_values import Unfit, json_value, typed_value
from omnigraph.values.types import INTEGER_RANGES, PROPERTY_SCALARS, PropertyType, Scalar

TWO_HOURS_EAST = dt.timezone(dt.timedelta(hours=2))

FITS: list[tuple[Scalar, object, object]] = [
    (Scalar.STRING, "", ""),
    (Scalar.STRING, "\0\u2028😀", "\0\u2028😀"),
    (Scalar.BOOL, True, True),
    (Scalar.BOOL, np.bool_(False), False),
    (Scalar.I32, -(2**31), -(2**31)),
    (Scalar.I32, Decimal("7.00"), 7),
    (Scalar.I32, np.int64(3), 3),
    (Scalar.I64, "-9223372036854775808", -(2**63)),
    (Scalar.U32, 2**32 - 1, 2**32 - 1),
    (Scalar.U64, "18446744073709551615", 2**64 - 1),
    (Scalar.U64, Decimal(2**64 - 1), 2**64 - 1),
    (Scalar.F64, 3, 3.0),
    (Scalar.F64, 2**53 + 1, float(2**53)),
    (Scalar.F64, Decimal("19.99"), 19.99),
    (Scalar.F64, np.float32(0.5), 0.5),
    (Scalar.F32, 0.1, 0.10000000149011612),
    (Scalar.F32, Decimal("0.1"), 0.10000000149011612),
    (Scalar.F32, 3.4028235e38, 3.4028234663852886e38),
    (Scalar.DATE, "2024-02-29", dt.date(2024, 2, 29)),
    (Scalar.DATE, -1, dt.date(1969, 12, 31)),
    (Scalar.DATE, dt.datetime(2026, 1, 1), dt.date(2026, 1, 1)),
    (Scalar.DATE, pd.Timestamp("2026-01-01"), dt.date(2026, 1, 1)),
    (Scalar.DATETIME, "2026-01-01T00:00:00.5Z", dt.datetime(2026, 1, 1, 0, 0, 0, 500_000)),
    (Scalar.DATETIME, "2026-01-01T00:00:00.123456000+02:00", dt.datetime(2025, 12, 31, 22, 0, 0, 123_456)),
    (Scalar.DATETIME, -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
    (Scalar.DATETIME, dt.datetime(2026, 1, 1, 0, 0, 0, 999_999), dt.datetime(2026, 1, 1, 0, 0, 0, 999_999)),
    (Scalar.DATETIME, dt.datetime(2026, 1, 1, 2, tzinfo=TWO_HOURS_EAST), dt.datetime(2026, 1, 1)),
    (Scalar.DATETIME, pd.Timestamp("2026-01-01T00:00:00.000001"), dt.datetime(2026, 1, 1, 0, 0, 0, 1)),
    (Scalar.BLOB, b"x", b"x"),
    (Scalar.BLOB, bytearray(b"x"), b"x"),
    (Scalar.BLOB, "base64:", b""),
]

UNFIT: list[tuple[Scalar, object, str]] = [
    (Scalar.STRING, 1, "expects String, got 1"),
    (Scalar.STRING, "a\ud800", r"expects valid Unicode, got 'a\ud800', which holds half of a surrogate pair"),
    (Scalar.BOOL, "true", "expects Bool, got 'true'"),
    (Scalar.I32, 1.0, "expects I32, got 1.0"),
    (Scalar.I32, "1", "expects I32, got '1'"),
    (Scalar.I32, True, "expects I32, got true"),
    (Scalar.I32, Decimal("1.5"), "expects I32, got 1.5"),
    (Scalar.I32, Decimal("1e999999"), "expects I32, got 1E+999999"),
    (Scalar.I32, Decimal("nan"), "expects I32, got NaN"),
    (Scalar.I64, "1.5", "expects I64, got '1.5'"),
    (Scalar.I64, "--1", "expects I64, got '--1'"),
    (Scalar.I64, "١", "expects I64, got '١'"),
    (Scalar.I64, 2**63, f"expects I64 ({-(2**63)} to {2**63 - 1}), got {2**63}"),
    (Scalar.I64, 10**5000, f"expects I64 ({-(2**63)} to {2**63 - 1}), got a very large number"),
    (Scalar.U64, -1, f"expects U64 (0 to {2**64 - 1}), got -1"),
    (Scalar.F64, True, "expects a number, got true"),
    (Scalar.F64, math.nan, "expects a finite number, got NaN"),
    (Scalar.F64, math.inf, "expects a finite number, got Infinity"),
    (Scalar.F64, 10**400, "expects F64, got a very large number"),
    (Scalar.F64, Decimal("0.1000000000000000055511151231257827"), "expects F64, which has no value 0.1000000000000000055511151231257827"),
    (Scalar.F64, Decimal("1e400"), "expects F64, which has no value 1E+400"),
    (Scalar.F32, -math.inf, "expects a finite number, got -Infinity"),
    (Scalar.F32, 1e39, "expects F32, got 1e+39"),
    (Scalar.F32, Decimal("0.123456789"), "expects F32, which has no value 0.123456789"),
    (Scalar.DATE, dt.datetime(2026, 1, 1, 1), "expects Date, got the instant 2026-01-01T01:00:00"),
    (Scalar.DATE, dt.datetime(2026, 1, 1, tzinfo=dt.UTC), "expects Date, got the instant 2026-01-01T00:00:00+00:00"),
    (Scalar.DATE, pd.NaT, "expects Date, got the instant NaT"),
    (Scalar.DATE, 10**10, "Date value out of range: 10000000000"),
    (Scalar.DATE, "2023-02-29", "invalid Date literal '2023-02-29': there is no such day"),
    (Scalar.DATE, "0000-01-01", "invalid Date literal '0000-01-01': there is no such day"),
    (Scalar.DATE, True, "expects Date, got true"),
    (Scalar.DATETIME, 10**18, "DateTime value out of range: 1000000000000000000"),
    (Scalar.DATETIME, "noon", "invalid DateTime literal 'noon': an instant is written YYYY-MM-DDTHH:MM:SS with Z or an offset"),
    (Scalar.DATETIME, "2026-01-01T24:00:00Z", "invalid DateTime literal '2026-01-01T24:00:00Z': there is no such day or time"),
    (Scalar.DATETIME, "2026-01-01T00:00:00+01:60", "invalid DateTime literal '2026-01-01T00:00:00+01:60': an instant is written YYYY-MM-DDTHH:MM:SS with Z or an offset"),
    (Scalar.DATETIME, "2026-01-01T00:00:00.0000001Z", "invalid DateTime literal '2026-01-01T00:00:00.0000001Z': an instant has microseconds at most"),
    (Scalar.DATETIME, pd.Timestamp("2026-01-01T00:00:00.000000001"), "expects DateTime, got the instant 2026-01-01T00:00:00.000000001: an instant has microseconds at most"),
    (Scalar.DATETIME, dt.datetime(1, 1, 1, tzinfo=TWO_HOURS_EAST), "DateTime value out of range: 0001-01-01T00:00:00+02:00"),
    (Scalar.DATETIME, dt.date(2026, 1, 1), "expects DateTime, got the day 2026-01-01"),
    (Scalar.DATETIME, pd.NaT, "expects DateTime, got NaT"),
    (Scalar.I64, np.timedelta64(1, "s"), "expects I64, got timedelta64"),
    (Scalar.F64, np.timedelta64(1, "s"), "expects a number, got timedelta64"),
    (Scalar.BOOL, np.array([True]), "expects Bool, got ndarray"),
    (Scalar.DATETIME, [1], "expects DateTime, got [1]"),
    (Scalar.BLOB, "base64:?", "expects Blob as valid base64"),
    (Scalar.BLOB, "base64:ü", "expects Blob as valid base64"),
    (Scalar.BLOB, "s3://bucket/key", "expects Blob as 'base64:...'; external addresses are not allowed"),
]  # fmt: skip


@pytest.mark.parametrize(("scalar", "given", "kept"), FITS)
def test_a_value_that_fits(scalar: Scalar, given: object, kept: object) -> None:
    found = typed_value(given, PropertyType(scalar))
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(("scalar", "given", "says"), UNFIT, ids=range(len(UNFIT)))
def test_a_value_that_does_not_fit(scalar: Scalar, given: object, says: str) -> None:
    with pytest.raises(Unfit) as caught:
        typed_value(given, PropertyType(scalar))
    assert str(caught.value) == says


def test_null_stays_null_in_every_type() -> None:
    for scalar in PROPERTY_SCALARS:
        assert typed_value(None, PropertyType(scalar)) is None


LISTS: list[tuple[PropertyType, object, object]] = [
    (PropertyType(Scalar.I64, is_list=True), ("1", 2), [1, 2]),
    (PropertyType(Scalar.DATE, is_list=True), ["2024-01-01"], [dt.date(2024, 1, 1)]),
    (PropertyType(Scalar.VECTOR, dimension=2), np.array([1, 2], dtype="f4"), [1.0, 2.0]),
    (PropertyType(Scalar.I64, is_list=True), "12", "expects a list, got '12'"),
    (PropertyType(Scalar.I64, is_list=True), [1, None], "expects a list without nulls"),
    (PropertyType(Scalar.F64, is_list=True), [0.5, math.nan], "item 1 expects a finite number, got NaN"),
    (PropertyType(Scalar.DATE, is_list=True), ["x"], "item 0: invalid Date literal 'x': a date is written YYYY-MM-DD"),
    (PropertyType(Scalar.VECTOR, dimension=2), [1], "expects Vector(2), got 1 numbers"),
    (PropertyType(Scalar.VECTOR, dimension=2), [1, math.inf], "item 1 expects a finite number, got Infinity"),
    (PropertyType(Scalar.VECTOR, dimension=2), [1, None], "item 1 expects a number, got null"),
    (PropertyType(Scalar.VECTOR, dimension=1), np.float64(1), "expects Vector(1), got 1.0"),
]


@pytest.mark.parametrize(("type", "given", "expected"), LISTS, ids=str)
def test_lists_and_vectors(type: PropertyType, given: object, expected: object) -> None:
    if isinstance(expected, list):
        assert typed_value(given, type) == expected
        return
    with pytest.raises(Unfit) as caught:
        typed_value(given, type)
    assert str(caught.value) == expected


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(Unfit) as caught:
        typed_value("x" * 1000, PropertyType(Scalar.I32))
    assert len(str(caught.value)) < 120


OUT: list[tuple[object, Any]] = [
    (2**53 - 1, 2**53 - 1),
    (2**53, "9007199254740992"),
    (-(2**53), "-9007199254740992"),
    (math.nan, "NaN"),
    (-math.inf, "-Infinity"),
    (dt.date(1, 1, 1), "0001-01-01"),
    (dt.datetime(2026, 7, 1, 12), "2026-07-01T12:00:00.000Z"),
    (dt.datetime(2026, 7, 1, 12, 0, 0, 1), "2026-07-01T12:00:00.000001Z"),
    (dt.datetime(2026, 7, 1, 12, tzinfo=TWO_HOURS_EAST), "2026-07-01T10:00:00.000Z"),
    (b"hi", "base64:aGk="),
    ({"at": [dt.date(2026, 1, 1)]}, {"at": ["2026-01-01"]}),
]


@pytest.mark.parametrize(("value", "shown"), OUT, ids=str)
def test_a_value_as_json(value: object, shown: object) -> None:
    found = json_value(value)
    assert found == shown
    assert type(found) is type(shown)


STRANGE = [
    pd.NA, pd.NaT, np.datetime64("NaT"), np.timedelta64(1, "s"), np.array(5), np.array([[1, 2], [3, 4]]), np.ma.masked, np.str_("x"),
    Decimal("sNaN"), Decimal("1e-400"), Fraction(1, 3), Fraction(10**400), 1j, set(), {}, object(), range(3), [[1]], [[]], [{}], ...,
    memoryview(b"abcd")[::2], dt.time(1), dt.timedelta(1), pa.scalar(5), pa.array([1, 2]), pd.Series([1, 2]), -(10**5000), "\ud800" * 100,
    pd.Timestamp("2024-01-01", tz="Europe/Paris"), type,
]  # fmt: skip
TYPES = [
    *(PropertyType(scalar) for scalar in PROPERTY_SCALARS if scalar is not Scalar.VECTOR),
    *(PropertyType(scalar, is_list=True) for scalar in PROPERTY_SCALARS if scalar not in (Scalar.VECTOR, Scalar.BLOB)),
    PropertyType(Scalar.VECTOR, dimension=2),
]


@pytest.mark.parametrize("value", STRANGE, ids=range(len(STRANGE)))
def test_whatever_is_given_is_a_value_of_the_type_or_refused(value: object) -> None:
    messages = []
    for type_ in TYPES:
        try:
            typed = typed_value(value, type_)
        except Unfit as unfit:
            messages.append(str(unfit))
        else:
            assert pa.array([typed], arrow_type(type_)).to_pylist() == [typed]
    assert "".join(messages).encode()


values_by_scalar: dict[Scalar, st.SearchStrategy[object]] = {
    Scalar.STRING: st.text(),
    Scalar.BLOB: st.binary(),
    Scalar.BOOL: st.booleans(),
    Scalar.F32: st.floats(width=32, allow_nan=False, allow_infinity=False),
    Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
    Scalar.DATE: st.dates(),
    Scalar.DATETIME: st.datetimes().map(lambda moment: moment.replace(fold=0)),
    **{scalar: st.integers(*bounds) for scalar, bounds in INTEGER_RANGES.items()},
}


@pytest.mark.parametrize("scalar", values_by_scalar)
@settings(max_examples=100)
@given(data=st.data())
def test_what_goes_out_as_json_comes_in_as_the_same_value(scalar: Scalar, data: st.DataObject) -> None:
    value = data.draw(values_by_scalar[scalar])
    text = json.dumps(json_value(value), allow_nan=False)
    back = typed_value(json.loads(text), PropertyType(scalar))
    assert repr(back) == repr(value)
