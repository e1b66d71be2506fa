"""The catalog as JSON: the form that a graph stores, and the canonical form that is hashed.

The stored form keeps the order of declarations. The canonical form sorts everything by name and leaves the source text
out, so that moving a line or editing a comment does not make another schema.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from omnigraph.features import BASE, EDGE_FAMILIES, EDGE_KEYS, EVOLVED, HARD_DROPS, NULLABLE_FILLS, check_readable
from omnigraph.language.catalog import (
    Annotation,
    Catalog,
    Constraint,
    EdgeType,
    Embed,
    EntityType,
    Family,
    InterfaceType,
    NodeType,
    Property,
    StoredColumn,
)
from omnigraph.values.types import PropertyType, Scalar


def catalog_to_json(catalog: Catalog) -> dict[str, Any]:
    """Everything in the catalog, as plain JSON values."""
    properties = (property for entity in catalog.tables.values() for property in entity.properties.values())
    used = {
        EVOLVED: catalog.is_evolved,
        HARD_DROPS: bool(catalog.hard_dropped),
        NULLABLE_FILLS: any(property.fill is not None and property.type.nullable for property in properties),
        EDGE_KEYS: any(edge.key for edge in catalog.edges.values()),
        EDGE_FAMILIES: bool(catalog.families),
    }
    features = [BASE, *(feature for feature, is_used in used.items() if is_used)]
    stored = {"features": features, "hash": catalog.hash, "source": catalog.source} | _shape(catalog)
    return stored | _without_nulls(
        retired=list(catalog.retired) or None, hard_dropped=list(catalog.hard_dropped) or None
    )


def catalog_from_json(value: Mapping[str, Any]) -> Catalog:
    """The catalog that `catalog_to_json` wrote. Trusts its input: the store checks content by its address.

    UnsupportedFormat if the schema uses something that this version does not have.
    """
    check_readable(value["features"], "the schema")
    return Catalog(
        nodes={node["name"]: _node(node) for node in value["nodes"]},
        edges={edge["name"]: _edge(edge) for edge in value["edges"]},
        interfaces={interface["name"]: _interface(interface) for interface in value["interfaces"]},
        source=value["source"],
        hash=value["hash"],
        next_id=value["next_id"],
        retired=tuple(value.get("retired", ())),
        hard_dropped=tuple(value.get("hard_dropped", ())),
        is_evolved=EVOLVED in value["features"],
    )


def catalog_hash(catalog: Catalog) -> str:
    """`sha256:<hex>` over the canonical form; the catalog's own `hash` field is ignored."""
    canonical = json.dumps(_canonical(_shape(catalog)), sort_keys=True, separators=(",", ":"), ensure_ascii=False)
    return f"sha256:{hashlib.sha256(canonical.encode()).hexdigest()}"


def _canonical(shape: dict[str, Any]) -> dict[str, Any]:
    """The stored form with every list sorted, because their order has no meaning, except that of a key."""
    canonical = dict(shape)
    for kind in ("interfaces", "nodes", "edges"):
        canonical[kind] = [_canonical_type(item) for item in _by_name(shape[kind])]
    return canonical


def _canonical_type(item: dict[str, Any]) -> dict[str, Any]:
    properties = [_by_text(property, "annotations") for property in _by_name(item["properties"])]
    constraints = [
        {name: _canonical_bound(value) for name, value in constraint.items()}
        | ({} if constraint["kind"] == "key" else {"fields": sorted(constraint["fields"])})
        for constraint in item.get("constraints", ())
    ]
    canonical = item | {"properties": properties, "constraints": constraints}
    return _by_text(_by_text(_by_text(canonical, "constraints"), "annotations"), "implements")


def _canonical_bound(value: Any) -> Any:
    """Makes a bound of 0.0 the same as a bound of 0."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


def _by_name(items: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return sorted(items, key=lambda item: str(item["name"]))


def _by_text(item: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in item:
        return item
    return item | {name: sorted(item[name], key=lambda value: json.dumps(value, sort_keys=True))}


# ---------------------------------------------------------------- writing


def _shape(catalog: Catalog) -> dict[str, Any]:
    return {
        "next_id": catalog.next_id,
        "interfaces": [_interface_json(interface) for interface in catalog.interfaces.values()],
        "nodes": [
            _entity_json(node) | _without_nulls(implements=list(node.implements) or None)
            for node in catalog.nodes.values()
        ],
        "edges": [
            _entity_json(edge)
            | {"source": edge.source, "target": edge.target}
            | _without_nulls(min_out=edge.min_out or None, max_out=edge.max_out, family=_family_json(edge))
            for edge in catalog.edges.values()
        ],
    }


def _family_json(edge: EdgeType) -> dict[str, Any] | None:
    family = edge.family
    return None if family is None else {"name": family.name, "source": family.source, "target": family.target}


def _without_nulls(**fields: Any) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


def _interface_json(interface: InterfaceType) -> dict[str, Any]:
    return {
        "name": interface.name,
        "id": interface.id,
        "properties": [_property_json(p) for p in interface.properties.values()],
    } | _without_nulls(
        description=interface.description, constraints=[constraint_json(c) for c in interface.constraints] or None
    )


def _entity_json(entity: EntityType) -> dict[str, Any]:
    return {
        "name": entity.name,
        "id": entity.id,
        "table_id": entity.table_id,
        "properties": [_property_json(property) for property in entity.properties.values()],
    } | _without_nulls(
        constraints=[constraint_json(constraint) for constraint in entity.constraints] or None,
        description=entity.description,
        instruction=entity.instruction,
        annotations=[annotation_json(annotation) for annotation in entity.annotations] or None,
    )


def _property_json(property: Property) -> dict[str, Any]:
    embed = property.embed
    return {"name": property.name, "id": property.id, "type": property_type_json(property.type)} | _without_nulls(
        default=property.default,
        description=property.description,
        embed=None if embed is None else {"source": embed.source} | _without_nulls(model=embed.model),
        metric=None if property.metric == "cosine" else property.metric,
        language=None if property.language == "english" else property.language,
        annotations=[annotation_json(annotation) for annotation in property.annotations] or None,
        inherited=None if property.declared_directly else True,
        interfaces=list(property.interfaces) or None,
        columns=[{"name": column.name, "type": property_type_json(column.type)} for column in property.columns] or None,
        fill=property.fill,
    )


def property_type_json(type: PropertyType) -> dict[str, Any]:
    return {"scalar": type.scalar.value} | _without_nulls(
        nullable=type.nullable or None,
        list=type.is_list or None,
        enum=list(type.enum) or None,
        dimension=type.dimension,
    )


def annotation_json(annotation: Annotation) -> dict[str, Any]:
    return {"name": annotation.name} | _without_nulls(
        value=annotation.value, options=[list(option) for option in annotation.options] or None
    )


def constraint_json(constraint: Constraint) -> dict[str, Any]:
    return {"kind": constraint.kind, "fields": list(constraint.fields)} | _without_nulls(
        minimum=constraint.minimum, maximum=constraint.maximum, pattern=constraint.pattern
    )


# ---------------------------------------------------------------- reading


def _node(value: Mapping[str, Any]) -> NodeType:
    return NodeType(**_entity(value), implements=tuple(value.get("implements", ())))


def _edge(value: Mapping[str, Any]) -> EdgeType:
    return EdgeType(
        **_entity(value),
        source=value["source"],
        target=value["target"],
        min_out=value.get("min_out", 0),
        max_out=value.get("max_out"),
        family=Family(**value["family"]) if "family" in value else None,
    )


def _interface(value: Mapping[str, Any]) -> InterfaceType:
    return InterfaceType(
        value["name"],
        value["id"],
        {property["name"]: _property(property) for property in value["properties"]},
        value.get("description"),
        _constraints(value),
    )


def _entity(value: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": value["name"],
        "id": value["id"],
        "table_id": value["table_id"],
        "properties": {property["name"]: _property(property) for property in value["properties"]},
        "constraints": _constraints(value),
        "description": value.get("description"),
        "instruction": value.get("instruction"),
        "annotations": _annotations(value),
    }


def _property(value: Mapping[str, Any]) -> Property:
    embed = value.get("embed")
    return Property(
        value["name"],
        property_type_from_json(value["type"]),
        value["id"],
        value.get("default"),
        value.get("description"),
        None if embed is None else Embed(embed["source"], embed.get("model")),
        value.get("metric", "cosine"),
        value.get("language", "english"),
        _annotations(value),
        not value.get("inherited", False),
        tuple(value.get("interfaces", ())),
        tuple(
            StoredColumn(column["name"], property_type_from_json(column["type"])) for column in value.get("columns", ())
        ),
        value.get("fill"),
    )


def property_type_from_json(value: Mapping[str, Any]) -> PropertyType:
    return PropertyType(
        Scalar(value["scalar"]),
        value.get("nullable", False),
        value.get("list", False),
        tuple(value.get("enum", ())),
        value.get("dimension"),
    )


def _annotations(value: Mapping[str, Any]) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(item["name"], item.get("value"), tuple((name, option) for name, option in item.get("options", ())))
        for item in value.get("annotations", ())
    )


def _constraints(value: Mapping[str, Any]) -> tuple[Constraint, ...]:
    return tuple(constraint_from_json(item) for item in value.get("constraints", ()))


def constraint_from_json(value: Mapping[str, Any]) -> Constraint:
    return Constraint(
        value["kind"], tuple(value["fields"]), value.get("minimum"), value.get("maximum"), value.get("pattern")
    )
