"""The typed catalog: what a schema says, after every check, as frozen values.

`catalog.nodes["Person"]` and `catalog.edges["Knows"]` are the two kinds of *entity type*; each owns one table, named by
its `table_key` ("node:Person", "edge:Knows"). Types and properties carry ids that survive renames.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Literal

from omnigraph.frozen import Frozen
from omnigraph.values.types import PropertyType

LiteralValue = str | int | float | bool


class Annotation(Frozen):
    """`@name`, `@name(value)` or `@name(value, key=value)` that has no behaviour of its own or is kept for printing.

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
    """A column of a type's table that has values of a property, and the type that they have there.

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
    """`@default(value)`, typed as the property (dates as their ISO text); None when there is none."""
    description: str | None = None
    embed: Embed | None = None
    metric: Metric = "cosine"
    """How near two vectors are, for nearest(): `@metric("l2")` on a Vector property."""
    language: Language = "english"
    """How text is cut into words that are compared: `@index(language: "simple")` on a String property."""
    annotations: tuple[Annotation, ...] = ()
    declared_directly: bool = True
    interfaces: tuple[str, ...] = ()
    """Interfaces that declare this property, sorted."""
    columns: tuple[StoredColumn, ...] = ()
    """Where its values are stored, newest first; () while that is the one column of its name."""
    fill: LiteralValue | None = None
    """The value of rows that are older than the property: it was required, with this default, when it was added."""

    @property
    def is_required(self) -> bool:
        """Whether it may not be null."""
        return not self.type.nullable


def stored_columns(property: Property) -> tuple[StoredColumn, ...]:
    """The columns that have values of a property, newest first."""
    return property.columns or (StoredColumn(property.name, stored_type(property.type)),)


def stored_type(type: PropertyType) -> PropertyType:
    """What a column knows of a type: which values are allowed is the schema's business."""
    return replace(type, nullable=False, enum=())


ConstraintKind = Literal["key", "unique", "index", "range", "check"]


class Constraint(Frozen):
    """One body constraint; property-level @key, @unique and @index arrive here too. Fields may name src and dst on edges.

    >>> assert [(each.kind, each.fields) for each in person.constraints_of("key")] == [("key", ("name",))]
    """

    kind: ConstraintKind
    fields: tuple[str, ...]
    minimum: int | float | None = None
    maximum: int | float | None = None
    pattern: str | None = None


class _Entity(Frozen):
    name: str
    id: int
    table_id: str
    """Names the table's folder; new for every lifetime of a type, kept by a rename."""
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
    def embedded(self) -> tuple[Property, ...]:
        """The vectors that are made of a text: those with `@embed`."""
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

    @cached_property
    def key(self) -> tuple[str, ...]:
        """The members of the key as the schema wrote them, which is their order in an id; () when unkeyed."""
        for constraint in self.constraints_of("key"):
            return constraint.fields
        return ()


class EdgeType(_Entity):
    """An edge type: from a node type to a node type.

    >>> lives = schema.edges["LivesIn"]
    >>> assert (lives.source, lives.target, lives.max_out) == ("Person", "City", 1)
    """

    source: str = ""
    target: str = ""
    min_out: int = 0
    max_out: int | None = None
    """@card bounds: edges per source node."""

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
    """What the annotations of its properties say; every type that takes a property over takes these too."""


EntityType = NodeType | EdgeType


class Catalog(Frozen):
    """A compiled schema. `hash` is `sha256:<hex>` over its canonical form; equal hashes mean equal meaning.

    >>> schema = g.schema
    >>> assert (list(schema.nodes), list(schema.edges)) == (["Person", "City"], ["Knows", "LivesIn"])
    """

    nodes: Mapping[str, NodeType]
    edges: Mapping[str, EdgeType]
    interfaces: Mapping[str, InterfaceType]
    source: str
    hash: str
    next_id: int
    """The first schema's ids are those below this number; what later ones added has ids that are derived from names."""
    retired: tuple[int, ...] = ()
    """Derived ids that earlier schemas of this branch have used: a name that was dropped and comes back gets another."""
    hard_dropped: tuple[int, ...] = ()
    """Ids of types and properties that were dropped for good on this branch: what is stored of them is not read any more."""
    is_evolved: bool = False
    """Whether it came from another schema: tables may have columns that it does not say, and lack some that it says."""

    def __repr__(self) -> str:
        return f"<Catalog of {len(self.nodes)} node types and {len(self.edges)} edge types>"

    @cached_property
    def _edges_folded(self) -> Mapping[str, EdgeType]:
        return {name.lower(): edge for name, edge in self.edges.items()}

    def edge_by_word(self, word: str) -> EdgeType | None:
        """The edge a query names, whatever the case."""
        return self._edges_folded.get(word.lower())

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
        """The two ends of an edge type: the column, the word for it outside, and the type of the node there."""
        return ("src", "from", self.nodes[edge.source]), ("dst", "to", self.nodes[edge.target])

    def edges_of(self, node_type: str) -> tuple[EdgeType, ...]:
        """Edge types with this node type at either end, by name."""
        return tuple(e for _, e in sorted(self.edges.items()) if node_type in (e.source, e.target))


def dropped_names(catalog: Catalog, state: Catalog) -> list[str]:
    """Of the types and properties of a schema, those that were dropped for good where `state` is the schema."""
    gone = {*state.hard_dropped}
    names: list[str] = []
    for entity in catalog.tables.values() if gone else ():
        names += [entity.name] if entity.id in gone else []
        names += [f"{entity.name}.{property.name}" for property in entity.properties.values() if property.id in gone]
    return names
