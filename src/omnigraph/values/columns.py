"""Columns from outside (parsed JSON, CSV cells, Arrow) as the columns a table holds.

Whole columns are converted at once; Doubtful is raised if one value might not fit. The caller then goes through `typed_value`,
row by row, which says what is wrong or accepts the value after all.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from typing import Any

from omnigraph._internal.lazy_imports import pa, pc, pt
from omnigraph.values.arrow import arrow_type
from omnigraph.values.json_values import (
    DAYS,
    MAX_SHOWN,
    MICROSECONDS,
    TOO_FINE,
    Unfit,
    Unrepresentable,
    day_at,
    instant_at,
    json_value,
    typed_value,
)
from omnigraph.values.types import MAX_SAFE_INTEGER, PropertyType, Scalar

# A CSV cell as a value, and a value as a cell. A null is an empty cell; text is quoted, so that "" is empty text.

INTEGER = r"-?[0-9]+"
NUMBER = r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""How numbers are written in a cell."""

_INTEGER = re.compile(INTEGER)
_NUMBER = re.compile(NUMBER)
_BOOLS = {"true": True, "false": False}


def cell_value(cell: str | None, type: PropertyType) -> object:
    """The value that a cell spells, or the text itself if it spells none: then the check of the type refuses it."""
    if cell is None:
        return None
    try:
        if type.is_list or type.dimension is not None:
            return json.loads(cell)
        if type.scalar is Scalar.BOOL:
            return _BOOLS.get(cell, cell)
        if type.scalar.is_integer or type.scalar in (Scalar.DATE, Scalar.DATETIME):
            return int(cell) if _INTEGER.fullmatch(cell) else cell
        if type.scalar.is_float:
            return float(cell) if _NUMBER.fullmatch(cell) else cell
    except (ValueError, RecursionError):
        pass
    return cell


def spelled_value(text: str, type: PropertyType) -> object:
    """The value of this type that a text spells as a cell does; None if it spells none."""
    try:
        return typed_value(cell_value(text, type), type)
    except Unfit:
        return None


def cell_text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case date() | bytes():
            return str(json_value(value))
        case list():
            return _quoted(json.dumps(json_value(value), ensure_ascii=False))
        case str():
            return _quoted(value)
    raise TypeError(f"{type(value).__name__} is not a value of a graph")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'


_DAY_TEXT = r"^\d{4}-\d\d-\d\d$"
_INSTANT_TEXT = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,6})?Z?$"
_MILLISECONDS = (MICROSECONDS[0] // 1000, MICROSECONDS[1] // 1000)
_NANOSECONDS = {"s": 1_000_000_000, "ms": 1_000_000, "us": 1_000, "ns": 1}


class Doubtful(Exception):
    """A value of this column might not fit: check the values one by one."""


# ---------------------------------------------------------------- columns that Arrow's JSON parser made


def json_parser_type(type: PropertyType, *, dates_as_text: bool) -> pa.DataType:
    """The type that the parser is told to expect: the widest of its kind, so that no value is cut silently."""
    if type.dimension is not None:
        return pa.list_(pa.float64())
    date_type = pa.string() if dates_as_text else pa.int64()
    scalar = {
        Scalar.STRING: pa.string(),
        Scalar.BLOB: pa.string(),
        Scalar.BOOL: pa.bool_(),
        Scalar.U64: pa.uint64(),
        Scalar.F32: pa.float64(),
        Scalar.F64: pa.float64(),
        Scalar.DATE: date_type,
        Scalar.DATETIME: date_type,
    }.get(type.scalar, pa.int64())
    return pa.list_(scalar) if type.is_list else scalar


def parsed_column(raw: pa.Array, type: PropertyType) -> pa.Array:
    """A column of `json_parser_type` as the column a table holds. Raises Doubtful."""
    try:
        if type.dimension is not None:
            return _vectors(raw, type.dimension)
        if type.is_list:
            return _lists(raw, lambda items: _parsed_scalars(items, type.scalar))
        return _parsed_scalars(raw, type.scalar)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Doubtful from None


def _parsed_scalars(raw: pa.Array, scalar: Scalar) -> pa.Array:
    is_text = pa.types.is_string(raw.type)
    match scalar:
        case Scalar.I32 | Scalar.U32:
            return pc.cast(raw, arrow_type(PropertyType(scalar)))
        case Scalar.F32 | Scalar.F64:
            return _floats(raw, scalar)
        case Scalar.DATE:
            if is_text:
                return _days(pc.cast(_matching(raw, _DAY_TEXT), pa.date32()))
            return pc.cast(pc.cast(_within(raw, DAYS), pa.int32()), pa.date32())
        case Scalar.DATETIME:
            if is_text:
                bare = pc.utf8_rtrim(_matching(raw, _INSTANT_TEXT), characters="Z")
                return _instants(pc.cast(bare, pa.timestamp("us")))
            return _instants(pc.cast(_within(raw, _MILLISECONDS), pa.timestamp("ms")))
        case Scalar.BLOB:
            return _one_by_one(raw.to_pylist(), PropertyType(scalar))
    return raw


# ---------------------------------------------------------------- columns of text cells


def text_column(raw: pa.Array, type: PropertyType) -> pa.Array:
    """A column of CSV cells as the column a table holds. Raises Doubtful."""
    scalar = type.scalar
    if raw.null_count == len(raw):
        return pa.nulls(len(raw), arrow_type(type))
    if type.is_list or type.dimension is not None:
        return _one_by_one([cell_value(cell, type) for cell in raw.to_pylist()], type)
    if scalar is Scalar.STRING or scalar is Scalar.BLOB:
        return parsed_column(raw, type)
    if scalar is Scalar.BOOL:
        return pc.equal(_matching(raw, "^(true|false)$"), "true")
    numbers = f"^{NUMBER}$" if scalar.is_float else f"^{INTEGER}$"
    try:
        if scalar in (Scalar.DATE, Scalar.DATETIME):
            if not pc.any(pc.match_substring_regex(raw, numbers)).as_py():
                return parsed_column(raw, type)
            return parsed_column(pc.cast(_matching(raw, numbers), pa.int64()), type)
        target = json_parser_type(type, dates_as_text=True)
        return parsed_column(pc.cast(_matching(raw, numbers), target), type)
    except pa.ArrowInvalid:
        raise Doubtful from None


# ---------------------------------------------------------------- columns that have a type already


def arrow_column(raw: pa.Array, type: PropertyType) -> pa.Array:
    """A column of Parquet or of a data frame as the column a table holds. Raises Doubtful."""
    try:
        if raw.null_count == len(raw):
            return pa.nulls(len(raw), arrow_type(type))
        if type.is_list or type.dimension is not None:
            if not (pt.is_list(raw.type) or pt.is_large_list(raw.type) or pt.is_fixed_size_list(raw.type)):
                raise Doubtful
            listed = raw.cast(pa.list_(raw.type.value_type))
            if type.dimension is not None:
                return _vectors(listed, type.dimension)
            return _lists(listed, lambda items: _arrow_scalars(items, type.scalar))
        return _arrow_scalars(raw, type.scalar)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Doubtful from None


def _arrow_scalars(raw: pa.Array, scalar: Scalar) -> pa.Array:
    match scalar:
        case Scalar.STRING if pt.is_string(raw.type) or pt.is_large_string(raw.type) or pt.is_string_view(raw.type):
            raw.validate(full=True)  # Arrow takes the bytes of other programs for UTF-8 unseen.
            return pc.cast(raw, pa.string())
        case Scalar.BOOL if pt.is_boolean(raw.type):
            return raw
        case Scalar.DATE if pt.is_date(raw.type):
            return _days(pc.cast(raw, pa.date32()))
        case Scalar.DATE if pt.is_timestamp(raw.type) and raw.type.tz is None:
            days = _days(pc.cast(raw, pa.date32()))
            if not pc.cast(days, raw.type).equals(raw):
                raise Doubtful
            return days
        case Scalar.DATETIME if pt.is_timestamp(raw.type):
            return _instants(raw)
        case Scalar.BLOB if pt.is_binary(raw.type) or pt.is_large_binary(raw.type) or pt.is_binary_view(raw.type):
            return pc.cast(raw, pa.large_binary())
        case _ if scalar.is_integer and (pt.is_integer(raw.type) or pt.is_decimal(raw.type)):
            return pc.cast(raw, arrow_type(PropertyType(scalar)))
        case _ if scalar.is_integer and pt.is_floating(raw.type):
            # In some data frames, integer columns with nulls are floats.
            exact = _within(raw, (-MAX_SAFE_INTEGER, MAX_SAFE_INTEGER))
            return pc.cast(exact, arrow_type(PropertyType(scalar)))
        case _ if scalar.is_float and pt.is_decimal(raw.type):
            return _one_by_one(raw.to_pylist(), PropertyType(scalar))
        case _ if scalar.is_float and (pt.is_integer(raw.type) or pt.is_floating(raw.type)):
            return _floats(raw, scalar)
    raise Doubtful


def plain_values(column: pa.Array) -> list[Any]:
    """The values of a column for `typed_value`, which refuses those that no property can hold."""
    type = column.type
    if pt.is_timestamp(type):
        unit = _NANOSECONDS[type.unit]
        ticks = column.cast(pa.timestamp(type.unit)).cast(pa.int64()).to_pylist()
        instants = [None if tick is None else _plain_instant(tick * unit) for tick in ticks]
        return instants if type.tz is None else [_in_utc(instant) for instant in instants]
    if pt.is_date(type):
        days = column.cast(pa.date32()).cast(pa.int32()).to_pylist()
        return [None if day is None else _plain_day(day) for day in days]
    if pt.is_list(type) or pt.is_large_list(type) or pt.is_fixed_size_list(type):
        return [None if not item.is_valid else plain_values(item.values) for item in column]
    if pt.is_time64(type) or pt.is_duration(type):
        # No property holds these; they are shown in microseconds.
        unit = pa.time64("us") if pt.is_time64(type) else pa.duration("us")
        column = column.cast(unit, safe=False)
    try:
        return column.to_pylist()  # type: ignore[no-any-return]  # Arrow is not checked
    except UnicodeDecodeError:
        return [_plain_text(cell) for cell in column]


def _plain_text(cell: pa.Scalar) -> object:
    try:
        return cell.as_py()
    except UnicodeDecodeError as error:
        shown = error.object[: MAX_SHOWN // 2].decode("utf-8", "backslashreplace")
        return Unrepresentable(f"text that is not UTF-8 ('{shown}')")


def _plain_day(days: int) -> object:
    if DAYS[0] <= days <= DAYS[1]:
        return day_at(days)
    return Unrepresentable(f"a day outside the years 1 to 9999 ({days} days after 1970-01-01)")


def _plain_instant(nanoseconds: int) -> object:
    microseconds, rest = divmod(nanoseconds, 1000)
    if not MICROSECONDS[0] <= microseconds <= MICROSECONDS[1]:
        return Unrepresentable(f"an instant outside the years 1 to 9999 ({nanoseconds // 10**9} seconds after 1970)")
    instant = instant_at(microseconds)
    if not rest:
        return instant
    return Unrepresentable(f"the instant {instant.isoformat(timespec='microseconds')}{rest:03}: {TOO_FINE}")


def _in_utc(instant: object) -> object:
    return instant.replace(tzinfo=UTC) if isinstance(instant, datetime) else instant


# ---------------------------------------------------------------- shared


def _lists(raw: pa.Array, convert: Callable[[pa.Array], pa.Array]) -> pa.Array:
    if raw.values.null_count:
        raise Doubtful
    items = convert(raw.values)
    item = pa.field("item", items.type, nullable=True)
    return pa.ListArray.from_arrays(raw.offsets, items, type=pa.list_(item), mask=pc.is_null(raw))


def _vectors(raw: pa.Array, dimension: int) -> pa.Array:
    if not (pt.is_floating(raw.type.value_type) or pt.is_integer(raw.type.value_type)):
        raise Doubtful
    values = raw.flatten()
    if pc.any(pc.not_equal(pc.list_value_length(raw), dimension)).as_py() or values.null_count:
        raise Doubtful
    numbers = _floats(values, Scalar.F32)
    type = arrow_type(PropertyType(Scalar.VECTOR, dimension=dimension))
    vectors = pa.FixedSizeListArray.from_arrays(numbers, type=type)
    # A null takes no values in a list, but `dimension` values in a fixed-size list.
    return pc.take(vectors, _ranks(raw)) if raw.null_count else vectors


def _ranks(raw: pa.Array) -> pa.Array:
    """For each row that is not null its rank among these; null for the others."""
    valid = pc.is_valid(raw)
    rank = pc.subtract(pc.cumulative_sum(pc.cast(valid, pa.int64())), 1)
    return pc.if_else(valid, rank, pa.scalar(None, pa.int64()))


def _floats(raw: pa.Array, scalar: Scalar) -> pa.Array:
    """The nearest float of each number. Raises Doubtful if one of them is not finite."""
    numbers = pc.cast(raw, pa.float64(), safe=False)
    if scalar is Scalar.F32:
        numbers = pc.cast(numbers, pa.float32(), safe=False)
    if pc.any(pc.invert(pc.is_finite(numbers))).as_py():
        raise Doubtful
    return numbers


def _days(days: pa.Array) -> pa.Array:
    _within(pc.cast(days, pa.int32()), DAYS)
    return days


def _instants(raw: pa.Array) -> pa.Array:
    """Timestamps of any unit and zone as a column holds them. Raises ArrowInvalid if one is finer than a microsecond."""
    instants = pc.cast(pc.cast(raw, pa.timestamp(raw.type.unit)), pa.timestamp("us"))
    _within(pc.cast(instants, pa.int64()), MICROSECONDS)
    return instants


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    if pc.any(pc.invert(pc.match_substring_regex(texts, pattern))).as_py():
        raise Doubtful
    return texts


def _within(numbers: pa.Array, bounds: tuple[int, int]) -> pa.Array:
    extent = pc.min_max(numbers).as_py()
    if extent["min"] is not None and not (bounds[0] <= extent["min"] and extent["max"] <= bounds[1]):
        raise Doubtful
    return numbers


def _one_by_one(values: list[Any], type: PropertyType) -> pa.Array:
    try:
        return pa.array([typed_value(value, type) for value in values], arrow_type(type))
    except Unfit:
        raise Doubtful from None
