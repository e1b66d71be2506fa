"""The algorithms, with what each can be told. An algorithm and its numbers decide the answer; where it runs does not."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from omnigraph.errors import UsageError

MIN_TOLERANCE = 1e-12
"""Rounding alone moves the sum of all ranks by about this much."""


@dataclass(frozen=True)
class PageRank:
    """Ranks that sum to 1. The sum of all errors is at most `tolerance`."""

    name: ClassVar[str] = "pagerank"
    column: ClassVar[str] = "rank"

    damping: float = 0.85
    tolerance: float = 1e-8

    def __post_init__(self) -> None:
        if not 0 <= self.damping < 1:
            raise UsageError(f"'damping' must be at least 0 and less than 1, got {self.damping}")
        if not MIN_TOLERANCE <= self.tolerance < math.inf:
            raise UsageError(f"'tolerance' must be a number from {MIN_TOLERANCE} on, got {self.tolerance}")

    def rest(self, gathered: float, nodes: int) -> float:
        """What every node has beside the part that it gathers: its share of jumps, and of the ranks of nodes without edges."""
        return (1 - self.damping * gathered) / nodes

    def is_close(self, moved: float, sum_moved: float) -> bool:
        """Whether the step that moved ranks by so much (the sum of what nodes gathered, and how far that sum moved) was the last:
        what all further steps move is bounded by a geometric series."""
        step = self.damping * (moved + abs(sum_moved))
        return step * self.damping <= self.tolerance * (1 - self.damping)


@dataclass(frozen=True)
class ConnectedComponents:
    """Nodes that edges connect, whatever their direction, have one component: its smallest node."""

    name: ClassVar[str] = "connected_components"
    column: ClassVar[str] = "component"


@dataclass(frozen=True)
class LabelPropagation:
    """Each node takes the label that weighs most among its neighbours, all nodes at once, for a number of rounds."""

    name: ClassVar[str] = "label_propagation"
    column: ClassVar[str] = "label"

    rounds: int = 10

    def __post_init__(self) -> None:
        if self.rounds < 1:
            raise UsageError(f"'rounds' must be at least 1, got {self.rounds}")


@dataclass(frozen=True)
class ShortestPaths:
    """The distance of each node from the nearest source, along the edges' direction; null where no path leads."""

    name: ClassVar[str] = "shortest_paths"
    column: ClassVar[str] = "distance"

    sources: Sequence[str] = ()

    def __post_init__(self) -> None:
        if isinstance(self.sources, str) or not self.sources:
            raise UsageError("shortest paths need sources", hint='sources=["Ada"], the ids of nodes (--source Ada)')


@dataclass(frozen=True)
class TriangleCount:
    """The number of triangles that each node is in; direction, parallel edges and loops do not count."""

    name: ClassVar[str] = "triangle_count"
    column: ClassVar[str] = "triangles"


Algorithm = PageRank | ConnectedComponents | LabelPropagation | ShortestPaths | TriangleCount
