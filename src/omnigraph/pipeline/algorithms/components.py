"""Connected components of a graph in parts, by alternating large and small stars (Kiveris and others, 2014).

Each node is linked to the smallest node that its neighbours know, until every component is a star around its smallest node.
That takes a number of rounds like the logarithm of the number of nodes, however long the paths are.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.pipeline.algorithms.parts import Columns, Parts
from omnigraph.workers import Exchange, Piece

if TYPE_CHECKING:
    from omnigraph.pipeline.algorithms.kernels import Array


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
            import numpy as np

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
            import numpy as np

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
        import numpy as np

        part = numbered.parts[place]
        labels = np.arange(part.offset, part.offset + part.count)
        for nodes, smallest in pieces:
            labels[nodes - part.offset] = smallest
        scratch.put(f"components/0/{place}", state=labels)

    graph.to_owners("components", stars, rows, take)
