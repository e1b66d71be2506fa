"""The Arrow schema of each table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_schema(entity: EntityType) -> pa.Schema:
    """`id` (and `src`, `dst` for edges), never null, then the properties as declared. Address columns by name."""
    import pyarrow as pa

    system = ("id", "src", "dst") if isinstance(entity, EdgeType) else ("id",)
    fields = [pa.field(name, pa.utf8(), nullable=False) for name in system]
    for property in entity.properties.values():
        fields.append(pa.field(property.name, arrow_type(property.type), nullable=property.type.nullable))
    return pa.schema(fields)


def arrow_type(type: PropertyType) -> pa.DataType:
    """The Arrow type of a property's values.

    A DateTime is a timestamp in milliseconds without zone, meaning UTC: every engine reads that as an instant.
    """
    import pyarrow as pa

    if type.dimension is not None:
        return pa.list_(pa.field("item", pa.float32(), nullable=True), type.dimension)
    scalar = {
        Scalar.STRING: pa.utf8,
        Scalar.BLOB: pa.large_binary,
        Scalar.BOOL: pa.bool_,
        Scalar.I32: pa.int32,
        Scalar.I64: pa.int64,
        Scalar.U32: pa.uint32,
        Scalar.U64: pa.uint64,
        Scalar.F32: pa.float32,
        Scalar.F64: pa.float64,
        Scalar.DATE: pa.date32,
        Scalar.DATETIME: lambda: pa.timestamp("ms"),
    }[type.scalar]()
    return pa.list_(pa.field("item", scalar, nullable=True)) if type.is_list else scalar
