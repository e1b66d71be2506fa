"""NodeNeighbours, edges and everything within hops, from many nodes at once. Both directions together follow commits too: they are
two walks, not a structure of their own."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from omnigraph._internal.lazy_imports import np
from omnigraph.expressions.functions import Arguments
from omnigraph.language.query.plan import Direction, Expansion
from omnigraph.read.executor.bindings import Matches, NotCovered, are_among
from omnigraph.read.inputs.adjacency import GraphArrays
from omnigraph.tables.adjacency.csr import FEW_OF_ALL, Adjacency
from omnigraph.tables.ascending import distinct, is_member, union

FEW_SOURCES = 32
"""From up to this many nodes, walks of several hops mark what they have seen, one node after the other."""

Way = Literal["out", "in"]
FLIPPED: dict[Direction, Direction] = {"out": "in", "in": "out", "both": "both"}
WAYS: dict[Direction, tuple[Way, ...]] = {"out": ("out",), "in": ("in",), "both": ("out", "in")}


@dataclass(frozen=True)
class NodeNeighbours:
    """Each neighbour of a node once, by edges of one type or of several between the same node types, in one or both directions."""

    compact: GraphArrays
    edges: tuple[str, ...]
    direction: Direction
    per_edge: bool = False
    """A neighbour for each edge, of one type in one direction."""

    @cached_property
    def parts(self) -> list[Adjacency]:
        ways = WAYS[self.direction]
        return [self.compact.neighbours(edge, way, per_edge=self.per_edge) for edge in self.edges for way in ways]

    @cached_property
    def _whole(self) -> Adjacency | None:
        """All neighbours together; None if edges of several types lead to them."""
        if len(self.edges) > 1:
            return None
        return self.compact.neighbours(self.edges[0], self.direction, per_edge=self.per_edge)

    @property
    def size(self) -> int:
        """How many nodes there are to begin at."""
        return self.parts[0].size

    @property
    def edge_count(self) -> int:
        """About how many edges there are to follow."""
        return len(WAYS[self.direction]) * sum(self.compact.view.rows(f"edge:{name}") for name in self.edges)

    def degrees(self) -> np.ndarray:
        """How many neighbours each node has."""
        if self._whole is not None:
            return self._whole.degrees()
        return np.bincount(self.expand(np.arange(self.size))[0], minlength=self.size)

    def sums(self, values: np.ndarray, highest: float) -> np.ndarray:
        """The sum of the neighbours' values of each node; no value is further from 0 than `highest`."""
        if self._whole is not None:
            return self._whole.sums(values, highest)
        owners, targets = self.expand(np.arange(self.size))
        sums = np.zeros(self.size, np.int64)
        np.add.at(sums, owners, values[targets])
        return sums

    @cached_property
    def width(self) -> int:
        return max(part.width for part in self.parts)

    def counts(self, numbers: np.ndarray) -> np.ndarray:
        """How many neighbours each number has, at most."""
        counts = self.parts[0].counts(numbers)
        for part in self.parts[1:]:
            counts = counts + part.counts(numbers)
        return counts

    def any_order(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Like `expand`, in any order and with repetitions."""
        if len(self.parts) == 1:
            return self.parts[0].expand(numbers)
        owners, targets = zip(*(part.expand(numbers) for part in self.parts), strict=True)
        return np.concatenate(owners), np.concatenate(targets)

    def exact_counts(self, numbers: np.ndarray) -> np.ndarray:
        """How many neighbours each number has; one that several edges lead to counts once."""
        if len(self.parts) == 1:
            return self.counts(numbers).astype(np.int64, copy=False)
        nodes, places = np.unique(numbers, return_inverse=True)
        return np.bincount(self.expand(nodes)[0], minlength=len(nodes))[places]

    def connects(self, near: np.ndarray, far: np.ndarray) -> np.ndarray:
        """For which pairs of nodes the second is a neighbour of the first."""
        if len(near) * FEW_OF_ALL > self.parts[0].size:
            keys = near.astype(np.int64) * self.width + far
            kept = np.zeros(len(near), bool)
            for edge in self.edges:
                for way in WAYS[self.direction]:
                    kept |= self.compact.pair_set(edge, way, self.width).has(keys)
            return kept
        sources = distinct(near)
        owners, targets = self.any_order(sources)
        return are_among(np.searchsorted(sources, near) * self.width + far, owners * self.width + targets)

    def expand(self, numbers: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(position in `numbers`, neighbour) for every neighbour of every number, in order."""
        owners, targets = self.any_order(numbers)
        if len(self.parts) == 1:
            return owners, targets
        keys = np.sort(owners * self.width + targets)
        kept = np.ones(len(keys), bool)
        np.not_equal(keys[1:], keys[:-1], out=kept[1:])
        keys = keys[kept]
        owners = keys // self.width
        return owners, (keys - owners * self.width).astype(np.int32)


@dataclass(frozen=True)
class HopWalk:
    """An expansion from one of its ends."""

    compact: GraphArrays
    expansion: Expansion
    is_forward: bool
    arguments: Arguments
    per_edge: bool = False
    """Whether each edge counts, of those that one hop follows in one direction."""

    @cached_property
    def direction(self) -> Direction:
        return self.expansion.direction if self.is_forward else FLIPPED[self.expansion.direction]

    @cached_property
    def neighbours(self) -> NodeNeighbours:
        return NodeNeighbours(self.compact, self.expansion.edges, self.direction, self.per_edge)

    @property
    def back(self) -> HopWalk:
        return HopWalk(self.compact, self.expansion, not self.is_forward, self.arguments, self.per_edge)

    def cost(self, numbers: np.ndarray) -> int:
        """How many edges will be followed: exact for one hop, an estimate for several."""
        first = int(self.neighbours.counts(numbers).sum())
        if self.expansion.max_hops <= 1:
            return first + (0 if self.expansion.min_hops else len(numbers))
        view, type_ = self.compact.view, self.compact.view.catalog.edges[self.expansion.edge]
        nodes = view.rows(f"node:{type_.source}")
        edges = len(WAYS[self.direction]) * sum(view.rows(f"edge:{name}") for name in self.expansion.edges)
        degree = max(edges / max(nodes, 1), 1.0)
        further = min(self.expansion.max_hops - 1, 6)
        return int(min(first * degree**further, max(len(numbers), 1) * float(edges)))

    def pairs(self, numbers: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """(position in `numbers`, node reached), each pair once. `numbers` may repeat."""
        if self.expansion.is_step:
            if int(self.neighbours.counts(numbers).sum()) > most:
                raise NotCovered
            return self.neighbours.expand(numbers)
        return self._reach(numbers, most)

    def _reach(self, numbers: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        sources = distinct(numbers)
        if len(sources) <= FEW_SOURCES:
            low, high = self.expansion.min_hops, self.expansion.max_hops
            levels = [np.concatenate([np.zeros(0, np.int32), *self.levels(int(s), low, high)]) for s in sources]
            near = np.repeat(sources, [len(level) for level in levels])
            far = np.concatenate([np.zeros(0, np.int32), *levels])
        else:
            near, far = self._from_many(sources, most)
        if len(sources) == len(numbers) == 1:
            return np.zeros(len(far), np.int64), far
        matches = Matches(numbers, near)
        if matches.total > most:
            raise NotCovered
        owners, places = matches.pairs()
        return owners, far[places]

    def _from_many(self, sources: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """(source, node reached) pairs, level by level for all sources together."""
        width = self.neighbours.width
        near, far = sources.astype(np.int64), sources
        seen, distance, total, low = near * width + far, 0, 0, self.expansion.min_hops
        kept = [seen] if low == 0 else []
        while len(near) and distance < self.expansion.max_hops:
            self.arguments.deadline.check()
            total += int(self.neighbours.counts(far).sum())
            if total > most:
                raise NotCovered
            distance += 1
            owners, further = self.neighbours.any_order(far)
            reached = distinct(near[owners] * width + further)
            # A source is at distance 0 from itself; if that is below the minimum, a stored self-loop reaches it again.
            fresh = reached if distance == low == 1 else reached[~is_member(reached, seen)]
            if distance >= low:
                kept.append(fresh)
            seen = union(seen, fresh)
            near, far = fresh // width, (fresh % width).astype(np.int32)
        pairs = np.concatenate([np.zeros(0, np.int64), *kept])
        return (pairs // width).astype(np.int32), (pairs % width).astype(np.int32)

    def levels(self, source: int, low: int, high: int) -> list[np.ndarray]:
        """What is first reached at each distance from `low` to `high`. From 1 on, a stored self-loop reaches the source."""
        size = self.neighbours.width
        seen, distance = np.zeros(size, bool), 0
        seen[source] = True
        frontier = np.array([source], np.int32)
        kept = [frontier] if low == 0 else []
        while len(frontier) and distance < high:
            self.arguments.deadline.check()
            distance += 1
            reached = self._next(frontier, seen, source if distance == low == 1 else None)
            if distance >= low:
                kept.append(reached)
            frontier = reached
        return kept

    def _next(self, frontier: np.ndarray, seen: np.ndarray, looped: int | None) -> np.ndarray:
        """The neighbours that were not seen; and `looped`, if it is one of them."""
        _, targets = self.neighbours.any_order(frontier)
        if len(targets) * 16 < len(seen):
            fresh = np.unique(targets[~seen[targets]])
        else:
            mark = _marked(targets, len(seen))
            mark[seen] = False
            fresh = np.flatnonzero(mark).astype(np.int32)
        seen[fresh] = True
        return np.append(fresh, np.int32(looped)) if looped is not None and (targets == looped).any() else fresh


def _marked(numbers: np.ndarray, size: int) -> np.ndarray:
    mark = np.zeros(size, bool)
    mark[numbers] = True
    return mark
