"""Triangles of a graph in parts: every edge points to the end with more neighbours, and two edges that leave one node meet
the edge that would close them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.pipeline.algorithms.numbering import NodeRange
from omnigraph.pipeline.algorithms.parts import Columns, Parts, block_of
from omnigraph.workers import Exchange, Piece

if TYPE_CHECKING:
    from omnigraph.pipeline.algorithms.kernels import Array, Neighbours

WEDGES_AT_ONCE = 2_000_000
"""Pairs of edges that a task makes at once, and about as many as meet in one bucket."""


@dataclass(frozen=True)
class _Orient:
    """From the numbers of neighbours to the edges that point to the end with more (from * nodes + to), and how many pairs of
    them leave one node."""

    nodes: int

    def sent(self, state: Array) -> Array:
        return state

    def next(self, part: NodeRange, block: Neighbours, gathered: Array, state: Array) -> tuple[Array, int]:
        import numpy as np

        near, far = block.owners, block.far[block.neighbours]
        own, other = state[near], gathered[block.neighbours]
        kept = (other > own) | ((other == own) & (far > near + part.offset))
        counts = np.bincount(near[kept], minlength=part.count).astype(np.int64)
        return (near[kept] + part.offset) * self.nodes + far[kept], int((counts * (counts - 1) // 2).sum())


def count_triangles(graph: Parts) -> tuple[str, int]:
    numbered, scratch = graph.numbered, graph.scratch
    nodes = numbered.nodes

    def degrees(part: NodeRange) -> Array:
        import numpy as np

        return np.diff(block_of(numbered, numbered.parts.index(part)).starts)

    graph.start("forward", degrees)
    wedges = sum(graph.step("forward", 0, _Orient(nodes)))
    buckets = max(len(graph.places), wedges // WEDGES_AT_ONCE + 1)

    def cut(place: int) -> Iterator[Piece]:
        import numpy as np

        near, far = np.divmod(scratch.get(f"forward/1/{place}")["state"], nodes)
        pairs = np.minimum(near, far) * nodes + np.maximum(near, far)
        yield from _by_bucket(EDGES, buckets, pairs)
        for owners, left, right in _wedges(near, far):
            yield from _by_bucket(WEDGES, buckets, np.minimum(left, right) * nodes + np.maximum(left, right), owners)

    def join(bucket: int, pieces: Iterable[tuple[int, Any]]) -> str:
        import numpy as np

        held: dict[int, list[Array]] = {EDGES: [np.zeros(0, np.int64)], WEDGES: [np.zeros(0, np.int64)]}
        for kind, data in pieces:
            held[kind].append(np.frombuffer(data, np.int64))
        edges = np.sort(np.concatenate(held[EDGES]))
        halves = [np.split(pair, 2) for pair in held[WEDGES]]
        wedges = np.concatenate([pairs for pairs, _ in halves])
        owners = np.concatenate([owner for _, owner in halves])
        at = np.minimum(np.searchsorted(edges, wedges), max(len(edges) - 1, 0))
        closed = edges[at] == wedges if len(edges) else np.zeros(len(wedges), bool)
        corners = np.concatenate([owners[closed], *np.divmod(wedges[closed], nodes)])
        members, counts = np.unique(corners, return_counts=True)
        scratch.put(f"corners/{bucket}", nodes=members, counts=counts)
        return f"corners/{bucket}"

    def rows(name: str) -> Iterator[Columns]:
        block = scratch.get(name)
        yield block["nodes"], block["counts"]

    def take(place: int, pieces: Sequence[Columns]) -> None:
        import numpy as np

        part = numbered.parts[place]
        totals = np.zeros(part.count, np.int64)
        for ordinals, counts in pieces:
            totals[ordinals - part.offset] += counts
        scratch.put(f"triangles/0/{place}", state=totals)

    corners = graph.runner.exchange(Exchange("close triangles", cut, graph.places, buckets, join))
    graph.to_owners("count triangles", corners, rows, take)
    return "triangles/0", 1


EDGES, WEDGES = 0, 1


def _by_bucket(kind: int, buckets: int, pairs: Array, *more: Array) -> Iterator[Piece]:
    import numpy as np

    numbers = _mixed(pairs) % np.uint64(buckets)
    order = np.argsort(numbers, kind="stable")
    bounds = np.searchsorted(numbers[order], np.arange(buckets + 1, dtype=np.uint64)).tolist()
    columns = [column[order] for column in (pairs, *more)]
    for bucket in range(buckets):
        stretch = slice(bounds[bucket], bounds[bucket + 1])
        if stretch.start < stretch.stop:
            yield bucket, kind, b"".join(column[stretch].tobytes() for column in columns)


def _mixed(pairs: Array) -> Array:
    """Pairs of neighbouring numbers, spread."""
    import numpy as np

    mixed = pairs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(mixed >> np.uint64(32))


def _wedges(near: Array, far: Array) -> Iterator[tuple[Array, Array, Array]]:
    """Pairs of edges that leave one node: (the node, one end, the other end), so many at once. `near` ascends."""
    import numpy as np

    if not len(near):
        return
    starts = np.flatnonzero(np.concatenate([[True], near[1:] != near[:-1]]))
    ends = np.repeat(np.append(starts[1:], len(near)), np.diff(np.append(starts, len(near))))
    later = ends - np.arange(len(near)) - 1
    done = np.concatenate([[0], np.cumsum(later)])
    start = 0
    while start < len(near):
        stop = max(int(np.searchsorted(done, done[start] + WEDGES_AT_ONCE, "right")) - 1, start + 1)
        counts = later[start:stop]
        first = np.repeat(np.arange(start, stop), counts)
        within = np.arange(len(first)) - np.repeat(np.cumsum(counts) - counts, counts)
        yield near[first], far[first], far[first + 1 + within]
        start = stop
