"""Where the properties of a changed schema are stored: the columns that they have, and new ones beside those.

A column belongs to one property and one type for ever: its name says which, so that two branches never give one name to two
things. Only the columns of a graph's first schema, and of types that are new, have the bare names of their properties.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
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
    """The catalog with the columns of each property that was there before, and names for those of new ones."""
    known: dict[int, EntityType] = {entity.id: entity for entity in previous.tables.values()}
    nodes: dict[str, NodeType] = {}
    edges: dict[str, EdgeType] = {}
    for name, node in catalog.nodes.items():
        nodes[name] = replace(node, properties=_properties(known.get(node.id), node))
    for name, edge in catalog.edges.items():
        edges[name] = replace(edge, properties=_properties(known.get(edge.id), edge))
    return replace(catalog, nodes=nodes, edges=edges)


def join_columns(ours: Catalog, theirs: Catalog, catalog: Catalog) -> Catalog:
    """A merged catalog with the columns that either side has, the newest of its type first: it reads tables of both."""
    known = [{entity.id: entity for entity in side.tables.values()} for side in (ours, theirs)]

    def joined(entity: EntityType) -> Mapping[str, Property]:
        sides = [side[entity.id] for side in known if entity.id in side]
        return {name: _joined(sides, property) for name, property in entity.properties.items()}

    nodes = {name: replace(node, properties=joined(node)) for name, node in catalog.nodes.items()}
    edges = {name: replace(edge, properties=joined(edge)) for name, edge in catalog.edges.items()}
    return replace(catalog, nodes=nodes, edges=edges, is_evolved=True)


def _joined(sides: Sequence[EntityType], after: Property) -> Property:
    said = [each for side in sides for each in side.properties.values() if each.id == after.id]
    wanted = stored_type(after.type)
    said.sort(key=lambda each: (stored_columns(each)[0].type != wanted, each.default != after.default))
    columns = tuple(dict.fromkeys(column for each in said for column in stored_columns(each)))
    is_plain = not any(each.columns for each in said) and columns == stored_columns(replace(after, columns=()))
    fill = next((each.fill for each in said if each.fill is not None), None) if after.is_required else None
    return replace(after, columns=() if is_plain else columns, fill=fill)


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


def _new_column(property: Property) -> StoredColumn:
    type = stored_type(property.type)
    text = json.dumps([property.id, property_type_json(type)], sort_keys=True)
    return StoredColumn(f"{property.name}__{hashlib.sha256(text.encode()).hexdigest()[:12]}", type)
