"""The columns of a source as those of a type: picked, renamed, filtered, with lists and texts made from cells.

A source may have columns without a name, or several with the same name: `column_names` makes them unique.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import UnreadableInput
from omnigraph.language.catalog import EntityType
from omnigraph.language.identity import id_of_members
from omnigraph.language.schema.constraints import did_you_mean
from omnigraph.records.cell_formats import read_cells
from omnigraph.records.documents import NUMBER
from omnigraph.values.csv_cells import cell_value
from omnigraph.values.entities import OUTSIDE_NAMES
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    import pyarrow as pa


def column_names(header: list[str]) -> list[str]:
    """The columns of a source: `column 3` for one without a name, `name (2)` for the second one of a name."""
    names: dict[str, None] = {}
    for number, name in enumerate(header, 1):
        plain = name.strip() or f"column {number}"
        chosen, count = plain, 1
        while chosen in names:
            count += 1
            chosen = f"{plain} ({count})"
        names[chosen] = None
    return list(names)


@dataclass(frozen=True)
class Picked:
    """Which rows and columns of a source are entities of one type. Columns that are not named are left out."""

    columns: Mapping[str, str | tuple[str, ...]]
    """By property, or `id`, `from`, `to`: the column of the source; several for an id of a key with several members."""
    where: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """Only rows that have one of these texts in a column."""
    separators: Mapping[str, str] = field(default_factory=dict)
    """By list property: what separates its items in a cell."""
    skip_empty: tuple[str, ...] = ()
    """Rows without a value for one of these are not entities of the type."""
    distinct: bool = False
    """Keep only the first of several rows with the same key."""
    formats: Mapping[str, str] = field(default_factory=dict)
    """By property: how its cells are written (`cell_formats`)."""
    nulls: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    """By the name in `columns`: texts that mean null."""

    @property
    def sources(self) -> list[str]:
        """The columns of the source that are needed."""
        return list(
            dict.fromkeys([*(name for column in self.columns.values() for name in members_of(column)), *self.where])
        )

    @property
    def needs_whole_file(self) -> bool:
        """Whether the result for a row depends on the rows before it."""
        return self.distinct or NUMBER in self.sources

    def check(self, names: list[str], entity: EntityType) -> None:
        """Raises UnreadableInput if the source lacks a column."""
        missing = [name for name in self.sources if name not in names]
        if missing:
            shown = ", ".join(f"'{name}'" for name in missing)
            known = [name for name in names if name != NUMBER]
            raise UnreadableInput(
                f"there is no column {shown} for {entity.name}",
                type_name=entity.name,
                hint=did_you_mean(missing[0], known, f"the columns are: {', '.join(known)}"),
            )


def members_of(column: str | tuple[str, ...]) -> tuple[str, ...]:
    return (column,) if isinstance(column, str) else column


class Picker:
    """Applies a choice to the blocks of one source, one after the other."""

    def __init__(self, picked: Picked, entity: EntityType) -> None:
        self._picked = picked
        self._entity = entity
        self._seen: set[tuple[object, ...]] = set()
        self.names = list(picked.columns)

    def pick(self, table: pa.Table, lines: pa.Int64Array) -> tuple[pa.Table, pa.Int64Array]:
        """A block under the names of the type. The block's columns have the names of the source."""
        import pyarrow as pa

        mask = self._mask(table)
        if mask is not None:
            table, lines = table.filter(mask), lines.filter(mask)
        columns = [self._column(name, self._raw(name, table)) for name in self._picked.columns]
        picked = pa.Table.from_arrays(columns, names=self.names)
        return self._first_of_each(picked, lines) if self._picked.distinct else (picked, lines)

    def _mask(self, table: pa.Table) -> pa.Array | None:
        import pyarrow as pa
        import pyarrow.compute as pc

        masks = [
            pc.is_in(_text(table.column(name)), value_set=pa.array(texts, pa.string()))
            for name, texts in self._picked.where.items()
        ]
        for name in self._picked.skip_empty:
            held = _text(self._raw(name, table))
            masks.append(pc.fill_null(pc.greater(pc.utf8_length(held), 0), False))
        if not masks:
            return None
        mask = masks[0]
        for other in masks[1:]:
            mask = pc.and_(mask, other)
        return mask.combine_chunks() if isinstance(mask, pa.ChunkedArray) else mask

    def _raw(self, name: str, table: pa.Table) -> pa.ChunkedArray:
        """The cells of a column, or of several columns as one id."""
        import pyarrow as pa

        source = self._picked.columns[name]
        if not isinstance(source, str):
            rows = zip(*(self._cells(name, table.column(member)).to_pylist() for member in source), strict=True)
            return pa.chunked_array(
                [pa.array([None if None in row else id_of_members(row) for row in rows], pa.string())]
            )
        column = table.column(source)
        return self._cells(name, column) if name in self._picked.nulls else column

    def _cells(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        """Text, with null for the texts that mean it."""
        import pyarrow as pa
        import pyarrow.compute as pc

        column = _text(column)
        means_null = pc.is_in(column, value_set=pa.array(self._picked.nulls.get(name, ()), pa.string()))
        return pc.if_else(means_null, pa.scalar(None, pa.string()), column)

    def _column(self, name: str, column: pa.ChunkedArray) -> pa.ChunkedArray:
        import pyarrow as pa

        if name in self._picked.formats:
            return read_cells(_text(column), self._picked.formats[name])
        property = self._entity.properties.get(name)
        if name in self._picked.separators and property is not None:
            separator = self._picked.separators[name]
            cells = [_list_cell(cell, separator, property.type) for cell in _text(column).to_pylist()]
            return pa.chunked_array([pa.array(cells, pa.string())])
        if property is None or (property.type.scalar is Scalar.STRING and not property.type.is_list):
            return _text(column)
        return column

    def _first_of_each(self, table: pa.Table, lines: pa.Int64Array) -> tuple[pa.Table, pa.Int64Array]:
        import pyarrow as pa

        keys = [OUTSIDE_NAMES.get(name, name) for name in self._entity.key] or ["id"]
        rows = zip(*(table.column(name).to_pylist() for name in keys), strict=True)
        keep = []
        for row in rows:
            keep.append(row not in self._seen)
            self._seen.add(row)
        mask = pa.array(keep, pa.bool_())
        return table.filter(mask), lines.filter(mask)


def _text(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Values as text: as written in a cell, or as JSON for types without such a text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_string(column.type):
        return column
    try:
        return pc.cast(column, pa.string())
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        texts = [None if value is None else json.dumps(value, default=str) for value in column.to_pylist()]
        return pa.chunked_array([pa.array(texts, pa.string())])


def _list_cell(cell: str | None, separator: str, type: PropertyType) -> str | None:
    """Items in a cell as the JSON that the cell of a list holds."""
    if cell is None:
        return None
    item = PropertyType(type.scalar)
    return json.dumps([cell_value(text, item) for text in cell.split(separator)] if cell else [], ensure_ascii=False)
