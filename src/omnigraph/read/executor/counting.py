"""How many matches lie behind nodes, without making them.

Where nothing is asked of a part of a pattern but how often it matches, and its expansions form a tree, one number for each node says
how many matches of the part begin there. A sum of a property is such a number too: each match then counts as often as the property
says. Whole numbers only, so that the order of addition does not matter.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from omnigraph._internal.lazy_imports import np
from omnigraph.language.query.plan import Expansion
from omnigraph.read.executor.bindings import MAX_EXACT, MAX_NUMBER, Bindings, Measure, TooManyMatches, largest, product
from omnigraph.read.executor.walks import HopWalk

FOLLOWED_COST = 4
NODE_COST = 3
"""Following an edge takes as long as adding up the numbers of this many edges, and a node as long as following so many edges."""


@dataclass(frozen=True)
class Subtree:
    """A variable that is not bound yet, and all that hangs on it."""

    variable: str
    hops: tuple[tuple[Expansion, Subtree], ...] = ()

    @property
    def followed(self) -> list[Expansion]:
        return [inner for hop, beyond in self.hops for inner in (hop, *beyond.followed)]

    @property
    def variables(self) -> list[str]:
        return [self.variable, *(name for _, beyond in self.hops for name in beyond.variables)]


def subtree(variable: str, pending: Sequence[Expansion], countable: Collection[str]) -> Subtree | None:
    """What hangs on a variable by expansions that were not followed; None if more is asked of it than how often it matches."""
    if variable not in countable:
        return None
    hops, seen = [], {variable}
    onwards = [hop for hop in pending if variable in (hop.source, hop.target)]
    rest = [hop for hop in pending if hop not in onwards]
    for hop in onwards:
        beyond = subtree(hop.target if hop.source == variable else hop.source, rest, countable)
        if beyond is None or not seen.isdisjoint(beyond.variables):
            return None
        seen.update(beyond.variables)
        hops.append((hop, beyond))
    return Subtree(variable, tuple(hops))


@dataclass(frozen=True)
class MatchCounts:
    """The numbers of one read. `nodes` gives the nodes of a variable for which its conditions hold, `values` a property as numbers,
    `walk` an expansion from one of its ends."""

    size: Callable[[str], int]
    nodes: Callable[[str], Bindings | None]
    values: Callable[[Measure, Bindings | None], np.ndarray]
    walk: Callable[[Expansion, bool], HopWalk]

    def behind(self, tree: Subtree, measure: Measure | None = None) -> np.ndarray | None:
        """For each node of a tree's variable, how many matches of the tree it has, or what they sum up to; None for one each."""
        nodes, result = self.nodes(tree.variable), None
        if nodes is not None:
            result = np.zeros(self.size(tree.variable), np.int64)
            result[nodes.columns[tree.variable]] = 1
        if measure is not None and measure.operand.variable == tree.variable:
            values = self.values(measure, nodes)
            if nodes is None:
                result = values
            else:
                assert result is not None, "as many as there are nodes"
                result[nodes.columns[tree.variable]] = values
        for hop, beyond in tree.hops:
            numbers = self._sums(self.walk(hop, hop.source == tree.variable), self.behind(beyond, measure), None)
            result = numbers if result is None else product([result, numbers])
        return result

    def seen_from(
        self, walk: HopWalk, numbers: np.ndarray | None, tree: Subtree, measure: Measure | None = None
    ) -> np.ndarray:
        """The same for nodes at the other end of the expansion that leads to a tree; for all of them if none are given."""
        return self._sums(walk, self.behind(tree, measure), numbers)

    def _sums(self, walk: HopWalk, behind: np.ndarray | None, numbers: np.ndarray | None) -> np.ndarray:
        """The sum over the neighbours of each node, of all nodes or of the given ones."""
        walk.arguments.deadline.check()
        neighbours = walk.neighbours
        if behind is None:
            return neighbours.degrees() if numbers is None else neighbours.exact_counts(numbers)
        highest, edges = largest(behind), neighbours.edge_count
        if edges * highest > MAX_NUMBER:
            raise TooManyMatches
        is_exact = edges * highest < MAX_EXACT  # As doubles, in which numbers are added by owner.
        if is_exact and numbers is not None and int(neighbours.counts(numbers).sum()) * FOLLOWED_COST < edges:
            owners, targets = neighbours.expand(numbers)
            return np.bincount(owners, weights=behind[targets], minlength=len(numbers)).astype(np.int64)
        chosen = np.flatnonzero(behind)
        followed = len(chosen) * (NODE_COST + edges / max(len(behind), 1))
        if not is_exact or followed * FOLLOWED_COST > edges:
            sums = neighbours.sums(behind, highest)
        else:
            others, places = walk.back.neighbours.expand(chosen)
            weights = None if highest == 1 and len(chosen) and behind[chosen].min() == 1 else behind[chosen][others]
            sums = np.bincount(places, weights=weights, minlength=neighbours.size).astype(np.int64)
        return sums if numbers is None else sums[numbers]
