"""Types and rows of one schema seen through another. Types and properties are the same when their stable ids are."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Literal

from omnigraph._internal.lazy_imports import pa
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, NodeType
from omnigraph.values.arrow import arrow_type, filled_value, widened
from omnigraph.values.types import wider_type

# The Arrow schema of each table.


def arrow_schema(entity: EntityType) -> pa.Schema:
    """`id` (and `src`, `dst` for edges), never null, then the properties as declared. Address columns by name, not by position."""
    system = ("id", "src", "dst") if isinstance(entity, EdgeType) else ("id",)
    fields = [pa.field(name, pa.utf8(), nullable=False) for name in system]
    for property in entity.properties.values():
        fields.append(pa.field(property.name, arrow_type(property.type), nullable=property.type.nullable))
    return pa.schema(fields)


EntityKind = Literal["node", "edge"]
SYSTEM_COLUMNS = ("id", "src", "dst")


@dataclass(frozen=True)
class TypePair:
    """One type in two schemas; None in a schema that does not have it."""

    before: EntityType | None
    after: EntityType | None

    @property
    def entity(self) -> EntityType:
        entity = self.after or self.before
        assert entity is not None, "a pair has at least one side"
        return entity


def type_pairs(before: Catalog, after: Catalog) -> Iterator[TypePair]:
    """Every type of either schema, matched by stable id."""
    old, new = before.by_id, after.by_id
    for id in sorted(old.keys() | new.keys()):
        yield TypePair(old.get(id), new.get(id))


def kind_of(entity: EntityType) -> EntityKind:
    return "node" if isinstance(entity, NodeType) else "edge"


def wider_entity(before: EntityType, after: EntityType) -> EntityType:
    """A type as `after` declares it, but with the wider type of `before` where that is wider, so that rows of both fit."""
    known = {property.id: property.type for property in before.properties.values()}
    properties = {
        name: replace(property, type=wider_type(property.type, known.get(property.id, property.type)))
        for name, property in after.properties.items()
    }
    return after if properties == after.properties else replace(after, properties=properties)


def project(rows: pa.Table, stored: EntityType, wanted: EntityType) -> pa.Table:
    """Rows of `stored` as rows of `wanted`: properties are renamed and widened, dropped ones left out, and new ones get the value
    that they have in older rows."""
    schema = arrow_schema(wanted)
    names = {property.id: property.name for property in stored.properties.values()}
    columns = []
    for field in schema:
        if field.name in SYSTEM_COLUMNS:
            columns.append(rows.column(field.name))
            continue
        property = wanted.properties[field.name]
        name = names.get(property.id)
        if name is not None and name in rows.schema.names:
            columns.append(widened(rows.column(name).combine_chunks(), field.type))
        else:
            value = None if property.fill is None else filled_value(property.fill, property.type)
            columns.append(pa.array([value] * rows.num_rows, field.type))
    open_fields = [pa.field(field.name, field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=pa.schema(open_fields))
