"""How many matches a pattern has at least, without making one: so that a read which no engine could end is refused."""

from __future__ import annotations

from omnigraph._internal.lazy_imports import np
from omnigraph.errors import ArithmeticOverflow, ResourceExhausted
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import NotInterpreted
from omnigraph.expressions.predicates import conjuncts
from omnigraph.expressions.usage import blocks, variables
from omnigraph.language.query.plan import Expansion, Pattern
from omnigraph.read.executor.bindings import Bindings, NotCovered
from omnigraph.read.executor.matching import PatternMatcher
from omnigraph.read.executor.sources import NodeSource
from omnigraph.read.executor.walks import HopWalk
from omnigraph.snapshot import View

MAX_MATCHES = 2**40
"""More matches than this are refused: to make a hundred million of them a second would take hours."""
SKEW = 8.0
"""How many times the mean degree each hop is assumed to multiply matches by, before they are counted."""


def refuse_endless(view: View, pattern: Pattern, arguments: Arguments, most: int = MAX_MATCHES) -> None:
    """Raises ResourceExhausted for a pattern with too many matches. Its expansions have to be hops of trees, and its conditions
    to be about one variable each; of any other pattern nothing is known."""
    if not may_be_endless(view, pattern):
        return
    if pattern.start_rows is not None or pattern.unnests or any(len(binding.types) > 1 for binding in pattern.bindings):
        return
    if any(len(variables(condition)) > 1 or blocks(condition) for condition in conjuncts(pattern.filters)):
        return
    if any(
        not hop.is_step or hop.is_searched or hop.is_mixed or hop.source == hop.target for hop in pattern.expansions
    ):
        return
    matcher = PatternMatcher(view, arguments)
    try:
        count = _Sizes(matcher, pattern).total()
    except (NotCovered, NotInterpreted, ArithmeticOverflow):
        return
    finally:
        matcher.release()
    if count is not None and count > most:
        raise ResourceExhausted(
            f"the pattern has more than 2^{(most + 1).bit_length() - 1} matches",
            hint="connect its variables by edges, state more about them, or follow fewer hops",
        )


def may_be_endless(view: View, pattern: Pattern) -> bool:
    """Whether it is worth it to count the matches of a pattern."""
    rows, connected = 1.0, set[str]()
    for hop in pattern.expansions:
        edge = view.catalog.edges[hop.edge]
        rows *= max(SKEW * view.rows(f"edge:{hop.edge}") / max(view.rows(f"node:{edge.source}"), 1), 1.0)
        connected.add(hop.target)
    for binding in pattern.bindings:
        if binding.variable not in connected:
            rows *= max(sum(view.rows(f"node:{name}") for name in binding.types), 1)
    return rows > MAX_MATCHES


class _Sizes:
    """Matches behind each node, in floating point: far from the bound their exact number does not matter."""

    def __init__(self, matcher: PatternMatcher, pattern: Pattern) -> None:
        self.matcher, self.pattern = matcher, pattern
        self.sources = {b.variable: NodeSource(matcher.compact, b.types) for b in pattern.bindings}
        self.left = set(self.sources)

    def total(self) -> float | None:
        """The product over all trees; None if an expansion closes a cycle."""
        product, pending = 1.0, list(self.pattern.expansions)
        while self.left:
            taken = self.matcher.taken
            product *= float(self._behind(min(self.left), pending).sum())
            self.matcher.release(down_to=taken)
        return None if pending else product

    def _behind(self, variable: str, pending: list[Expansion]) -> np.ndarray:
        """How many matches of the rest of its tree each node of a variable has. Removes what it followed."""
        self.left.remove(variable)
        self.matcher.reserve(self.sources[variable].size, 1)
        numbers = self._nodes(variable)
        counts = np.zeros(self.sources[variable].size)
        counts[numbers] = 1.0
        for hop in list(pending):
            if hop not in pending or variable not in (hop.source, hop.target):
                continue
            is_forward = hop.source == variable
            far = hop.target if is_forward else hop.source
            if far not in self.left:
                continue
            pending.remove(hop)
            beyond = self._behind(far, pending)
            walk = HopWalk(self.matcher.compact, hop, is_forward, self.matcher.arguments)
            owners, targets = walk.pairs(numbers, self.matcher.most)
            counts[numbers] *= np.bincount(owners, weights=beyond[targets], minlength=len(numbers))
        return counts

    def _nodes(self, variable: str) -> np.ndarray:
        """The nodes for which the conditions on a variable hold."""
        source = self.sources[variable]
        self.matcher.sources[variable] = source
        rows = Bindings(len(source.living), {variable: source.living})
        for condition in conjuncts(self.pattern.filters):
            if variables(condition) == {variable}:
                rows = rows.take(self.matcher.values.holds(condition, rows))
        return rows.columns[variable]
