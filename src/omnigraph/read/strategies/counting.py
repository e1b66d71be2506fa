"""Numbers per node of a tree-shaped pattern: how many matches lie behind it, or the sum of their weights.

The number of matches above a node is the product, over its branches, of the sums over its neighbours. There are two ways to
compute such a sum: over *whole* arrays, with one number per node of a type, or over a *few* nodes, the only ones that can matter.
If a condition leaves few nodes, only their neighbours can matter next to them, and so on outwards, as long as that is less work
than whole arrays: 0.6 to 1.7 ms instead of 3.6 to 4.8 (`bench/bench_reads.py`, queries 5 to 7).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import ArithmeticOverflow
from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.interpreter import Interpreter, as_mask
from omnigraph.expressions.usage import variables
from omnigraph.language.query.plan import Direction, Expansion, Expression, Pattern, PropertyRef
from omnigraph.read.inputs.adjacency import GraphArrays
from omnigraph.tables.adjacency.csr import Adjacency
from omnigraph.tables.ascending import distinct

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_NUMBER = 2**52
"""Beyond this, a sum further up may exceed 64 bits, or the integers that a double holds exactly; then the engine counts."""
FEW_SHARE = 8
"""Nodes count as few if they are at most one in this many of their type."""

FOLLOWED_COST = 4
NODE_COST = 3
"""Following an edge takes as long as adding up the numbers of this many edges, and a node as long as following so many edges."""

Weight = Literal["rows", "present", "sum"]


class NotFactored(Exception):
    """These arguments do not qualify: numbers may become too large, there are too many matches, or a condition overflows."""


@dataclass(frozen=True)
class DirectedExpansion:
    """An expansion as seen from one of its ends."""

    expansion: Expansion
    near: str
    far: str
    direction: Direction

    @property
    def back(self) -> DirectedExpansion:
        return branch(self.expansion, self.far)


def branch(expansion: Expansion, near: str) -> DirectedExpansion:
    flipped: dict[str, Direction] = {"out": "in", "in": "out", "both": "both"}
    if expansion.source == near:
        return DirectedExpansion(expansion, near, expansion.target, expansion.direction)
    return DirectedExpansion(expansion, near, expansion.source, flipped[expansion.direction])


class Tree:
    """What a tree-shaped pattern says for any arguments."""

    def __init__(self, pattern: Pattern) -> None:
        self.types = {binding.variable: binding.types[0] for binding in pattern.bindings}
        self.conditions: dict[str, list[Expression]] = {}
        for condition in pattern.filters:
            (variable,) = variables(condition)
            self.conditions.setdefault(variable, []).append(condition)
        self.branches: dict[str, list[DirectedExpansion]] = {variable: [] for variable in self.types}
        for expansion in pattern.expansions:
            for end in (expansion.source, expansion.target):
                self.branches[end].append(branch(expansion, end))


class Counting:
    """The numbers for one set of arguments. An array for a variable has one number per node of `few[variable]`, or of its whole
    type."""

    def __init__(self, compact: GraphArrays, tree: Tree, arguments: Arguments) -> None:
        self.compact, self.arguments = compact, arguments
        self.types, self.branches, self._conditions = tree.types, tree.branches, tree.conditions
        self.sizes = {variable: compact.nodes(type_name).size for variable, type_name in tree.types.items()}
        self.few: dict[str, np.ndarray] = {}
        self._masks: dict[str, np.ndarray] = {}
        self._messages: dict[tuple[str, str], np.ndarray | None] = {}
        self._sums: dict[tuple[str, str], np.ndarray] = {}
        self._narrow()

    def count(self, variable: str) -> int:
        """How many numbers a variable has."""
        return len(self.few[variable]) if variable in self.few else self.sizes[variable]

    def adjacency(self, way: DirectedExpansion) -> Adjacency:
        """Neighbours from the near end; with an edge variable one per edge."""
        per_edge = way.expansion.edge_variable is not None
        return self.compact.neighbours(way.expansion.edge, way.direction, per_edge=per_edge)

    # ------------------------------------------------------------ which nodes can matter

    def _narrow(self) -> None:
        """Apply every condition, the cheapest step first: evaluate it for a whole type, or go on from a few nodes."""
        pending, done = set(self._conditions), set[tuple[str, str]]()
        while True:
            self.arguments.deadline.check()
            step = min(self._steps(done), key=lambda candidate: candidate[0], default=None)
            smallest = min(pending, key=lambda variable: (self.sizes[variable], variable), default=None)
            if smallest is not None and (step is None or self.sizes[smallest] <= step[0]):
                self._keep(smallest, self._holds(smallest))
                pending.discard(smallest)
            elif step is not None:
                done.add((step[1].near, step[1].far))
                self._reach(step[1])
                if step[1].far in pending:
                    self._keep(step[1].far, self._holds(step[1].far))
                    pending.discard(step[1].far)
            else:
                return

    def _steps(self, done: set[tuple[str, str]]) -> list[tuple[float, DirectedExpansion]]:
        """The branches that lead from few nodes to fewer nodes than are known so far, with their costs."""
        ways = []
        for way in [way for variable in self.few for way in self.branches[variable]]:
            cost = self._touched(way)
            is_less = cost * FEW_SHARE <= self.sizes[way.far] and cost < self.count(way.far)
            if is_less and (way.near, way.far) not in done:
                ways.append((cost, way))
        return ways

    def _touched(self, way: DirectedExpansion) -> float:
        """How many edges lead out of the near end's nodes, estimated by the mean degree."""
        edges = self.compact.view.rows(f"edge:{way.expansion.edge}")
        return self.count(way.near) * max(edges / max(self.sizes[way.near], 1), 1.0)

    def _reach(self, way: DirectedExpansion) -> None:
        import numpy as np

        _, targets = self.adjacency(way).expand(self.few[way.near])
        reached = distinct(targets)
        known = self.few.get(way.far)
        if known is None and way.far in self._masks:
            reached = reached[self._masks.pop(way.far)[reached] != 0]
        self.few[way.far] = reached if known is None else np.intersect1d(known, reached, assume_unique=True)

    def _holds(self, variable: str) -> np.ndarray:
        """Whether the variable's own conditions hold, for each of its nodes."""
        import numpy as np

        type_name, few = self.types[variable], self.few.get(variable)

        def cells(_: str, name: str) -> pa.Array:
            if name == "id":
                nodes = self.compact.nodes(type_name)
                return nodes.ids(np.arange(nodes.size) if few is None else few)
            column = self.compact.column(type_name, name)
            return column.whole if few is None else column.take(few)

        interpreter = Interpreter(self.arguments, self.count(variable), cells)
        try:
            truths = [as_mask(interpreter.evaluate(condition)) for condition in self._conditions[variable]]
        except ArithmeticOverflow:
            # Possibly only in rows that other conditions exclude: the engine decides.
            raise NotFactored from None
        live = self.compact.nodes(type_name).live
        if live is not None:
            truths.append(live if few is None else live[few])
        return np.asarray(np.logical_and.reduce(truths))

    def _keep(self, variable: str, holds: np.ndarray) -> None:
        import numpy as np

        if variable in self.few:
            self.few[variable] = self.few[variable][holds]
        elif np.count_nonzero(holds) * FEW_SHARE <= len(holds):
            self.few[variable] = np.flatnonzero(holds)
        else:
            self._masks[variable] = holds.astype(np.int64)

    # ------------------------------------------------------------ numbers

    def message(self, variable: str, parent: str = "") -> np.ndarray | None:
        """How many matches of the subtree there are behind each node, seen from `parent`. None means all ones."""
        if (variable, parent) not in self._messages:
            ways = [way for way in self.branches[variable] if way.far != parent]
            self._messages[(variable, parent)] = self.local(variable, ways, "rows", None)
        return self._messages[(variable, parent)]

    def local(
        self, variable: str, ways: list[DirectedExpansion], weight: Weight, operand: PropertyRef | None
    ) -> np.ndarray | None:
        """The product over the given branches of what is behind them, weighted at the operand if it is there."""
        result = self._masks.get(variable)
        if operand is not None and operand.variable == variable:
            result = _product(result, self._weights(weight, operand))
        for way in ways:
            if operand is not None and self._leads_to(way, operand.variable):
                onwards = [onward for onward in self.branches[way.far] if onward.far != variable]
                behind = self.local(way.far, onwards, weight, operand)
                gathered = self._gathered(way, behind)
            else:
                gathered = self._behind(way)
            result = _product(result, gathered)
        return result

    def _behind(self, way: DirectedExpansion) -> np.ndarray:
        """How many matches lie behind a branch, per node at its near end."""
        if (way.near, way.far) not in self._sums:
            self._sums[way.near, way.far] = self._gathered(way, self.message(way.far, way.near))
        return self._sums[way.near, way.far]

    def _leads_to(self, way: DirectedExpansion, wanted: str) -> bool:
        """Whether the wanted variable is behind this branch."""
        if way.far == wanted:
            return True
        return any(self._leads_to(onward, wanted) for onward in self.branches[way.far] if onward.far != way.near)

    def _weights(self, weight: Weight, operand: PropertyRef) -> np.ndarray:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        column = self.compact.column(self.types[operand.variable], operand.column)
        cells = column.take(self.few[operand.variable]) if operand.variable in self.few else column.whole
        if weight == "present":
            return np.asarray(pc.is_valid(cells)).astype(np.int64)
        numbers = np.asarray(pc.fill_null(cells.cast(pa.int64()), 0))
        _check(numbers)
        return numbers

    def _gathered(self, way: DirectedExpansion, behind: np.ndarray | None) -> np.ndarray:
        """The sum over the neighbours, per node at the near end."""
        import numpy as np

        self.arguments.deadline.check()
        highest = 1.0 if behind is None else largest(behind)
        edges = self.compact.view.rows(f"edge:{way.expansion.edge}") * (2 if way.direction == "both" else 1)
        if edges * highest > MAX_NUMBER:
            raise NotFactored
        if way.near not in self.few and way.far not in self.few:
            return self._gathered_whole(way, behind, edges, highest)
        places, others = self._pairs(way)
        weights = None if behind is None else behind[others]
        return np.bincount(places, weights=weights, minlength=self.count(way.near)).astype(np.int64)

    def _pairs(self, way: DirectedExpansion) -> tuple[np.ndarray, np.ndarray]:
        """(position at the near end, position at the far end) of every edge between nodes that can matter."""
        if way.far not in self.few or (way.near in self.few and self._cost(way) <= self._cost(way.back)):
            places, others = self.adjacency(way).expand(self.few[way.near])
            return _among(places, others, self.few.get(way.far))
        others, places = self.adjacency(way.back).expand(self.few[way.far])
        others, places = _among(others, places, self.few.get(way.near))
        return places, others

    def linked(self, way: DirectedExpansion, places: np.ndarray, most: int) -> tuple[np.ndarray, np.ndarray]:
        """(index into `places`, position at the far end) for every neighbour that has matches behind it."""
        import numpy as np

        self.arguments.deadline.check()
        near, far, adjacency = self.few.get(way.near), self.few.get(way.far), self.adjacency(way)
        nodes = places if near is None else near[places]
        if int(adjacency.counts(nodes).sum()) > most:
            raise NotFactored
        owners, ends = _among(*adjacency.expand(nodes), far)
        behind = self.message(way.far, way.near)
        if behind is None:
            return owners, ends
        kept = np.flatnonzero(behind[ends])
        return owners[kept], ends[kept]

    def _cost(self, way: DirectedExpansion) -> float:
        """Edges to follow from the near end, plus the cost of building the adjacency if it is not there yet."""
        is_built = self.compact.has_neighbours(way.expansion.edge, way.direction)
        return self._touched(way) + (0 if is_built else self.compact.view.rows(f"edge:{way.expansion.edge}"))

    def _gathered_whole(
        self, way: DirectedExpansion, behind: np.ndarray | None, edges: int, highest: float
    ) -> np.ndarray:
        import numpy as np

        if behind is None:
            return self.adjacency(way).degrees()
        followed = np.count_nonzero(behind) * (NODE_COST + edges / max(len(behind), 1))
        if followed * FOLLOWED_COST > edges + self.count(way.near):
            return self.adjacency(way).sums(behind, highest)
        chosen = np.flatnonzero(behind)
        others, places = self.adjacency(way.back).expand(chosen)
        weights = None if (behind[chosen] == 1).all() else behind[chosen][others]
        return np.bincount(places, weights=weights, minlength=self.count(way.near)).astype(np.int64)


def _among(places: np.ndarray, numbers: np.ndarray, few: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """The pairs whose second item is one of `few` (None: all), with that item as its position in `few`."""
    import numpy as np

    if few is None:
        return places, numbers
    at = np.searchsorted(few, numbers)
    at[at == len(few)] = 0
    kept = few[at] == numbers if len(few) else np.zeros(len(numbers), bool)
    return places[kept], at[kept]


def _product(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    if first is None or second is None:
        return second if first is None else first
    import numpy as np

    if largest(first) * largest(second) > MAX_NUMBER:
        _check(first.astype(float) * second)
    return np.asarray(np.multiply(first, second, dtype=np.int64))


def _check(numbers: np.ndarray) -> None:
    if largest(numbers) > MAX_NUMBER:
        raise NotFactored


def largest(numbers: np.ndarray) -> float:
    """The largest absolute value."""
    return max(abs(float(numbers.max())), abs(float(numbers.min()))) if len(numbers) else 0.0
