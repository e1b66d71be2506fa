"""Equality of stored values: null equals only null, and an empty list is not null."""

from __future__ import annotations

from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.language.catalog import EntityType


def differs(before: pa.Table, after: pa.Table, entity: EntityType) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Row by row, whether any value of the entity differs."""
    different = np.zeros(before.num_rows, bool)
    for name in value_columns(entity):
        different |= ~equal_values(before.column(name), after.column(name))
    return different


def value_columns(entity: EntityType) -> list[str]:
    ends = ["src", "dst"] if entity.table_key.startswith("edge:") else []
    return [*ends, *entity.properties]


def aligned(rows: pa.Table, ids: pa.Array) -> pa.Table:
    """The rows of these entities, in this order; all null for entities without a row."""
    return rows.take(pc.index_in(ids, value_set=rows.column("id")))


def equal_values(first: pa.ChunkedArray, other: pa.ChunkedArray) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Element by element, for two columns of one type."""
    left, right = (column.combine_chunks() for column in (first, other))
    if pa.types.is_list(left.type) or pa.types.is_fixed_size_list(left.type):
        return _equal_lists(left, right)
    return _equal_scalars(left, right)


def _equal_scalars(first: pa.Array, other: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    equal = pc.fill_null(pc.equal(first, other), False)
    equal = pc.or_(equal, pc.and_(pc.is_null(first), pc.is_null(other)))
    return np.array(equal.to_numpy(zero_copy_only=False), dtype=bool)


def _equal_lists(first: pa.Array, other: pa.Array) -> np.ndarray[Any, np.dtype[np.bool_]]:
    """Two lists are equal if their lengths are and no pair of elements differs."""
    equal = _equal_scalars(pc.list_value_length(first), pc.list_value_length(other))
    places = np.flatnonzero(equal & pc.is_valid(first).to_numpy(zero_copy_only=False))
    left, right = (side.take(pa.array(places)) for side in (first, other))
    same = _equal_scalars(pc.list_flatten(left), pc.list_flatten(right))
    owners = places[pc.list_parent_indices(left).to_numpy(zero_copy_only=False)]
    equal[owners[~same]] = False
    return equal
