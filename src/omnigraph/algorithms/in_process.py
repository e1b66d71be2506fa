"""Algorithms over the compact form of a snapshot, in this process. SciPy does what it is known for."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph._internal.deadlines import NEVER
from omnigraph._internal.lazy_imports import load_extra, np, pa
from omnigraph.algorithms.projection import (
    Algorithm,
    ConnectedComponents,
    EdgeProjection,
    LabelPropagation,
    LocalClustering,
    PageRank,
    ShortestPaths,
    TriangleCount,
    component_names,
    weights,
)
from omnigraph.errors import NotFound
from omnigraph.read.inputs.adjacency import GraphArrays, despite_lost_segments
from omnigraph.read.inputs.scans import read_table

if TYPE_CHECKING:
    from omnigraph.algorithms.kernels import Array, Neighbours

WEDGES_AT_ONCE = 16_000_000


@dataclass(frozen=True)
class EdgeArrays:
    """A projection as arrays: both ends of each edge as ordinals, and its weight."""

    nodes: int
    src: Array
    dst: Array
    weights: Array | None

    def block(self, *, both_ways: bool = False) -> Neighbours:
        """What each node gathers from: the sources of its edges, or its neighbours."""
        from omnigraph.algorithms.kernels import Neighbours

        near, far, values = self.dst, self.src, self.weights
        if both_ways:
            near, far = np.concatenate([self.dst, self.src]), np.concatenate([self.src, self.dst])
            values = None if values is None else np.concatenate([values, values])
        block = Neighbours.of(near, far, values, self.nodes, self.nodes)
        # All nodes are at hand: a neighbour's place is its ordinal.
        return Neighbours(block.starts, block.far[block.neighbours], block.values, np.arange(self.nodes))


def run_in_process(projection: EdgeProjection, algorithm: Algorithm) -> tuple[pa.Table, int]:
    """Rows of (type, id, value), by type and id, and the number of steps it took."""
    return despite_lost_segments(projection.view, lambda: _run(projection, algorithm))


def _run(projection: EdgeProjection, algorithm: Algorithm) -> tuple[pa.Table, int]:
    compact = GraphArrays(projection.view)
    indexes = [compact.nodes(name) for name in projection.types]
    offsets = np.cumsum([0, *(index.rows for index in indexes)])
    src, dst = compact.ordinal_ends(projection.edge)
    graph = EdgeArrays(
        int(offsets[-1]),
        src.astype(np.int64) + offsets[projection.source],
        dst.astype(np.int64) + offsets[projection.target],
        _weights(projection),
    )
    steps = 1
    match algorithm:
        case PageRank():
            values, steps = _pagerank(graph, algorithm)
        case ConnectedComponents():
            values = _components(graph)
        case LabelPropagation():
            values, steps = _labels(graph, algorithm)
        case ShortestPaths():
            starts = indexes[projection.source]
            numbers = starts.numbers(pa.array(list(algorithm.sources), pa.utf8()))
            check_sources(
                algorithm, projection, [id for id, at in zip(algorithm.sources, numbers, strict=True) if at < 0]
            )
            values, steps = _distances(graph, starts.ordinals(numbers).astype(np.int64) + offsets[projection.source])
        case TriangleCount():
            values = _triangles(graph)
        case LocalClustering():
            values = _clustering(graph)
    ids = [index.ids(index.living) for index in indexes]
    column: Any = pa.array(values)
    if isinstance(algorithm, ConnectedComponents | LabelPropagation):
        names = [component_names(projection.types, place, nodes) for place, nodes in enumerate(ids)]
        column = pa.concat_arrays(names).take(column)
    elif isinstance(algorithm, ShortestPaths):
        column = distance_column(values, is_hops=projection.weight is None)
    types = pa.concat_arrays(
        [pa.repeat(pa.scalar(name), len(nodes)) for name, nodes in zip(projection.types, ids, strict=True)]
    )
    return pa.table({"type": types, "id": pa.concat_arrays(ids), algorithm.column: column}), steps


def check_sources(algorithm: ShortestPaths, projection: EdgeProjection, missing: list[str]) -> None:
    if missing:
        raise NotFound(f"there is no {projection.types[projection.source]} '{missing[0]}' to start from")


def distance_column(distances: Array, *, is_hops: bool) -> pa.Array:
    """Hops are integers; a node that no path leads to has null."""
    unreached = np.isinf(distances)
    if not is_hops:
        return pa.array(distances, mask=unreached)
    return pa.array(np.where(unreached, 0, distances).astype(np.int64), mask=unreached)


def _weights(projection: EdgeProjection) -> Array | None:
    table = projection.view.table(projection.edge_key)
    if projection.weight is None or table is None:
        return None
    return weights(read_table(table, ["id", projection.weight], None, NEVER), projection.edge, projection.weight)


def _sparse() -> Any:
    return load_extra("scipy.sparse", "running an algorithm in this process", extra="algorithms")


def _pagerank(graph: EdgeArrays, algorithm: PageRank) -> tuple[Array, int]:
    from omnigraph.algorithms.kernels import shares

    if not graph.nodes:
        return np.zeros(0), 0
    sparse = _sparse()
    values = shares(graph.src, graph.weights, graph.nodes)
    matrix = sparse.csr_matrix((values, (graph.dst, graph.src)), shape=(graph.nodes, graph.nodes))
    share = np.zeros(graph.nodes)
    total, steps = 0.0, 0
    while True:
        ranks = matrix @ (algorithm.damping * share + algorithm.rest(total, graph.nodes))
        moved, sum_moved = float(np.abs(ranks - share).sum()), float(ranks.sum()) - total
        share, total, steps = ranks, total + sum_moved, steps + 1
        if algorithm.is_done(steps, moved, sum_moved):
            return algorithm.damping * share + algorithm.rest(total, graph.nodes), steps


def _components(graph: EdgeArrays) -> Array:
    sparse = _sparse()
    csgraph = load_extra("scipy.sparse.csgraph", "running an algorithm in this process", extra="algorithms")
    ones = np.ones(len(graph.src), np.int8)
    matrix = sparse.coo_matrix((ones, (graph.src, graph.dst)), shape=(graph.nodes, graph.nodes))
    _, labels = csgraph.connected_components(matrix, directed=False)
    # SciPy numbers components as it meets them; the first node of each, in the order of ordinals, is its smallest.
    _, firsts, places = np.unique(labels, return_index=True, return_inverse=True)
    return np.asarray(firsts[places], np.int64)


def _labels(graph: EdgeArrays, algorithm: LabelPropagation) -> tuple[Array, int]:
    from omnigraph.algorithms.kernels import voted

    block = graph.block(both_ways=True)
    labels = np.arange(graph.nodes)
    for step in range(1, algorithm.rounds + 1):
        votes = voted(block, labels, labels, graph.nodes, keeps_own=algorithm.ties == "own")
        if np.array_equal(votes, labels):
            return labels, step
        labels = votes
    return labels, algorithm.rounds


def _distances(graph: EdgeArrays, sources: Array) -> tuple[Array, int]:
    """From the nearest source: level by level when every edge counts 1, by Dijkstra otherwise."""
    distances = np.full(graph.nodes, np.inf)
    distances[sources] = 0
    if graph.weights is not None:
        csgraph = load_extra("scipy.sparse.csgraph", "running an algorithm in this process", extra="algorithms")
        lengths = csgraph.dijkstra(_lightest(graph), indices=np.unique(sources), min_only=True)
        return np.asarray(lengths), 1
    from omnigraph.tables.adjacency.csr import csr_of

    adjacency, _ = csr_of(graph.src, graph.dst, graph.nodes, graph.nodes, per_edge=True)
    frontier, step = np.unique(sources), 0
    while len(frontier):
        step += 1
        _, reached = adjacency.expand(frontier)
        frontier = np.unique(reached[np.isinf(distances[reached])])
        distances[frontier] = step
    return distances, step


def _lightest(graph: EdgeArrays) -> Any:
    """The edges as a matrix. SciPy would add parallel ones up: of those the lightest is kept."""
    assert graph.weights is not None
    pairs = graph.src * max(graph.nodes, 1) + graph.dst
    order = np.lexsort((graph.weights, pairs))
    firsts = order[np.concatenate([[True], np.diff(pairs[order]) != 0])] if len(order) else order
    starts = np.zeros(graph.nodes + 1, np.int64)
    np.cumsum(np.bincount(graph.src[firsts], minlength=graph.nodes), out=starts[1:])
    matrix = (graph.weights[firsts], graph.dst[firsts], starts)
    return _sparse().csr_matrix(matrix, shape=(graph.nodes, graph.nodes))


def _triangles(graph: EdgeArrays) -> Array:
    counts = np.zeros(graph.nodes, np.int64)
    if (pairs := _forward(graph)) is None:
        return counts
    forward, _, _ = pairs
    for rows, matches in _matched(forward, forward, forward):  # from the first node to the last, by the middle one
        counts[rows] += np.asarray(matches.sum(axis=1)).ravel()
        counts += np.asarray(matches.sum(axis=0)).ravel()
    for rows, matches in _matched(forward.T.tocsr(), forward, forward):  # from the middle one to the last, by the first
        counts[rows] += np.asarray(matches.sum(axis=1)).ravel()
    return counts


def _clustering(graph: EdgeArrays) -> Array:
    """To each node of a triangle, the edges between the two others."""
    shares, links = np.zeros(graph.nodes), np.zeros(graph.nodes, np.int64)
    if (pairs := _forward(graph)) is None:
        return shares
    forward, edges, degrees = pairs
    for rows, matches in _matched(
        forward, edges, forward
    ):  # the first node, and the edges from the middle one to the last
        links[rows] += np.asarray(matches.sum(axis=1)).ravel()
    for _, matches in _matched(
        edges, forward, forward
    ):  # the last node, and the edges from the first to the middle one
        links += np.asarray(matches.sum(axis=0)).ravel()
    for rows, matches in _matched(
        forward.T.tocsr(), edges, forward
    ):  # the middle one, and those from the first to the last
        links[rows] += np.asarray(matches.sum(axis=1)).ravel()
    possible = degrees * (degrees - 1)
    np.divide(links, possible, out=shares, where=possible > 0)
    return shares


def _forward(graph: EdgeArrays) -> tuple[Any, Any, Array] | None:
    """Neighbours as a matrix in which each points to the one with more of them, which leaves few for each node; the same with the
    numbers of edges between them, one for a direction; and how many neighbours each node has. None if there are none."""
    size = max(graph.nodes, 1)
    low, high = np.divmod(np.unique(graph.src * size + graph.dst), size)
    low, high = low[low != high], high[low != high]
    if not len(low):
        return None
    pairs, edges = np.unique(np.minimum(low, high) * size + np.maximum(low, high), return_counts=True)
    low, high = np.divmod(pairs, size)
    degrees = np.bincount(low, minlength=graph.nodes) + np.bincount(high, minlength=graph.nodes)
    swapped = degrees[low] > degrees[high]
    ends, shape = (np.where(swapped, high, low), np.where(swapped, low, high)), (graph.nodes, graph.nodes)
    matrices = [_sparse().csr_matrix((values, ends), shape=shape) for values in (np.ones_like(edges), edges)]
    return matrices[0], matrices[1], degrees


def _matched(left: Any, right: Any, forward: Any) -> Iterator[tuple[slice, Any]]:
    """Rows of the product of two matrices, where `forward` has an entry; so many rows at once that memory is bounded."""
    ends = np.concatenate([[0], np.cumsum(np.diff(right.indptr)[left.indices], dtype=np.int64)])
    work = ends[left.indptr]
    start, nodes = 0, len(work) - 1
    while start < nodes:
        stop = max(int(np.searchsorted(work, work[start] + WEDGES_AT_ONCE, "right")) - 1, start + 1)
        yield slice(start, stop), (left[start:stop] @ right).multiply(forward[start:stop])
        start = stop
