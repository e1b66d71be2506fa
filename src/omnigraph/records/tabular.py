"""Columns from CSV, Parquet or a data frame as typed rows: by columns where possible, row by row where needed.

Columns are matched by name: properties, `id`, and for edges `from`/`to` (or `src`/`dst`). A row cannot leave a cell out,
so an empty one takes the `@default` of a property that may not be null.
"""

from __future__ import annotations

import json
from collections.abc import Collection
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InputError, UnreadableInput
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, NodeType, Property
from omnigraph.records.fresh_ids import FreshIds
from omnigraph.records.ids import end_column, id_column
from omnigraph.records.rows import Row, edge_row, node_row
from omnigraph.records.typed import Reject, TypedRows, open_schema
from omnigraph.values.arrow import repeated
from omnigraph.values.columns import Doubtful, arrow_column, plain_values, text_column
from omnigraph.values.csv_cells import cell_value
from omnigraph.values.entities import OUTSIDE_NAMES
from omnigraph.values.json_values import json_value
from omnigraph.values.types import MAX_SAFE_INTEGER, PropertyType, Scalar

if TYPE_CHECKING:
    import pyarrow as pa

_ENDS = {name: column for column, outside in OUTSIDE_NAMES.items() for name in (outside, column)}
_TEXT = PropertyType(Scalar.STRING)


class TabularReader:
    """Rows of one type from named columns. `text`: cells are text (CSV) and lists stand in them as JSON; `text_names`: so are
    those of these columns."""

    def __init__(
        self,
        catalog: Catalog,
        key: str,
        names: list[str],
        fresh: FreshIds,
        *,
        text: bool,
        text_names: Collection[str] = (),
    ) -> None:
        """Raises UnreadableInput when the columns cannot be this type's."""
        self.catalog = catalog
        self.entity = catalog.tables[key]
        self.fresh = fresh
        self.schema = open_schema(self.entity)
        self.rejects: list[Reject] = []
        self._columns = _matched(self.entity, names)
        self._text = frozenset(target for target, name in self._columns.items() if text or name in text_names)

    def read(self, table: pa.Table, lines: pa.Int64Array) -> TypedRows:
        named = {target: _plain(table.column(name)) for target, name in self._columns.items()}
        try:
            return self._by_columns(named, lines)
        except Doubtful:
            return self._by_rows(named, lines)

    # ------------------------------------------------------------ by columns

    def _by_columns(self, named: dict[str, pa.Array], lines: pa.Int64Array) -> TypedRows:
        import pyarrow as pa

        columns = {p.name: self._column(p, named.get(p.name), len(lines)) for p in self.entity.properties.values()}
        if isinstance(self.entity, EdgeType):
            for end, _, node in self.catalog.ends(self.entity):
                columns[end] = end_column(node, arrow_column(named[end], _TEXT))
        explicit = arrow_column(named["id"], _TEXT) if "id" in named else pa.nulls(len(lines), pa.string())
        columns["id"], explicit_ids = id_column(self.entity, explicit, columns, lines, self.fresh)
        ordered = [columns[field.name] for field in self.schema]
        return TypedRows(self.entity.table_key, pa.Table.from_arrays(ordered, schema=self.schema), lines, explicit_ids)

    def _column(self, property: Property, raw: pa.Array | None, count: int) -> pa.Array:
        import pyarrow.compute as pc

        if raw is None:
            return repeated(property.default, property.type, count)
        column = text_column(raw, property.type) if property.name in self._text else arrow_column(raw, property.type)
        if column.null_count and _takes_default(property):
            return pc.coalesce(column, repeated(property.default, property.type, 1)[0])
        return column

    # ------------------------------------------------------------ row by row

    def _by_rows(self, named: dict[str, pa.Array], lines: pa.Int64Array) -> TypedRows:
        import pyarrow as pa

        names = list(named)
        values = {name: plain_values(column) for name, column in named.items()}
        kept: list[Row] = []
        kept_lines: list[int] = []
        explicit_ids = 0
        for index, line in enumerate(lines.to_pylist()):
            cells = {name: values[name][index] for name in names}
            try:
                kept.append(self._row(dict(cells), line))
            except InputError as error:
                self.rejects.append(Reject.of(line, error, self._shown(cells)))
                continue
            kept_lines.append(line)
            explicit_ids += cells.get("id") is not None
        rows = pa.Table.from_pylist(kept, schema=self.schema)
        return TypedRows(self.entity.table_key, rows, pa.array(kept_lines, pa.int64()), explicit_ids)

    def _row(self, cells: dict[str, Any], line: int) -> Row:
        source, target = cells.pop("src", None), cells.pop("dst", None)
        data = {}
        for name, cell in cells.items():
            property = self.entity.properties.get(name)
            if property is None:
                data[name] = cell
            elif cell is not None or not _takes_default(property):
                data[name] = (
                    cell_value(cell, property.type) if name in self._text else _frame_value(cell, property.type)
                )
        if isinstance(self.entity, EdgeType):
            return edge_row(self.catalog, self.entity, source, target, data, lambda: self.fresh.for_row(line))
        assert isinstance(self.entity, NodeType)
        return node_row(self.entity, data, lambda: self.fresh.for_row(line))

    def _shown(self, cells: dict[str, Any]) -> str:
        """A refused row for a report, under the names of its source."""
        shown = {self._columns[name]: cell for name, cell in cells.items()}
        try:
            return json.dumps(json_value(shown), ensure_ascii=False)
        except TypeError:
            return json.dumps(shown, ensure_ascii=False, default=str)


def _takes_default(property: Property) -> bool:
    return property.is_required and property.default is not None


def _frame_value(cell: object, type: PropertyType) -> object:
    """A data frame's value: whole floats stand for integers, because columns with gaps are floats there."""
    if type.scalar.is_integer and isinstance(cell, float) and cell.is_integer() and abs(cell) <= MAX_SAFE_INTEGER:
        return int(cell)
    return cell


def _matched(entity: EntityType, names: list[str]) -> dict[str, str]:
    """Table column -> source column. UnreadableInput, which names every wrong column, when they are not this type's."""
    matched: dict[str, str] = {}
    unknown: list[str] = []
    ends = _ENDS if isinstance(entity, EdgeType) else {}
    for name in names:
        target = ends.get(name, name)
        if target in matched:
            raise UnreadableInput(f"column '{name}' stands twice", type_name=entity.name)
        if name in ends or name == "id" or name in entity.properties:
            matched[target] = name
        else:
            unknown.append(name)
    missing = [word for word, column in required_columns(entity).items() if column not in matched]
    if unknown or missing:
        raise _wrong_columns(entity, unknown, missing)
    return matched


def required_columns(entity: EntityType) -> dict[str, str]:
    """Columns that a source must have, by the name they have outside, and the table's name for them."""
    ends = {"from": "src", "to": "dst"} if isinstance(entity, EdgeType) else {}
    given = [property.name for property in entity.required if property.default is None and property.embed is None]
    return ends | {name: name for name in given}


def _wrong_columns(entity: EntityType, unknown: list[str], missing: list[str]) -> UnreadableInput:
    said = []
    if unknown:
        shown = ", ".join(f"'{name}'" if name else "one without a name" for name in unknown)
        said.append(f"unknown column{'s' if len(unknown) > 1 else ''} {shown}")
    if missing:
        said.append(f"missing column{'s' if len(missing) > 1 else ''} " + ", ".join(f"'{name}'" for name in missing))
    ends = ["from", "to"] if isinstance(entity, EdgeType) else []
    known = ", ".join(["id", *ends, *entity.properties])
    return UnreadableInput(
        f"{' and '.join(said)} for {entity.name}", type_name=entity.name, hint=f"{entity.name} has: {known}"
    )


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """One array, without a dictionary."""
    import pyarrow as pa

    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([_decoded(chunk) for chunk in column.chunks], _decoded_type(column.type))
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _decoded(chunk: pa.DictionaryArray) -> pa.Array:
    return chunk.dictionary.cast(_decoded_type(chunk.type)).take(chunk.indices)


def _decoded_type(type: pa.DictionaryType) -> pa.DataType:
    """Arrow cannot pick values out of views, which some libraries keep their words in."""
    import pyarrow as pa

    return pa.string() if pa.types.is_string_view(type.value_type) else type.value_type
