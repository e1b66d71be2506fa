"""Algorithms as steps of tasks over the parts of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.algorithms.components import connect, count_triangles
from omnigraph.algorithms.in_process import check_sources
from omnigraph.algorithms.numbering import NodeRange, Numbered, number
from omnigraph.algorithms.parts import Parts, write_labels, write_values
from omnigraph.algorithms.projection import (
    Algorithm,
    ConnectedComponents,
    EdgeProjection,
    LabelPropagation,
    LocalClustering,
    PageRank,
    ShortestPaths,
    TriangleCount,
)
from omnigraph.algorithms.scratch import Scratch
from omnigraph.tables.adjacency.index import AdjacencyIndex
from omnigraph.tables.adjacency.numbering import SortedIds, cover
from omnigraph.tables.adjacency.segment import Segment, SegmentLostError
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import Runner
from omnigraph.tasks.target import Address

if TYPE_CHECKING:
    from omnigraph.algorithms.kernels import Array, Neighbours


# A projection in numbers without numbering it: from the stored adjacency, where it is of the very version that is asked about.
#
# Tasks cut the sorted ids and the edges into files of the form that `numbering` makes: nothing is read from tables, hashed or shuffled.


@dataclass(frozen=True)
class _IdsTask:
    scratch: Scratch
    key: str
    part: NodeRange
    first: int
    """Of its numbers in the segment."""


@dataclass(frozen=True)
class _EdgesTask:
    """The edges in some places of a segment, as ordinals. `offsets`: the ordinals of the first source and the first target."""

    scratch: Scratch
    key: str
    bucket: int
    first: int
    last: int
    offsets: tuple[int, int]
    as_shares: bool


def stored_numbers(
    projection: EdgeProjection, scratch: Scratch, runner: Runner, parts: int, *, as_shares: bool
) -> Numbered | None:
    """None where nothing that is stored covers the version exactly, or edges have weights, which it does not know."""
    index = projection.view.repository.tables.adjacency
    numbers = None if projection.weight is not None else _found(projection, index)
    if numbers is None:
        return None
    nodes, edges = numbers
    numbered_parts: list[NodeRange] = []
    ids_tasks: list[_IdsTask] = []
    offsets, offset = [], 0
    for type, segment in enumerate(nodes):
        offsets.append(offset)
        for first, last in _cut(segment.header.count, parts):
            part = NodeRange(len(numbered_parts), type, offset + first, last - first)
            numbered_parts.append(part)
            ids_tasks.append(_IdsTask(scratch, segment.key, part, first))
        offset += segment.header.count
    ends = offsets[projection.source], offsets[projection.target]
    edge_tasks = [
        _EdgesTask(scratch, edges.key, bucket, first, last, ends, as_shares)
        for bucket, (first, last) in enumerate(_cut(edges.header.count, parts))
    ]
    lost = {*runner.map("number nodes", _write_ids, ids_tasks), *runner.map("number edges", _write_edges, edge_tasks)}
    for key in lost - {None}:
        index.forget(str(key))
    return None if lost - {None} else Numbered(scratch, tuple(numbered_parts), tuple(range(len(edge_tasks))))


def _found(projection: EdgeProjection, index: AdjacencyIndex) -> tuple[list[Segment], Segment] | None:
    """The segments of the nodes, by type, and of the edges in their numbers."""
    view = projection.view
    tables = [view.table(f"node:{name}") for name in projection.types]
    edge_table = view.table(projection.edge_key)
    if edge_table is None or edge_table.inline:
        return None
    try:
        known = [[] if table is None or table.inline else _exact(index, table, "nodes") for table in tables]
        for edges in _exact(index, edge_table, "edges"):
            names = dict(zip((projection.source, projection.target), edges.header.numbered_by, strict=True))
            nodes = [
                next((segment for segment in known[type] if segment.name == names[type]), None)
                for type in range(len(known))
            ]
            if all(nodes):
                return [segment for segment in nodes if segment is not None], edges
    except SegmentLostError:
        pass
    return None


def _exact(index: AdjacencyIndex, table: Table, kind: str) -> list[Segment]:
    return [segment for segment in index.segments(table, kind) if cover(table, segment.header.covers, segment).is_exact]


def _cut(count: int, parts: int) -> Sequence[tuple[int, int]]:
    """About equal ranges, none of them empty."""
    bounds = sorted({count * part // parts for part in range(parts + 1)})
    return list(pairwise(bounds))


def _write_ids(task: _IdsTask) -> str | None:
    """The key of a segment that cannot be read."""
    try:
        segment = _opened(task.scratch, task.key)
        texts = SortedIds(segment.header, segment, segment.name).texts
    except SegmentLostError as lost:
        return lost.key
    task.scratch.put_rows(f"ids/{task.part.number}", pa.table({"id": texts.slice(task.first, task.part.count)}))
    return None


def _write_edges(task: _EdgesTask) -> str | None:
    """The same."""
    try:
        segment = _opened(task.scratch, task.key)
        starts = segment.whole("out_starts")
        (targets,) = segment.slices("out_targets", [task.first], [task.last])
    except SegmentLostError as lost:
        return lost.key
    first = int(np.searchsorted(starts, task.first, "right")) - 1
    last = int(np.searchsorted(starts, task.last, "left"))
    counts = np.diff(np.clip(starts[first : last + 1], task.first, task.last))
    sources = np.repeat(np.arange(first, last, dtype=np.int64), counts)
    arrays = {"src": sources + task.offsets[0], "dst": targets.astype(np.int64) + task.offsets[1]}
    if task.as_shares:
        arrays["value"] = 1.0 / (starts[sources + 1] - starts[sources])
    task.scratch.put(f"edges/{task.bucket}", **arrays)
    return None


def _opened(scratch: Scratch, key: str) -> Segment:
    address: Address = scratch.address
    return address.tables.adjacency.opened(key)


PART_NODES = 2_000_000
PART_EDGES = 4_000_000
"""What a task holds at most, unless one node has more edges."""


def parts_for(projection: EdgeProjection, runner: Runner) -> int:
    wanted = max(projection.nodes // PART_NODES, projection.edges // PART_EDGES) + 1
    return max(wanted, runner.parallelism)


def run_on_tasks(
    projection: EdgeProjection, algorithm: Algorithm, scratch: Scratch, runner: Runner, parts: int
) -> tuple[list[str], int]:
    """The files that hold rows of (type, id, value), in no order, and the number of steps it took."""
    as_shares = isinstance(algorithm, PageRank)
    numbered = stored_numbers(projection, scratch, runner, parts, as_shares=as_shares)
    if numbered is None:
        numbered = number(projection, scratch, runner, parts, as_shares=as_shares)
    graph = Parts(numbered, runner)
    if not numbered.parts:
        return [], 0
    match algorithm:
        case PageRank():
            graph.build_blocks(both_ways=False)
            name, steps = _pagerank(graph, algorithm)
        case ConnectedComponents():
            name, steps = connect(graph)
        case LabelPropagation():
            graph.build_blocks(both_ways=True)
            name, steps = _labels(graph, algorithm)
        case ShortestPaths():
            graph.build_blocks(both_ways=False)
            name, steps = _distances(graph, projection, algorithm)
        case TriangleCount() | LocalClustering():
            graph.build_blocks(both_ways=True, simple=True)
            name, steps = count_triangles(graph, as_shares=isinstance(algorithm, LocalClustering))
    if isinstance(algorithm, ConnectedComponents | LabelPropagation):
        return write_labels(graph, name, projection.types, algorithm.column), steps
    is_hops = isinstance(algorithm, ShortestPaths) and projection.weight is None
    is_distance = isinstance(algorithm, ShortestPaths)
    return write_values(
        graph, name, projection.types, algorithm.column, is_distance=is_distance, is_hops=is_hops
    ), steps


# ---------------------------------------------------------------- ranks


@dataclass(frozen=True)
class _RankStep:
    """The state is what a node gathered; its rank is that, damped, and the rest that every node has."""

    damping: float
    rest: float

    def sent(self, state: Array) -> Array:
        return self.damping * state + self.rest

    def next(
        self, part: NodeRange, block: Neighbours, gathered: Array, state: Array
    ) -> tuple[Array, tuple[float, float]]:
        from omnigraph.algorithms import kernels

        ranks = kernels.gathered(block, gathered)
        return ranks, (float(np.abs(ranks - state).sum()), float(ranks.sum()))


def _pagerank(graph: Parts, algorithm: PageRank) -> tuple[str, int]:
    nodes = graph.numbered.nodes

    def zero(part: NodeRange) -> Array:
        return np.zeros(part.count)

    graph.start("ranks", zero)
    total, step = 0.0, 0
    while True:
        sums = graph.step("ranks", step, _RankStep(algorithm.damping, algorithm.rest(total, nodes)))
        moved, gathered = sum(step for step, _ in sums), sum(share for _, share in sums)
        step += 1
        is_done, total = algorithm.is_done(step, moved, gathered - total), gathered
        if is_done:
            break
    final = _RankStep(algorithm.damping, algorithm.rest(total, nodes))
    scratch = graph.scratch

    def put(place: int) -> None:
        state = scratch.get(f"ranks/{step}/{place}")["state"]
        scratch.put(f"ranks/final/{place}", state=final.sent(state))

    graph.runner.map("ranks", put, graph.places)
    return "ranks/final", step


# ---------------------------------------------------------------- labels


@dataclass(frozen=True)
class _LabelStep:
    nodes: int
    keeps_own: bool

    def sent(self, state: Array) -> Array:
        return state

    def next(self, part: NodeRange, block: Neighbours, gathered: Array, state: Array) -> tuple[Array, bool]:
        from omnigraph.algorithms import kernels

        votes = kernels.voted(block, gathered, state, self.nodes, keeps_own=self.keeps_own)
        return votes, not np.array_equal(votes, state)


def own_ordinals(part: NodeRange) -> Array:
    return np.arange(part.offset, part.offset + part.count)


def _labels(graph: Parts, algorithm: LabelPropagation) -> tuple[str, int]:
    votes = _LabelStep(graph.numbered.nodes, algorithm.ties == "own")
    graph.start("labels", own_ordinals)
    for step in range(algorithm.rounds):
        if not any(graph.step("labels", step, votes)):
            break
    return f"labels/{step + 1}", step + 1


# ---------------------------------------------------------------- distances


@dataclass(frozen=True)
class _DistanceStep:
    def sent(self, state: Array) -> Array:
        return state

    def next(self, part: NodeRange, block: Neighbours, gathered: Array, state: Array) -> tuple[Array, bool]:
        from omnigraph.algorithms import kernels

        distances = kernels.relaxed(block, gathered, state)
        return distances, not np.array_equal(distances, state)


def _distances(graph: Parts, projection: EdgeProjection, algorithm: ShortestPaths) -> tuple[str, int]:
    numbered, scratch, wanted = graph.numbered, graph.scratch, tuple(algorithm.sources)

    def put(place: int) -> Sequence[str]:
        """The first distances of a part; which of the sources are in it."""
        part = numbered.parts[place]
        state = np.full(part.count, np.inf)
        ids_put: list[str] = []
        if part.type == projection_source:
            ids = scratch.get_rows(f"ids/{part.number}").column("id").combine_chunks()
            at = pc.index_in(pa.array(wanted, pa.utf8()), value_set=ids).drop_null()
            state[np.asarray(at)] = 0
            ids_put = ids.take(at).to_pylist()
        scratch.put(f"distances/0/{place}", state=state)
        return ids_put

    projection_source = projection.source
    started = {id for ids in graph.runner.map("start", put, graph.places) for id in ids}
    check_sources(algorithm, projection, [id for id in wanted if id not in started])
    step = 0
    while True:
        changed = any(graph.step("distances", step, _DistanceStep()))
        step += 1
        if not changed:
            return f"distances/{step}", step
