"""Counts and sums over tree-shaped patterns without building the rows that are counted.

In a pattern whose expansions form a tree, one number per node says how many matches lie behind it (`counting`). Only the
variables of the group key, and those that connect them, have to be matched with each other: the number of such a match is the
product of its nodes' numbers. A join would build every path. Integers only, so the order of addition does not matter.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.usage import blocks, references, searches, variables
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.plan import Aggregate, EntityRef, Expression, PropertyRef, ReadPlan
from omnigraph.read.inputs.adjacency import GraphArrays, has_ordinals
from omnigraph.read.sql.shapes import OutputColumn
from omnigraph.read.strategies.counting import Counting, DirectedExpansion, NotFactored, Tree, Weight, branch, largest
from omnigraph.read.strategies.forms import is_ordered
from omnigraph.read.strategies.grouping import MAX_EXACT, Cut, Grouping
from omnigraph.read.strategies.strategy import ColumnsAnswer, InputChoice, Read, Strategy, hop_name
from omnigraph.snapshot import View
from omnigraph.tables.adjacency.nodes import CodedColumn

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MIN_CODED = 2_000
MAX_GROUPS = 65_536
"""More than `MIN_CODED` matches are grouped by codes of their keys, if there can be at most this many groups."""
BLOCK = 512
"""How many counts are reduced together when the largest or smallest of many are wanted."""
MAX_MATCHES = 4_000_000
"""If the group key's variables have more matches than this, they are left to the engine, which may spill them."""


@dataclass(frozen=True)
class FactoredForm:
    """A plan that qualifies, the variables that have to be matched with each other, and the branches that connect them.

    Without a group key there are none.
    """

    plan: ReadPlan
    matched: tuple[str, ...]
    links: tuple[DirectedExpansion, ...]
    """Each leads from an earlier variable of `matched` to the next one."""
    groupings: tuple[Grouping, Grouping] = field(init=False, compare=False)
    """For groups of several matches, and for groups of one match each."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "groupings", (Grouping(self.plan, unique=False), Grouping(self.plan, unique=True)))

    @cached_property
    def tree(self) -> Tree:
        return Tree(self.plan.pattern)

    def named(self, catalog: Catalog) -> set[str]:
        """The variables whose nodes the group key identifies, by their id or key."""
        variables_named = set()
        for expression in (projection.expression for projection in self.plan.projections):
            is_key = isinstance(expression, PropertyRef) and (
                expression.column == "id"
                or catalog.nodes[self.tree.types[expression.variable]].key == (expression.column,)
            )
            if isinstance(expression, EntityRef) or is_key:
                variables_named.add(expression.variable)  # type: ignore[union-attr]  # one of the two
        return variables_named


def factored_form(plan: ReadPlan) -> FactoredForm | None:
    pattern = plan.pattern
    if pattern.start_rows or pattern.unnests or pattern.optionals:
        return None
    if not plan.grouped or plan.distinct or plan.having or not pattern.expansions or not _is_tree(plan):
        return None
    if any(len(binding.types) > 1 for binding in pattern.bindings) or any(hop.others for hop in pattern.expansions):
        return None
    edges = {expansion.edge_variable for expansion in pattern.expansions if expansion.edge_variable is not None}
    for condition in pattern.filters:
        used = variables(condition)
        if len(used) != 1 or used & edges or blocks(condition) or any(searches(condition)):
            return None
    keys = [
        projection.expression for projection in plan.projections if not isinstance(projection.expression, Aggregate)
    ]
    owners = {variable for key in keys for variable, _ in references(key)}
    if owners & edges or not all(isinstance(key, EntityRef | PropertyRef) for key in keys):
        return None
    aggregates = [
        projection.expression for projection in plan.projections if isinstance(projection.expression, Aggregate)
    ]
    if not all(_is_additive(aggregate, edges) for aggregate in aggregates):
        return None
    if not all(key.expression in (*keys, *aggregates) for key in plan.order):
        return None
    links = _links(plan, owners)
    if any(link.expansion.edge_variable is not None for link in links):
        return None
    return FactoredForm(plan, (*sorted(owners)[:1], *(link.far for link in links)), tuple(links))


def _links(plan: ReadPlan, owners: set[str]) -> list[DirectedExpansion]:
    """The smallest part of the tree that connects the given variables, outwards from one of them."""
    links: list[DirectedExpansion] = []

    def connects(variable: str, parent: str) -> bool:
        """Whether there is an owner at or behind this variable. Records the branches that lead to one."""
        needed = variable in owners
        for expansion in plan.pattern.expansions:
            far = expansion.target if expansion.source == variable else expansion.source
            if variable in (expansion.source, expansion.target) and far != parent:
                place = len(links)
                if connects(far, variable):
                    links.insert(place, branch(expansion, variable))
                    needed = True
        return needed

    if owners:
        connects(min(owners), "")
    return links


def _is_tree(plan: ReadPlan) -> bool:
    pattern = plan.pattern
    names = {binding.variable for binding in pattern.bindings}
    if len(pattern.expansions) != len(names) - 1:
        return False
    reached = {pattern.expansions[0].source}
    for _ in pattern.expansions:
        for expansion in pattern.expansions:
            if {expansion.source, expansion.target} & reached:
                reached |= {expansion.source, expansion.target}
    simple = all(
        expansion.is_step
        and not expansion.is_searched
        and (expansion.edge_variable is None or expansion.direction != "both")
        for expansion in pattern.expansions
    )
    return reached == names and simple


def _is_additive(aggregate: Aggregate, edges: set[str]) -> bool:
    if aggregate.distinct or not isinstance(aggregate.operand, EntityRef | PropertyRef):
        return False
    if isinstance(aggregate.operand, EntityRef):
        return aggregate.function == "count"
    if aggregate.operand.variable in edges:
        return False
    type_ = aggregate.operand.type
    narrow = type_.scalar.value in ("I32", "U32", "I64") and not type_.is_list
    return aggregate.function == "count" or (aggregate.function in ("sum", "avg") and narrow)


# ---------------------------------------------------------------- numbers


def _answer(read: Read) -> ColumnsAnswer | None:
    if not read.prepared().form(has_ordinals):
        return None
    prepared = read.prepared("ordinal")
    form = prepared.form(factored_form)
    if form is None or not GraphArrays(read.view).fits_query(prepared.query):
        return None
    try:
        table = _Factored(read.view, form, read.arguments).run(prepared.query.outputs)
    except NotFactored:
        return None
    choices = [
        InputChoice(hop_name(hop.expansion), "csr", read.view.rows(hop.table_key), "summed")
        for hop in prepared.query.hops
    ]
    return ColumnsAnswer(tuple(choices), prepared, table)


FACTORED = Strategy("factored", frozenset({"auto", "index"}), _answer)


class _Factored:
    """The numbers for one set of arguments."""

    def __init__(self, view: View, form: FactoredForm, arguments: Arguments) -> None:
        self.view, self.form, self.arguments = view, form, arguments
        self.plan = form.plan
        self.compact = GraphArrays(view, arguments.deadline)
        self.counting = Counting(self.compact, form.tree, arguments)

    def run(self, outputs: tuple[OutputColumn, ...]) -> pa.Table:
        """The tree's columns (r0 …). Raises NotFactored."""
        return self._grouped(outputs) if self.form.matched else self._total()

    def _measures(self, expression: Aggregate, matches: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
        """(sums, counts) per match for an aggregate."""
        operand = expression.operand
        if isinstance(operand, EntityRef) or not operand.type.nullable:
            counts = self._numbers("rows", None, matches)
        else:
            counts = self._numbers("present", operand, matches)
        if expression.function == "count":
            return counts, counts
        return self._numbers("sum", operand, matches), counts

    def _numbers(self, weight: Weight, operand: Expression | None, matches: dict[str, np.ndarray]) -> np.ndarray:
        """The number of each match: the product over its nodes of what is behind them, without the links between them."""
        import numpy as np

        counting = self.counting
        linked = {frozenset((link.near, link.far)) for link in self.form.links}
        result: np.ndarray | None = None
        for variable, places in matches.items():
            ways = [way for way in counting.branches[variable] if frozenset((way.near, way.far)) not in linked]
            local = counting.local(variable, ways, weight, operand if isinstance(operand, PropertyRef) else None)
            if local is not None:
                result = local[places] if result is None else _multiplied(result, local[places])
        return np.ones(len(next(iter(matches.values()))), np.int64) if result is None else result

    # ------------------------------------------------------------ results

    def _total(self) -> pa.Table:
        import numpy as np
        import pyarrow as pa

        counting = self.counting
        # The total is the same from any variable. Seen from this one, a hop is often just the degrees, which are held.
        hops = self.plan.pattern.expansions
        beyond = {name: sum(name not in (hop.source, hop.target) for hop in hops) for name in self.form.tree.types}
        root = min(self.form.tree.types, key=lambda variable: (counting.count(variable), beyond[variable], variable))
        everything = {root: np.arange(counting.count(root))}
        arrays = {}
        for place, projection in enumerate(self.plan.projections):
            assert isinstance(projection.expression, Aggregate)
            total, count = (_exact_sum(measure) for measure in self._measures(projection.expression, everything))
            function = projection.expression.function
            if function == "avg":
                arrays[f"r{place}"] = pa.array([float(total) / count if count else None], pa.float64())
            else:
                value = count if function == "count" else (total if count else None)
                arrays[f"r{place}"] = pa.array([value], pa.int64())
        offset, limit = self._cut()
        return pa.table(arrays).slice(offset, limit)

    def _cut(self) -> Cut:
        cuts = (self.plan.offset, self.plan.limit)
        offset, limit = (None if cut is None else self.arguments.number(cut) for cut in cuts)
        return offset or 0, limit

    def _grouped(self, outputs: tuple[OutputColumn, ...]) -> pa.Table:
        """The numbers per match of the group key's variables, summed by group and ordered."""
        import pyarrow as pa

        matches = self._matches()
        is_unique = self._is_unique(matches)
        if is_unique:
            matches = self._first_groups(matches)
        elif (few := self._grouped_by_codes(outputs, matches)) is not None:
            return self.form.groupings[True].run(few, self._cut(), self.arguments)
        arrays = {}
        cells: dict[str, list[tuple[int, str]]] = {}
        for place, projection in enumerate(self.plan.projections):
            expression = projection.expression
            if isinstance(expression, Aggregate):
                sums, counts = self._measures(expression, matches)
                arrays[f"s{place}"], arrays[f"n{place}"] = pa.array(sums), pa.array(counts)
                continue
            assert isinstance(expression, EntityRef | PropertyRef)
            variable = expression.variable
            if outputs[place].is_key:
                nodes = self.compact.nodes(self.form.tree.types[variable])
                arrays[f"c{place}"] = pa.array(nodes.ordinals(self._nodes(variable, matches)))
            else:
                cells.setdefault(variable, []).append((place, _stored(expression)))
        for variable, wanted in cells.items():
            names = list(dict.fromkeys(name for _, name in wanted))
            columns = self.compact.columns(self.form.tree.types[variable], names, self._nodes(variable, matches))
            arrays |= {f"c{place}": columns[name] for place, name in wanted}
        return self.form.groupings[is_unique].run(pa.table(arrays), self._cut(), self.arguments)

    def _grouped_by_codes(self, outputs: tuple[OutputColumn, ...], matches: dict[str, np.ndarray]) -> pa.Table | None:
        """The groups of many matches whose keys have few distinct values; None if there are few matches, many values, or sums
        that a double does not hold exactly."""
        import numpy as np
        import pyarrow as pa

        length = len(next(iter(matches.values())))
        if length <= MIN_CODED:
            return None
        groups, size = np.zeros(length, np.int64), 1
        keys: list[tuple[int, CodedColumn, int]] = []
        for place, projection in enumerate(self.plan.projections):
            expression = projection.expression
            if isinstance(expression, Aggregate):
                continue
            if not isinstance(expression, PropertyRef) or outputs[place].is_key or not is_ordered(expression):
                return None
            coded = self.compact.codes(self.form.tree.types[expression.variable], expression.column)
            if coded is None or size * len(coded.values) > MAX_GROUPS:
                return None
            groups = groups * len(coded.values) + coded.codes[self._nodes(expression.variable, matches)]
            size *= len(coded.values)
            keys.append((place, coded, size))
        codes_used = np.flatnonzero(np.bincount(groups, minlength=size))
        arrays = {}
        for place, coded, upto in keys:
            codes = codes_used // (size // upto) % len(coded.values)
            arrays[f"c{place}"] = coded.values.take(pa.array(codes))
        for place, projection in enumerate(self.plan.projections):
            if isinstance(projection.expression, Aggregate):
                for name, numbers in zip("sn", self._measures(projection.expression, matches), strict=True):
                    if largest(numbers) * length > MAX_EXACT:
                        return None
                    totals = np.bincount(groups, weights=numbers, minlength=size)[codes_used]
                    arrays[f"{name}{place}"] = pa.array(totals.astype(np.int64))
        return pa.table(arrays)

    def _first_groups(self, matches: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
        """Of matches that are each a group, those that can be among the rows wanted, if a count is the first sort key: the
        columns of the others need not be read."""
        first = self._count_first
        if first is None or first[1] >= len(next(iter(matches.values()))):
            return matches
        count, wanted, descending = first
        kept = _first_by(self._measures(count, matches)[1], wanted, descending=descending)
        return {variable: places[kept] for variable, places in matches.items()}

    @cached_property
    def _count_first(self) -> tuple[Aggregate, int, bool] | None:
        """The count that is the first sort key, how many rows are wanted, and whether it descends."""
        offset, limit = self._cut()
        key = self.plan.order[0] if self.plan.order else None
        if limit is None or key is None or not isinstance(key.expression, Aggregate):
            return None
        is_some = key.expression.function == "count" and offset + limit > 0
        return (key.expression, offset + limit, key.descending) if is_some else None

    def _nodes_with_most(self, behind: np.ndarray) -> np.ndarray:
        """Positions of the first variable's nodes that have matches behind them. If each node is a group and those with the most
        matches are wanted, only of these: arrays over all nodes would take most of the time."""
        import numpy as np

        first = self._count_first
        is_alone = not self.form.links and self.form.named(self.view.catalog) == set(self.form.matched)
        if first is None or not is_alone or first[1] >= len(behind):
            return np.flatnonzero(behind)
        count, wanted, descending = first
        operand = count.operand
        if not descending or not (isinstance(operand, EntityRef) or not operand.type.nullable):
            return np.flatnonzero(behind)
        kept = _first_by(behind, wanted, descending=True)
        return np.asarray(kept[behind[kept] != 0])

    def _is_unique(self, matches: dict[str, np.ndarray]) -> bool:
        """Whether each match is a group of its own: its nodes are all identified, or one is that occurs in no other match."""
        import numpy as np

        named = self.form.named(self.view.catalog)
        return named == set(matches) or any(
            np.bincount(matches[variable]).max(initial=0) <= 1 for variable in sorted(named)
        )

    def _nodes(self, variable: str, matches: dict[str, np.ndarray]) -> np.ndarray:
        """The node numbers of a variable, per match."""
        few = self.counting.few.get(variable)
        return matches[variable] if few is None else few[matches[variable]]

    def _matches(self) -> dict[str, np.ndarray]:
        """The group key's variables matched with each other: for each variable the positions of its nodes among its numbers.

        Only nodes with matches behind them are followed, so no match is built in vain.
        """
        import numpy as np

        counting, first = self.counting, self.form.matched[0]
        behind = counting.message(first)
        matches = {first: np.arange(counting.count(first)) if behind is None else self._nodes_with_most(behind)}
        for link in self.form.links:
            owners, places = counting.linked(link, matches[link.near], MAX_MATCHES)
            matches = {variable: known[owners] for variable, known in matches.items()}
            matches[link.far] = places
        return matches


def _first_by(counts: np.ndarray, wanted: int, *, descending: bool) -> np.ndarray:
    """Positions of the `wanted` largest counts, or of the smallest, and of counts equal to the last of them."""
    import numpy as np

    def within(bound: np.ndarray) -> np.ndarray:
        return np.flatnonzero(counts >= bound if descending else counts <= bound)

    blocks = len(counts) // BLOCK
    if blocks < wanted:
        return within(_nth(counts, wanted, descending=descending))
    # At least as many counts reach the bound as there are blocks whose best count does; this finds it without a copy.
    best = (np.maximum if descending else np.minimum).reduce(counts[: blocks * BLOCK].reshape(blocks, BLOCK), axis=1)
    near = within(_nth(best, wanted, descending=descending))
    last = _nth(counts[near], wanted, descending=descending)
    return np.asarray(near[counts[near] >= last if descending else counts[near] <= last])


def _nth(numbers: np.ndarray, wanted: int, *, descending: bool) -> np.ndarray:
    import numpy as np

    place = len(numbers) - wanted if descending else wanted - 1
    return np.asarray(np.partition(numbers, place)[place])


def _stored(expression: Expression) -> str:
    return expression.column if isinstance(expression, PropertyRef) else "id"


def _multiplied(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    import numpy as np

    if largest(first) * largest(second) > 2.0**62:
        raise NotFactored
    return np.asarray(np.multiply(first, second, dtype=np.int64))


def _exact_sum(numbers: np.ndarray) -> int:
    if len(numbers) * largest(numbers) > 2.0**62:
        raise NotFactored
    return int(numbers.sum())
