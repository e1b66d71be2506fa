"""Queries that the routes of entities run: they are written in the language that users write, and are shown to them."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from omnigraph.errors import UsageError
from omnigraph.language.catalog import EdgeType
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    from omnigraph.language.catalog import Catalog, EntityType

_FILTER = re.compile(r"(\w+)\.(\w+)(?::(.*))?", re.DOTALL)
_COMPARISONS = {"eq": "=", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">=", "contains": "contains",
                "prefix": "starts_with", "in": "in"}  # fmt: skip
_TESTS = {"isnull": "is null", "notnull": "is not null"}
_RESERVED = frozenset({"and", "or", "not", "is", "in", "null", "true", "false"})
"""Words that are no names by themselves."""
_TEXT = PropertyType(Scalar.STRING)
MAX_FILTERS = 32


@dataclass
class EntityQuery:
    """A read of one type as a table: `$e` is the entity, its columns have the names of its properties."""

    entity: EntityType
    conditions: list[str] = field(default_factory=list)
    order: list[str] = field(default_factory=list)
    parameters: dict[str, tuple[str, Any]] = field(default_factory=dict)

    @property
    def columns(self) -> list[str]:
        ends = ["from", "to"] if isinstance(self.entity, EdgeType) else []
        shown = [name for name, property in self.entity.properties.items() if property.type.scalar is not Scalar.BLOB]
        return ["id", *ends, *shown]

    def add_filter(self, text: str) -> None:
        """`property.op:value`. UsageError for what the type does not have or cannot compare."""
        parsed = _FILTER.fullmatch(text)
        if parsed is None:
            raise UsageError(f"'{text[:100]}' is not a filter", hint="property.op:value, for example age.ge:18")
        name, op, value = parsed[1], parsed[2], parsed[3]
        declared = self._type_of(name)
        if op in _TESTS and value is None:
            self.conditions.append(f"$e.{name} {_TESTS[op]}")
            return
        if op not in _COMPARISONS or value is None:
            raise UsageError(
                f"'{text[:100]}' is not a filter", hint=f"op:value is one of {', '.join([*_COMPARISONS, *_TESTS])}"
            )
        if declared.is_list and op != "contains":
            raise UsageError(f"'{name}' is a list", hint=f"{name}.contains:value")
        parameter = f"v{len(self.parameters)}"
        scalar = declared.scalar.value
        if op == "in":
            self.parameters[parameter] = f"[{scalar}]", [_value(item, declared) for item in _listed(value)]
        else:
            self.parameters[parameter] = scalar, _value(value, declared)
        self.conditions.append(f"$e.{name} {_COMPARISONS[op]} ${parameter}")

    def add_order(self, text: str) -> None:
        name, _, direction = text.partition(":")
        if direction not in ("", "asc", "desc"):
            raise UsageError(f"'{text[:100]}' is not an order", hint="a property, or property:desc")
        self._type_of(name)
        self.order.append(f"$e.{name} {direction}".strip())

    def _type_of(self, name: str) -> PropertyType:
        if name == "id" or (name in ("from", "to") and isinstance(self.entity, EdgeType)):
            return _TEXT
        declared = self.entity.properties.get(name)
        if declared is None or name not in self.columns or declared.type.dimension is not None:
            raise UsageError(
                f"{self.entity.name} has no property '{name[:100]}' to compare",
                hint=f"it has: {', '.join(self.columns)}",
            )
        return declared.type

    def text(self, limit: int, offset: int) -> str:
        """The query, as a user could write it."""
        declared = ", ".join(f"${name}: {type}" for name, (type, _) in self.parameters.items())
        bound = f"$e: {self.entity.name}"
        if isinstance(self.entity, EdgeType):
            bound = f"$a: {self.entity.source}  $a $e:{edge_word(self.entity)} $b"
        conditions = "".join(f"\n    {condition}" for condition in self.conditions)
        columns = ", ".join(f"$e.{name} as {_alias(name)}" for name in self.columns)
        order = ", ".join([*self.order, "$e.id"])
        return (
            f"query entities({declared}) {{\n  match {{\n    {bound}{conditions}\n  }}\n"
            f"  return {{ {columns} }}\n  order {{ {order} }}\n  limit {limit} offset {offset}\n}}\n"
        )

    @property
    def values(self) -> dict[str, Any]:
        return {name: value for name, (_, value) in self.parameters.items()}


def _alias(name: str) -> str:
    """A column's name; what cannot be one alone gets a line behind it."""
    return f"{name}_" if name in _RESERVED else name


def edge_word(edge: EdgeType) -> str:
    """An edge's name where it is walked."""
    return edge.name[0].lower() + edge.name[1:]


def _listed(text: str) -> list[str]:
    """Values between commas, or a JSON list."""
    if text.startswith("["):
        try:
            values = json.loads(text)
        except ValueError:
            raise UsageError("the value of 'in' is no JSON list") from None
        return [value if isinstance(value, str) else json.dumps(value) for value in values]
    return text.split(",")


def _value(text: str, declared: PropertyType) -> Any:
    """A value as the parameter of a query takes it; what does not fit is refused there."""
    scalar = declared.scalar
    try:
        if scalar.is_integer:
            return int(text)
        if scalar.is_float:
            return float(text)
    except ValueError:
        return text
    if scalar is Scalar.BOOL and text in ("true", "false"):
        return text == "true"
    return text


@dataclass(frozen=True)
class Hop:
    """The edges of one type that begin (`out`) or end (`in`) at nodes of a type."""

    edge: EdgeType
    direction: str
    node: str

    @property
    def far(self) -> str:
        """The type of the nodes that they lead to."""
        return self.edge.target if self.direction == "out" else self.edge.source

    def _match(self) -> str:
        ends = ("$a", "$b") if self.direction == "out" else ("$b", "$a")
        bound = f"$a: {self.node}  $b: {self.far}  $a.id = $id"
        return f"{bound}  {ends[0]} $e:{edge_word(self.edge)} {ends[1]}"

    @property
    def count(self) -> str:
        return f"query neighbours($id: String) {{ match {{ {self._match()} }} return {{ count($e) as n }} }}"

    def rows(self, limit: int, offset: int) -> str:
        """The edges with their nodes: `edge_…` columns are the edge's own."""
        shown = [name for name, property in self.edge.properties.items() if property.type.scalar is not Scalar.BLOB]
        columns = ["$e.id as edge_id", "$e.from as edge_from", "$e.to as edge_to", "$b as node"]
        columns += [f"$e.{name} as edge_property_{name}" for name in shown]
        return (
            f"query neighbours($id: String) {{ match {{ {self._match()} }} return {{ {', '.join(columns)} }} "
            f"order {{ $e.id }} limit {limit} offset {offset} }}"
        )


def hops_of(catalog: Catalog, node: str, edges: Sequence[str] | None, direction: str) -> list[Hop]:
    """Every way from a node type along edges. UsageError for an edge that does not touch it."""
    touching = catalog.edges_of(node)
    names = {edge.name for edge in touching}
    for name in edges or ():
        if name not in names:
            raise UsageError(
                f"no edge '{name[:100]}' touches {node}", hint=f"it has: {', '.join(sorted(names)) or 'none'}"
            )
    hops = []
    for edge in sorted(touching, key=lambda touched: touched.name):
        if edges is None or edge.name in edges:
            if edge.source == node and direction in ("out", "both"):
                hops.append(Hop(edge, "out", node))
            if edge.target == node and direction in ("in", "both"):
                hops.append(Hop(edge, "in", node))
    return hops
