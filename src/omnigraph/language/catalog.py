"""The typed catalog: what a schema says, after every check, as frozen values.

`catalog.nodes["Person"]` and `catalog.edges["Knows"]` are the two kinds of *entity type*; each owns one table, named by
its `table_key` ("node:Person", "edge:Knows"). Types and properties carry ids that survive renames.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date, datetime
from functools import cached_property
from typing import Literal

from omnigraph._internal.frozen import Frozen
from omnigraph.errors import RecordError, UsageError, ValueViolation
from omnigraph.values.arrow import OUTSIDE_NAMES
from omnigraph.values.literals import canonical_text, key_text
from omnigraph.values.types import PropertyType, Scalar

LiteralValue = str | int | float | bool


class Annotation(Frozen):
    """`@name`, `@name(value)` or `@name(value, key=value)` that has no behaviour or is kept for printing.

    >>> assert person.annotations == ()
    """

    name: str
    value: LiteralValue | None = None
    options: tuple[tuple[str, LiteralValue], ...] = ()


Metric = Literal["cosine", "l2", "dot"]
Language = Literal["english", "simple"]


class Embed(Frozen):
    """`@embed("source", model="m")` on a Vector property.

    >>> assert age.embed is None
    """

    source: str
    model: str | None = None


class StoredColumn(Frozen):
    """A column of a type's table that stores values of a property, and the type in which it stores them.

    >>> assert age.columns == ()
    """

    name: str
    type: PropertyType


class Property(Frozen):
    """A property that a type declares.

    >>> age = person.properties["age"]
    >>> assert (age.name, str(age.type), age.is_required) == ("age", "I32?", False)
    """

    name: str
    type: PropertyType
    id: int
    default: LiteralValue | None = None
    """`@default(value)`, typed as the property (dates as their ISO text); None if there is none."""
    description: str | None = None
    embed: Embed | None = None
    metric: Metric = "cosine"
    """How nearest() measures distance: `@metric("l2")` on a Vector property."""
    language: Language = "english"
    """How text is split into words and these are compared: `@index(language: "simple")` on a String property."""
    annotations: tuple[Annotation, ...] = ()
    declared_directly: bool = True
    interfaces: tuple[str, ...] = ()
    """Interfaces that declare this property, sorted."""
    columns: tuple[StoredColumn, ...] = ()
    """The columns that store its values, newest first; () if that is only the column of the same name."""
    fill: LiteralValue | None = None
    """The value of rows older than the property, which was required, with this default, when it was added. It may be nullable now."""

    @property
    def is_required(self) -> bool:
        """Whether it must not be null."""
        return not self.type.nullable


def stored_columns(property: Property) -> tuple[StoredColumn, ...]:
    """The columns that store values of a property, newest first."""
    return property.columns or (StoredColumn(property.name, stored_type(property.type)),)


def stored_type(type: PropertyType) -> PropertyType:
    """A type as a column stores it: the schema alone knows whether null is allowed, and the words of an enum."""
    return replace(type, nullable=False, enum=())


ConstraintKind = Literal["key", "unique", "index", "range", "check"]


class Constraint(Frozen):
    """One constraint of a type, written in its body or, like @key, @unique and @index, on a property. Fields may name src and dst
    on edges.

    >>> assert [(each.kind, each.fields) for each in person.constraints_of("key")] == [("key", ("name",))]
    """

    kind: ConstraintKind
    fields: tuple[str, ...]
    minimum: int | float | None = None
    maximum: int | float | None = None
    pattern: str | None = None


ID_TYPE = PropertyType(Scalar.STRING)


class _Entity(Frozen):
    name: str
    id: int
    table_id: str
    """Part of the name of the table's folder: kept by a rename, new if a type is dropped and added again."""
    properties: Mapping[str, Property]
    constraints: tuple[Constraint, ...] = ()
    description: str | None = None
    instruction: str | None = None
    annotations: tuple[Annotation, ...] = ()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}: {', '.join(self.properties) or 'no properties'}>"

    def constraints_of(self, kind: ConstraintKind) -> Iterator[Constraint]:
        """Its constraints of one kind."""
        return (constraint for constraint in self.constraints if constraint.kind == kind)

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The members of the key in the order of the schema, which is their order in an id; () if there is no key. That of an edge
        may name `src` and `dst`."""
        for constraint in self.constraints_of("key"):
            return constraint.fields
        return ()

    @cached_property
    def key_ids(self) -> tuple[int | str, ...]:
        """The key by stable ids: equal in two schemas that derive the same ids."""
        return tuple(self.properties[name].id if name in self.properties else name for name in self.key)

    def key_type(self, member: str) -> PropertyType:
        """The type of a member of the key: that of the property, or of an id."""
        property = self.properties.get(member)
        return ID_TYPE if property is None else property.type

    @cached_property
    def embedded(self) -> tuple[Property, ...]:
        """The vector properties that are computed from a text: those with `@embed`."""
        return tuple(p for p in self.properties.values() if p.embed is not None)

    @cached_property
    def required(self) -> tuple[Property, ...]:
        """The properties that may not be null."""
        return tuple(p for p in self.properties.values() if p.is_required)


class NodeType(_Entity):
    """A node type.

    >>> person = schema.nodes["Person"]
    >>> assert (person.key, [each.name for each in person.required]) == (("name",), ["name"])
    """

    implements: tuple[str, ...] = ()

    @property
    def table_key(self) -> str:
        """`node:` and the name: the name of its table everywhere."""
        return f"node:{self.name}"


class Family(Frozen):
    """An edge that is declared between interfaces: `edge HasCreator: Message -> Person`. Its members are edge types, one for each pair
    of node types at its ends.

    >>> assert lives.family is None
    """

    name: str
    source: str
    target: str


class EdgeType(_Entity):
    """An edge type: from a node type to a node type.

    >>> lives = schema.edges["LivesIn"]
    >>> assert (lives.source, lives.target, lives.max_out) == ("Person", "City", 1)
    """

    source: str = ""
    target: str = ""
    min_out: int = 0
    max_out: int | None = None
    """Upper bound of @card: edges per source node."""
    family: Family | None = None
    """The edge between interfaces that it is a member of."""

    @property
    def table_key(self) -> str:
        """`edge:` and the name: the name of its table everywhere."""
        return f"edge:{self.name}"


class InterfaceType(Frozen):
    """Properties that several node types have in common.

    >>> assert schema.interfaces == {}
    """

    name: str
    id: int
    properties: Mapping[str, Property]
    description: str | None = None
    constraints: tuple[Constraint, ...] = ()
    """Constraints from the annotations of its properties, which the implementing types inherit with these properties."""


EntityType = NodeType | EdgeType


class Catalog(Frozen):
    """A compiled schema. `hash` is `sha256:<hex>` over its canonical form; equal hashes mean equal meaning.

    >>> schema = g.schema.catalog
    >>> assert (list(schema.nodes), list(schema.edges)) == (["Person", "City"], ["Knows", "LivesIn"])
    """

    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    interfaces: Mapping[str, InterfaceType]
    source: str
    hash: str
    next_id: int
    """The ids of the first schema are below this number; those added by later schemas are derived from names."""
    retired: tuple[int, ...] = ()
    """Derived ids that only earlier schemas of this branch used: a name that was dropped and added again gets a new one."""
    hard_dropped: tuple[int, ...] = ()
    """Ids of types and properties that were dropped for good on this branch: their stored values are not read any more."""
    is_evolved: bool = False
    """Whether it replaced another schema: tables may then have columns that it does not declare, and lack some that it does."""

    def __repr__(self) -> str:
        return f"<Catalog of {len(self.nodes)} node types and {len(self.edges)} edge types>"

    @cached_property
    def _edges_folded(self) -> Mapping[str, EdgeType]:
        return {name.lower(): edge for name, edge in self.edges.items()}

    def edge_by_word(self, word: str) -> EdgeType | None:
        """The edge type that a query names, ignoring case."""
        return self._edges_folded.get(word.lower())

    @cached_property
    def families(self) -> Mapping[str, tuple[EdgeType, ...]]:
        """The members of each edge between interfaces, by its name."""
        members: dict[str, tuple[EdgeType, ...]] = {}
        for _, edge in sorted(self.edges.items()):
            if edge.family is not None:
                members[edge.family.name] = (*members.get(edge.family.name, ()), edge)
        return members

    @cached_property
    def declared_edges(self) -> tuple[str, ...]:
        """The edges as the schema declares them: types, and edges between interfaces."""
        return tuple(dict.fromkeys((edge.family or edge).name for edge in self.edges.values()))

    @cached_property
    def _families_folded(self) -> Mapping[str, tuple[EdgeType, ...]]:
        return {name.lower(): members for name, members in self.families.items()}

    def family_by_word(self, word: str) -> tuple[EdgeType, ...]:
        """The members of the edge between interfaces that a query names, ignoring case."""
        return self._families_folded.get(word.lower(), ())

    def member(self, name: str, source: object, target: object) -> EdgeType:
        """The member of an edge between interfaces, given the types of its ends where they are given. UsageError, which names the
        choices, unless exactly one fits."""
        members = self.families[name]
        fitting = [edge for edge in members if source in (None, edge.source) and target in (None, edge.target)]
        if len(fitting) == 1:
            return fitting[0]
        family = members[0].family
        assert family is not None, "it has members"
        for word, type_name, end, types in (
            ("from_type", source, family.source, sorted({edge.source for edge in members})),
            ("to_type", target, family.target, sorted({edge.target for edge in members})),
        ):
            if type_name is not None and type_name not in types:
                raise UsageError(f"{name}: '{word}' is {type_name}, and not one of {', '.join(types)}")
            if type_name is None and len(types) > 1:
                hint = f"give '{word}': {', '.join(types)}"
                raise UsageError(f"the edges {name} join {end} of several types, whose ids may be the same", hint=hint)
        raise AssertionError("every pair of types has a member")

    @cached_property
    def tables(self) -> Mapping[str, EntityType]:
        """Every entity type by table key, sorted: edges before nodes."""
        entities: list[EntityType] = [*self.edges.values(), *self.nodes.values()]
        return {entity.table_key: entity for entity in sorted(entities, key=lambda entity: entity.table_key)}

    @cached_property
    def by_id(self) -> Mapping[int, EntityType]:
        """Every entity type by its stable id, which renames do not change."""
        return {entity.id: entity for entity in self.tables.values()}

    def implementers(self, interface: str) -> tuple[NodeType, ...]:
        """The node types that implement an interface, by name."""
        return tuple(node for _, node in sorted(self.nodes.items()) if interface in node.implements)

    def ends(self, edge: EdgeType) -> tuple[tuple[str, str, NodeType], tuple[str, str, NodeType]]:
        """The two ends of an edge type: the column, its name for users, and the type of the node there."""
        return ("src", "from", self.nodes[edge.source]), ("dst", "to", self.nodes[edge.target])

    def edges_of(self, node_type: str) -> tuple[EdgeType, ...]:
        """Edge types with this node type at either end, by name."""
        return tuple(e for _, e in sorted(self.edges.items()) if node_type in (e.source, e.target))


def member_name(family: Family, source: str, target: str) -> str:
    """The name of the edge type that joins these node types: the family's, and the type at each end that is an interface."""
    ends = [type_ for type_, declared in ((source, family.source), (target, family.target)) if type_ != declared]
    return "_".join([family.name, *ends])


def dropped_names(catalog: Catalog, state: Catalog) -> list[str]:
    """The types and properties of `catalog` that were dropped for good according to the schema `state`."""
    gone = {*state.hard_dropped}
    names: list[str] = []
    for entity in catalog.tables.values() if gone else ():
        names += [entity.name] if entity.id in gone else []
        names += [f"{entity.name}.{property.name}" for property in entity.properties.values() if property.id in gone]
    return names


# The id of an entity with a key: a pure function of the key, so that the same key gives the same entity everywhere.


def derived_id(entity: EntityType, values: Mapping[str, object]) -> str:
    """The id of a keyed entity: the key's canonical text, or a compact JSON array of texts when it has several members. The ends of
    an edge are in `values` as ids, under `src` and `dst`.

    Members are in the order in which the schema declares the key. Raises ValueViolation if one is missing, or if the only one is
    empty: an id is never empty.
    """
    if not entity.key:
        raise UsageError(f"{entity.name} has no @key, so its ids are not derived")
    texts = [_member_text(entity, name, values.get(name)) for name in entity.key]
    if texts == [""]:
        name = entity.key[0]
        raise ValueViolation(
            f"key property {entity.name}.{name} is empty", type_name=entity.name, property=name, value=""
        )
    return texts[0] if len(texts) == 1 else id_of_members(texts)


def _member_text(entity: EntityType, name: str, value: object) -> str:
    shown = OUTSIDE_NAMES.get(name, name)
    if value is None:
        raise ValueViolation(f"key property {entity.name}.{shown} is missing", type_name=entity.name, property=shown)
    try:
        return canonical_text(value, entity.key_type(name))
    except TypeError as error:
        message = f"key property {entity.name}.{shown}: {error}"
        raise RecordError(message, type_name=entity.name, property=shown, value=value) from None


def id_of_members(texts: Sequence[str]) -> str:
    """The id of an entity whose key has several members, from their canonical texts."""
    return json.dumps(texts, separators=(",", ":"), ensure_ascii=False)


def has_dates_in_key(node_type: NodeType) -> bool:
    """Whether ids of this type may be written in a form other than the canonical one."""
    return any(node_type.properties[name].type.scalar in (Scalar.DATE, Scalar.DATETIME) for name in node_type.key)


def referenced_id(node_type: NodeType, reference: object) -> object:
    """The id that an end of an edge refers to: dates and instants in a key may be written as ISO text or, in a key of one member,
    given as values."""
    if not has_dates_in_key(node_type):
        return reference
    types = [node_type.properties[name].type for name in node_type.key]
    if len(types) == 1:
        if isinstance(reference, str):
            return key_text(reference, types[0])
        if isinstance(reference, date | datetime):
            try:
                return canonical_text(reference, types[0])
            except TypeError:
                return reference
        return reference
    if not isinstance(reference, str):
        return reference
    try:
        members = json.loads(reference)
    except (ValueError, RecursionError):
        return reference
    if not isinstance(members, list) or len(members) != len(types) or not all(isinstance(m, str) for m in members):
        return reference
    texts = [key_text(member, type) for member, type in zip(members, types, strict=True)]
    return reference if texts == members else id_of_members(texts)
