"""Whole tables in compact form: nodes as numbers, edges as integer arrays, columns by node number (see `tables.adjacency`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph._internal.lazy_imports import np, pa
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.usage import all_patterns
from omnigraph.language.query.plan import Aggregate, Direction, ReadPlan, is_aggregated
from omnigraph.snapshot import View
from omnigraph.tables.adjacency.csr import Adjacency, Csr
from omnigraph.tables.adjacency.edges import Edges, EndNumbers, NumberedEdges
from omnigraph.tables.adjacency.index import is_small
from omnigraph.tables.adjacency.nodes import CodedColumn, Nodes, NumberedColumn
from omnigraph.tables.adjacency.numbering import Cover, Numbering, sorted_ids
from omnigraph.tables.adjacency.segment import HeldArrays, SegmentLostError
from omnigraph.tables.ascending import IntegerSet, distinct, is_member, union

if TYPE_CHECKING:
    from omnigraph.read.sql.shapes import RelationalQuery

Made = TypeVar("Made")

BYTES_PER_EDGE = 24
BYTES_PER_NODE = 64
"""Rough sizes, for deciding whether an adjacency fits before it is built."""
BYTES_PER_PAIR = 40
"""The same for the pairs that a walk reaches: their numbers, and what is made of them on the way."""
EXPANDED_AT_ONCE = 1_000_000


class GraphArrays:
    """The compact forms of one view: its nodes as numbers, its edges between them, its columns by node number."""

    def __init__(self, view: View, deadline: Deadline = NEVER) -> None:
        self.view = view
        self._deadline = deadline
        self._tables = view.repository.tables
        self._cache = self._tables.runtime.cache
        self._nodes: dict[str, Nodes] = {}
        self._edges_of: dict[str, Edges | None] = {}

    def _version(self, key: str) -> object:
        table = self.view.table(key)
        return None if table is None else table.content

    def nodes(self, type_name: str) -> Nodes:
        nodes = self._nodes.get(type_name)
        if nodes is None:
            table = self.view.table(f"node:{type_name}")
            self._deadline.check()
            nodes = _no_nodes() if table is None else self._tables.adjacency.nodes(table)
            self._nodes[type_name] = nodes
        return nodes

    def nodes_if_cached(self, type_name: str) -> Nodes | None:
        """Like `nodes`; None if that would mean reading many ids."""
        table = self.view.table(f"node:{type_name}")
        if table is None:
            return _no_nodes()
        self._deadline.check()
        return self._tables.adjacency.nodes_if_cached(table)

    def _ends_of(self, edge: str) -> tuple[str, str]:
        type_ = self.view.catalog.edges[edge]
        return f"node:{type_.source}", f"node:{type_.target}"

    def _edges(self, edge: str) -> Edges | None:
        """None if no edge of this type was ever written."""
        if edge not in self._edges_of:
            table = self.view.table(f"edge:{edge}")
            if table is not None:
                keys = self._ends_of(edge)
                source, target = (self.nodes(key.partition(":")[2]) for key in keys)
                self._deadline.check()
                edges = self._tables.adjacency.edges(table, source, target, tuple(map(self._version, keys)))
            self._edges_of[edge] = None if table is None else edges
        return self._edges_of[edge]

    def ends(self, edge: str) -> EndNumbers:
        """Both ends of every edge, in the order of the edge table."""
        edges = self._edges(edge)
        return _no_ends() if edges is None else edges.ends()

    def ordinal_ends(self, edge: str) -> tuple[np.ndarray, np.ndarray]:
        """Like `ends`, as positions among the sorted ids; -1 for a missing node."""
        ends = self.ends(edge)
        nodes = (self.nodes(key.partition(":")[2]) for key in self._ends_of(edge))
        src, dst = (
            np.where(numbers < 0, -1, known.ordinals(numbers)).astype(np.int32)
            for known, numbers in zip(nodes, (ends.src, ends.dst), strict=True)
        )
        return src, dst

    def neighbours(self, edge: str, direction: Direction, *, per_edge: bool = False) -> Adjacency:
        """Each neighbour once, or one neighbour per edge."""
        edges = self._edges(edge)
        if edges is None:
            source, target = (self.nodes(key.partition(":")[2]).size for key in self._ends_of(edge))
            size, width = (target, source) if direction == "in" else (source, target)
            return Adjacency(_no_edges(), size, width)
        return self._cache.get(
            ("neighbours", self._tables.root, edges.serial, direction, per_edge),
            lambda: edges.neighbours(direction, per_edge=per_edge),
        )

    def neighbours_at_hand(self, edge: str, direction: Direction) -> Adjacency | None:
        """Each neighbour once; None if many edges would have to be read."""
        table = self.view.table(f"edge:{edge}")
        if table is not None and not is_small(table) and not self.has_neighbours(edge, direction):
            return None
        return self.neighbours(edge, direction)

    def has_edges_at_hand(self, edge: str) -> bool:
        """Whether the neighbours in both directions are available without reading many edges."""
        table = self.view.table(f"edge:{edge}")
        return table is None or is_small(table) or self.has_neighbours(edge, "out")

    def pairs(self, edge: str, direction: Direction) -> EndNumbers:
        """(node, neighbour) of every pair, in order."""
        adjacency, edges = self.neighbours(edge, direction), self._edges(edge)
        if edges is None:
            return _no_ends()
        key = ("pairs", self._tables.root, edges.serial, direction)
        return self._cache.get(key, lambda: EndNumbers(*adjacency.pairs()))

    def pair_set(self, edge: str, direction: Direction, width: int) -> IntegerSet:
        """Every pair of neighbours as `node * width + neighbour`."""
        adjacency, edges = self.neighbours(edge, direction), self._edges(edge)

        def pairs() -> IntegerSet:
            sources, targets = adjacency.pairs()
            return IntegerSet(sources.astype(np.int64) * width + targets)

        if edges is None:
            return pairs()
        return self._cache.get(("pair set", self._tables.root, edges.serial, direction, width), pairs)

    def numbered_edges(self, edge: str) -> NumberedEdges | None:
        """The edges by edge number; None if there are none, or if the graph is damaged."""
        table, edges = self.view.table(f"edge:{edge}"), self._edges(edge)
        return None if table is None or edges is None else self._tables.adjacency.numbered_edges(table, edges)

    def edge_column(self, edge: str, name: str) -> NumberedColumn:
        """A column of an edge table that is not empty, by edge number."""
        table, edges = self.view.table(f"edge:{edge}"), self._edges(edge)
        assert table is not None, "the caller has edge numbers"
        assert edges is not None, "as above"
        return self._tables.adjacency.edge_column(table, edges, name)

    def has_neighbours(self, edge: str, direction: Direction) -> bool:
        """Whether neighbours are available without reading every edge."""
        table = self.view.table(f"edge:{edge}")
        if table is None:
            return True
        source, target = (self.nodes(key.partition(":")[2]) for key in self._ends_of(edge))
        return direction != "both" and self._tables.adjacency.is_at_hand(table, source, target)

    def column(self, type_name: str, name: str) -> NumberedColumn:
        """A node column by node number."""
        table = self.view.table(f"node:{type_name}")
        if table is None:
            empty = whole(self.view.schema(f"node:{type_name}").empty_table().column(name))
            return NumberedColumn(empty, np.zeros(0, np.int32), empty, 0)
        return self._tables.adjacency.column(table, self.nodes(type_name), name)

    def columns(self, type_name: str, names: Sequence[str], numbers: np.ndarray) -> dict[str, pa.Array]:
        """Node columns at the given live node numbers."""
        table = self.view.table(f"node:{type_name}")
        if table is None:
            return {name: self.column(type_name, name).take(numbers) for name in names}
        return self._tables.adjacency.columns(table, self.nodes(type_name), names, numbers)

    def values(self, type_name: str, names: Sequence[str], numbers: np.ndarray) -> dict[str, list[Any]]:
        """Node columns at a few live node numbers, as Python values."""
        table = self.view.table(f"node:{type_name}")
        if table is None:
            return {name: [] for name in names}
        return self._tables.adjacency.values(table, self.nodes(type_name), names, numbers)

    def codes(self, type_name: str, name: str) -> CodedColumn | None:
        """A node column with few distinct values, by node number; None if it has many."""
        table = self.view.table(f"node:{type_name}")
        return None if table is None else self._tables.adjacency.codes(table, self.nodes(type_name), name)

    def fits(self, nodes: int, edges: int) -> bool:
        """Whether the compact forms of so many nodes and edges would fit in the cache."""
        return edges * BYTES_PER_EDGE + nodes * BYTES_PER_NODE <= self._cache.capacity

    def fits_query(self, query: RelationalQuery) -> bool:
        """Whether the compact forms of a query's tables would fit in the cache."""
        edges = sum(self.view.rows(key) for hop in query.hops for key in hop.table_keys)
        nodes = sum(self.view.rows(f"node:{type_name}") for node in query.inputs for type_name in node.types)
        return self.fits(nodes, edges)


@lru_cache
def _no_nodes() -> Nodes:
    none = np.zeros(0, np.int64)
    return Nodes(Numbering(sorted_ids(pa.array([], pa.utf8()), none, 0, ())), 0, None, Cover(none, (), ()), ())


@lru_cache
def _no_edges() -> Csr:
    return Csr(HeldArrays({"starts": np.zeros(1, np.int32), "targets": np.zeros(0, np.int32)}))


def _no_ends() -> EndNumbers:
    return EndNumbers(np.zeros(0, np.int32), np.zeros(0, np.int32))


def despite_lost_segments(view: View, read: Callable[[], Made]) -> Made:
    """The result of a read. Stored adjacency is derived: if a segment cannot be read, the read starts again without it."""
    while True:
        try:
            return read()
        except SegmentLostError as lost:
            view.repository.tables.adjacency.forget(lost.key)


def has_ordinals(plan: ReadPlan) -> bool:
    """Whether a read can use ordinals, which are per table: every variable and every hop has one type, there are no paths, no stage
    before it, and no condition or column computes with aggregates."""
    shown = (*(p.expression for p in plan.projections), *(key.expression for key in plan.order))
    computed = [expression for expression in shown if not isinstance(expression, Aggregate)]
    if plan.pattern.start_rows is not None or plan.having or any(is_aggregated(expression) for expression in computed):
        return False
    patterns = list(all_patterns(plan.pattern, shown))
    if any(hop.is_searched or hop.others for pattern in patterns for hop in pattern.expansions):
        return False
    return all(len(binding.types) == 1 for pattern in patterns for binding in pattern.bindings)


def whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def reachable(
    adjacency: Adjacency, frontier: np.ndarray, min_hops: int, max_hops: int, width: int, arguments: Arguments
) -> tuple[np.ndarray, np.ndarray]:
    """(source, target) pairs at a distance within the bounds: breadth first from all members at once.

    A source is at distance 0 from itself; if that is below the minimum, only a stored self-loop reaches it again, at distance 1. Raises ResourceExhausted for more
    than fits in memory.
    """
    memory = arguments.memory
    with memory.holding(BYTES_PER_PAIR * int(adjacency.counts(frontier).sum())):
        owners, targets = adjacency.expand(frontier)
        sources = frontier[owners]
    if min_hops == max_hops == 1:
        return sources, targets
    level = np.sort(sources.astype(np.int64) * width + targets)
    seen = union(level, frontier.astype(np.int64) * (width + 1))
    kept = [level] if min_hops == 1 else [seen] if min_hops == 0 else []
    for distance in range(2, max_hops + 1):
        arguments.deadline.check()
        with memory.holding(BYTES_PER_PAIR * (len(seen) + sum(map(len, kept)) + len(level))):
            reached = _next_level(adjacency, level, width, arguments)
        level = reached[~is_member(reached, seen)]
        if distance >= min_hops:
            kept.append(level)
        if len(level) == 0:
            break
        seen = union(seen, level)
    pairs = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    return (pairs // width).astype(np.int32), (pairs % width).astype(np.int32)


def _next_level(adjacency: Adjacency, level: np.ndarray, width: int, arguments: Arguments) -> np.ndarray:
    """The pairs one hop further, each once. They are made in pieces: hubs are reached again and again."""
    ends = level % width
    piece_of = np.cumsum(adjacency.counts(ends)) // EXPANDED_AT_ONCE
    cuts = np.flatnonzero(np.diff(piece_of)) + 1

    def pieces() -> Iterator[np.ndarray]:
        for sources, targets in zip(np.split(level // width, cuts), np.split(ends, cuts), strict=True):
            arguments.deadline.check()
            owners, further = adjacency.expand(targets)
            yield distinct(sources[owners] * width + further)

    with arguments.memory.counted(pieces()) as counted:
        parts = list(counted)
    return parts[0] if len(parts) == 1 else distinct(np.concatenate(parts))
