"""Scopes: parameters, the variables of a pattern, and which of them a block sees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog, EdgeType, EntityType, Property, stored_type
from omnigraph.language.parsing.cursor import Position
from omnigraph.language.query import plan
from omnigraph.language.query.parser import refusal
from omnigraph.values.types import PropertyType, Scalar

ID = PropertyType(Scalar.STRING)
ENDPOINTS = {"from": "src", "to": "dst"}


@dataclass
class Checking:
    """What one query's check shares between all its parts."""

    catalog: Catalog
    text: str
    file: str | None
    parameters: Mapping[str, PropertyType]
    reads: set[str] = field(default_factory=set)
    texts: dict[tuple[plan.Constant | plan.Parameter, int, str | None], plan.TextQuery] = field(default_factory=dict)
    """The texts that `nearest` searches for, each once."""
    anonymous: int = 0

    def refuse(self, rule: str, message: str, at: Position, hint: str | None = None) -> QueryError:
        return refusal(rule, message, at, self.text, self.file, hint)

    def fresh_name(self) -> str:
        """A name for one `$_` that no variable of the text has."""
        while True:
            self.anonymous += 1
            name = f"_{self.anonymous}"
            if f"${name}" not in self.text:
                return name


@dataclass
class NodeVariable:
    """A variable that ranges over node types. Narrowed while its pattern is checked, then left alone."""

    types: tuple[str, ...]
    interfaces: tuple[str, ...] = ()

    def describe(self) -> str:
        return self.types[0] if len(self.types) == 1 else " and ".join(self.interfaces) or " or ".join(self.types)


@dataclass
class Scope:
    """The variables of one pattern; `parent` is the pattern around a block."""

    checking: Checking
    parent: Scope | None = None
    nodes: dict[str, NodeVariable] = field(default_factory=dict)
    edges: dict[str, EdgeType] = field(default_factory=dict)
    outer: set[str] = field(default_factory=set)
    items: dict[str, PropertyType] = field(default_factory=dict)
    """Variables that stand for an item of a list."""
    unnested: dict[str, PropertyType] = field(default_factory=dict)
    """Variables of `unnest`: an item of a list in each row."""
    paths: set[str] = field(default_factory=set)
    """Variables that stand for a path."""
    optional: set[str] = field(default_factory=set)
    """Nodes and edges that an `optional` block binds: null where it has no match."""
    start_rows: plan.Given | None = None
    """The rows from which the pattern goes on."""
    values: dict[str, PropertyType] = field(default_factory=dict)
    """The names that an earlier stage carries on."""
    anonymous: set[str] = field(default_factory=set)
    """Names given to `$_`: they are bound, but cannot be referred to."""

    def owner(self, name: str) -> Scope | None:
        """The scope that binds a variable, which is added to `outer` of every block in between."""
        scope: Scope | None = self
        passed: list[Scope] = []
        while scope is not None:
            is_bound = name in scope.nodes or name in scope.edges or name in scope.unnested or name in scope.paths
            if is_bound or (name == plan.ROWS and scope.values):
                for inner in passed:
                    inner.outer.add(name)
                return scope
            passed.append(scope)
            scope = scope.parent
        return None

    def item(self, name: str) -> PropertyType | None:
        """The type of a variable that stands for an item of a list, in this scope or an outer one."""
        scope: Scope | None = self
        while scope is not None:
            if name in scope.items:
                return scope.items[name]
            scope = scope.parent
        return None

    def value(self, name: str) -> PropertyType | None:
        """The type of a name that an earlier stage carries on."""
        owner = self.owner(plan.ROWS)
        return None if owner is None else owner.values.get(name)

    def node(self, name: str) -> NodeVariable | None:
        owner = self.owner(name)
        return None if owner is None else owner.nodes.get(name)

    def is_optional(self, name: str) -> bool:
        owner = self.owner(name)
        return owner is not None and name in owner.optional

    def edge(self, name: str) -> EdgeType | None:
        owner = self.owner(name)
        return None if owner is None else owner.edges.get(name)

    def node_properties(self, variable: NodeVariable) -> Mapping[str, Property]:
        """The properties that every type of the variable has: those of its one type, of its interfaces, or without any interface
        what all of its types declare alike."""
        catalog = self.checking.catalog
        if len(variable.types) == 1:
            return catalog.nodes[variable.types[0]].properties
        if not variable.interfaces:
            return common_properties([catalog.nodes[name] for name in variable.types])
        return {
            name: property
            for interface in variable.interfaces
            for name, property in catalog.interfaces[interface].properties.items()
        }


def common_properties(types: Sequence[EntityType]) -> Mapping[str, Property]:
    """The properties that all of these types declare with the same type, but for null and the words of an enum."""
    first, *others = types
    properties = {}
    for name, property in first.properties.items() if others else ():
        declared = [property.type, *(other.properties[name].type for other in others if name in other.properties)]
        if len(declared) == len(types) and len({*map(stored_type, declared)}) == 1:
            words = property.type.enum if len({type_.enum for type_ in declared}) == 1 else ()
            type_ = replace(property.type, nullable=any(type_.nullable for type_ in declared), enum=words)
            properties[name] = replace(property, type=type_)
    return properties if others else first.properties


def type_of(expression: plan.Expression) -> PropertyType:
    """The type of any expression; a whole entity stands for its id."""
    if isinstance(expression, plan.EntityRef):
        return replace(ID, nullable=expression.is_optional)
    return expression.type


def is_plain(type_: PropertyType) -> bool:
    """Whether it is a single value that can be compared: not a list, a vector, a Blob or a record."""
    return not type_.is_list and type_.scalar not in (Scalar.VECTOR, Scalar.BLOB, Scalar.RECORD)
