"""One step of an algorithm over arrays. A block may be the whole graph or one part of it: the steps are the same."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


@dataclass(frozen=True)
class Neighbours:
    """Some nodes and what they gather from: those of the node at place i are `far[neighbours[starts[i]:starts[i + 1]]]`.

    `far` are ordinals, ascending; `values`, beside `neighbours`, are shares or weights, or None.
    """

    starts: Array
    neighbours: Array
    values: Array | None
    far: Array

    def __len__(self) -> int:
        return len(self.starts) - 1

    @classmethod
    def of(
        cls, near: Array, far: Array, values: Array | None, size: int, nodes: int, *, simple: bool = False
    ) -> Neighbours:
        """`near` are places below `size`, `far` ordinals below `nodes`. `simple`: parallel edges once, with the number of their
        different values as their value."""
        pairs = near.astype(np.int64) * max(nodes, 1) + far
        if simple:
            assert values is not None, "what tells parallel edges apart"
            pairs, values = np.unique(
                np.unique(np.stack([pairs, values.astype(np.int64)]), axis=1)[0], return_counts=True
            )
            near, far = np.divmod(pairs, max(nodes, 1))
        else:
            order = np.argsort(pairs, kind="stable")
            near, far = near[order], far[order]
            values = None if values is None else values[order]
        starts = np.zeros(size + 1, np.int64)
        np.cumsum(np.bincount(near, minlength=size), out=starts[1:])
        known, places = np.unique(far, return_inverse=True)
        return cls(starts, places.astype(np.int32), values, known.astype(np.int64))

    @property
    def owners(self) -> Array:
        """The place of the node that each neighbour is of."""
        return np.repeat(np.arange(len(self), dtype=np.int64), np.diff(self.starts))


def segments(operation: np.ufunc, values: Array, starts: Array, empty: float) -> Array:
    """An operation over each run of values; `empty` for a run of none."""
    result = np.full(len(starts) - 1, empty, values.dtype if len(values) else np.float64)
    filled = starts[:-1] < starts[1:]
    if len(values):
        result[filled] = operation.reduceat(values, starts[:-1][filled])
    return result


def gathered(block: Neighbours, ranks: Array) -> Array:
    """What nodes gather of the ranks of `far`; values are the share of a node's rank that goes along an edge."""
    gathered = ranks[block.neighbours]
    return segments(np.add, gathered if block.values is None else gathered * block.values, block.starts, 0.0)


def relaxed(block: Neighbours, distances: Array, own: Array) -> Array:
    """The shorter of a node's own distance and that of a neighbour plus the edge between them."""
    steps = distances[block.neighbours] + (1.0 if block.values is None else block.values)
    return np.minimum(own, segments(np.minimum, steps, block.starts, np.inf))


def voted(block: Neighbours, labels: Array, own: Array, nodes: int, *, keeps_own: bool) -> Array:
    """The labels that weigh most among neighbours. Of labels that weigh the same a node takes the smallest, unless it keeps its own.

    Weights are added from the lightest on, so that their sum does not depend on the order of edges.
    """
    sums: Array
    votes = block.owners * max(nodes, 1) + labels[block.neighbours]
    if not len(votes):
        return own
    if block.values is None:
        votes = np.sort(votes)
        firsts = np.flatnonzero(np.concatenate([[True], votes[1:] != votes[:-1]]))
        sums = np.diff(np.append(firsts, len(votes))).astype(np.float64)
    else:
        order = np.lexsort((block.values, votes))
        votes, values = votes[order], block.values[order]
        changes = np.concatenate([[True], votes[1:] != votes[:-1]])
        firsts = np.flatnonzero(changes)
        sums = np.bincount(np.cumsum(changes) - 1, weights=values)
    owners, candidates = np.divmod(votes[firsts], max(nodes, 1))
    starts = np.searchsorted(owners, np.arange(len(block) + 1))
    best = segments(np.maximum, sums, starts, 0.0)
    wins = sums == best[owners]
    result = own.copy()
    # Candidates of a node ascend: assigned from the last to the first, the smallest stays.
    result[owners[wins][::-1]] = candidates[wins][::-1]
    if keeps_own:
        keeps = owners[wins & (candidates == own[owners])]
        result[keeps] = own[keeps]
    return result


def shares(sources: Array, weights: Array | None, size: int) -> Array:
    """Of each edge, the share of its source's rank that goes along it. Where all weights are 0, nothing goes anywhere."""
    if weights is None:
        return 1.0 / np.bincount(sources, minlength=size)[sources]
    strengths = np.bincount(sources, weights=weights, minlength=size)[sources]
    return np.divide(weights, strengths, out=np.zeros(len(weights)), where=strengths > 0)
