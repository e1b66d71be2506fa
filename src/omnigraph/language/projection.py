"""Types and rows of one schema seen through another. Types and properties are the same when their stable ids are.

A column of a table belongs to one property, with one type, for ever. Its name is derived from both, so that two branches never use
the same name for different columns. Only the columns of a graph's first schema, and of new types, have the plain names of their
properties.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from omnigraph._internal.lazy_imports import pa
from omnigraph.language.catalog import (
    Catalog,
    EdgeType,
    EntityType,
    NodeType,
    Property,
    StoredColumn,
    stored_columns,
    stored_type,
)
from omnigraph.language.catalog_json import property_type_json
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


# Where the properties of a changed schema are stored: in the columns that they had, and in new ones.


def keep_columns(previous: Catalog, catalog: Catalog) -> Catalog:
    """The catalog with the previous columns of each property, and with names for new columns."""
    known: dict[int, EntityType] = {entity.id: entity for entity in previous.tables.values()}
    nodes: dict[str, NodeType] = {}
    edges: dict[str, EdgeType] = {}
    for name, node in catalog.nodes.items():
        nodes[name] = replace(node, properties=_properties(known.get(node.id), node))
    for name, edge in catalog.edges.items():
        edges[name] = replace(edge, properties=_properties(known.get(edge.id), edge))
    return replace(catalog, nodes=nodes, edges=edges)


def _properties(before: EntityType | None, after: EntityType) -> Mapping[str, Property]:
    if before is None:
        return after.properties
    known = {property.id: property for property in before.properties.values()}
    return {name: _kept(known.get(property.id), property) for name, property in after.properties.items()}


def _kept(before: Property | None, after: Property) -> Property:
    if before is None:
        return replace(after, columns=(_new_column(after),), fill=after.default if after.is_required else None)
    columns = stored_columns(before)
    if columns[0].type != stored_type(after.type):
        columns = (_new_column(after), *columns)
    is_as_ever = not before.columns and columns == stored_columns(replace(after, columns=()))
    return replace(after, columns=() if is_as_ever else columns, fill=before.fill)


def lost_properties(before: Catalog, after: Catalog) -> list[str]:
    """The properties of both schemas, by their names in `after`, that `after` reads from fewer columns, or without a value in
    older rows: values that were written under `before` would be missing."""
    lost = []
    for entity in after.tables.values():
        declared = before.by_id.get(entity.id)
        known = {} if declared is None else {property.id: property for property in declared.properties.values()}
        for property in entity.properties.values():
            was = known.get(property.id)
            if was is not None and not is_readable(was, property):
                lost.append(f"{entity.name}.{property.name}")
    return lost


def is_readable(before: Property, after: Property) -> bool:
    """Whether every value that was written under one declaration of a property is read under another."""
    has_columns = {*stored_columns(before)} <= {*stored_columns(after)}
    return has_columns and (before.fill is None or after.fill is not None)


def _new_column(property: Property) -> StoredColumn:
    type = stored_type(property.type)
    text = json.dumps([property.id, property_type_json(type)], sort_keys=True)
    return StoredColumn(f"{property.name}__{hashlib.sha256(text.encode()).hexdigest()[:12]}", type)
