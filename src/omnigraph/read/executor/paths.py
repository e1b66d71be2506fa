"""Shortest paths by number of hops, searched from both ends. A path's nodes and edges are found when they are asked for."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

from omnigraph.read.executor.bindings import NotCovered
from omnigraph.read.executor.sources import EdgeSource, NodeSource
from omnigraph.read.executor.walks import WAYS, HopWalk
from omnigraph.tables.ascending import is_member

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

    from omnigraph.tables.adjacency.nodes import CodedColumn

FEW_TARGETS = 4
"""Up to this many ends of one start are searched for one by one."""
MAX_STARTS = 256


@dataclass(frozen=True)
class PathSource:
    """Paths by number: where each begins and ends, and its length."""

    forward: HopWalk
    backward: HopWalk
    nodes: NodeSource
    edges: EdgeSource
    starts: np.ndarray
    ends: np.ndarray
    lengths: np.ndarray

    def column(self, name: str, numbers: np.ndarray) -> pa.Array:
        import numpy as np
        import pyarrow as pa

        missing = numbers < 0
        known = np.where(missing, 0, numbers)
        if name in ("length", "cost"):
            lengths = self.lengths[known] if len(self.lengths) else np.zeros(len(known), np.int64)
            return pa.array(lengths.astype(np.int64 if name == "length" else np.float64), mask=missing)
        if name == "id":
            return self.nodes.column("id", np.where(missing, -1, self.ends[known] if len(self.ends) else -1))
        listed = [None if gone else self._listed(name, number) for number, gone in zip(known, missing, strict=True)]
        return pa.array(listed, pa.list_(pa.field("item", pa.utf8(), nullable=True)))

    def codes(self, name: str, rows: int) -> CodedColumn | None:
        return None

    def order_keys(self, numbers: np.ndarray) -> np.ndarray | None:
        return None

    def _listed(self, name: str, number: int) -> list[str]:
        import numpy as np

        nodes = self._nodes(int(self.starts[number]), int(self.ends[number]), int(self.lengths[number]))
        if name == "nodes":
            texts: list[str] = self.nodes.column("id", np.array(nodes, np.int32)).to_pylist()
            return texts
        return [self._edge(near, far) for near, far in pairwise(nodes)]

    def _nodes(self, start: int, end: int, length: int) -> list[int]:
        """The nodes of the path whose ids are the smallest: from the start, always the smallest id from which the end is still
        near enough."""
        import numpy as np

        half = length // 2
        ahead = [np.array([start], np.int32), *self._without(self.forward.levels(start, 1, half), start)]
        behind = [np.array([end], np.int32), *self._without(self.backward.levels(end, 1, length - half), end)]
        on_path = [np.zeros(0, np.int32)] * (length + 1)
        on_path[half] = np.intersect1d(ahead[half], behind[length - half])
        for place in range(half - 1, -1, -1):
            reached = self.backward.neighbours.any_order(on_path[place + 1])[1]
            on_path[place] = np.intersect1d(ahead[place], reached)
        nodes = [start]
        for place in range(1, length + 1):
            following = np.unique(self.forward.neighbours.any_order(np.array(nodes[-1:], np.int32))[1])
            allowed = np.sort(on_path[place] if place <= half else behind[length - place])
            choices = following[is_member(following, allowed)]
            keys = self.nodes.order_keys(choices)
            assert keys is not None, "paths are among nodes of one type"
            nodes.append(int(choices[np.argmin(keys)]))
        return nodes

    @staticmethod
    def _without(levels: list[np.ndarray], number: int) -> list[np.ndarray]:
        """Levels without a self-loop of where they begin."""
        return [level[level != number] for level in levels]

    def _edge(self, near: int, far: int) -> str:
        """The smallest id of the edges between two nodes."""
        import numpy as np

        listed = self.edges.edges
        assert listed is not None, "there is an edge between them"
        numbers = []
        for way in WAYS[self.forward.direction]:
            _, targets, edges = listed.expand(way, np.array([near], np.int32))
            numbers.append(edges[targets == far])
        ids: list[str] = self.edges.column("id", np.concatenate(numbers)).to_pylist()
        return min(ids)


def distance(forward: HopWalk, backward: HopWalk, start: int, end: int, most: int) -> int:
    """The length of a shortest path; -1 if there is none of at most so many hops. Searched from the side with fewer nodes."""
    import numpy as np

    if start == end:
        return -1
    size = forward.neighbours.width
    mark = np.zeros(size, np.int8)
    mark[start], mark[end] = 1, 2
    frontiers = {1: np.array([start], np.int32), 2: np.array([end], np.int32)}
    walks, length = {1: forward, 2: backward}, 0
    while length < most and all(len(frontier) for frontier in frontiers.values()):
        forward.arguments.deadline.check()
        side = 1 if len(frontiers[1]) <= len(frontiers[2]) else 2
        length += 1
        _, targets = walks[side].neighbours.any_order(frontiers[side])
        met = mark[targets]
        if (met == 3 - side).any():
            return length
        fresh = np.unique(targets[met == 0])
        mark[fresh] = side
        frontiers[side] = fresh
    return -1


def path_pairs(forward: HopWalk, backward: HopWalk, starts: np.ndarray, ends: np.ndarray) -> np.ndarray:
    """The length of a shortest path for each of these pairs; -1 if there is none within the bounds."""
    import numpy as np

    low, high = forward.expansion.min_hops, forward.expansion.max_hops
    lengths = np.full(len(starts), -1, np.int64)
    unique = np.unique(starts)
    if len(unique) > MAX_STARTS:
        raise NotCovered
    for start in unique.tolist():
        places = np.flatnonzero(starts == start)
        if len(places) <= FEW_TARGETS:
            lengths[places] = [distance(forward, backward, start, int(ends[place]), high) for place in places]
        else:
            lengths[places] = _distances(forward, start, high)[ends[places]]
            lengths[places[ends[places] == start]] = -1
        if low == 0:
            lengths[places[ends[places] == start]] = 0
    lengths[lengths < low] = -1
    return lengths


def _distances(walk: HopWalk, start: int, most: int) -> np.ndarray:
    import numpy as np

    distances = np.full(walk.neighbours.width, -1, np.int64)
    for place, level in enumerate(walk.levels(start, 1, most)):
        distances[level] = place + 1
    return distances


def paths_from(walk: HopWalk, starts: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(position in `starts`, node reached, length) of all shortest paths from the given nodes, each of which occurs once."""
    import numpy as np

    low, high = walk.expansion.min_hops, walk.expansion.max_hops
    if len(starts) > MAX_STARTS:
        raise NotCovered
    owners, far, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    for place, start in enumerate(starts.tolist()):
        for length, level in enumerate(walk.levels(start, low, high), low):
            reached = level[level != start] if length else level
            owners.append(np.full(len(reached), place))
            far.append(reached)
            lengths.append(np.full(len(reached), length))
    return np.concatenate(owners), np.concatenate(far), np.concatenate(lengths)
