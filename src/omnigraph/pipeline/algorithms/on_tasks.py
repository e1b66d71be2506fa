"""Algorithms as steps of tasks over the parts of a graph."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.pipeline.algorithms.components import connect
from omnigraph.pipeline.algorithms.definitions import (
    Algorithm,
    ConnectedComponents,
    LabelPropagation,
    PageRank,
    ShortestPaths,
    TriangleCount,
)
from omnigraph.pipeline.algorithms.in_process import check_sources
from omnigraph.pipeline.algorithms.numbering import NodeRange, number
from omnigraph.pipeline.algorithms.outputs import write_labels, write_values
from omnigraph.pipeline.algorithms.parts import Parts
from omnigraph.pipeline.algorithms.projection import EdgeProjection
from omnigraph.pipeline.algorithms.scratch import Scratch
from omnigraph.pipeline.algorithms.stored_numbers import stored_numbers
from omnigraph.pipeline.algorithms.triangles import count_triangles
from omnigraph.pipeline.runner import Runner

if TYPE_CHECKING:
    from omnigraph.pipeline.algorithms.kernels import Array, Neighbours

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
        case TriangleCount():
            graph.build_blocks(both_ways=True, simple=True)
            name, steps = count_triangles(graph)
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
        import numpy as np

        from omnigraph.pipeline.algorithms import kernels

        ranks = kernels.gathered(block, gathered)
        return ranks, (float(np.abs(ranks - state).sum()), float(ranks.sum()))


def _pagerank(graph: Parts, algorithm: PageRank) -> tuple[str, int]:
    nodes = graph.numbered.nodes

    def zero(part: NodeRange) -> Array:
        import numpy as np

        return np.zeros(part.count)

    graph.start("ranks", zero)
    total, step = 0.0, 0
    while True:
        sums = graph.step("ranks", step, _RankStep(algorithm.damping, algorithm.rest(total, nodes)))
        moved, gathered = sum(step for step, _ in sums), sum(share for _, share in sums)
        step += 1
        is_close, total = algorithm.is_close(moved, gathered - total), gathered
        if is_close:
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

    def sent(self, state: Array) -> Array:
        return state

    def next(self, part: NodeRange, block: Neighbours, gathered: Array, state: Array) -> tuple[Array, bool]:
        import numpy as np

        from omnigraph.pipeline.algorithms import kernels

        votes = kernels.voted(block, gathered, state, self.nodes)
        return votes, not np.array_equal(votes, state)


def own_ordinals(part: NodeRange) -> Array:
    import numpy as np

    return np.arange(part.offset, part.offset + part.count)


def _labels(graph: Parts, algorithm: LabelPropagation) -> tuple[str, int]:
    graph.start("labels", own_ordinals)
    for step in range(algorithm.rounds):
        if not any(graph.step("labels", step, _LabelStep(graph.numbered.nodes))):
            break
    return f"labels/{step + 1}", step + 1


# ---------------------------------------------------------------- distances


@dataclass(frozen=True)
class _DistanceStep:
    def sent(self, state: Array) -> Array:
        return state

    def next(self, part: NodeRange, block: Neighbours, gathered: Array, state: Array) -> tuple[Array, bool]:
        import numpy as np

        from omnigraph.pipeline.algorithms import kernels

        distances = kernels.relaxed(block, gathered, state)
        return distances, not np.array_equal(distances, state)


def _distances(graph: Parts, projection: EdgeProjection, algorithm: ShortestPaths) -> tuple[str, int]:
    numbered, scratch, wanted = graph.numbered, graph.scratch, tuple(algorithm.sources)

    def put(place: int) -> Sequence[str]:
        """The first distances of a part; which of the sources are in it."""
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

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
