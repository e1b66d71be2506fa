"""Graph batches read by columns: one call of Arrow's JSON parser for many lines of one type.

The parser itself refuses unknown and duplicate members and wrong JSON types; what it cannot see (nulls in lists, missing `data`,
empty ids ...) is checked in the columns. If anything is doubtful, `Doubtful` is raised, and the lines go through
`lines.parsed_line`, which says what is wrong, or accepts them after all.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any

from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, Property
from omnigraph.records.ids import FreshIds, end_column, id_column, named_id_column
from omnigraph.records.rows import WHOLE, NamedRows, RecordForm, Row, TypedRows, open_schema
from omnigraph.values.arrow import OUTSIDE_NAMES
from omnigraph.values.columns import Doubtful, json_parser_type, parsed_column
from omnigraph.values.types import PropertyType, Scalar

# Rows of one type that come one by one, collected into columns.


class GatheredRows:
    """Whole rows or parts of rows, depending on the form, and ids of entities to be deleted."""

    def __init__(self, entity: EntityType, form: RecordForm) -> None:
        self._entity = entity
        self._schema = open_schema(entity)
        self._is_partial = form.kind == "partial"
        self._rows: list[Row] = []
        self._lines: list[int] = []
        self._value_columns: list[frozenset[str]] = []
        self._named: list[str] = []
        self._named_lines: list[int] = []
        self._explicit_ids = 0

    def add(self, row: Row, line: int, *, has_id: bool) -> None:
        self._rows.append(row)
        self._lines.append(line)
        self._explicit_ids += has_id

    def add_partial(self, row: Row, columns: frozenset[str], line: int) -> None:
        self._value_columns.append(columns)
        self.add(row, line, has_id=True)

    def name(self, id: str, line: int) -> None:
        self._named.append(id)
        self._named_lines.append(line)

    def typed(self) -> Iterator[TypedRows | NamedRows]:
        key = self._entity.table_key
        if self._rows:
            rows = pa.Table.from_pylist(self._rows, schema=self._schema)
            lines = pa.array(self._lines, pa.int64())
            yield TypedRows(
                key, rows, lines, self._explicit_ids, self._columns_with_values() if self._is_partial else None
            )
        if self._named:
            yield NamedRows(key, pa.array(self._named, pa.string()), pa.array(self._named_lines, pa.int64()))

    def _columns_with_values(self) -> pa.Table:
        names = [name for name in self._schema.names if name != "id"]
        return pa.table(
            {name: pa.array([name in columns for columns in self._value_columns], pa.bool_()) for name in names}
        )


def columns_with_values(schema: pa.Schema, columns: frozenset[str], rows: int) -> pa.Table:
    """The same columns for every row."""
    return pa.table({name: pa.repeat(name in columns, rows) for name in schema.names if name != "id"})


# Patterns for lines of a graph batch, and cells of CSV, that are plainly right: the column reader accepts everything they match.
#
# They are used if some of many records are wrong: records that do not match are examined one by one, the others are read together.
# A record that is right in an unusual way, with other escapes or the widest numbers, does not match, and is only read more slowly.

_SIGN = (
    r"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|[\xc2-\xdf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    r'|[\xf1-\xf3][\x80-\xbf]{3}|\\["\\/bfnrt])'
)
"""A character of a JSON string, byte by byte: valid UTF-8 is part of being right."""
_TEXT = f'"{_SIGN}*"'
_NAME = f'"{_SIGN}+"'
_FLOAT = r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,17})?"
_INTEGERS = {
    Scalar.I32: r"-?(?:0|[1-9]\d{0,8})",
    Scalar.U32: r"(?:0|[1-9]\d{0,8})",
    Scalar.U64: r"(?:0|[1-9]\d{0,17})",
}
_MAX_COUNTED = 32
"""The numbers of longer vectors are not counted: the pattern would be too long."""
_INTEGER = r"-?(?:0|[1-9]\d{0,17})"
_DAY = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
_INSTANT = rf"{_DAY}[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?Z?"


def plain_pattern(entity: EntityType, member: str, *, dates_as_text: bool, allows_null: bool) -> str:
    """The pattern of whole lines with their newline, as bytes."""
    ends = ""
    if isinstance(entity, EdgeType):
        source, target = (rf',\s*"{word}":\s*{_NAME}' for word in ("from", "to"))
        ends = f"(?:{source}{target}|{target}{source})"
    members = [f'"id":\\s*{_NAME}']
    for property in entity.properties.values():
        null = "|null" if allows_null and _may_be_null(entity, property) else ""
        members.append(f'"{re.escape(property.name)}":\\s*(?:{_value(entity, property, dates_as_text)}{null})')
    any_member = f"(?:{'|'.join(members)})"
    data = rf"\{{\s*(?:{any_member}(?:,\s*{any_member})*\s*)?\}}"
    return rf'^\{{"{member}":\s*"{re.escape(entity.name)}"{ends},\s*"data":\s*{data}\}}\n$'


def plain_cell(type: PropertyType) -> str | None:
    """The pattern of cells of text that hold a value of the type; None if a pattern is not enough."""
    if type.is_list or type.dimension is not None or type.scalar in (Scalar.STRING, Scalar.BLOB):
        return None
    return f"^(?:{_scalar(type, dates_as_text=True)})$".replace('"', "")


def _may_be_null(entity: EntityType, property: Property) -> bool:
    return property.default is None and property.name not in entity.key


def _value(entity: EntityType, property: Property, dates_as_text: bool) -> str:
    type = property.type
    if type.dimension is not None:
        short = type.dimension <= _MAX_COUNTED
        return rf"\[{_FLOAT}(?:,\s*{_FLOAT}){{{type.dimension - 1}}}\]" if short else _list(_FLOAT)
    if type.is_list:
        return _list(_scalar(type, dates_as_text))
    if type.scalar is Scalar.STRING and property.name in entity.key:
        return _NAME
    return _scalar(type, dates_as_text)


def _list(item: str) -> str:
    return rf"\[\s*(?:{item}(?:\s*,\s*{item})*\s*)?\]"


def _scalar(type: PropertyType, dates_as_text: bool) -> str:
    match type.scalar:
        case Scalar.STRING | Scalar.BLOB:
            return _TEXT
        case Scalar.BOOL:
            return "(?:true|false)"
        case Scalar.F32 | Scalar.F64:
            return _FLOAT
        case Scalar.DATE:
            return f'"{_DAY}"' if dates_as_text else r"-?(?:0|[1-9]\d{0,4})"
        case Scalar.DATETIME:
            return f'"{_INSTANT}"' if dates_as_text else r"-?(?:0|[1-9]\d{0,12})"
    return _INTEGERS.get(type.scalar, _INTEGER)


class TypeColumns:
    """Reads lines that all belong to one type. Remembers how its dates were written last time."""

    def __init__(self, catalog: Catalog, entity: EntityType, fresh: FreshIds, form: RecordForm = WHOLE) -> None:
        self.catalog = catalog
        self.entity = entity
        self.fresh = fresh
        self.form = form
        self.schema = open_schema(entity)
        self._member = "edge" if isinstance(entity, EdgeType) else "type"
        self._dates_as_text = [True, False] if _has_dates(entity) else [True]

    def prefixes(self) -> tuple[str, ...]:
        """How lines of this type usually begin."""
        return tuple(f'{{"{self._member}":{space}"{self.entity.name}"' for space in ("", " "))

    def read(self, data: bytes, lines: pa.Int64Array) -> TypedRows | NamedRows:
        """`data` holds one record per line, each of this type by its prefix and closed by `}`. Raises Doubtful."""
        for as_text in self._dates_as_text:
            try:
                parsed = self._parse(data, as_text)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError) as error:
                if self._is_of_other_columns(str(error)):
                    break
                continue
            if as_text != self._dates_as_text[0]:
                self._dates_as_text.reverse()
            return self._typed(parsed, lines) if self.form.kind == "whole" else self._of_known(parsed, data, lines)
        raise Doubtful

    def _is_of_other_columns(self, message: str) -> bool:
        """Whether the parser failed for a reason unrelated to how dates are written."""
        changed = _CHANGED.search(message)
        return "unexpected field" in message or (changed is not None and changed[1] not in self._date_columns)

    @cached_property
    def _date_columns(self) -> frozenset[str]:
        properties = self.entity.properties.values()
        return frozenset(f"/data/{p.name}" for p in properties if p.type.scalar in (Scalar.DATE, Scalar.DATETIME))

    def _parse(self, data: bytes, dates_as_text: bool) -> pa.Table:
        import pyarrow.json as pj

        if not data.isascii():
            data.decode("utf-8")
        return pj.read_json(
            io.BytesIO(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(
                explicit_schema=self._members(dates_as_text), unexpected_field_behavior="error"
            ),
        )

    def _members(self, dates_as_text: bool) -> pa.Schema:
        fields = [pa.field("id", pa.string())]
        for property in self.entity.properties.values():
            fields.append(pa.field(property.name, json_parser_type(property.type, dates_as_text=dates_as_text)))
        members = [pa.field(self._member, pa.string())]
        if isinstance(self.entity, EdgeType):
            members += [pa.field("from", pa.string()), pa.field("to", pa.string())]
        return pa.schema([*members, pa.field("data", pa.struct(fields))])

    def _typed(self, parsed: pa.Table, lines: pa.Int64Array) -> TypedRows:
        data = self._data(parsed, lines)
        columns: dict[str, Any] = {}
        for index, property in enumerate(self.entity.properties.values(), start=1):
            raw = data.field(index)
            if raw.null_count and property.default is not None:
                raise Doubtful
            columns[property.name] = parsed_column(raw, property.type)
        if isinstance(self.entity, EdgeType):
            for end, member, node in self.catalog.ends(self.entity):
                columns[end] = end_column(node, parsed.column(member).combine_chunks())
        columns["id"], explicit_ids = id_column(self.entity, data.field(0), columns, lines, self.fresh)
        ordered = [columns[field.name] for field in self.schema]
        return TypedRows(self.entity.table_key, pa.Table.from_arrays(ordered, schema=self.schema), lines, explicit_ids)

    def plain_lines(self, texts: pa.Array) -> pa.BooleanArray:
        """The lines that `read` accepts, as far as a pattern can tell: none of them is wrong by itself."""
        masks = [pc.match_substring_regex(texts, self._plain_patterns[as_text]) for as_text in self._dates_as_text]
        mask = (
            max(masks, key=lambda candidate: pc.sum(candidate).as_py() or 0) if len(texts) else pa.array([], pa.bool_())
        )
        for name in self.entity.key:
            mask = pc.and_(mask, pc.match_substring(texts, f'"{OUTSIDE_NAMES.get(name, name)}":'))
        return mask

    @cached_property
    def _plain_patterns(self) -> dict[bool, str]:
        is_whole = self.form.kind == "whole"
        return {
            as_text: plain_pattern(self.entity, self._member, dates_as_text=as_text, allows_null=is_whole)
            for as_text in (True, False)
        }

    def _data(self, parsed: pa.Table, lines: pa.Int64Array) -> pa.StructArray:
        if parsed.num_rows != len(lines):
            raise Doubtful
        names = parsed.column(self._member)
        if names.null_count or not pc.all(pc.equal(names, self.entity.name)).as_py():
            raise Doubtful
        data = parsed.column("data").combine_chunks()
        if isinstance(data, pa.ChunkedArray):
            data = data.chunk(0)
        if data.null_count:
            raise Doubtful
        return data

    def _of_known(self, parsed: pa.Table, text: bytes, lines: pa.Int64Array) -> TypedRows | NamedRows:
        """Parts of rows, or names. The parser gives null for a missing member, so a null is unambiguous only if no line can have
        the member."""
        data = self._data(parsed, lines)
        columns: dict[str, Any] = {}
        for index, property in enumerate(self.entity.properties.values(), start=1):
            raw = data.field(index)
            if raw.null_count and _may_hold(text, property.name):
                raise Doubtful
            if not raw.null_count:
                columns[property.name] = parsed_column(raw, property.type)
        if isinstance(self.entity, EdgeType):
            for end, member, node in self.catalog.ends(self.entity):
                raw = parsed.column(member).combine_chunks()
                if raw.null_count < len(raw) and (self.form.kind != "name" or end in self.entity.key):
                    columns[end] = end_column(node, raw)
        ids = named_id_column(self.entity, data.field(0), columns)
        if self.form.kind == "name":
            return NamedRows(self.entity.table_key, ids, lines)
        has_value = columns_with_values(self.schema, frozenset(columns), len(lines))
        columns["id"] = ids
        ordered = [columns.get(field.name, pa.nulls(len(lines), field.type)) for field in self.schema]
        rows = pa.Table.from_arrays(ordered, schema=self.schema)
        return TypedRows(self.entity.table_key, rows, lines, len(lines), has_value)


_CHANGED = re.compile(r"Column\(([^)]*)\) changed from")
"""How Arrow's parser names a column that has a value of another kind."""


def _may_hold(text: bytes, member: str) -> bool:
    """Whether a line may have the member, however it is escaped."""
    return f'"{member}"'.encode() in text or b"\\u" in text


def _has_dates(entity: EntityType) -> bool:
    return any(p.type.scalar in (Scalar.DATE, Scalar.DATETIME) for p in entity.properties.values())
