"""The declarations of a schema with stable ids in place of names, so that two schemas of one graph can be compared and merged
value by value, whatever was renamed. `to_catalog` is the reverse."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from omnigraph.language.catalog import (
    Catalog,
    Constraint,
    ConstraintKind,
    EdgeType,
    Embed,
    Family,
    InterfaceType,
    NodeType,
    Property,
    StoredColumn,
    member_name,
    stored_columns,
    stored_type,
)
from omnigraph.language.schema.stable_ids import AnyType
from omnigraph.language.schema.syntax import DeclarationKind
from omnigraph.values.types import PropertyType

Values = Mapping[str, Any]
"""The declared values of a type or a property, by the words that messages use for them."""

Member = int | str
"""A property by its id, or an end of an edge by its column."""

ConstraintGroup = tuple[ConstraintKind, tuple[Member, ...]]
"""The kind of a constraint and its members. A type has at most one key, so the members of a key are not part of it."""


@dataclass(frozen=True)
class Declared:
    """One type. `constraints` are the bounds and patterns of each group; for a key, its members in order."""

    kind: DeclarationKind
    values: Values
    constraints: Mapping[ConstraintGroup, Any]
    properties: Mapping[int, Values]

    def about(self, property_id: int) -> tuple[Values, Mapping[ConstraintGroup, Any]]:
        """Everything that is declared about a property."""
        constraints = {
            group: value for group, value in self.constraints.items() if property_id in _members(group, value)
        }
        return self.properties[property_id], constraints


def _members(group: ConstraintGroup, value: Any) -> tuple[Member, ...]:
    return tuple(value) if group[0] == "key" else group[1]


def declarations(catalog: Catalog) -> dict[int, Declared]:
    """Every type by its id, in the order of the text: interfaces, nodes, edges."""
    kinds: tuple[tuple[DeclarationKind, Mapping[str, AnyType]], ...] = (
        ("interface", catalog.interfaces),
        ("node", catalog.nodes),
        ("edge", catalog.edges),
    )
    return {type_.id: _declared(catalog, kind, type_) for kind, types in kinds for type_ in types.values()}


def _declared(catalog: Catalog, kind: DeclarationKind, type: AnyType) -> Declared:
    values: dict[str, Any] = {"name": type.name, "description": type.description}
    match type:
        case NodeType():
            values["interfaces"] = frozenset(_type_id(catalog, name) for name in type.implements)
        case EdgeType():
            values["ends"] = (_type_id(catalog, type.source), _type_id(catalog, type.target))
            values["cardinality"] = (type.min_out, type.max_out)
            family = type.family
            values["family"] = family and (
                family.name,
                *(_type_id(catalog, end) for end in (family.source, family.target)),
            )
    if isinstance(type, NodeType | EdgeType):
        values["instruction"] = type.instruction
        values["annotations"] = frozenset(type.annotations)
        values["table"] = type.table_id
    properties = {property.id: _property_values(property, type) for property in type.properties.values()}
    return Declared(kind, values, _constraints(type), properties)


def _type_id(catalog: Catalog, name: str) -> int:
    types: Mapping[str, AnyType] = {**catalog.interfaces, **catalog.nodes}
    return types[name].id


def _property_values(property: Property, owner: AnyType) -> Values:
    embed = property.embed
    return {
        "name": property.name,
        "type": (property.type.scalar, property.type.is_list, property.type.dimension),
        "nullability": property.type.nullable,
        "words": frozenset(property.type.enum),
        "default": property.default,
        "description": property.description,
        "embedding": embed and (owner.properties[embed.source].id, embed.model),
        "metric": property.metric,
        "language": property.language,
        "annotations": frozenset(property.annotations),
        "declaration": property.declared_directly,
        "columns": () if isinstance(owner, InterfaceType) else stored_columns(property),
        "value in older entities": property.fill,
    }


def _constraints(type: AnyType) -> dict[ConstraintGroup, Any]:
    constraints: dict[ConstraintGroup, Any] = {}
    for constraint in type.constraints:
        members = tuple(type.properties[name].id if name in type.properties else name for name in constraint.fields)
        if constraint.kind == "key":
            constraints["key", ()] = members
            continue
        group = (constraint.kind, tuple(sorted(members, key=str)))
        constraints[group] = constraints.get(group, frozenset()) | {
            (constraint.minimum, constraint.maximum, constraint.pattern)
        }
    return constraints


# ---------------------------------------------------------------- the way back


def to_catalog(
    types: Mapping[int, Declared], next_id: int, retired: Iterable[int], hard_dropped: Iterable[int]
) -> Catalog:
    """The catalog of these declarations, without what nodes inherit from interfaces: the compiler adds that."""
    names = {id: str(declared.values["name"]) for id, declared in types.items()}
    interfaces: dict[str, InterfaceType] = {}
    nodes: dict[str, NodeType] = {}
    edges: dict[str, EdgeType] = {}
    for id, type in types.items():
        values, name = type.values, names[id]
        properties = {
            str(declared["name"]): _property(pid, declared, type) for pid, declared in type.properties.items()
        }
        constraints = tuple(_constraints_of(type))
        if type.kind == "interface":
            interfaces[name] = InterfaceType(name, id, properties, values["description"], constraints)
            continue
        common: dict[str, Any] = {
            "name": name,
            "id": id,
            "table_id": values["table"],
            "properties": properties,
            "constraints": constraints,
            "description": values["description"],
            "instruction": values["instruction"],
            "annotations": _in_order(values["annotations"]),
        }
        if type.kind == "node":
            nodes[name] = NodeType(**common, implements=tuple(sorted(names[other] for other in values["interfaces"])))
        else:
            source, target = (names[other] for other in values["ends"])
            low, high = values["cardinality"]
            if values["family"] is not None:
                declared, *interfaces_of = values["family"]
                family = Family(declared, *(names[other] for other in interfaces_of))
                common |= {"family": family, "name": member_name(family, source, target)}
            edge = EdgeType(**common, source=source, target=target, min_out=low, max_out=high)
            edges[edge.name] = edge
    return Catalog(
        nodes,
        edges,
        interfaces,
        source="",
        hash="",
        next_id=next_id,
        retired=tuple(sorted(retired)),
        hard_dropped=tuple(sorted(hard_dropped)),
    )


def _property(id: int, values: Values, owner: Declared) -> Property:
    scalar, is_list, dimension = values["type"]
    embedding = values["embedding"]
    type = PropertyType(scalar, values["nullability"], is_list, tuple(sorted(values["words"])), dimension)
    # Rows are written to the first column; at most one of the others has a value.
    columns = tuple(sorted(values["columns"], key=lambda column: column.type != stored_type(type)))
    is_as_ever = columns == (StoredColumn(values["name"], stored_type(type)),)
    return Property(
        name=values["name"],
        type=type,
        id=id,
        default=values["default"],
        description=values["description"],
        embed=embedding and Embed(str(owner.properties[embedding[0]]["name"]), embedding[1]),
        metric=values["metric"],
        language=values["language"],
        annotations=_in_order(values["annotations"]),
        declared_directly=values["declaration"],
        columns=() if is_as_ever else columns,
        fill=values["value in older entities"],
    )


def _constraints_of(type: Declared) -> Iterable[Constraint]:
    for group, value in type.constraints.items():
        names = tuple(
            member if isinstance(member, str) else str(type.properties[member]["name"])
            for member in _members(group, value)
        )
        if group[0] == "key":
            yield Constraint("key", names)
            continue
        for low, high, pattern in sorted(value, key=repr):
            yield Constraint(group[0], names, low, high, pattern)


def _in_order(annotations: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(sorted(annotations, key=repr))
