"""The Arrow schema of each table."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.values.arrow import arrow_type

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_schema(entity: EntityType) -> pa.Schema:
    """`id` (and `src`, `dst` for edges), never null, then the properties as declared. Address columns by name, not by position."""
    import pyarrow as pa

    system = ("id", "src", "dst") if isinstance(entity, EdgeType) else ("id",)
    fields = [pa.field(name, pa.utf8(), nullable=False) for name in system]
    for property in entity.properties.values():
        fields.append(pa.field(property.name, arrow_type(property.type), nullable=property.type.nullable))
    return pa.schema(fields)
