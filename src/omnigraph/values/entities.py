"""Values and whole entities as callers see them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeAlias, Union

from omnigraph.values.arrow import python_values, with_zone

if TYPE_CHECKING:
    import pyarrow as pa

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
