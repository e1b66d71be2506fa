"""Connected components of a graph in parts, by alternating large and small stars (Kiveris and others, 2014).

Each node is linked to the smallest node that its neighbours know, until every component is a star around its smallest node.
That takes a number of rounds like the logarithm of the number of nodes, however long the paths are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph._internal.lazy_imports import np
from omnigraph.algorithms.numbering import NodeRange
from omnigraph.algorithms.parts import Columns, Parts, block_of
from omnigraph.tasks.runner import Exchange, Piece

if TYPE_CHECKING:
    from omnigraph.algorithms.kernels import Array, Neighbours


# Triangles of a graph in parts: every edge points to the end with more neighbours, and two edges that leave one node meet
# the edge that would close them.

WEDGES_AT_ONCE = 2_000_000
"""Pairs of edges that a task makes at once, and about as many as meet in one bucket."""


@dataclass(frozen=True)
class _Orient:
    """From the numbers of neighbours to the pairs that point to the one with more, (from * nodes + to) * 2, and 1 if edges of both
    directions connect them; and how many pairs of those leave one node."""

    nodes: int

    def sent(self, state: Array) -> Array:
        return state

    def next(self, part: NodeRange, block: Neighbours, gathered: Array, state: Array) -> tuple[Array, int]:
        near, far = block.owners, block.far[block.neighbours]
        own, other = state[near], gathered[block.neighbours]
        kept = (other > own) | ((other == own) & (far > near + part.offset))
        counts = np.bincount(near[kept], minlength=part.count).astype(np.int64)
        assert block.values is not None, "the block is simple"
        pairs = (near[kept] + part.offset) * self.nodes + far[kept]
        return pairs * 2 + block.values[kept] - 1, int((counts * (counts - 1) // 2).sum())


def count_triangles(graph: Parts, *, as_shares: bool) -> tuple[str, int]:
    """The triangles of each node; or, as shares of all that could be, the edges that connect its neighbours."""
    numbered, scratch = graph.numbered, graph.scratch
    nodes = numbered.nodes

    def degrees(part: NodeRange) -> Array:
        return np.diff(block_of(numbered, numbered.parts.index(part)).starts)

    graph.start("forward", degrees)
    wedges = sum(graph.step("forward", 0, _Orient(nodes)))
    buckets = max(len(graph.places), wedges // WEDGES_AT_ONCE + 1)

    def cut(place: int) -> Iterator[Piece]:
        pairs, both = np.divmod(scratch.get(f"forward/1/{place}")["state"], 2)
        near, far = np.divmod(pairs, nodes)
        yield from _by_bucket(EDGES, buckets, np.minimum(near, far) * nodes + np.maximum(near, far), both)
        for first, second in _wedges(near):
            left, right = far[first], far[second]
            low, high = np.where(left < right, first, second), np.where(left < right, second, first)
            sides = near[first] * 4 + both[low] * 2 + both[high]
            yield from _by_bucket(WEDGES, buckets, far[low] * nodes + far[high], sides)

    def join(bucket: int, pieces: Iterable[tuple[int, Any]]) -> str:
        held: dict[int, list[Array]] = {EDGES: [np.zeros((2, 0), np.int64)], WEDGES: [np.zeros((2, 0), np.int64)]}
        for kind, data in pieces:
            held[kind].append(np.frombuffer(data, np.int64).reshape(2, -1))
        edges, both = np.concatenate(held[EDGES], axis=1)
        order = np.argsort(edges)
        edges, both = edges[order], both[order]
        wedges, sides = np.concatenate(held[WEDGES], axis=1)
        at = np.minimum(np.searchsorted(edges, wedges), max(len(edges) - 1, 0))
        closed = edges[at] == wedges if len(edges) else np.zeros(len(wedges), bool)
        low, high = np.divmod(wedges[closed], nodes)
        owners, sides, opposite = (
            sides[closed] // 4,
            sides[closed] % 4,
            both[at[closed]] if len(edges) else sides[closed],
        )
        # Opposite to an end of the wedge is the side that leads to the other end.
        links = np.concatenate([opposite, sides % 2, sides // 2]) + 1
        members, places = np.unique(np.concatenate([owners, low, high]), return_inverse=True)
        weights = links if as_shares else None
        counts = np.bincount(places, weights=weights, minlength=len(members)).astype(np.int64)
        scratch.put(f"corners/{bucket}", nodes=members, counts=counts)
        return f"corners/{bucket}"

    def rows(name: str) -> Iterator[Columns]:
        block = scratch.get(name)
        yield block["nodes"], block["counts"]

    def take(place: int, pieces: Sequence[Columns]) -> None:
        part = numbered.parts[place]
        totals = np.zeros(part.count, np.int64)
        for ordinals, counts in pieces:
            totals[ordinals - part.offset] += counts
        neighbours = np.diff(block_of(numbered, place).starts)
        possible = neighbours * (neighbours - 1)
        shares = np.divide(totals, possible, out=np.zeros(part.count), where=possible > 0)
        scratch.put(f"triangles/0/{place}", state=shares if as_shares else totals)

    corners = graph.runner.exchange(Exchange("close triangles", cut, graph.places, buckets, join))
    graph.to_owners("count triangles", corners, rows, take)
    return "triangles/0", 1


EDGES, WEDGES = 0, 1


def _by_bucket(kind: int, buckets: int, pairs: Array, *more: Array) -> Iterator[Piece]:
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
    mixed = pairs.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    return np.asarray(mixed >> np.uint64(32))


def _wedges(near: Array) -> Iterator[tuple[Array, Array]]:
    """The places of two edges that leave one node, so many at once. `near` ascends."""
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
        yield first, first + 1 + within
        start = stop


def connect(graph: Parts) -> tuple[str, int]:
    """States with the smallest node of the component of each node."""
    stars = _Stars(graph)
    tasks: list[str] = [f"edges/{bucket}" for bucket in graph.numbered.buckets]
    round = 0
    while tasks:
        round += 1
        tasks, relinked = stars.run(tasks, f"stars/{round}-large", is_large=True)
        tasks, gathered = stars.run(tasks, f"stars/{round}-small", is_large=False)
        if not relinked and not gathered:
            break
    _write_labels(graph, tasks)
    return "components/0", round


class _Stars:
    def __init__(self, graph: Parts) -> None:
        self._graph = graph

    def run(self, tasks: Sequence[str], folder: str, *, is_large: bool) -> tuple[list[str], bool]:
        """Pairs of nodes (file by file) to their stars; the files that hold them, and whether a link has changed."""
        scratch, buckets, nodes = self._graph.scratch, len(self._graph.places), self._graph.numbered.nodes

        def cut(name: str) -> Iterator[Piece]:
            pairs = scratch.get(name)
            src, dst = pairs["src"], pairs["dst"]
            low, high = np.minimum(src, dst), np.maximum(src, dst)
            low, high = low[low != high], high[low != high]
            near, far = (np.concatenate([high, low]), np.concatenate([low, high])) if is_large else (high, low)
            order = np.argsort(near % buckets, kind="stable")
            near, far = near[order], far[order]
            bounds = np.searchsorted(near % buckets, np.arange(buckets + 1)).tolist()
            for bucket in range(buckets):
                stretch = slice(bounds[bucket], bounds[bucket + 1])
                if stretch.start < stretch.stop:
                    yield bucket, 0, _distinct_pairs(near[stretch], far[stretch], nodes).tobytes()

        def join(bucket: int, pieces: Iterable[tuple[int, Any]]) -> tuple[str, bool]:
            from omnigraph.tables.ascending import distinct

            pairs = distinct(np.concatenate([np.frombuffer(data, np.int64) for _, data in pieces]))
            near, far = np.divmod(pairs, nodes)
            starts = np.flatnonzero(np.concatenate([[True], near[1:] != near[:-1]]))
            counts = np.diff(np.append(starts, len(near)))
            # Neighbours ascend, so the first of each node is its smallest.
            smallest = np.repeat(np.minimum(far[starts], near[starts]), counts)
            if is_large:
                kept = far > near
                changed = bool((smallest[kept] != near[kept]).any())
                star = far[kept], smallest[kept]
            else:
                changed = bool((counts > 1).any())
                others = far != smallest
                star = np.concatenate([near[starts], far[others]]), np.concatenate([far[starts], smallest[others]])
            name = f"{folder}/{bucket}"
            scratch.put(name, src=star[0], dst=star[1])
            return name, changed

        stage = "large stars" if is_large else "small stars"
        stars = self._graph.runner.exchange(Exchange(stage, cut, tasks, buckets, join))
        if tasks and not tasks[0].startswith("edges/"):
            scratch.remove(tasks[0].rpartition("/")[0])
        return [name for name, _ in stars], any(changed for _, changed in stars)


def _distinct_pairs(near: Array, far: Array, nodes: int) -> Array:
    from omnigraph.tables.ascending import distinct

    return distinct(near * nodes + far)


def _write_labels(graph: Parts, stars: Sequence[str]) -> None:
    numbered, scratch = graph.numbered, graph.scratch

    def rows(name: str) -> Iterator[Columns]:
        held = scratch.get(name)
        yield held["src"], held["dst"]

    def take(place: int, pieces: Sequence[Columns]) -> None:
        part = numbered.parts[place]
        labels = np.arange(part.offset, part.offset + part.count)
        for nodes, smallest in pieces:
            labels[nodes - part.offset] = smallest
        scratch.put(f"components/0/{place}", state=labels)

    graph.to_owners("components", stars, rows, take)
