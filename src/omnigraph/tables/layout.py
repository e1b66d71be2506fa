"""Which stored columns hold the properties of a type.

A schema change moves no rows. A property lists the columns that its values are stored in, newest first: a rename keeps the
column, a wider type gets a new column next to the narrower one, and dropped columns stay where they are. A version of a table has
the columns that were known when it was written. So the value of a property in a row is

    the first of its columns that has a value there, cast to its type; else, if the row's fragment has none of its columns, the
    fill, which is the value of all rows from before the property; else null.

A row is always written whole, into the newest columns, so at most one of a property's columns has a value. `VersionColumns`
applies this to one version: which columns to read and how to combine them, and the same as text for a filter. `grown_schema` is
what a version needs before rows can be added to it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.language.catalog import EntityType, stored_columns
from omnigraph.language.projection import arrow_schema
from omnigraph.tables import filters
from omnigraph.tables.addresses import OFFSET_BITS, ROW_ADDRESS
from omnigraph.values.arrow import arrow_type, filled_value, widened

KEY_COLUMNS = ("id", "src", "dst")
_TOKEN = re.compile(r"'(?:[^']|'')*'|\"[^\"]*\"|`(?P<quoted>[^`]*)`|(?P<bare>[^\W\d]\w*)|\d[\w.]*")
_BEFORE_TEXT = re.compile(r"\s*['(]")


@dataclass(frozen=True)
class LayoutColumn:
    """One column as a reader sees it. `stored`: the columns that may hold its values, newest first."""

    name: str
    type: pa.DataType
    nullable: bool
    stored: tuple[tuple[str, pa.DataType], ...]
    fill: object = None
    """The value in fragments that have none of the columns; of the column's type, a list as a tuple."""

    @property
    def is_plain(self) -> bool:
        """Whether the value is that of a single stored column."""
        return len(self.stored) == 1 and self.fill is None


@dataclass(frozen=True)
class Layout:
    """The columns of a type in schema order. A small value that can be sent to tasks."""

    columns: tuple[LayoutColumn, ...]

    @classmethod
    def of(cls, entity: EntityType) -> Layout:
        columns = []
        for field in arrow_schema(entity):
            property = entity.properties.get(field.name)
            if property is None:
                columns.append(LayoutColumn(field.name, field.type, False, ((field.name, field.type),)))
                continue
            stored = tuple((column.name, arrow_type(column.type)) for column in stored_columns(property))
            fill = None if property.fill is None else filled_value(property.fill, property.type)
            fill = tuple(fill) if isinstance(fill, list) else fill
            columns.append(LayoutColumn(field.name, field.type, field.nullable, stored, fill))
        return cls(tuple(columns))

    @cached_property
    def _hash(self) -> int:
        return hash(self.columns)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def by_name(self) -> dict[str, LayoutColumn]:
        return {column.name: column for column in self.columns}

    @cached_property
    def schema(self) -> pa.Schema:
        """The columns as a reader sees them."""
        return pa.schema([pa.field(column.name, column.type, nullable=column.nullable) for column in self.columns])

    @cached_property
    def written_schema(self) -> pa.Schema:
        """The columns that rows are written to: the newest of each property. One that the table may have without every fragment
        having it is nullable."""
        newest = ((column, column.stored[0][0]) for column in self.columns)
        return pa.schema(
            [pa.field(name, column.type, nullable=column.nullable or name != column.name) for column, name in newest]
        )

    def grown_schema(self, stored: pa.Schema) -> pa.Schema:
        """The stored schema plus every column of every property, older ones included: fragments from other versions may hold them.
        Columns that were added, or are no longer written to, are nullable."""
        written = self.written_schema
        relaxed = []
        for field in stored:
            place = written.get_field_index(field.name)
            relaxed.append(field if place >= 0 and not written.field(place).nullable else field.with_nullable(True))
        known = dict(pair for column in self.columns for pair in column.stored)
        new = [pa.field(name, type) for name, type in known.items() if name not in stored.names]
        return pa.schema([*relaxed, *new])

    def is_outdated(self, held: frozenset[str]) -> bool:
        """Whether rows with these stored columns would be stored differently today."""
        written = {column.stored[0][0]: column for column in self.columns}
        lacking = [column for name, column in written.items() if name not in held]
        return not held <= written.keys() or any(not column.is_plain for column in lacking)

    def is_stored_in(self, stored: pa.Schema) -> bool:
        """Whether a version stores exactly these columns."""
        as_named = all(column.is_plain and column.stored[0][0] == column.name for column in self.columns)
        return as_named and bool(self.schema.equals(stored))


@dataclass(frozen=True)
class VersionColumns:
    """A layout applied to the columns of one version."""

    layout: Layout
    stored: frozenset[str]
    fragments: Mapping[int, frozenset[str]]
    """By fragment: the stored columns that it has."""

    @cached_property
    def held(self) -> frozenset[str]:
        """Stored columns that at least one fragment has."""
        return frozenset().union(*self.fragments.values())

    # ------------------------------------------------------------ rows

    def _present(self, name: str) -> list[tuple[str, pa.DataType]]:
        newest, *older = self.layout.by_name[name].stored
        known = [newest] if newest[0] in self.stored else []
        return [*known, *(column for column in older if column[0] in self.held)]

    @cached_property
    def _older(self) -> dict[str, list[int]]:
        """By column with a fill: the fragments whose rows have that value, ascending."""
        filled = {
            column.name: {name for name, _ in column.stored}
            for column in self.layout.columns
            if column.fill is not None
        }
        return {
            name: sorted(fragment for fragment, held in self.fragments.items() if held.isdisjoint(stored))
            for name, stored in filled.items()
        }

    def _fill(self, column: LayoutColumn) -> object:
        """The value of some rows that have none; None if there are no such rows."""
        return column.fill if self._older.get(column.name) else None

    def _may_be_null(self, column: LayoutColumn) -> bool:
        """Whether rows without a value may be null, unless they are in older fragments."""
        return len(self._older.get(column.name, ())) < len(self.fragments)

    def needs_addresses(self, names: Sequence[str]) -> bool:
        """Whether these columns can only be told from the rows and their addresses."""
        columns = (self.layout.by_name[name] for name in names)
        return any(self._fill(column) is not None and self._may_be_null(column) for column in columns)

    def stored_name(self, name: str) -> str | None:
        """The one stored column that is this column; None if there are several or none, or if nulls are filled."""
        column, present = self.layout.by_name[name], self._present(name)
        is_same = len(present) == 1 and self._fill(column) is None and present[0][1] == column.type
        return present[0][0] if is_same else None

    def columns_to_read(self, names: Sequence[str], *, counts_rows: bool) -> list[str]:
        """The stored columns behind these; at least one, unless the rows are counted by other means."""
        columns = list(dict.fromkeys(stored for name in names for stored, _ in self._present(name)))
        return columns or (["id"] if names and not counts_rows else [])

    def batch(self, rows: Any, names: Sequence[str], extra: Sequence[str]) -> pa.RecordBatch:
        """Rows of stored columns as these columns, and the `extra` ones unchanged."""
        arrays = [self._column(rows, name) for name in names] + [rows.column(name) for name in extra]
        return pa.RecordBatch.from_arrays(
            arrays, schema=self.schema(names, [rows.schema.field(name) for name in extra])
        )

    def schema(self, names: Sequence[str], extra: Sequence[Any] = ()) -> pa.Schema:
        return pa.schema([*(self.layout.schema.field(name) for name in names), *extra])

    def _column(self, rows: Any, name: str) -> Any:
        column = self.layout.by_name[name]
        values = None
        for stored, _ in self._present(name):
            older = widened(rows.column(stored), column.type)
            values = older if values is None else _coalesced(values, older)
        if values is None:
            values = pa.nulls(rows.num_rows, column.type)
        fill = self._fill(column)
        if fill is None or not values.null_count:
            return values
        filled = pa.array([fill] * len(values), column.type)
        if self._may_be_null(column):
            filled = pc.if_else(self._is_older(rows, name), filled, pa.nulls(len(values), column.type))
        return _coalesced(values, filled)

    def _is_older(self, rows: Any, name: str) -> pa.Array:
        """Which rows are in fragments that have none of a column's stored columns."""
        # A deleted row has no address: see `with_fills`.
        return self._are_older(rows.column(ROW_ADDRESS).fill_null(0).to_numpy() >> np.uint64(OFFSET_BITS), name)

    def _are_older(self, owners: np.ndarray, name: str) -> pa.Array:
        return pa.array(np.isin(owners, np.array(self._older[name], np.uint64)))

    def with_fills(self, rows: pa.Table, owners: np.ndarray) -> pa.Table:
        """Rows of which some are deleted, and therefore were read without an address: with the values of their fragments, as
        a version has them that has these rows. `owners`: the fragment of each row."""
        for place, name in enumerate(rows.column_names):
            column, values = self.layout.by_name[name], rows.column(name)
            if self._fill(column) is not None and values.null_count:
                filled = pa.array([column.fill] * len(values), column.type)
                filled = pc.if_else(self._are_older(owners, name), filled, pa.nulls(len(values), column.type))
                rows = rows.set_column(place, rows.schema.field(place), _coalesced(values, filled))
        return rows

    def reader(self, rows: Any, names: Sequence[str], extra: Sequence[str]) -> pa.RecordBatchReader:
        """Like `batch`, for a stream."""

        def batches() -> Iterator[Any]:
            for batch in rows:
                yield self.batch(batch, names, extra)

        schema = self.schema(names, [rows.schema.field(name) for name in extra])
        return pa.RecordBatchReader.from_batches(schema, batches())

    # ------------------------------------------------------------ filters

    def filter(self, text: str | None) -> str | None:
        """A filter on the stored columns that keeps the same rows. Raises ValueError for a column that readers do not see."""
        return None if text is None else _TOKEN.sub(lambda token: self._token(token, text), text)

    def _token(self, token: re.Match[str], text: str) -> str:
        name = token["quoted"]
        if name is None:
            name = token["bare"]
            if name is None or _BEFORE_TEXT.match(text, token.end()):
                return token[0]
        if name in self.layout.by_name:
            return self.expression(name)
        if name in self.stored:
            raise ValueError(f"No field named {name}")
        return token[0]

    def expression(self, name: str) -> str:
        """The value of a column, as filter text."""
        column = self.layout.by_name[name]
        sql_type = _sql_type(column.type)
        present, fill = self._present(name), self._fill(column)
        older = "true" if fill is None or not self._may_be_null(column) else self._older_text(name)
        if sql_type is None:
            # Values of such a column are never compared; filters only ask whether there is one.
            if len(present) == 1 and fill is None:
                return filters.column(present[0][0])
            known = [f"{filters.column(stored)} IS NOT NULL" for stored, _ in present]
            known += [] if fill is None else [older]
            return f"nullif({' OR '.join(known) or 'false'}, false)"
        values = [
            filters.column(stored) if type == column.type else f"CAST({filters.column(stored)} AS {sql_type})"
            for stored, type in present
        ]
        if fill is not None:
            literal = f"CAST({filters.literal(fill)} AS {sql_type})"
            values.append(literal if older == "true" else f"CASE WHEN {older} THEN {literal} END")
        if not values:
            return f"CAST(NULL AS {sql_type})"
        return values[0] if len(values) == 1 else f"coalesce({', '.join(values)})"

    def _older_text(self, name: str) -> str:
        """Whether a row is in an older fragment, as filter text: ranges of addresses."""
        ranges: list[list[int]] = []
        for fragment in self._older[name]:
            if ranges and ranges[-1][1] == fragment:
                ranges[-1][1] = fragment + 1
            else:
                ranges.append([fragment, fragment + 1])
        bounds = ([end << OFFSET_BITS for end in ends] for ends in ranges)
        return " OR ".join(f"({ROW_ADDRESS} >= {first} AND {ROW_ADDRESS} < {end})" for first, end in bounds)


def _coalesced(newer: Any, older: Any) -> Any:
    if newer.null_count == 0 or older.null_count == len(older):
        return newer
    if newer.null_count == len(newer):
        return older
    return pc.if_else(newer.is_valid(), newer, older)


def _sql_type(type: pa.DataType) -> str | None:
    """The name of a type in filters; None if its values are never compared there."""
    names = {
        pa.utf8(): "STRING",
        pa.bool_(): "BOOLEAN",
        pa.int32(): "INT",
        pa.int64(): "BIGINT",
        pa.uint32(): "INT UNSIGNED",
        pa.uint64(): "BIGINT UNSIGNED",
        pa.float32(): "FLOAT",
        pa.float64(): "DOUBLE",
        pa.date32(): "DATE",
        pa.timestamp("us"): "TIMESTAMP(6)",
    }
    return names.get(type)
