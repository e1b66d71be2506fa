"""The Arrow type that holds each type of value, and columns as Python values."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, TypeAlias, Union

from omnigraph._internal.lazy_imports import np, pa, pc, pt
from omnigraph.values.json_values import typed_value
from omnigraph.values.types import PropertyType, Scalar


def arrow_type(type: PropertyType) -> pa.DataType:
    """The Arrow type of a property's values.

    A DateTime is a timestamp in microseconds without zone, meaning UTC: every engine reads that as an instant.
    """
    if type.dimension is not None:
        return pa.list_(pa.field("item", pa.float32(), nullable=True), type.dimension)
    scalar = {
        Scalar.RECORD: lambda: pa.struct([pa.field(name, arrow_type(field)) for name, field in type.fields]),
        Scalar.STRING: pa.utf8,
        Scalar.BLOB: pa.large_binary,
        Scalar.BOOL: pa.bool_,
        Scalar.I32: pa.int32,
        Scalar.I64: pa.int64,
        Scalar.U32: pa.uint32,
        Scalar.U64: pa.uint64,
        Scalar.F32: pa.float32,
        Scalar.F64: pa.float64,
        Scalar.DATE: pa.date32,
        Scalar.DATETIME: lambda: pa.timestamp("us"),
    }[type.scalar]()
    return pa.list_(pa.field("item", scalar, nullable=True)) if type.is_list else scalar


def are_among(values: pa.Array | pa.ChunkedArray, others: pa.Array) -> pa.Array | pa.ChunkedArray:
    """Which of the values are among the others; a null never is. Positive and negative zero are one value: they compare equal,
    but hash differently."""
    if pa.types.is_floating(values.type):
        # Negative zero plus zero is zero; every other number is unchanged.
        values, others = (pc.add(side, pa.scalar(0.0, side.type)) for side in (values, others))
    return pc.is_in(values, value_set=others, skip_nulls=True)


def repeated(value: object, type: PropertyType, count: int) -> pa.Array:
    """A column that holds one value (not yet typed, or null) in every row."""
    if value is None:
        return pa.nulls(count, arrow_type(type))
    return pa.array([typed_value(value, type)] * count, arrow_type(type))


def filled_value(value: object, type: PropertyType) -> object:
    """A recorded fill value of a property, in the property's current type."""
    if type.is_list:
        return [filled_value(value, replace(type, is_list=False))]
    return repeated(value, type, 1)[0].as_py()


def widened(values: Any, type: pa.DataType) -> Any:
    """Values in a wider type; a single value becomes a list of one."""
    if values.type == type:
        return values
    if pa.types.is_list(type) and not pa.types.is_list(values.type):
        valid = values.is_valid().to_numpy(zero_copy_only=False)
        offsets = np.concatenate([[0], np.cumsum(valid)]).astype(np.int32)
        lists = pa.ListArray.from_arrays(offsets, widened(values.drop_null(), type.value_type), type=type)
        return pc.if_else(pa.array(valid), lists, pa.nulls(len(values), type)) if values.null_count else lists
    # An integer beyond 2^53 becomes the nearest F64: the user consented to the schema change that does this.
    return values.cast(type, safe=not pa.types.is_floating(type.value_type if pa.types.is_list(type) else type))


def python_values(column: pa.ChunkedArray) -> list[Any]:
    """A column as Python values for callers: instants have the zone UTC."""
    values: list[Any] = column.to_pylist()
    return [with_zone(value) for value in values] if _has_instants(column.type) else values


def zoned(table: pa.Table) -> pa.Table:
    """A table for callers: its instants have the zone UTC."""
    if not any(_has_instants(column.type) for column in table.columns):
        return table
    return table.cast(pa.schema([field.with_type(_zoned_type(field.type)) for field in table.schema]))


def _zoned_type(type: pa.DataType) -> pa.DataType:
    if pt.is_list(type):
        return pa.list_(type.value_field.with_type(_zoned_type(type.value_type)))
    if pt.is_struct(type):
        return pa.struct([field.with_type(_zoned_type(field.type)) for field in type])
    return pa.timestamp(type.unit, "UTC") if pt.is_timestamp(type) else type


def _has_instants(type: pa.DataType) -> bool:
    if pt.is_list(type):
        return _has_instants(type.value_type)
    if pt.is_struct(type):
        return any(_has_instants(field.type) for field in type)
    return bool(pt.is_timestamp(type))


def with_zone(value: Any) -> Any:
    """A value for callers: columns hold instants without a zone, callers get them in UTC."""
    match value:
        case datetime():
            return value.replace(tzinfo=UTC)
        case list():
            return [with_zone(item) for item in value]
        case dict():
            return {name: with_zone(item) for name, item in value.items()}
    return value


# Values and whole entities as callers see them.

Value: TypeAlias = Union[  # a string would not be a type at run time
    bool, int, float, str, bytes, dt.date, dt.datetime, "list[Value]", "dict[str, Value]", None
]
"""A property's value: a Vector is a list of floats, a Blob is bytes, an instant a datetime in UTC; a dict is a whole entity."""

JsonValue: TypeAlias = Union[bool, int, float, str, "list[JsonValue]", "dict[str, JsonValue]", None]
"""A value that `json` reads and writes."""

Entity: TypeAlias = dict[str, Value]
"""A node or an edge: `id`, for an edge `from` and `to` (node ids), then its properties by name."""

OUTSIDE_NAMES = {"src": "from", "dst": "to"}
"""Stored columns that have another name for callers and in files."""


def entity_value(row: Mapping[str, Any]) -> Entity:
    """A stored row as an entity."""
    return {OUTSIDE_NAMES.get(name, name): with_zone(value) for name, value in row.items()}


def entity_values(rows: pa.Table) -> list[Entity]:
    """Stored rows as entities."""
    names = [OUTSIDE_NAMES.get(name, name) for name in rows.column_names]
    columns = [python_values(column) for column in rows.columns]
    return [dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True)]
