"""Columns from CSV, Parquet or a data frame as typed rows: by columns if possible, row by row if needed.

Columns are matched by name: properties, `id`, and for edges `from`/`to` (or `src`/`dst`). A row cannot leave a cell out, so an
empty cell takes the `@default` of a property that may not be null. Partial rows may leave columns out.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from functools import partial
from typing import Any

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import InputError, UnreadableInput
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, NodeType, Property
from omnigraph.records.ids import FreshIds, end_column, id_column, named_id_column
from omnigraph.records.json_columns import GatheredRows, columns_with_values, plain_cell
from omnigraph.records.rows import (
    DELETE_FLAG,
    DELETE_FLAG_HINT,
    WHOLE,
    NamedRows,
    RecordForm,
    Reject,
    Row,
    TypedRows,
    edge_row,
    named_id,
    node_row,
    open_schema,
    partial_row,
    property_value,
    wanted_name,
)
from omnigraph.values.arrow import OUTSIDE_NAMES, repeated
from omnigraph.values.columns import Doubtful, arrow_column, cell_value, plain_values, text_column
from omnigraph.values.json_values import Unfit, json_value
from omnigraph.values.types import MAX_SAFE_INTEGER, PropertyType, Scalar

_ENDS = {name: column for column, outside in OUTSIDE_NAMES.items() for name in (outside, column)}
_TEXT = PropertyType(Scalar.STRING)
_FLAG = PropertyType(Scalar.BOOL)
_FEW = 4
"""Values of a column are checked one by one only if there are at least this many rows per distinct value."""


class TabularReader:
    """Rows of one type from named columns. `text`: cells are text (CSV), with lists as JSON; `text_names`: columns whose cells
    are text."""

    def __init__(
        self,
        catalog: Catalog,
        key: str,
        names: list[str],
        fresh: FreshIds,
        *,
        text: bool,
        text_names: Collection[str] = (),
        form: RecordForm = WHOLE,
    ) -> None:
        """Raises UnreadableInput if the columns cannot be this type's."""
        self.catalog = catalog
        self.entity = catalog.tables[key]
        self.fresh = fresh
        self.schema = open_schema(self.entity)
        self.rejects: list[Reject] = []
        self.form = form
        self._columns = _matched(self.entity, names, form)
        self._text = frozenset(target for target, name in self._columns.items() if text or name in text_names)

    def read(self, table: pa.Table, lines: pa.Int64Array) -> Iterator[TypedRows | NamedRows]:
        """The rows of a block; those to be deleted come separately."""
        named = {target: _plain(table.column(name)) for target, name in self._columns.items()}
        flags = self._flags(named.pop(DELETE_FLAG, None)) if self.form.has_flag else None
        if flags is not None and pc.any(flags).as_py():
            yield from self._named(_filtered(named, flags), lines.filter(flags))
            kept = pc.invert(flags)
            named, lines = _filtered(named, kept), lines.filter(kept)
        if not len(lines):
            return
        if self.form.kind == "name":
            yield from self._named(named, lines)
            return
        rows = self._typed(named, lines)
        doubtful = None if rows is not None else self._doubtful_rows(named)
        if doubtful is not None and 0 < (pc.sum(doubtful).as_py() or 0) < len(lines):
            yield from self._by_rows(_filtered(named, doubtful), lines.filter(doubtful), is_name=False)
            good = pc.invert(doubtful)
            named, lines = _filtered(named, good), lines.filter(good)
            rows = self._typed(named, lines)
        if rows is None:
            yield from self._by_rows(named, lines, is_name=False)
        else:
            yield rows

    def _typed(self, named: dict[str, pa.Array], lines: pa.Int64Array) -> TypedRows | None:
        """None if a value might not fit."""
        try:
            return self._partial(named, lines) if self.form.kind == "partial" else self._by_columns(named, lines)
        except Doubtful:
            return None

    def _doubtful_rows(self, named: dict[str, pa.Array]) -> pa.BooleanArray | None:
        """The rows with a value that does not fit its property, as far as patterns and columns of few distinct values tell. They
        are examined one by one, and do not slow down the others."""
        doubtful: pa.BooleanArray | None = None
        for property in self.entity.properties.values():
            raw = named.get(property.name)
            if raw is None or pa.types.is_nested(raw.type):
                continue
            try:
                self._column(property, raw, len(raw))
                continue
            except Doubtful:
                mask = self._not_plain(property, raw)
            if mask is not None:
                doubtful = mask if doubtful is None else pc.or_(doubtful, mask)
                continue
            different = raw.unique()
            if len(different) * _FEW > len(raw):
                return None
            fits = pa.array([self._fits(property, value) for value in plain_values(different)], pa.bool_())
            mask = pc.is_in(raw, value_set=different.filter(pc.invert(fits)))
            doubtful = mask if doubtful is None else pc.or_(doubtful, mask)
        return doubtful

    def _not_plain(self, property: Property, raw: pa.Array) -> pa.BooleanArray | None:
        """The cells of text that are not plainly right; None if a pattern finds none."""
        pattern = plain_cell(property.type) if property.name in self._text else None
        if pattern is None:
            return None
        mask = pc.fill_null(pc.invert(pc.match_substring_regex(raw, pattern)), property.name in self.entity.key)
        return mask if pc.any(mask).as_py() else None

    def _fits(self, property: Property, cell: Any) -> bool:
        try:
            self._row_value(property, cell)
        except (InputError, Unfit):
            return False
        return True

    def _row_value(self, property: Property, cell: Any) -> object:
        if cell is None:
            return None
        is_text = property.name in self._text
        value = cell_value(cell, property.type) if is_text else _frame_value(cell, property.type)
        return property_value(self.entity, property, value)

    def _flags(self, raw: pa.Array | None) -> pa.BooleanArray | None:
        if raw is None:
            return None
        try:
            column = text_column(raw, _FLAG) if DELETE_FLAG in self._text else arrow_column(raw, _FLAG)
        except Doubtful:
            raise UnreadableInput(
                f"column '{self._columns[DELETE_FLAG]}' must hold true or false", type_name=self.entity.name
            ) from None
        return pc.fill_null(column, False)

    def _named(self, named: dict[str, pa.Array], lines: pa.Int64Array) -> Iterator[TypedRows | NamedRows]:
        try:
            ids = named_id_column(self.entity, self._explicit(named, lines), self._key_columns(named))
        except Doubtful:
            yield from self._by_rows(named, lines, is_name=True)
        else:
            yield NamedRows(self.entity.table_key, ids, lines)

    def _key_columns(self, named: dict[str, pa.Array]) -> dict[str, pa.Array]:
        key = [name for name in self.entity.key if name in named]
        ends = self._ends({name: named[name] for name in key})
        return ends | {
            name: self._column(self.entity.properties[name], named[name], len(named[name]))
            for name in key
            if name not in ends
        }

    def _ends(self, named: dict[str, pa.Array]) -> dict[str, pa.Array]:
        """The ends of edges, as far as they are given."""
        if not isinstance(self.entity, EdgeType):
            return {}
        return {
            end: end_column(node, arrow_column(named[end], _TEXT))
            for end, _, node in self.catalog.ends(self.entity)
            if end in named
        }

    def _explicit(self, named: dict[str, pa.Array], lines: pa.Int64Array) -> pa.StringArray:
        return arrow_column(named["id"], _TEXT) if "id" in named else pa.nulls(len(lines), pa.string())

    def _partial(self, named: dict[str, pa.Array], lines: pa.Int64Array) -> TypedRows:
        """The given columns of entities that are named by their ids or keys."""
        columns = {
            property.name: self._column(property, named[property.name], len(lines))
            for property in self.entity.properties.values()
            if property.name in named
        }
        columns |= self._ends(named)
        ids = named_id_column(self.entity, self._explicit(named, lines), columns)
        has_value = columns_with_values(self.schema, frozenset(columns), len(lines))
        columns["id"] = ids
        ordered = [columns.get(field.name, pa.nulls(len(lines), field.type)) for field in self.schema]
        rows = pa.Table.from_arrays(ordered, schema=self.schema)
        return TypedRows(self.entity.table_key, rows, lines, len(lines), has_value)

    # ------------------------------------------------------------ by columns

    def _by_columns(self, named: dict[str, pa.Array], lines: pa.Int64Array) -> TypedRows:
        columns = {p.name: self._column(p, named.get(p.name), len(lines)) for p in self.entity.properties.values()}
        columns |= self._ends(named)
        explicit = self._explicit(named, lines)
        columns["id"], explicit_ids = id_column(self.entity, explicit, columns, lines, self.fresh)
        ordered = [columns[field.name] for field in self.schema]
        return TypedRows(self.entity.table_key, pa.Table.from_arrays(ordered, schema=self.schema), lines, explicit_ids)

    def _column(self, property: Property, raw: pa.Array | None, count: int) -> pa.Array:
        if raw is None:
            return repeated(property.default, property.type, count)
        column = text_column(raw, property.type) if property.name in self._text else arrow_column(raw, property.type)
        if column.null_count and _takes_default(property):
            return pc.coalesce(column, repeated(property.default, property.type, 1)[0])
        return column

    # ------------------------------------------------------------ row by row

    def _by_rows(
        self, named: dict[str, pa.Array], lines: pa.Int64Array, *, is_name: bool
    ) -> Iterator[TypedRows | NamedRows]:
        names = list(named)
        values = {name: plain_values(column) for name, column in named.items()}
        rows = GatheredRows(self.entity, self.form)
        for index, line in enumerate(lines.to_pylist()):
            cells = {name: values[name][index] for name in names}
            try:
                if is_name:
                    rows.name(named_id(self.catalog, self.entity, self._data(cells)), line)
                elif self.form.kind == "partial":
                    data = self._with_defaults(self._data(cells), cells)
                    rows.add_partial(*partial_row(self.catalog, self.entity, data), line)
                else:
                    rows.add(self._row(dict(cells), line), line, has_id=cells.get("id") is not None)
            except InputError as error:
                self.rejects.append(Reject.of(line, error, self._shown(cells)))
        yield from rows.typed()

    def _data(self, cells: dict[str, Any]) -> dict[str, Any]:
        data = {}
        for name, cell in cells.items():
            property = self.entity.properties.get(name)
            if property is None:
                data[name] = cell
            elif cell is not None or not _takes_default(property):
                data[name] = (
                    cell_value(cell, property.type) if name in self._text else _frame_value(cell, property.type)
                )
        return data

    def _with_defaults(self, data: dict[str, Any], cells: dict[str, Any]) -> dict[str, Any]:
        """A cell cannot be left out: an empty one of a property that may not be null means its default."""
        return {**{name: self.entity.properties[name].default for name in cells if name not in data}, **data}

    def _row(self, cells: dict[str, Any], line: int) -> Row:
        source, target = cells.pop("src", None), cells.pop("dst", None)
        data = self._data(cells)
        if isinstance(self.entity, EdgeType):
            new_id = partial(self.fresh.for_row, line)
            return edge_row(self.catalog, self.entity, source, target, data, new_id, names_refused=False)
        assert isinstance(self.entity, NodeType)
        return node_row(self.entity, data, partial(self.fresh.for_row, line), names_refused=False)

    def _shown(self, cells: dict[str, Any]) -> str:
        """A refused row for a report, under the names of its source."""
        return shown_row({self._columns[name]: cell for name, cell in cells.items()})


_quoted = json.JSONEncoder(ensure_ascii=False).encode


def shown_row(cells: dict[str, Any]) -> str:
    """The cells of a row as text."""
    if all(cell is None or isinstance(cell, str) for cell in cells.values()):
        texts = (f"{_quoted(name)}: {'null' if cell is None else _quoted(cell)}" for name, cell in cells.items())
        return f"{{{', '.join(texts)}}}"
    try:
        return json.dumps(json_value(cells), ensure_ascii=False)
    except TypeError:
        return json.dumps(cells, ensure_ascii=False, default=str)


def _filtered(columns: dict[str, pa.Array], mask: pa.BooleanArray) -> dict[str, pa.Array]:
    return {name: column.filter(mask) for name, column in columns.items()}


def _takes_default(property: Property) -> bool:
    return property.is_required and property.default is not None


def _frame_value(cell: object, type: PropertyType) -> object:
    """A data frame's value: integral floats stand for integers, because columns with nulls are floats there."""
    if type.scalar.is_integer and isinstance(cell, float) and cell.is_integer() and abs(cell) <= MAX_SAFE_INTEGER:
        return int(cell)
    return cell


def _matched(entity: EntityType, names: list[str], form: RecordForm) -> dict[str, str]:
    """Table column -> source column. Raises UnreadableInput, which names every wrong column, if they are not this type's."""
    matched: dict[str, str] = {}
    unknown: list[str] = []
    ends = _ENDS if isinstance(entity, EdgeType) else {}
    for name in names:
        target = ends.get(name, name)
        if target in matched:
            raise UnreadableInput(f"column '{name}' appears twice", type_name=entity.name)
        if is_column_of(entity, name, form):
            matched[target] = name
        else:
            unknown.append(name)
    missing = _missing_columns(entity, matched, form)
    if unknown or missing:
        raise _wrong_columns(entity, unknown, missing)
    return matched


def is_column_of(entity: EntityType, name: str, form: RecordForm) -> bool:
    """Whether a source of this type may have a column of this name."""
    is_end = isinstance(entity, EdgeType) and name in _ENDS
    return is_end or name == "id" or name in entity.properties or (name == DELETE_FLAG and form.has_flag)


def _missing_columns(entity: EntityType, matched: Collection[str], form: RecordForm) -> list[str]:
    if form.kind == "whole":
        return [repr(word) for word, column in required_columns(entity).items() if column not in matched]
    is_named = "id" in matched or (entity.key and all(name in matched for name in entity.key))
    return [] if is_named else [wanted_name(entity)]


def required_columns(entity: EntityType) -> dict[str, str]:
    """Columns that a source must have: outside name -> the table's name."""
    ends = {"from": "src", "to": "dst"} if isinstance(entity, EdgeType) else {}
    required = [property.name for property in entity.required if property.default is None and property.embed is None]
    return ends | {name: name for name in required}


def _wrong_columns(entity: EntityType, unknown: list[str], missing: list[str]) -> UnreadableInput:
    problems = []
    if unknown:
        shown = ", ".join(f"'{name}'" if name else "one without a name" for name in unknown)
        problems.append(f"unknown column{'s' if len(unknown) > 1 else ''} {shown}")
    if missing:
        problems.append(f"missing column{'s' if len(missing) > 1 else ''} " + ", ".join(missing))
    ends = ["from", "to"] if isinstance(entity, EdgeType) else []
    known = ", ".join(["id", *ends, *entity.properties])
    hint = f"{entity.name} has: {known}" + (f"; {DELETE_FLAG_HINT}" if DELETE_FLAG in unknown else "")
    if {name.lower() for name in unknown} & {name.lower() for name in ("id", *ends, *entity.properties)}:
        hint += "; upper and lower case differ"
    return UnreadableInput(f"{' and '.join(problems)} for {entity.name}", type_name=entity.name, hint=hint)


def _plain(column: pa.ChunkedArray) -> pa.Array:
    """One array, without a dictionary."""
    if pa.types.is_dictionary(column.type):
        column = pa.chunked_array([_decoded(chunk) for chunk in column.chunks], _decoded_type(column.type))
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


def _decoded(chunk: pa.DictionaryArray) -> pa.Array:
    return chunk.dictionary.cast(_decoded_type(chunk.type)).take(chunk.indices)


def _decoded_type(type: pa.DictionaryType) -> pa.DataType:
    """Arrow cannot take values from string views, which some libraries use in dictionaries."""
    return pa.string() if pa.types.is_string_view(type.value_type) else type.value_type
