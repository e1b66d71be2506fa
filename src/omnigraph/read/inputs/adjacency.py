"""Compact forms of immutable tables: ids as their places in sorted order, edges as integer arrays, columns in that order.

An *ordinal* is the place of a node's id among the sorted ids of its table, so ordinals order as ids do.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.deadlines import NEVER, Deadline
from omnigraph.expressions.usage import all_patterns
from omnigraph.language.query.plan import Aggregate, Direction, ReadPlan, is_aggregated
from omnigraph.read.inputs.scans import read_table
from omnigraph.read.sql.shapes import RelationalQuery
from omnigraph.tables.ascending import distinct, union
from omnigraph.tables.sorted_keys import SortedKeys
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

BYTES_PER_EDGE = 24
BYTES_PER_NODE = 64
"""Rough sizes, for deciding whether an adjacency fits before it is built."""
FEW = 256
"""Up to this many ids are found by binary search, more by hashing all of them."""


@dataclass(frozen=True)
class NodeIndex:
    """The sorted ids of a node table, and where each is in the table's own order."""

    ids: pa.Array
    places: np.ndarray
    keys: SortedKeys
    """The sorted ids again, ready to be searched."""

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes + self.places.nbytes + self.keys.nbytes)

    def __len__(self) -> int:
        return len(self.ids)

    def ordinals(self, ids: pa.Array) -> np.ndarray:
        """The ordinals of ids, -1 for one that is not there."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        if len(ids) <= FEW:
            runs = self.keys.runs(ids.to_pylist())
            return np.array([low if low < high else -1 for low, high in runs], dtype=np.int32)
        found = pc.index_in(ids, value_set=self.ids)
        if isinstance(found, pa.ChunkedArray):
            found = found.combine_chunks()
        return np.asarray(pc.fill_null(found, -1), dtype=np.int32)


@dataclass(frozen=True)
class Adjacency:
    """Neighbours of each ordinal: `targets[starts[i]:starts[i + 1]]`, ascending."""

    starts: np.ndarray
    targets: np.ndarray

    @property
    def nbytes(self) -> int:
        return int(self.starts.nbytes + self.targets.nbytes) * 2

    @cached_property
    def sources(self) -> np.ndarray:
        """The source of each pair, beside `targets`."""
        import numpy as np

        return np.repeat(np.arange(len(self.starts) - 1, dtype=np.int32), np.diff(self.starts))

    def expand(self, frontier: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(place in the frontier, neighbour) for every neighbour of every member."""
        import numpy as np

        first = self.starts[frontier]
        counts = self.starts[frontier + 1] - first
        owners = np.repeat(np.arange(len(frontier), dtype=np.int64), counts)
        ends = np.cumsum(counts)
        within = np.arange(len(owners), dtype=np.int64) - np.repeat(ends - counts, counts)
        return owners, self.targets[np.repeat(first, counts) + within]


@dataclass(frozen=True)
class EdgeEnds:
    """Both ends of every edge as ordinals, in the edge table's own order."""

    src: np.ndarray
    dst: np.ndarray

    @property
    def nbytes(self) -> int:
        return int(self.src.nbytes + self.dst.nbytes)


class Compact:
    """The compact forms of one view, from the cache of its graph. Keys name exact versions, so nothing is ever stale."""

    def __init__(self, view: View, deadline: Deadline = NEVER) -> None:
        self.view = view
        self._deadline = deadline
        self._root = view.repository.tables.root
        self._cache = view.repository.tables.runtime.cache

    def _version(self, key: str) -> tuple[str, int] | None:
        state = self.view.state(key)
        return None if state is None else (state.path, state.version)

    def nodes(self, type_name: str) -> NodeIndex:
        key = f"node:{type_name}"
        return self._cache.get(("nodes", self._root, key, self._version(key)), lambda: self._build_nodes(key))

    def _build_nodes(self, key: str) -> NodeIndex:
        import numpy as np
        import pyarrow as pa

        table = self.view.table(key)
        keys = SortedKeys.of(
            pa.array([], pa.utf8())
            if table is None
            else _whole(read_table(table, ["id"], None, self._deadline).column("id"))
        )
        ids = keys.column.take(keys.order)
        return NodeIndex(ids, keys.order, SortedKeys(ids, np.arange(len(ids), dtype=np.int32), keys.prefixes))

    def _edge_key(self, edge: str) -> tuple[Any, ...]:
        type_ = self.view.catalog.edges[edge]
        keys = (type_.table_key, f"node:{type_.source}", f"node:{type_.target}")
        return (self._root, *((key, self._version(key)) for key in keys))

    def ends(self, edge: str) -> EdgeEnds:
        return self._cache.get(("ends", *self._edge_key(edge)), lambda: self._build_ends(edge))

    def _build_ends(self, edge: str) -> EdgeEnds:
        import numpy as np

        type_ = self.view.catalog.edges[edge]
        table = self.view.table(type_.table_key)
        if table is None:
            return EdgeEnds(np.zeros(0, np.int32), np.zeros(0, np.int32))
        rows = read_table(table, ["src", "dst"], None, self._deadline)
        source, target = self.nodes(type_.source), self.nodes(type_.target)
        return EdgeEnds(source.ordinals(_whole(rows.column("src"))), target.ordinals(_whole(rows.column("dst"))))

    def neighbours(self, edge: str, direction: Direction, *, each: bool = False) -> Adjacency:
        """Neighbours once; or `each` time an edge leads there."""
        key = ("neighbours", *self._edge_key(edge), direction, each)
        return self._cache.get(key, lambda: self._build_neighbours(edge, direction, each))

    def has_neighbours(self, edge: str, direction: Direction, *, each: bool = False) -> bool:
        return ("neighbours", *self._edge_key(edge), direction, each) in self._cache

    def _build_neighbours(self, edge: str, direction: Direction, each: bool) -> Adjacency:
        import numpy as np

        type_ = self.view.catalog.edges[edge]
        ends = self.ends(edge)
        self._deadline.check()
        near, far, owner = ends.src, ends.dst, type_.source
        if direction == "in":
            near, far, owner = ends.dst, ends.src, type_.target
        elif direction == "both":
            near, far = np.concatenate([ends.src, ends.dst]), np.concatenate([ends.dst, ends.src])
        size = len(self.nodes(owner))
        width = max(len(self.nodes(type_.target)), len(self.nodes(type_.source)), 1)
        present = (near >= 0) & (far >= 0)
        pairs = near[present].astype(np.int64) * width + far[present]
        pairs = np.sort(pairs) if each else distinct(pairs)
        sources, targets = pairs // width, (pairs % width).astype(np.int32)
        starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(sources, minlength=size), out=starts[1:])
        return Adjacency(starts, targets)

    def column(self, type_name: str, name: str) -> pa.Array:
        """A node column in the order of ordinals."""
        if name == "id":
            return self.nodes(type_name).ids
        key = f"node:{type_name}"
        made = ("column", self._root, key, self._version(key), name)
        return self._cache.get(made, lambda: self._build_column(type_name, name))

    def _build_column(self, type_name: str, name: str) -> pa.Array:
        key = f"node:{type_name}"
        table = self.view.table(key)
        if table is None:
            return _whole(self.view.schema(key).empty_table().column(name))
        import pyarrow as pa

        return _whole(read_table(table, [name], None, self._deadline).column(name)).take(
            pa.array(self.nodes(type_name).places)
        )

    def fits(self, query: RelationalQuery) -> bool:
        """Would the compact forms of a query's tables fit in the cache?"""
        edges = sum(self.view.rows(hop.table_key) for hop in query.hops)
        nodes = sum(self.view.rows(f"node:{type_name}") for node in query.inputs for type_name in node.types)
        return edges * BYTES_PER_EDGE + nodes * BYTES_PER_NODE <= self._cache.capacity


def has_ordinals(plan: ReadPlan) -> bool:
    """Ordinals are per table: a variable over several types has none. An id that is computed with must be read."""
    computed = [p.expression for p in plan.projections if not isinstance(p.expression, Aggregate)]
    if plan.having or any(is_aggregated(expression) for expression in computed):
        return False
    patterns = list(all_patterns(plan.pattern))
    if any(hop.path is not None for pattern in patterns for hop in pattern.expansions):
        return False
    return all(len(binding.types) == 1 for pattern in patterns for binding in pattern.bindings)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    import pyarrow as pa

    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def reachable(
    adjacency: Adjacency, frontier: np.ndarray, min_hops: int, max_hops: int, width: int, deadline: Deadline
) -> tuple[np.ndarray, np.ndarray]:
    """(source, target) pairs at a distance within the bounds: breadth first from every member, all at once.

    A source is at distance 0 from itself; only a stored self-loop reaches it again, at distance 1.
    """
    import numpy as np

    owners, targets = adjacency.expand(frontier)
    sources = frontier[owners]
    if max_hops == 1:
        return sources, targets
    level = np.sort(sources.astype(np.int64) * width + targets)
    seen = union(level, frontier.astype(np.int64) * (width + 1))
    kept = [level] if min_hops == 1 else []
    for distance in range(2, max_hops + 1):
        deadline.check()
        owners, targets = adjacency.expand(level % width)
        found = distinct((level // width)[owners] * width + targets)
        level = found[~_member(found, seen)]
        if distance >= min_hops:
            kept.append(level)
        if len(level) == 0:
            break
        seen = union(seen, level)
    pairs = np.concatenate(kept) if kept else np.zeros(0, np.int64)
    return (pairs // width).astype(np.int32), (pairs % width).astype(np.int32)


def _member(values: np.ndarray, ordered: np.ndarray) -> np.ndarray:
    """Which values are in an ascending array."""
    import numpy as np

    places = np.searchsorted(ordered, values)
    places[places == len(ordered)] = 0
    return np.asarray(ordered[places] == values) if len(ordered) else np.zeros(len(values), bool)
