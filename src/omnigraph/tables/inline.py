"""Inline rows as Arrow, and back.

A value is written as JSON: a date as days and a timestamp as microseconds since the epoch, bytes as base64, an integer that JSON
readers would round as a string.
"""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import groupby
from typing import Any

from omnigraph._internal.lazy_imports import pa, pt
from omnigraph.tables.addresses import ROW_ADDRESS, fragment_of_address
from omnigraph.tables.layout import Layout, VersionColumns
from omnigraph.tables.table import Table
from omnigraph.values.inline_rows import NO_INLINE, Inline, InlineChange
from omnigraph.values.types import MAX_SAFE_INTEGER

# Moves inline changes to another stored version than the one they were made for.
#
# A version that was made while others wrote holds the rows of an earlier one at other addresses. The inline changes on top of the
# earlier one stay as they are; only the rows that they replace have to be found again. This is needed after every lost race, each
# time with a little more changed, so everything found once is kept.


class InlineRebase:
    """Moves changes from one stored version to another that has the same rows plus those of `absorbed`."""

    def __init__(self, before: Table, after: Table, absorbed: Inline = NO_INLINE) -> None:
        self._before = before
        self._after = after
        self._masked = absorbed.masked_addresses
        self._absorbed = absorbed.row_texts
        self._places: dict[int, int] = {}
        """Address in the version before -> address of the same row in the version after."""
        self._own: dict[str, int] = {}
        """Id -> address in the version after, for absorbed rows."""

    def moved(self, inline: Inline) -> Inline | None:
        """The changes, as they apply to the version after. None if a row that an absorbed change replaced is back."""
        if not self._masked <= inline.masked_addresses:
            return None
        changes, kept = [], set[str]()
        for change in inline:
            texts = change.row_texts
            is_known = [self._absorbed.get(id) == texts[id] for id in change.ids]
            kept.update(id for id, known in zip(change.ids, is_known, strict=True) if known)
            rows = tuple(row for row, known in zip(change.rows, is_known, strict=True) if not known)
            masked = tuple(
                sorted(self._addresses_after(address for address in change.masked if address not in self._masked))
            )
            if rows or masked:
                changes.append(InlineChange(change.columns if rows else (), rows, masked=masked))
        gone = self._absorbed_addresses(self._absorbed.keys() - kept)
        return Inline((InlineChange((), (), masked=tuple(sorted(gone))), *changes) if gone else changes)

    def _addresses_after(self, addresses: Iterable[int]) -> list[int]:
        wanted = list(addresses)
        missing = [address for address in wanted if address not in self._places]
        if missing:
            files = {fragment.id: fragment.files for fragment in self._after.fragments}
            same = {fragment.id for fragment in self._before.fragments if files.get(fragment.id) == fragment.files}
            self._places.update((address, address) for address in missing if fragment_of_address(address) in same)
            moved = [address for address in missing if address not in self._places]
            if moved:
                rows = self._before.take_addresses(moved, ["id"])
                ids, old = rows.column("id").to_pylist(), rows.column(ROW_ADDRESS).to_pylist()
                known = self._after.addresses_of(ids)
                self._places.update((address, known[id]) for id, address in zip(ids, old, strict=True))
        return [self._places[address] for address in wanted]

    def _absorbed_addresses(self, ids: Iterable[str]) -> list[int]:
        """Addresses in the version after of the absorbed rows with these ids."""
        wanted = list(ids)
        missing = [id for id in wanted if id not in self._own]
        if missing:
            self._own.update(self._after.addresses_of(missing))
        return [self._own[id] for id in wanted]


LAYOUTS_KEPT = 1_024


def inline_change(
    layout: Layout, rows: Sequence[Mapping[str, Any]], removed: Sequence[str] = (), masked: Sequence[int] = ()
) -> InlineChange:
    """A change with these rows, whose columns have the names that readers use."""
    names, readers = _written(layout) if rows else ((), [])
    columns = []
    for name, as_json in readers:
        values = [row.get(name) for row in rows]
        columns.append(values if as_json is None else as_json(values))
    return InlineChange(names, tuple(zip(*columns, strict=True)), tuple(sorted(removed)), tuple(sorted(masked)))


@lru_cache(maxsize=LAYOUTS_KEPT)
def _written(layout: Layout) -> tuple[tuple[str, ...], list[tuple[str, Callable[[list[Any]], list[Any]] | None]]]:
    """The stored column names of rows, and for each column of the layout its name and a function that converts its values to
    JSON (None if they need no conversion)."""
    names = tuple(column.stored[0][0] for column in layout.columns)
    return names, [(column.name, _json_values(column.type)) for column in layout.columns]


def _json_values(type: pa.DataType) -> Callable[[list[Any]], list[Any]] | None:
    """Values of most types are the same in JSON; the others are converted by Arrow."""
    if pt.is_string(type) or pt.is_boolean(type) or pt.is_int32(type) or pt.is_uint32(type) or pt.is_floating(type):
        return None
    if pt.is_int64(type) or pt.is_uint64(type):
        return _safe_numbers
    return lambda values: _to_json(pa.array(values, type))


def _safe_numbers(values: list[Any]) -> list[Any]:
    return [None if value is None else _safe_number(value) for value in values]


def arrow_rows(layout: Layout, inline: Inline) -> pa.Table:
    """The rows of all changes, in order, with the columns that readers see."""
    changes = [change for change in inline if change.rows]
    for columns, alike in groupby(
        (change for change in changes if layout not in change.held), lambda change: change.columns
    ):
        _hold(layout, columns, list(alike))
    batches = [change.held[layout] for change in changes]
    return pa.Table.from_batches(batches, layout.schema).combine_chunks()


def _hold(layout: Layout, columns: tuple[str, ...], changes: Sequence[InlineChange]) -> None:
    """Convert the rows of changes with the same columns together, and cache each change's own slice."""
    batch = _batch_of(layout, columns, [row for change in changes for row in change.rows])
    start = 0
    for change in changes:
        change.held[layout] = batch.slice(start, len(change.rows))
        start += len(change.rows)


def _batch_of(layout: Layout, columns: tuple[str, ...], rows: Sequence[tuple[Any, ...]]) -> pa.RecordBatch:
    types = {name: type for column in layout.columns for name, type in column.stored}
    known = [(place, name) for place, name in enumerate(columns) if name in types]
    arrays = [_from_json([row[place] for row in rows], types[name]) for place, name in known]
    names = [name for _, name in known]
    if names == layout.schema.names and all(column.is_plain for column in layout.columns):
        return pa.RecordBatch.from_arrays(arrays, schema=layout.schema)
    held = frozenset(columns)
    stored = pa.RecordBatch.from_arrays(arrays, names=names)
    return VersionColumns(layout, held, {0: held}).batch(stored, layout.schema.names, ())


def _to_json(column: Any) -> list[Any]:
    type = column.type
    values: list[Any] = _plain(column).to_pylist()
    item = type.value_type if pa.types.is_list(type) else type
    if pa.types.is_large_binary(item):
        return [_each(value, _text_of_bytes) for value in values]
    if pa.types.is_int64(item) or pa.types.is_uint64(item) or pa.types.is_timestamp(item):
        return [_each(value, _safe_number) for value in values]
    return values


def _plain(column: Any) -> Any:
    """Dates and timestamps as integers."""
    type = column.type
    if pa.types.is_list(type):
        number = _number(type.value_type)
        return column if number is None else column.cast(pa.list_(pa.field("item", number)))
    number = _number(type)
    return column if number is None else column.cast(number)


def _number(type: pa.DataType) -> pa.DataType | None:
    if pa.types.is_date32(type):
        return pa.int32()
    return pa.int64() if pa.types.is_timestamp(type) else None


def _from_json(values: list[Any], type: pa.DataType) -> pa.Array:
    item = type.value_type if pa.types.is_list(type) else type
    if pa.types.is_large_binary(item):
        return pa.array([_each(value, base64.b64decode) for value in values], type)
    number = _number(item)
    if pa.types.is_int64(item) or pa.types.is_uint64(item) or number == pa.int64():
        values = [_each(value, int) for value in values]
    if number is None:
        return pa.array(values, type)
    return pa.array(values, pa.list_(pa.field("item", number)) if item is not type else number).cast(type)


def _each(value: Any, make: Any) -> Any:
    if value is None:
        return None
    return [None if item is None else make(item) for item in value] if isinstance(value, list) else make(value)


def _text_of_bytes(value: bytes) -> str:
    return base64.b64encode(value).decode()


def _safe_number(value: int) -> int | str:
    return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)
