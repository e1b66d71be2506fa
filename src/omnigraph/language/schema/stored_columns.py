"""Where the properties of a changed schema are stored: in the columns that they had, and in new ones.

A column belongs to one property, with one type, for ever. Its name is derived from both, so that two branches never use the same
name for different columns. Only the columns of a graph's first schema, and of new types, have the plain names of their
properties.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import replace

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
