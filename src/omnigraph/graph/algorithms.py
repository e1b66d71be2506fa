"""Graph algorithms on one snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.graph.access import ALGORITHMS, Caller
from omnigraph.graph.boundary import names_damage
from omnigraph.pipeline.engines import AUTO, Engine
from omnigraph.views import View

if TYPE_CHECKING:
    from omnigraph.pipeline.algorithms.definitions import Algorithm
    from omnigraph.pipeline.algorithms.result import AlgorithmResult
    from omnigraph.pipeline.spark.frames import SparkSession


@names_damage
class GraphAlgorithms:
    """Algorithms over the edges of one type, and all nodes of the types that it connects.

    >>> algorithms = g.algorithms()
    """

    _asks = ALGORITHMS

    def __init__(
        self, view: View, engine: Engine = AUTO, caller: Caller | None = None, session: SparkSession | None = None
    ) -> None:
        self._repository = view.repository
        self._view = view
        self._engine = engine
        self._caller = caller
        self._session = session

    def __repr__(self) -> str:
        return f"<GraphAlgorithms at {self._view.snapshot.commit.id}>"

    def pagerank(
        self, edge: str, *, weight: str | None = None, damping: float = 0.85, tolerance: float = 1e-8
    ) -> AlgorithmResult:
        """`rank`: how often a random walk visits each node. It follows edges in proportion to `weight`; with probability 1 -
        `damping`, and where no edge leads on, it jumps to any node. Ranks sum to 1, and their errors to at most `tolerance`.

        >>> ranks = algorithms.pagerank("Knows")
        >>> assert ranks.to_pandas().sort_values("rank").iloc[-1]["id"] == "Cy"
        """
        from omnigraph.pipeline.algorithms.definitions import PageRank

        return self._run(PageRank(damping, tolerance), edge, weight)

    def connected_components(self, edge: str) -> AlgorithmResult:
        """`component`: the smallest id among the nodes that a node is connected to, ignoring the direction of edges.

        >>> assert "Ada" in set(algorithms.connected_components("Knows").to_pandas()["component"])
        """
        from omnigraph.pipeline.algorithms.definitions import ConnectedComponents

        return self._run(ConnectedComponents(), edge)

    def label_propagation(self, edge: str, *, weight: str | None = None, rounds: int = 10) -> AlgorithmResult:
        """`label`: the id of a node that represents a community. In each of `rounds` every node takes the label that most of its
        neighbours have, or the one with the largest sum of weights. Nothing is random: see the guide for how ties are broken.

        >>> assert len(algorithms.label_propagation("Knows", rounds=3)) == len(ranks)
        """
        from omnigraph.pipeline.algorithms.definitions import LabelPropagation

        return self._run(LabelPropagation(rounds), edge, weight)

    def shortest_paths(self, edge: str, sources: Sequence[str], *, weight: str | None = None) -> AlgorithmResult:
        """`distance` from the nearest of `sources` (ids), along the direction of edges: hops, or the least sum of weights. Null
        for nodes that no path reaches.

        >>> hops = algorithms.shortest_paths("Knows", ["Ada"]).to_pandas().set_index("id")["distance"]
        >>> assert (hops["Ada"], hops["Bo"]) == (0, 1)
        """
        from omnigraph.pipeline.algorithms.definitions import ShortestPaths

        return self._run(ShortestPaths(tuple(sources) if not isinstance(sources, str) else sources), edge, weight)

    def triangle_count(self, edge: str) -> AlgorithmResult:
        """`triangles`: how many triangles a node is part of. Directions, parallel edges and loops are ignored.

        >>> assert set(algorithms.triangle_count("Knows").to_pandas()["triangles"]) == {0}
        """
        from omnigraph.pipeline.algorithms.definitions import TriangleCount

        return self._run(TriangleCount(), edge)

    def _run(self, algorithm: Algorithm, edge: str, weight: str | None = None) -> AlgorithmResult:
        from omnigraph.pipeline.algorithms.job import run_algorithm

        return run_algorithm(self._view, algorithm, edge, weight, engine=self._engine, session=self._session)
