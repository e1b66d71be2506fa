"""Graph batches read by columns: one call of Arrow's JSON parser for many lines of one type.

The parser refuses unknown and duplicate members and wrong JSON types by itself; what it cannot see (nulls in lists, missing
`data`, empty ids ...) is looked for in the columns. Wherever anything is doubtful the answer is `Doubtful`, and the lines go
through `lines.record_row`, which says what is wrong, or accepts them after all.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from omnigraph.language.catalog import EdgeType, EntityType, NodeType
from omnigraph.language.identity import node_id
from omnigraph.records.fresh_ids import FreshIds
from omnigraph.records.typed import TypedRows, open_schema
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    import pyarrow as pa

DAYS = (-719_162, 2_932_896)
MILLISECONDS = (-62_135_596_800_000, 253_402_300_799_999)
"""The years 1 to 9999: what every engine and Python can hold."""

_INSTANT = r"^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d{1,3})?Z?$"
_DAY = r"^\d{4}-\d\d-\d\d$"


class Doubtful(Exception):
    """These lines must be read one by one."""


class TypeColumns:
    """Reads lines that all belong to one type. Remembers how its dates were written last time."""

    def __init__(self, entity: EntityType, fresh: FreshIds) -> None:
        self.entity = entity
        self.fresh = fresh
        self.schema = open_schema(entity)
        self._member = "edge" if isinstance(entity, EdgeType) else "type"
        self._variants = ["text", "number"] if _has_dates(entity) else ["text"]

    def prefixes(self) -> tuple[str, ...]:
        """How lines of this type usually begin."""
        return tuple(f'{{"{self._member}":{space}"{self.entity.name}"' for space in ("", " "))

    def read(self, data: bytes, lines: pa.Int64Array) -> TypedRows:
        """`data` holds one record a line, each of this type by its prefix and closed by `}`. Raises Doubtful."""
        import pyarrow as pa

        for variant in self._variants:
            try:
                parsed = self._parse(data, variant)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, UnicodeDecodeError):
                continue
            if variant != self._variants[0]:
                self._variants.reverse()
            return self._typed(parsed, lines)
        raise Doubtful

    def _parse(self, data: bytes, variant: str) -> pa.Table:
        import pyarrow as pa
        import pyarrow.json as pj

        if not data.isascii():
            data.decode("utf-8")
        fields = [pa.field("id", pa.string())]
        fields += [pa.field(p.name, _raw_type(p.type, variant)) for p in self.entity.properties.values()]
        members = [pa.field(self._member, pa.string())]
        if isinstance(self.entity, EdgeType):
            members += [pa.field("from", pa.string()), pa.field("to", pa.string())]
        schema = pa.schema([*members, pa.field("data", pa.struct(fields))])
        return pj.read_json(
            io.BytesIO(data),
            read_options=pj.ReadOptions(use_threads=False, block_size=len(data) + 1),
            parse_options=pj.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error"),
        )

    def _typed(self, parsed: pa.Table, lines: pa.Int64Array) -> TypedRows:
        import pyarrow as pa
        import pyarrow.compute as pc

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
        columns: dict[str, Any] = {}
        for index, property in enumerate(self.entity.properties.values(), start=1):
            raw = data.field(index)
            if raw.null_count and property.default is not None:
                raise Doubtful
            columns[property.name] = typed_column(raw, property.type)
        if isinstance(self.entity, EdgeType):
            columns["src"], columns["dst"] = _node_ref(parsed.column("from")), _node_ref(parsed.column("to"))
        columns["id"], given = ids_of(self.entity, data.field(0), columns, lines, self.fresh)
        ordered = [columns[field.name] for field in self.schema]
        return TypedRows(self.entity.table_key, pa.Table.from_arrays(ordered, schema=self.schema), lines, given)


def ids_of(
    entity: EntityType, given: pa.StringArray, columns: dict[str, Any], lines: pa.Int64Array, fresh: FreshIds
) -> tuple[pa.StringArray, int]:
    """The id column and how many ids came from outside: derived for keyed nodes, else given or fresh."""
    import pyarrow.compute as pc

    count = len(given) - given.null_count
    if count and pc.any(pc.equal(pc.binary_length(given), 0)).as_py():
        raise Doubtful
    if isinstance(entity, NodeType) and entity.key:
        derived = derived_ids(entity, columns)
        if count and not pc.all(pc.equal(given, derived)).as_py():
            raise Doubtful
        return derived, count
    if count == len(given):
        return given, count
    made = fresh.many(lines)
    return (pc.coalesce(given, made) if count else made), count


def derived_ids(node: NodeType, columns: dict[str, Any]) -> pa.StringArray:
    """`identity.node_id` for a whole column; member by member only where no cast gives the canonical text."""
    import pyarrow as pa
    import pyarrow.compute as pc

    members = [columns[name] for name in node.key]
    if any(member.null_count for member in members):
        raise Doubtful
    type = node.properties[node.key[0]].type
    if len(members) > 1 or type.scalar.is_float:
        rows = zip(*(member.to_pylist() for member in members), strict=True)
        return pa.array([node_id(node, dict(zip(node.key, row, strict=True))) for row in rows], pa.string())
    number = {Scalar.DATE: pa.int32(), Scalar.DATETIME: pa.int64()}.get(type.scalar)
    only = members[0] if number is None else members[0].cast(number)
    return only if only.type == pa.string() else pc.cast(only, pa.string())


def typed_column(raw: pa.Array, type: PropertyType) -> pa.Array:
    """A parsed column as the column the table has. Raises Doubtful when one value might not fit."""
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        if type.dimension is not None:
            return _vectors(raw, type.dimension)
        if type.is_list:
            if raw.values.null_count:
                raise Doubtful
            items = typed_column(raw.values, PropertyType(type.scalar))
            item = pa.field("item", items.type, nullable=True)
            return pa.ListArray.from_arrays(raw.offsets, items, type=pa.list_(item), mask=pc.is_null(raw))
        return _scalars(raw, type.scalar)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
        raise Doubtful from None


def _scalars(raw: pa.Array, scalar: Scalar) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    match scalar:
        case Scalar.I32 | Scalar.U32:
            return pc.cast(raw, pa.int32() if scalar is Scalar.I32 else pa.uint32())
        case Scalar.F32 | Scalar.F64:
            numbers = pc.cast(raw, pa.float32()) if scalar is Scalar.F32 else raw
            if pc.any(pc.invert(pc.is_finite(numbers))).as_py():
                raise Doubtful
            return numbers
        case Scalar.DATE:
            if pa.types.is_string(raw.type):
                return pc.cast(_matching(raw, _DAY), pa.date32())
            return pc.cast(pc.cast(_within(raw, DAYS), pa.int32()), pa.date32())
        case Scalar.DATETIME:
            if pa.types.is_string(raw.type):
                return pc.cast(pc.utf8_rtrim(_matching(raw, _INSTANT), characters="Z"), pa.timestamp("ms"))
            return pc.cast(_within(raw, MILLISECONDS), pa.timestamp("ms"))
        case Scalar.BLOB:
            return _blobs(raw)
    return raw


def _matching(texts: pa.Array, pattern: str) -> pa.Array:
    import pyarrow.compute as pc

    if not pc.all(pc.match_substring_regex(texts, pattern)).as_py() and len(texts) > texts.null_count:
        raise Doubtful
    return texts


def _within(numbers: pa.Array, bounds: tuple[int, int]) -> pa.Array:
    import pyarrow.compute as pc

    extent = pc.min_max(numbers).as_py()
    if extent["min"] is not None and not (bounds[0] <= extent["min"] and extent["max"] <= bounds[1]):
        raise Doubtful
    return numbers


def _blobs(texts: pa.Array) -> pa.Array:
    import pyarrow as pa

    from omnigraph.records.values import Unfit, typed_value

    type = PropertyType(Scalar.BLOB)
    try:
        return pa.array([typed_value(text, type) for text in texts.to_pylist()], pa.large_binary())
    except Unfit:
        raise Doubtful from None


def _vectors(raw: pa.Array, dimension: int) -> pa.Array:
    import pyarrow as pa
    import pyarrow.compute as pc

    lengths = pc.list_value_length(raw)
    if pc.any(pc.not_equal(lengths, dimension)).as_py() or raw.values.null_count:
        raise Doubtful
    numbers = pc.cast(raw.values, pa.float32())
    if pc.any(pc.invert(pc.is_finite(numbers))).as_py():
        raise Doubtful
    type = pa.list_(pa.field("item", pa.float32(), nullable=True), dimension)
    if not raw.null_count:
        return pa.FixedSizeListArray.from_arrays(numbers, type=type)
    # A null takes no values in a list, but `dimension` of them in a list of fixed size.
    return pc.take(pa.FixedSizeListArray.from_arrays(numbers, type=type), _ranks(raw))


def _ranks(raw: pa.Array) -> pa.Array:
    """For each row its number among the rows that are not null; null for the others."""
    import pyarrow as pa
    import pyarrow.compute as pc

    valid = pc.is_valid(raw)
    rank = pc.subtract(pc.cumulative_sum(pc.cast(valid, pa.int64())), 1)
    return pc.if_else(valid, rank, pa.scalar(None, pa.int64()))


def _node_ref(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow.compute as pc

    if column.null_count or pc.any(pc.equal(pc.binary_length(column), 0)).as_py():
        raise Doubtful
    return column.combine_chunks()


def _has_dates(entity: EntityType) -> bool:
    return any(p.type.scalar in (Scalar.DATE, Scalar.DATETIME) for p in entity.properties.values())


def _raw_type(type: PropertyType, dates: str) -> pa.DataType:
    import pyarrow as pa

    if type.dimension is not None:
        return pa.list_(pa.float64())
    scalar = {
        Scalar.STRING: pa.string(),
        Scalar.BLOB: pa.string(),
        Scalar.BOOL: pa.bool_(),
        Scalar.U64: pa.uint64(),
        Scalar.F32: pa.float64(),
        Scalar.F64: pa.float64(),
        Scalar.DATE: pa.string() if dates == "text" else pa.int64(),
        Scalar.DATETIME: pa.string() if dates == "text" else pa.int64(),
    }.get(type.scalar, pa.int64())
    return pa.list_(scalar) if type.is_list else scalar
