"""Columns from CSV, Parquet or a data frame as typed rows: by columns where possible, row by row where needed.

Columns are matched by name: properties, `id`, and for edges `from`/`to` (or `src`/`dst`).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from omnigraph.errors import InputError, UnreadableInput
from omnigraph.language.catalog import EdgeType, EntityType, NodeType
from omnigraph.records.fresh_ids import FreshIds
from omnigraph.records.json_columns import DAYS, MILLISECONDS, Doubtful, ids_of, typed_column
from omnigraph.records.rows import Row, edge_row, node_row
from omnigraph.records.typed import Reject, TypedRows, open_schema
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    import pyarrow as pa

MAX_EXACT = 2**53
"""Beyond it a float may stand for several integers."""

_ENDS = {"from": "src", "src": "src", "to": "dst", "dst": "dst"}
_INTEGER = re.compile(r"-?\d+", re.ASCII)
_NUMBER = r"^-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?$"


class TabularReader:
    """Rows of one type from named columns. `text`: cells are text (CSV) and lists stand in them as JSON."""

    def __init__(self, entity: EntityType, names: list[str], fresh: FreshIds, *, text: bool) -> None:
        """Raises UnreadableInput when the columns cannot be this type's."""
        self.entity = entity
        self.fresh = fresh
        self.text = text
        self.schema = open_schema(entity)
        self.rejects: list[Reject] = []
        self._columns = _matched(entity, names)

    def read(self, table: pa.Table, lines: pa.Int64Array) -> TypedRows:
        named = {target: _plain(table.column(name)) for target, name in self._columns.items()}
        try:
            return self._by_columns(named, lines)
        except Doubtful:
            return self._by_rows(named, lines)

    def _by_columns(self, named: dict[str, pa.Array], lines: pa.Int64Array) -> TypedRows:
        import pyarrow as pa
        import pyarrow.compute as pc

        convert = text_column if self.text else arrow_column
        columns: dict[str, Any] = {}
        for property in self.entity.properties.values():
            raw = named.get(property.name)
            if raw is None:
                if property.default is not None:
                    raise Doubtful
                columns[property.name] = pa.nulls(len(lines), self.schema.field(property.name).type)
            else:
                columns[property.name] = convert(raw, property.type)
        if isinstance(self.entity, EdgeType):
            for end in ("src", "dst"):
                column = arrow_column(named[end], PropertyType(Scalar.STRING))
                if column.null_count or pc.any(pc.equal(pc.binary_length(column), 0)).as_py():
                    raise Doubtful
                columns[end] = column
        given = (
            arrow_column(named["id"], PropertyType(Scalar.STRING))
            if "id" in named
            else pa.nulls(len(lines), pa.string())
        )
        columns["id"], count = ids_of(self.entity, given, columns, lines, self.fresh)
        ordered = [columns[field.name] for field in self.schema]
        return TypedRows(self.entity.table_key, pa.Table.from_arrays(ordered, schema=self.schema), lines, count)

    def _by_rows(self, named: dict[str, pa.Array], lines: pa.Int64Array) -> TypedRows:
        import pyarrow as pa

        names = list(named)
        values = {name: column.to_pylist() for name, column in named.items()}
        kept: list[Row] = []
        kept_lines: list[int] = []
        given = 0
        for index, line in enumerate(lines.to_pylist()):
            cells = {name: values[name][index] for name in names}
            try:
                kept.append(self._row(dict(cells), line))
            except InputError as error:
                shown = {self._columns[name]: cell for name, cell in cells.items()}
                self.rejects.append(Reject.of(line, error, json.dumps(shown, default=str, ensure_ascii=False)))
                continue
            kept_lines.append(line)
            given += cells.get("id") is not None
        rows = pa.Table.from_pylist(kept, schema=self.schema)
        return TypedRows(self.entity.table_key, rows, pa.array(kept_lines, pa.int64()), given)

    def _row(self, cells: dict[str, Any], line: int) -> Row:
        source, target = cells.pop("src", None), cells.pop("dst", None)
        data = {}
        for name, cell in cells.items():
            property = self.entity.properties.get(name)
            if property is None:
                data[name] = cell
            else:
                data[name] = cell_value(cell, property.type) if self.text else frame_value(cell, property.type)
        if isinstance(self.entity, EdgeType):
            return edge_row(self.entity, source, target, data, lambda: self.fresh.one(line))
        assert isinstance(self.entity, NodeType)
        return node_row(self.entity, data, lambda: self.fresh.one(line))


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
    return ends | {property.name: property.name for property in entity.required if property.default is None}


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
    """One array, without dictionaries and views."""
    import pyarrow as pa
    import pyarrow.compute as pc

    type = column.type
    if pa.types.is_dictionary(type):
        column = column.cast(type.value_type)
        type = column.type
    if pa.types.is_large_string(type) or pa.types.is_string_view(type):
        column = pc.cast(column, pa.string())
    combined = column.combine_chunks()
    return combined.chunk(0) if isinstance(combined, pa.ChunkedArray) else combined


# ---------------------------------------------------------------- text cells


def text_column(raw: pa.Array, type: PropertyType) -> pa.Array:
    """A column of text cells. Raises Doubtful."""
    import pyarrow as pa
    import pyarrow.compute as pc

    scalar = type.scalar
    if type.is_list or type.dimension is not None:
        return _json_cells(raw, type)
    if scalar is Scalar.STRING or scalar is Scalar.BLOB:
        return typed_column(raw, type)
    if raw.null_count == len(raw):
        return typed_column(pc.cast(raw, _parsed_type(scalar)), type)
    if scalar is Scalar.BOOL:
        return pc.equal(_only(raw, "^(true|false)$"), "true")
    if scalar in (Scalar.DATE, Scalar.DATETIME):
        numbers = pc.all(pc.match_substring_regex(raw, r"^-?\d{1,18}$")).as_py()
        return typed_column(pc.cast(raw, pa.int64()) if numbers else raw, type)
    try:
        return typed_column(pc.cast(_only(raw, _NUMBER if scalar.is_float else r"^-?\d+$"), _parsed_type(scalar)), type)
    except pa.ArrowInvalid:
        raise Doubtful from None


def _parsed_type(scalar: Scalar) -> pa.DataType:
    import pyarrow as pa

    if scalar is Scalar.BOOL:
        return pa.bool_()
    return pa.uint64() if scalar is Scalar.U64 else pa.float64() if scalar.is_float else pa.int64()


def _only(raw: pa.Array, pattern: str) -> pa.Array:
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(raw, pattern)).as_py():
        raise Doubtful
    return raw


def _json_cells(raw: pa.Array, type: PropertyType) -> pa.Array:
    import pyarrow as pa

    from omnigraph.language.arrow import arrow_type
    from omnigraph.records.values import Unfit, typed_value

    try:
        values = [typed_value(cell_value(cell, type), type) for cell in raw.to_pylist()]
    except Unfit:
        raise Doubtful from None
    return pa.array(values, arrow_type(type))


def cell_value(cell: str | None, type: PropertyType) -> object:
    """A text cell as the value it spells, or the text itself when it spells none: the type's own check then refuses it."""
    if cell is None:
        return None
    try:
        if type.is_list or type.dimension is not None:
            return json.loads(cell)
        if type.scalar is Scalar.BOOL:
            return {"true": True, "false": False}.get(cell, cell)
        if type.scalar.is_integer or type.scalar in (Scalar.DATE, Scalar.DATETIME):
            return int(cell) if _INTEGER.fullmatch(cell) else cell
        if type.scalar.is_float:
            return float(cell)
    except ValueError:
        pass
    return cell


# ---------------------------------------------------------------- typed columns


def arrow_column(raw: pa.Array, type: PropertyType) -> pa.Array:
    """A column that has a type already. Raises Doubtful where it is not obviously this property's."""
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as pt

    from omnigraph.language.arrow import arrow_type

    target = arrow_type(type)
    try:
        if raw.null_count == len(raw):
            return pa.nulls(len(raw), target)
        if type.is_list or type.dimension is not None:
            return _list_column(raw, type, target)
        match type.scalar:
            case Scalar.STRING if pt.is_string(raw.type):
                return raw
            case Scalar.BOOL if pt.is_boolean(raw.type):
                return raw
            case Scalar.DATE if pt.is_date32(raw.type):
                _in_bounds(pc.cast(raw, pa.int32()), DAYS)
                return raw
            case Scalar.DATETIME if pt.is_timestamp(raw.type):
                return _instants(raw)
            case Scalar.BLOB if pt.is_binary(raw.type) or pt.is_large_binary(raw.type):
                return pc.cast(raw, pa.large_binary())
            case scalar if scalar.is_integer and pt.is_integer(raw.type):
                return pc.cast(raw, target)
            case scalar if scalar.is_integer and pt.is_floating(raw.type):
                _in_bounds(raw, (-MAX_EXACT, MAX_EXACT))
                return pc.cast(raw, target)
            case scalar if scalar.is_float and (pt.is_integer(raw.type) or pt.is_floating(raw.type)):
                return pc.cast(raw, target, safe=not pt.is_floating(raw.type))
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Doubtful from None
    raise Doubtful


def _instants(raw: pa.Array) -> pa.Array:
    """Cut to milliseconds, towards the past, as text is."""
    import pyarrow as pa
    import pyarrow.compute as pc

    naive = pc.cast(raw, pa.timestamp(raw.type.unit)) if raw.type.tz else raw
    cut = naive if raw.type.unit in ("s", "ms") else pc.floor_temporal(naive, unit="millisecond")
    instants = pc.cast(cut, pa.timestamp("ms"))
    _in_bounds(pc.cast(instants, pa.int64()), MILLISECONDS)
    return instants


def _in_bounds(numbers: pa.Array, bounds: tuple[int, int]) -> None:
    import pyarrow.compute as pc

    extent = pc.min_max(numbers).as_py()
    if extent["min"] is not None and not (bounds[0] <= extent["min"] and extent["max"] <= bounds[1]):
        raise Doubtful


def _list_column(raw: pa.Array, type: PropertyType, target: pa.DataType) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc
    import pyarrow.types as pt

    if not (pt.is_list(raw.type) or pt.is_large_list(raw.type) or pt.is_fixed_size_list(raw.type)):
        raise Doubtful
    values = raw.flatten()
    if values.null_count or (type.dimension is not None and not pt.is_floating(values.type)):
        raise Doubtful
    listed = raw.cast(pa.list_(raw.type.value_type))
    if type.dimension is not None:
        return typed_column(listed.cast(pa.list_(pa.float64())), type)
    items = arrow_column(listed.values, PropertyType(type.scalar))
    return pa.ListArray.from_arrays(listed.offsets, items, type=target, mask=pc.is_null(listed))


def frame_value(cell: object, type: PropertyType) -> object:
    """A data frame's value: whole floats stand for integers, because columns with gaps are floats there."""
    if type.scalar.is_integer and isinstance(cell, float) and cell.is_integer() and abs(cell) <= MAX_EXACT:
        return int(cell)
    return cell
