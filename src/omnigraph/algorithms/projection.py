"""What an algorithm sees of a graph: the edges of one type, the nodes of the types that they connect, and perhaps a weight.

Nodes are numbered by type and id, types in the order of their names: an *ordinal* is a node's place in that order, so it does
not depend on where or in how many parts the work is done.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from omnigraph._internal.lazy_imports import np, pa, pc, pt
from omnigraph.errors import NotFound, UsageError
from omnigraph.snapshot import View

# The algorithms, with what each can be told. An algorithm and its numbers decide the answer; where it runs does not.

MIN_TOLERANCE = 1e-12
"""Rounding alone moves the sum of all ranks by about this much."""


@dataclass(frozen=True)
class PageRank:
    """Ranks that sum to 1. The sum of all errors is at most `tolerance`; or, with `rounds`, so many steps from equal ranks."""

    name: ClassVar[str] = "pagerank"
    column: ClassVar[str] = "rank"

    damping: float = 0.85
    tolerance: float = 1e-8
    rounds: int | None = None

    def __post_init__(self) -> None:
        if self.rounds is not None and self.rounds < 1:
            raise UsageError(f"'rounds' must be at least 1, got {self.rounds}")
        if not 0 <= self.damping < 1:
            raise UsageError(f"'damping' must be at least 0 and less than 1, got {self.damping}")
        if not MIN_TOLERANCE <= self.tolerance < math.inf:
            raise UsageError(f"'tolerance' must be a number from {MIN_TOLERANCE} on, got {self.tolerance}")

    def rest(self, gathered: float, nodes: int) -> float:
        """What every node has beside the part that it gathers: its share of jumps, and of the ranks of nodes without edges."""
        return (1 - self.damping * gathered) / nodes

    def is_done(self, steps: int, moved: float, sum_moved: float) -> bool:
        """Whether the step that moved ranks by so much (the sum of what nodes gathered, and how far that sum moved) was the last:
        what all further steps move is bounded by a geometric series."""
        if self.rounds is not None:
            return steps == self.rounds
        step = self.damping * (moved + abs(sum_moved))
        return step * self.damping <= self.tolerance * (1 - self.damping)


@dataclass(frozen=True)
class ConnectedComponents:
    """Nodes that edges connect, whatever their direction, have one component: its smallest node."""

    name: ClassVar[str] = "connected_components"
    column: ClassVar[str] = "component"


@dataclass(frozen=True)
class LabelPropagation:
    """Each node takes the label that weighs most among its neighbours, all nodes at once, for a number of rounds. Of labels that
    weigh the same it keeps its own, unless ties go to the smallest."""

    name: ClassVar[str] = "label_propagation"
    column: ClassVar[str] = "label"

    rounds: int = 10
    ties: Literal["own", "smallest"] = "own"

    def __post_init__(self) -> None:
        if self.ties not in ("own", "smallest"):
            raise UsageError(f"'ties' must be 'own' or 'smallest', got {self.ties!r}")
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
            raise UsageError("shortest paths need sources", hint='sources=["Ada"], the ids of nodes')


@dataclass(frozen=True)
class TriangleCount:
    """The number of triangles that each node is in; direction, parallel edges and loops do not count."""

    name: ClassVar[str] = "triangle_count"
    column: ClassVar[str] = "triangles"


@dataclass(frozen=True)
class LocalClustering:
    """How many of the edges that could connect a node's neighbours exist: of n neighbours, n(n - 1), one in each direction. 0 for
    fewer than two; parallel edges count once, loops not at all."""

    name: ClassVar[str] = "local_clustering"
    column: ClassVar[str] = "clustering"


Algorithm = PageRank | ConnectedComponents | LabelPropagation | ShortestPaths | TriangleCount | LocalClustering


@dataclass(frozen=True)
class EdgeProjection:
    view: View
    edge: str
    types: tuple[str, ...]
    """Of the nodes, sorted."""
    source: int
    target: int
    """Places in `types`."""
    weight: str | None

    @classmethod
    def of(cls, view: View, edge: str, weight: str | None) -> EdgeProjection:
        declared = view.catalog.edges.get(edge)
        if declared is None:
            raise NotFound(
                f"there is no edge type '{edge}'", hint=f"edge types: {', '.join(sorted(view.catalog.edges))}"
            )
        if weight is not None:
            _check_weight(view, edge, weight)
        types = tuple(sorted({declared.source, declared.target}))
        return cls(view, edge, types, types.index(declared.source), types.index(declared.target), weight)

    @property
    def edge_key(self) -> str:
        return f"edge:{self.edge}"

    @property
    def edges(self) -> int:
        return self.view.rows(self.edge_key)

    @property
    def nodes(self) -> int:
        return sum(self.view.rows(f"node:{name}") for name in self.types)

    @property
    def columns(self) -> list[str]:
        """Those of the edges that are read; the id is for the error that names an edge."""
        return ["src", "dst"] if self.weight is None else ["src", "dst", "id", self.weight]


def _check_weight(view: View, edge: str, weight: str) -> None:
    schema = view.schema(f"edge:{edge}")
    names = [
        field.name
        for field in schema
        if field.name not in ("id", "src", "dst") and (pt.is_integer(field.type) or pt.is_floating(field.type))
    ]
    if weight not in names:
        raise UsageError(
            f"'{weight}' is not a property of {edge} that can be a weight",
            hint=f"numbers of {edge}: {', '.join(names)}" if names else f"{edge} has no property that is a number",
        )


def weights(rows: pa.Table, edge: str, name: str) -> np.ndarray:
    """The weights of some edges. UsageError for one that has none, or a negative one."""
    column = rows.column(name)
    wrong = pc.fill_null(pc.less(column, pa.scalar(0, column.type)), True)
    if pc.any(wrong).as_py():
        place = pc.index(wrong, True).as_py()
        value = column[place].as_py()
        weight = "no weight" if value is None else f"the weight {value}"
        raise UsageError(
            f"the edge '{rows.column('id')[place].as_py()}' of {edge} has {weight}",
            hint=f"every edge needs a '{name}' of at least 0",
        )
    return np.asarray(column.cast(pa.float64()).combine_chunks(), np.float64)


def component_names(types: Sequence[str], type: int, ids: pa.Array) -> pa.Array:
    """How nodes are named as labels: by id, and where nodes of two types may have the same one, as `Type:id`."""
    return ids if len(types) == 1 else pc.binary_join_element_wise(types[type], ids, ":")
