"""A result as a graph: the nodes that it holds whole, and the edges that its pattern matched between them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import UsageError
from omnigraph.extras import load_extra
from omnigraph.language.query.plan import EntityRef, Expansion, PropertyRef, ReadPlan
from omnigraph.values.entities import Entity, Value

if TYPE_CHECKING:
    import igraph
    import networkx

NodeName = tuple[str, str]
"""Type and id: ids are unique within a type only."""


@dataclass(frozen=True)
class Link:
    """A hop between two node columns; `properties` maps columns to the edge's own properties."""

    edge: str
    source: str
    target: str
    properties: dict[str, str]


@dataclass
class ResultGraph:
    nodes: dict[NodeName, Entity] = field(default_factory=dict)
    edges: list[tuple[NodeName, NodeName, dict[str, Value]]] = field(default_factory=list)

    def to_networkx(self) -> networkx.MultiDiGraph:
        graph = load_extra("networkx", "to_networkx").MultiDiGraph()
        graph.add_nodes_from(self.nodes.items())
        graph.add_edges_from(self.edges)
        return graph

    def to_igraph(self) -> igraph.Graph:
        graph = load_extra("igraph", "to_igraph").Graph(directed=True)
        places = {name: place for place, name in enumerate(self.nodes)}
        vertices: list[dict[str, Value]] = [{"type": name[0], **entity} for name, entity in self.nodes.items()]
        graph.add_vertices(len(vertices), attributes=_columns(vertices))
        ends = [(places[source], places[target]) for source, target, _ in self.edges]
        graph.add_edges(ends, attributes=_columns([attributes for _, _, attributes in self.edges]))
        return graph


def _columns(rows: Sequence[dict[str, Value]]) -> dict[str, list[Value]]:
    names = dict.fromkeys(name for row in rows for name in row)
    return {name: [row.get(name) for row in rows] for name in names}


def result_graph(plan: ReadPlan, rows: Sequence[dict[str, Value]]) -> ResultGraph:
    """Raises UsageError if the query returns no whole node."""
    columns = {
        projection.expression.variable: column.name
        for projection, column in zip(plan.projections, plan.columns, strict=True)
        if isinstance(projection.expression, EntityRef)
    }
    if not columns:
        raise UsageError("this result holds no nodes", hint="return whole nodes, for example return { $a, $b }")
    patterns = (plan.pattern, *plan.pattern.optionals)
    types = {
        binding.variable: binding.interface or binding.types[0]
        for pattern in patterns
        for binding in pattern.bindings
        if binding.variable in columns
    }
    hops = [hop for pattern in patterns for hop in pattern.expansions]
    links = [_link(plan, hop) for hop in hops if _is_edge(hop, columns)]
    graph = ResultGraph()
    seen: set[str] = set()
    for row in rows:
        names: dict[str, NodeName] = {}
        for variable, column in columns.items():
            entity = row[column]
            if entity is None:  # an optional block had no match
                continue
            assert isinstance(entity, dict), "a whole node"
            names[variable] = (types[variable], str(entity["id"]))
            graph.nodes.setdefault(names[variable], entity)
        for link in links:
            if link.source not in names or link.target not in names:
                continue
            attributes = {name: row[column] for column, name in link.properties.items()} | {"type": link.edge}
            edge = (names[link.source], names[link.target], attributes)
            if (text := repr(edge)) not in seen:
                seen.add(text)
                graph.edges.append(edge)
    return graph


def _is_edge(hop: Expansion, columns: dict[str, str]) -> bool:
    """Whether a hop is a single edge between nodes that are in the result."""
    return hop.min_hops == hop.max_hops == 1 and hop.source in columns and hop.target in columns


_ENDS = {"src": "from", "dst": "to"}


def _link(plan: ReadPlan, hop: Expansion) -> Link:
    source, target = (hop.target, hop.source) if hop.direction == "in" else (hop.source, hop.target)
    properties = {
        column.name: _ENDS.get(projection.expression.column, projection.expression.column)
        for projection, column in zip(plan.projections, plan.columns, strict=True)
        if isinstance(projection.expression, PropertyRef) and projection.expression.variable == hop.edge_variable
    }
    return Link(hop.edge, source, target, properties)
