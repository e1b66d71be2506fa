"""Entities: a type as a table, one entity, its versions, its neighbours."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from omnigraph.api.history import ServedCommit
from omnigraph.api.structs import JsonObject, present, value_json
from omnigraph.errors import LimitExceeded, NotFound, UsageError
from omnigraph.language.catalog import EdgeType, NodeType
from omnigraph.server.bodies import ARROW, table_answer
from omnigraph.server.calls import MAIN, HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.commits import IMMUTABLE
from omnigraph.server.headers import accepts
from omnigraph.server.pages import limit_of, pinned
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    from omnigraph.language.catalog import Catalog, EntityType
    from omnigraph.values.arrow import Entity


# Queries that the routes of entities run: they are written in the language that users write, and are shown to them.

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


NEXT_PAGE = "Omnigraph-Next-Page-Token"


def type_named(catalog: Catalog, name: str) -> EntityType:
    """A type by its name; a node type wins over an edge type of the same name, unless `edge:Name` says which."""
    for key in (name, f"node:{name}", f"edge:{name}"):
        if key in catalog.tables:
            return catalog.tables[key]
    raise UsageError(f"the schema has no type '{name[:100]}'", hint=f"it has: {', '.join(sorted(catalog.tables))}")


def kind_of(entity: EntityType) -> str:
    return "edge" if isinstance(entity, EdgeType) else "node"


def _revision(call: RouteCall) -> str:
    return call.query.get("rev") or MAIN


def immutable(call: RouteCall, commit: str) -> dict[str, str]:
    """What is read by its commit id never changes."""
    return dict(IMMUTABLE) if call.query.get("rev") == commit else {}


@handles("listEntities")
def list_entities(call: RouteCall) -> HandlerResult:
    query, graph = call.query, call.graph
    limit, place = limit_of(call, 100, 1_000), pinned(call, [_revision(call)])
    (commit,) = place.commits
    entity = type_named(graph.snapshot(commit).schema, call.path["type"])
    entity_query = EntityQuery(entity)
    filters = query.get("filter", ())
    if len(filters) > MAX_FILTERS:
        raise LimitExceeded(
            f"a request has at most {MAX_FILTERS} filters", resource="filters", limit=MAX_FILTERS, actual=len(filters)
        )
    for filter in filters:
        entity_query.add_filter(filter)
    if "order" in query:
        entity_query.add_order(query["order"])
    with call.timed("run"):
        result = graph.query(
            entity_query.text(limit + 1, place.offset),
            entity_query.values,
            revision=commit,
            timeout=call.service.settings.limits.query_seconds,
            cancel=call.cancellation,
        )
    token = place.token(call, limit) if result.num_rows > limit else None
    shown = quote(entity_query.text(limit, place.offset), safe=" {}$:()[],.=<>!")
    headers = {"Omnigraph-Query": shown.replace("\n", "%0A"), **immutable(call, commit)}
    if accepts(call.request.headers, ARROW):
        table = result.to_arrow().slice(0, limit).rename_columns(entity_query.columns)
        headers |= {} if token is None else {NEXT_PAGE: token}
        return table_answer(table, result.query_name, commit, call.request.headers, headers)
    rows = [dict(zip(entity_query.columns, row.values(), strict=True)) for row in result.to_json()[:limit]]
    body = {
        "entity_kind": kind_of(entity),
        "type_name": entity.name,
        "columns": entity_query.columns,
        "rows": rows,
        "graph_commit_id": commit,
        **present({"next_page_token": token}),
    }
    return HandlerResult(body, commit=commit, rows=len(rows), headers=headers)


@handles("getEntity")
def get_entity(call: RouteCall) -> HandlerResult:
    graph, query = call.graph, call.query
    snapshot = graph.snapshot(_revision(call), as_of=query.get("at"))
    commit = snapshot.commit.id
    entity = type_named(snapshot.schema, query["type"])
    entity_state = graph.entity(entity.table_key, query["id"], revision=commit)
    if entity_state is None:
        raise NotFound(f"{entity.name} '{query['id'][:100]}' not found")
    body = {**_named(entity, query["id"]), **state_shape(entity, entity_state), "graph_commit_id": commit}
    return HandlerResult(body, commit=commit, headers=immutable(call, commit))


def _named(entity: EntityType, id: str) -> JsonObject:
    return {"entity_kind": kind_of(entity), "type_name": entity.name, "id": id}


def state_shape(entity: EntityType, state: Entity) -> JsonObject:
    """{properties, endpoints?, blobs?}: a Blob is never a value, its size is."""
    ends = ("from", "to") if isinstance(entity, EdgeType) else ()
    blobs = {name for name, property in entity.properties.items() if property.type.scalar is Scalar.BLOB}
    values = {name: value for name, value in state.items() if name not in ("id", *ends)}
    sizes = {name: len(value) for name, value in values.items() if name in blobs and isinstance(value, bytes)}
    shown: JsonObject = {"properties": {name: value_json(value) for name, value in values.items() if name not in blobs}}
    if ends:
        shown["endpoints"] = {end: state[end] for end in ends}
    return shown | ({"blobs": sizes} if sizes else {})


@handles("getEntityHistory")
def entity_history(call: RouteCall) -> HandlerResult:
    graph, query = call.graph, call.query
    limit, place = limit_of(call, 100, 1_000), pinned(call, [call.existing_branch()])
    (commit,) = place.commits
    entity = type_named(graph.snapshot(commit).schema, query["type"])
    versions = graph.history(entity.table_key, query["id"], revision=commit)
    if not versions:
        raise NotFound(f"{entity.name} '{query['id'][:100]}' not found")
    shown = []
    for version, before in itertools.zip_longest(versions, versions[1:]):
        was_there = before is not None and before.value is not None
        op = "delete" if version.value is None else "update" if was_there else "insert"
        state = {} if version.value is None else state_shape(entity, version.value)
        shown.append({"commit": ServedCommit.to_json(version.commit), "op": op, **state})
    page = shown[place.offset : place.offset + limit]
    token = place.token(call, limit) if len(shown) > place.offset + limit else None
    body = {**_named(entity, query["id"]), "versions": page, **present({"next_page_token": token})}
    return HandlerResult(body, commit=commit, rows=len(page))


@handles("getNeighbours")
def neighbours(call: RouteCall) -> HandlerResult:
    query, graph = call.query, call.graph
    limit, place = limit_of(call, 50, 500), pinned(call, [_revision(call)])
    (commit,) = place.commits
    catalog = graph.snapshot(commit).schema
    node = type_named(catalog, query["type"])
    if not isinstance(node, NodeType):
        raise UsageError(f"{node.name} is an edge type: only nodes have neighbours")
    if graph.entity(node.table_key, query["id"], revision=commit) is None:
        raise NotFound(f"{node.name} '{query['id'][:100]}' not found")
    hops = hops_of(catalog, node.name, query.get("edge"), query.get("direction", "both"))
    counts = [_query_rows(call, hop.count, commit)[0]["n"] for hop in hops]
    neighbourhood = _Neighbourhood(catalog)
    skip, left = place.offset, limit
    for hop, count in zip(hops, counts, strict=True):
        if left and skip < count:
            rows = _query_rows(call, hop.rows(left, skip), commit)
            neighbourhood.add(hop, rows)
            left -= len(rows)
        skip = max(0, skip - count)
    token = place.token(call, limit) if sum(counts) > place.offset + limit else None
    body = {
        "nodes": list(neighbourhood.nodes.values()),
        "edges": list(neighbourhood.edges.values()),
        "counts": [
            {"edge": hop.edge.name, "direction": hop.direction, "type": hop.far, "count": count}
            for hop, count in zip(hops, counts, strict=True)
        ],
        "graph_commit_id": commit,
        **present({"next_page_token": token}),
    }
    return HandlerResult(body, commit=commit, rows=len(neighbourhood.edges), headers=immutable(call, commit))


def _query_rows(call: RouteCall, text: str, commit: str) -> list[dict[str, Any]]:
    result = call.graph.query(
        text,
        {"id": call.query["id"]},
        revision=commit,
        timeout=call.service.settings.limits.query_seconds,
        cancel=call.cancellation,
    )
    return result.to_json()


class _Neighbourhood:
    """Nodes and edges, each once."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog
        self.nodes: dict[tuple[str, str], JsonObject] = {}
        self.edges: dict[tuple[str, str], JsonObject] = {}

    def add(self, hop: Hop, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            node = dict(row["node"])
            id = node.pop("id")
            self.nodes[hop.far, id] = {
                "type": hop.far,
                "id": id,
                "label": self._label(hop.far, id, node),
                "properties": node,
            }
            own = {
                name.removeprefix("edge_property_"): value
                for name, value in row.items()
                if name.startswith("edge_property_")
            }
            self.edges[hop.edge.name, row["edge_id"]] = {
                "type": hop.edge.name,
                "id": row["edge_id"],
                "from": row["edge_from"],
                "to": row["edge_to"],
                "properties": own,
            }

    def _label(self, type_name: str, id: str, node: dict[str, Any]) -> str:
        """What a person calls it: a name or title, the first text, or its id."""
        texts = [
            name
            for name, property in self._catalog.nodes[type_name].properties.items()
            if property.type.scalar is Scalar.STRING and not property.type.is_list
        ]
        chosen = [name for name in ("name", "title", "label") if name in texts] + texts
        return next((str(node[name]) for name in chosen if node.get(name)), id)
