"""Small reads: selective bindings and small frontiers fetched through indexes, so that the tree runs over few rows.

Works outwards from variables that a condition fixes to a few values, and gives up as soon as something is not small.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from omnigraph._internal.caches import LruCache
from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.errors import ArithmeticOverflow
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import NotInterpreted, satisfying
from omnigraph.expressions.predicates import Predicate
from omnigraph.indexing.indexes import index_specs
from omnigraph.language.catalog import NodeType
from omnigraph.language.query.plan import Expression, Pattern
from omnigraph.read.inputs import sources
from omnigraph.read.inputs.adjacency import GraphArrays, reachable
from omnigraph.read.sql.compiler import PreparedQuery
from omnigraph.read.sql.shapes import EDGE, GIVEN, KEY, SOURCE, TARGET, HopInput, NodeInput, RelationalQuery
from omnigraph.read.strategies.strategy import InputChoice, Path, Read, Strategy, TreeAnswer, hop_name
from omnigraph.snapshot import View
from omnigraph.tables.ascending import distinct
from omnigraph.values.arrow import arrow_type
from omnigraph.values.literals import canonical_text
from omnigraph.values.types import PropertyType, Scalar

MAX_FRONTIER = 1_024
MAX_HOPS = 6
MAX_PAIRS = 65_536
BUILD_FACTOR = 1.5
"""Assumed cost of building an adjacency, per edge; an edge looked up through an index costs 1."""


class TooLarge(Exception):
    """Not a small read: too many lookups would be needed."""


@dataclass(frozen=True)
class Reduced:
    """Every `n` and `x` relation of a query, over ids.

    `is_checked`: each holds exactly the rows that satisfy all conditions on its own variable.
    """

    prepared: PreparedQuery
    relations: Mapping[str, pa.Table]
    choices: tuple[InputChoice, ...]
    is_checked: bool


def reduced(read: Read) -> Reduced | None:
    """The relations of a small read; None if it is not small."""
    prepared = read.prepared()
    reduction = _Reduction(read.view, prepared.query, read.arguments, forced=read.mode == "index")
    if read.start_rows is not None and not reduction.start(read.start_rows, prepared.plan.pattern):
        return None
    if not reduction.run():
        return None
    return Reduced(prepared, reduction.relations, tuple(reduction.choices), reduction.is_checked)


def _answer(read: Read) -> TreeAnswer | None:
    result = read.once(reduced)
    return None if result is None else TreeAnswer(result.choices, result.prepared, result.relations)


REDUCTION = Strategy("reduction", frozenset({"auto", "index"}), _answer)


_indexed: LruCache[tuple[NodeType, frozenset[str]]] = LruCache(512)


def _indexed_columns(entity: NodeType) -> frozenset[str]:
    """The columns whose values an index finds. The cached value holds the type, so no other type can get its id."""
    return _indexed.get(
        id(entity), lambda: (entity, frozenset(spec.column for spec in index_specs(entity) if spec.kind == "BTREE"))
    )[1]


@dataclass(frozen=True)
class _Named:
    """Nodes that a condition names, by the values of their id or key."""

    column: str
    property_type: PropertyType
    values: tuple[object, ...]

    @cached_property
    def ids(self) -> list[str]:
        return [canonical_text(value, self.property_type) for value in self.values]

    @property
    def type(self) -> pa.DataType:
        return arrow_type(self.property_type)


class _Reduction:
    """`forced` ignores every limit on size."""

    def __init__(self, view: View, query: RelationalQuery, arguments: Arguments, *, forced: bool) -> None:
        self.view = view
        self.query = query
        self.arguments = arguments
        self.forced = forced
        self.is_checked = True
        self.compact = GraphArrays(view, arguments.deadline)
        self.relations: dict[str, pa.Table] = {}
        self.choices: list[InputChoice] = []
        self._ids: dict[str, list[str]] = {}
        self._nodes = {node.name: node for node in query.inputs}
        self._predicates = {node.name: Predicate(node.filters, arguments) for node in query.inputs}

    def start(self, rows: pa.Table, pattern: Pattern) -> bool:
        """Start from the entities that a stage carries on; False if they are many."""
        assert pattern.start_rows is not None
        self.relations[GIVEN] = rows
        for place, name in enumerate(pattern.start_rows.entities):
            if name not in pattern.start_rows.optional:
                ids = self._ids[f"{self.query.block}.{name}"] = rows.column(f"v{place}").unique().to_pylist()
                if len(ids) > MAX_FRONTIER and not self.forced:
                    return False
        return True

    def run(self) -> bool:
        """False if this is not a small read."""
        if not self.forced and not self.query.hops and self._is_large():
            return False
        if any(hop.expansion.is_searched or hop.expansion.others for hop in self.query.hops):
            return False
        try:
            self._seed()
            self._follow()
            for node in self.query.inputs:
                if node.name not in self.relations:
                    self._fetch(node)
        except TooLarge:
            return False
        return True

    # ------------------------------------------------------------ nodes

    def _is_large(self) -> bool:
        """Whether an input has too many rows to hold and no condition that fixes a column."""
        return any(
            sources.node_rows(self.view, node) > sources.STREAMED_ROWS and not self._predicates[node.name].fixed
            for node in self.query.inputs
        )

    def _seed(self) -> None:
        for node in self.query.inputs:
            named = self._named(node) is not None
            hits = None if named else sources.search_nodes(self.view, node, self.arguments, forced=self.forced)
            if hits is not None:
                self._keep(node, hits.rows)
                self.is_checked = False
                self.choices.append(InputChoice(f"${node.variable}", "search", hits.rows.num_rows, hits.how))
            elif self._is_fixed(node):
                self._fetch(node)

    def _is_fixed(self, node: NodeInput) -> bool:
        """Whether a condition fixes an id, a key, or an indexed property."""
        if len(node.types) > 1:
            return False
        fixed = self._predicates[node.name].fixed
        return bool(fixed) and not _indexed_columns(self.view.catalog.nodes[node.types[0]]).isdisjoint(fixed)

    def _fetch(self, node: NodeInput) -> None:
        """Read a node's rows: by id if ids are known, else by its conditions."""
        self.arguments.deadline.check()
        ids, predicate = self._ids.get(node.place), self._predicates[node.name]
        if ids is None and (named := self._named(node)) is not None:
            # The id implies the condition on the key, which need not be checked through a second index.
            ids, predicate = named.ids, predicate.apart_from(named.column)
            if (implied := self._implied(node, named)) is not None:
                self.choices.append(
                    InputChoice(f"${node.variable}", "lookup", len(ids), "by its key, not read", len(ids))
                )
                self._keep(node, self._checked(node, predicate.conditions, implied))
                return
        if ids is None or node.computed:
            is_asked = len(node.types) == 1
            narrowed = replace(node, filters=predicate.conditions)
            rows = sources.read_nodes(self.view, narrowed, self.arguments, ids, by_scan=is_asked)
            rows = self._checked(node, predicate.remaining, rows)
        else:
            # Rows that are looked up by id may be in memory: their conditions are applied here, not by the store.
            rows = sources.read_nodes(self.view, replace(node, filters=()), self.arguments, ids)
            rows = self._checked(node, predicate.conditions, rows)
        self._keep(node, rows)
        path: Path = "lookup" if ids is not None or self._is_fixed(node) else "scan"
        expected = sources.node_rows(self.view, node) if path == "scan" else None if ids is None else len(ids)
        note = self._lookup_note(node, ids)
        self.choices.append(InputChoice(f"${node.variable}", path, rows.num_rows, note, expected))

    def _keep(self, node: NodeInput, rows: pa.Table) -> None:
        self.relations[node.name] = rows
        if len(node.types) == 1:
            self._ids[node.place] = rows.column(KEY).to_pylist() if self._joins(node.place) else []

    def _checked(self, node: NodeInput, conditions: tuple[Expression, ...], rows: pa.Table) -> pa.Table:
        """The rows that satisfy the conditions. Conditions that cannot be evaluated here are left to the engine."""
        names = {"id": KEY, **{column.stored: column.alias for column in node.columns}}
        return self._satisfying(conditions, rows, names)

    def _satisfying(self, conditions: tuple[Expression, ...], rows: pa.Table, names: Mapping[str, str]) -> pa.Table:
        for condition in conditions:
            try:
                rows = satisfying(rows, (condition,), self.arguments, names)
            except (NotInterpreted, ArithmeticOverflow):
                self.is_checked = False
        return rows

    def _lookup_note(self, node: NodeInput, ids: list[str] | None) -> str:
        if ids is None:
            return ""
        tables = [self.view.table(f"node:{type_name}") for type_name in node.types]
        names = sources.stored_columns(node)
        held = all(table is None or table.looks_up_in_memory("id", names) for table in tables)
        return f"{len(ids)} ids{', in memory' if held else ''}"

    def _implied(self, node: NodeInput, named: _Named) -> pa.Table | None:
        """The rows of a node of which only the key matters, if the key is fixed: its edges tell whether it exists."""
        telling = [hop for hop in self.query.hops if hop.expansion.min_hops > 0]
        if node.computed or not any(node.place in hop.places and hop.narrows(node.place) for hop in telling):
            return None
        if any(column.stored != named.column for column in node.columns):
            return None
        keys = pa.array(named.ids, pa.utf8())
        return pa.table({KEY: keys, **{column.alias: pa.array(named.values, named.type) for column in node.columns}})

    def _joins(self, place: str) -> bool:
        return any(place in hop.places for hop in self.query.hops)

    def _named(self, node: NodeInput) -> _Named | None:
        """The ids that conditions leave possible, without reading anything: from a fixed id or key."""
        if len(node.types) > 1:
            return None
        fixed = self._predicates[node.name].fixed
        entity: NodeType = self.view.catalog.nodes[node.types[0]]
        if "id" in fixed:
            return _Named("id", PropertyType(Scalar.STRING), fixed["id"])
        if len(entity.key) != 1 or entity.key[0] not in fixed:
            return None
        return _Named(entity.key[0], entity.properties[entity.key[0]].type, fixed[entity.key[0]])

    # ------------------------------------------------------------ expansions

    def _follow(self) -> None:
        pending = list(self.query.hops)
        while pending:
            ready = [hop for hop in pending if any(place in self._ids for place in hop.places)]
            if ready:
                hop = min(ready, key=lambda candidate: self._frontier(candidate)[1])
                end, _ = self._frontier(hop)
                ids = list(dict.fromkeys(self._ids[hop.places[end]]))
            elif self.forced:
                hop, end = pending[0], 0
                ids = self._all_sources(hop)
            else:
                raise TooLarge
            pending.remove(hop)
            self._expand(hop, end, ids)

    def _all_sources(self, hop: HopInput) -> list[str]:
        """Nothing is fixed: every node that the expansion can start from."""
        node = self._nodes.get(hop.source or "")
        if node is not None and node.place == hop.places[0]:
            self._fetch(node)
            return self._ids[node.place]
        edge = self.view.catalog.edges[hop.expansion.edge]
        table = self.view.table(f"node:{edge.target if hop.expansion.direction == 'in' else edge.source}")
        return [] if table is None else table.read(["id"]).column("id").to_pylist()

    def _frontier(self, hop: HopInput) -> tuple[int, int]:
        """(end to start from, its number of nodes): the smaller of the known ends."""
        sizes = [(end, len(self._ids[place])) for end, place in enumerate(hop.places) if place in self._ids]
        return min(sizes, key=lambda size: size[1])

    def _expand(self, hop: HopInput, end: int, ids: list[str]) -> None:
        self.arguments.deadline.check()
        path, estimate, expected = self._choose(hop, end, len(ids))
        if hop.expansion.edge_variable is not None:
            rows = self._edges(hop, ids, end)
        elif path == "csr":
            rows = self._pairs_by_adjacency(hop, ids, end)
        else:
            rows = self._pairs_by_lookup(hop, ids, end)
        if rows.num_rows > MAX_PAIRS and not self.forced:
            raise TooLarge
        self.relations[hop.name] = rows
        self.choices.append(InputChoice(hop_name(hop.expansion), path, rows.num_rows, estimate, expected))
        for place, column in zip(hop.places, (SOURCE, TARGET), strict=True):
            if hop.narrows(place):
                self._narrow(place, rows.column(column).to_pylist())

    def _narrow(self, place: str, ids: list[str]) -> None:
        wanted = set(ids)
        known = self._ids.get(place)
        self._ids[place] = [id_ for id_ in known if id_ in wanted] if known is not None else list(wanted)
        for node in self.query.inputs:
            if node.place == place and node.name not in self.relations:
                if len(wanted) > MAX_FRONTIER and not self.forced:
                    raise TooLarge
                self._fetch(node)

    def _choose(self, hop: HopInput, end: int, size: int) -> tuple[Path, str, int]:
        """The cost rule for one expansion, and how many edges it is expected to follow."""
        expansion = hop.expansion
        edges = self.view.rows(hop.table_key)
        type_ = self.view.catalog.edges[expansion.edge]
        nodes = max(self.view.rows(f"node:{type_.source}"), 1)
        lookups = expansion.max_hops * size * edges / nodes
        cached = self.compact.has_neighbours(expansion.edge, self._direction(hop, end))
        build = 0.0 if cached else BUILD_FACTOR * edges
        estimate = f"{size} from, {lookups:.0f} by index, {build:.0f} by adjacency"
        if self.forced:
            return "index", estimate, round(lookups)
        deep = size > MAX_FRONTIER or expansion.max_hops > MAX_HOPS
        if expansion.edge_variable is not None:
            if deep:
                raise TooLarge
            return "index", estimate, round(lookups)
        if deep or lookups > build:
            if not cached:
                raise TooLarge
            return "csr", estimate, round(lookups)
        return "index", f"{estimate}{self._in_memory(hop, end)}", round(lookups)

    def _in_memory(self, hop: HopInput, end: int) -> str:
        table = self.view.table(hop.table_key)
        held = table is not None and all(
            table.looks_up_in_memory(near, ["src", "dst"]) for near, _ in self._ways(hop, end)
        )
        return ", in memory" if held else ""

    def _direction(self, hop: HopInput, end: int) -> Literal["out", "in", "both"]:
        """The direction to follow from this end."""
        opposite: Mapping[str, Literal["out", "in", "both"]] = {"out": "in", "in": "out", "both": "both"}
        return hop.expansion.direction if end == 0 else opposite[hop.expansion.direction]

    def _pairs_by_adjacency(self, hop: HopInput, ids: list[str], end: int) -> pa.Table:
        expansion, direction = hop.expansion, self._direction(hop, end)
        type_ = self.view.catalog.edges[expansion.edge]
        near, far = (type_.target, type_.source) if direction == "in" else (type_.source, type_.target)
        near_nodes, far_nodes = self.compact.nodes(near), self.compact.nodes(far)
        frontier = near_nodes.numbers(pa.array(ids, pa.utf8()))
        frontier = distinct(frontier[frontier >= 0])
        adjacency = self.compact.neighbours(expansion.edge, direction)
        first, second = reachable(
            adjacency, frontier, expansion.min_hops, expansion.max_hops, max(far_nodes.size, 1), self.arguments
        )
        ends = [near_nodes.ids(first), far_nodes.ids(second)]
        return pa.table(dict(zip(_names(end), ends, strict=True)))

    def _pairs_by_lookup(self, hop: HopInput, ids: list[str], end: int) -> pa.Table:
        expansion, ways = hop.expansion, self._ways(hop, end)
        pairs = self._neighbours(hop, ways, ids)
        if not expansion.is_step:
            pairs = self._levels(hop, ways, ids, pairs)
        first, second = [list(side) for side in zip(*pairs, strict=True)] if pairs else ([], [])
        near, far = _names(end)
        return pa.table({near: pa.array(first, pa.utf8()), far: pa.array(second, pa.utf8())})

    def _levels(
        self, hop: HopInput, ways: list[tuple[str, str]], ids: list[str], first: list[tuple[str, str]]
    ) -> list[tuple[str, str]]:
        expansion = hop.expansion
        seen = {*first, *((start, start) for start in ids)}
        level, kept = first, list(first) if expansion.min_hops == 1 else []
        if expansion.min_hops == 0:
            kept = list(dict.fromkeys([*((start, start) for start in ids), *first]))
        for distance in range(2, expansion.max_hops + 1):
            self.arguments.deadline.check()
            onwards: dict[str, list[str]] = {}
            for near, far in self._neighbours(hop, ways, list({node for _, node in level})):
                onwards.setdefault(near, []).append(far)
            reached = {(start, far): None for start, node in level for far in onwards.get(node, ())}
            level = [pair for pair in reached if pair not in seen]
            seen.update(level)
            kept += level if distance >= expansion.min_hops else []
            if not level:
                break
            if len(seen) > MAX_PAIRS and not self.forced:
                raise TooLarge
        return kept

    def _ways(self, hop: HopInput, end: int) -> list[tuple[str, str]]:
        ways = {"out": [("src", "dst")], "in": [("dst", "src")], "both": [("src", "dst"), ("dst", "src")]}
        return ways[self._direction(hop, end)]

    def _neighbours(self, hop: HopInput, ways: list[tuple[str, str]], ids: list[str]) -> list[tuple[str, str]]:
        """Distinct (near, far) pairs of the edges at these nodes."""
        table = self.view.table(hop.table_key)
        if table is None or not ids:
            return []
        pairs: dict[tuple[str, str], None] = {}
        for near, far in ways:
            rows = table.lookup(near, ids, ["src", "dst"])
            ends = zip(rows.column(near).to_pylist(), rows.column(far).to_pylist(), strict=True)
            pairs.update(dict.fromkeys(ends))
        return list(pairs)

    def _edges(self, hop: HopInput, ids: list[str], end: int) -> pa.Table:
        """One row per edge at these nodes, with its ends as the expansion sees them."""
        table, predicate = self.view.table(hop.table_key), Predicate(hop.filters, self.arguments)
        names = list(dict.fromkeys(["src", "dst", "id", *(column.stored for column in hop.columns)]))
        tables: list[pa.Table] = []
        for index, (near, far) in enumerate(self._ways(hop, end)):
            if table is None:
                rows = self.view.schema(hop.table_key).empty_table().select(names)
            else:
                rows = table.lookup(near, ids, names, filter=predicate.filter)
                rows = self._satisfying(predicate.remaining, rows, {name: name for name in names})
            if index:
                rows = rows.filter(pc.not_equal(rows.column("src"), rows.column("dst")))
            near_name, far_name = _names(end)
            arrays = {near_name: rows.column(near), far_name: rows.column(far), EDGE: rows.column("id")}
            arrays |= {column.alias: rows.column(column.stored) for column in hop.columns}
            tables.append(pa.table(arrays))
        return pa.concat_tables(tables)


def _names(end: int) -> tuple[str, str]:
    """The columns of the end to start from, and of the other one."""
    return (SOURCE, TARGET) if end == 0 else (TARGET, SOURCE)
