"""Counts and sums over tree-shaped patterns without making the rows that are counted.

In a pattern whose expansions form a tree, the number of matches above a node is the product, over its branches, of the
sums over its neighbours. So one number per node is passed from the leaves to the root, an array operation per expansion,
where a join would make every path. Whole numbers only: any order of addition gives the same result.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal

from sqlglot import exp

from omnigraph.language.plan import Aggregate, EntityRef, Expansion, Expression, PropertyRef, ReadPlan
from omnigraph.read import engine
from omnigraph.read.adjacency import Compact
from omnigraph.read.hops import named, table
from omnigraph.read.masks import truth
from omnigraph.read.pushdown import Values
from omnigraph.read.shapes import Output
from omnigraph.read.usage import blocks, references, searches, variables
from omnigraph.relational.expressions import column, to_sql
from omnigraph.views import View

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

NUMBER_MOST = 2**52
"""Beyond this a sum may leave 64 bits (or the exact range of a double) further up; then the engine counts."""


class NotFactored(Exception):
    """This call of the plan does not qualify: a condition Arrow cannot state exactly, or very large numbers."""


@dataclass(frozen=True)
class FactoredForm:
    """A plan that qualifies, and the variable whose properties are the group key (any variable without one)."""

    plan: ReadPlan
    root: str
    texts: dict[tuple[int, int | None], str] = field(default_factory=dict, compare=False)
    """The SQL that sums groups, by offset and limit: writing it takes longer than running it."""

    @property
    def types(self) -> dict[str, str]:
        return {binding.variable: binding.types[0] for binding in self.plan.pattern.bindings}


def factored_form(plan: ReadPlan) -> FactoredForm | None:
    pattern = plan.pattern
    if not plan.grouped or plan.distinct or not pattern.expansions or not _is_tree(plan):
        return None
    if any(len(binding.types) > 1 for binding in pattern.bindings):
        return None
    edges = {one.edge_variable for one in pattern.expansions if one.edge_variable is not None}
    for condition in pattern.filters:
        used = variables(condition)
        if len(used) != 1 or used & edges or blocks(condition) or any(searches(condition)):
            return None
    keys = [one.expression for one in plan.projections if not isinstance(one.expression, Aggregate)]
    owners = {variable for key in keys for variable, _ in references(key)}
    if len(owners) > 1 or owners & edges:
        return None
    aggregates = [one.expression for one in plan.projections if isinstance(one.expression, Aggregate)]
    if not all(_is_additive(one, edges) for one in aggregates):
        return None
    return FactoredForm(plan, owners.pop() if owners else pattern.expansions[0].source)


def _is_tree(plan: ReadPlan) -> bool:
    pattern = plan.pattern
    names = {binding.variable for binding in pattern.bindings}
    if len(pattern.expansions) != len(names) - 1:
        return False
    reached = {pattern.expansions[0].source}
    for _ in pattern.expansions:
        for one in pattern.expansions:
            if {one.source, one.target} & reached:
                reached |= {one.source, one.target}
    simple = all(
        one.max_hops == 1 and (one.edge_variable is None or one.direction != "both") for one in pattern.expansions
    )
    return reached == names and simple


def _is_additive(one: Aggregate, edges: set[str]) -> bool:
    if one.distinct or not isinstance(one.operand, EntityRef | PropertyRef):
        return False
    if isinstance(one.operand, EntityRef):
        return one.function == "count"
    if one.operand.variable in edges:
        return False
    type_ = one.operand.type
    narrow = type_.scalar.value in ("I32", "U32", "I64") and not type_.is_list
    return one.function == "count" or (one.function in ("sum", "avg") and narrow)


# ---------------------------------------------------------------- numbers


Weight = Literal["rows", "present", "sum"]


class Factored:
    """The numbers of one call."""

    def __init__(self, view: View, form: FactoredForm, values: Values) -> None:
        self.view, self.form, self.values = view, form, values
        self.plan = form.plan
        self.compact = Compact(view)
        self._masks: dict[str, np.ndarray | None] = {}
        self._messages: dict[tuple[str, str], np.ndarray | None] = {}

    def run(self, outputs: tuple[Output, ...]) -> pa.Table:
        """The tree's columns (r0 …). Raises NotFactored."""
        for variable in self.form.types:
            self._masks[variable] = self._mask(variable)
        rows = self._at_root("rows", None)
        sums = [self._measures(one.expression, rows) for one in self.plan.projections]
        has_key = any(measure is None for measure in sums)
        return self._grouped(outputs, rows, sums) if has_key else self._total(sums)

    def _measures(self, expression: Expression, rows: np.ndarray) -> tuple[np.ndarray, np.ndarray] | None:
        """(sums, counts) per root node of an aggregate; None for a column of the group key."""
        if not isinstance(expression, Aggregate):
            return None
        operand = expression.operand
        if isinstance(operand, EntityRef) or not operand.type.nullable:
            counts = rows
        else:
            counts = self._at_root("present", operand)
        if expression.function == "count":
            return counts, counts
        return self._at_root("sum", operand), counts

    def _mask(self, variable: str) -> np.ndarray | None:
        """1 for each node that the variable's conditions leave; None for all."""
        import numpy as np
        import pyarrow.compute as pc

        own = [one for one in self.plan.pattern.filters if variables(one) == {variable}]
        if not own:
            return None
        type_name = self.form.types[variable]
        found = []
        for condition in own:
            result = truth(condition, self.values, lambda name: self.compact.column(type_name, name))
            if result is None:
                raise NotFactored
            found.append(np.asarray(pc.fill_null(result, False)))
        return np.asarray(np.logical_and.reduce(found), dtype=np.int64)

    def _at_root(self, weight: Weight, operand: Expression | None) -> np.ndarray:
        import numpy as np

        result = self._message(self.form.root, "", weight, operand if isinstance(operand, PropertyRef) else None)
        return np.ones(len(self.compact.nodes(self.form.types[self.form.root])), np.int64) if result is None else result

    def _message(self, variable: str, parent: str, weight: Weight, operand: PropertyRef | None) -> np.ndarray | None:
        """One number per node: matches of the part of the tree behind it, weighted at the operand. None: all ones."""
        measured = operand is not None and self._holds(variable, parent, operand.variable)
        if not measured and (variable, parent) in self._messages:
            return self._messages[(variable, parent)]
        result = self._masks[variable]
        if operand is not None and operand.variable == variable:
            result = _product(result, self._weights(weight, operand))
        for one in self._branches(variable, parent):
            other = one.target if one.source == variable else one.source
            behind = self._message(other, variable, weight, operand if measured else None)
            result = _product(result, self._gathered(one, variable, behind))
        if not measured:
            self._messages[(variable, parent)] = result
        return result

    def _branches(self, variable: str, parent: str) -> list[Expansion]:
        found = [one for one in self.plan.pattern.expansions if variable in (one.source, one.target)]
        return [one for one in found if parent not in (one.source, one.target)]

    def _holds(self, variable: str, parent: str, wanted: str) -> bool:
        """Is the wanted variable in the part of the tree behind this one?"""
        if variable == wanted:
            return True
        branches = self._branches(variable, parent)
        others = [one.target if one.source == variable else one.source for one in branches]
        return any(self._holds(other, variable, wanted) for other in others)

    def _weights(self, weight: Weight, operand: PropertyRef) -> np.ndarray:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        cells = self.compact.column(self.form.types[operand.variable], operand.column)
        if weight == "present":
            return np.asarray(pc.is_valid(cells)).astype(np.int64)
        numbers = np.asarray(pc.fill_null(cells.cast(pa.int64()), 0))
        _check(numbers)
        return numbers

    def _gathered(self, one: Expansion, variable: str, behind: np.ndarray | None) -> np.ndarray:
        """Per node the sum over its neighbours along one expansion."""
        import numpy as np

        flipped: dict[str, Literal["out", "in", "both"]] = {"out": "in", "in": "out", "both": "both"}
        direction = one.direction if one.source == variable else flipped[one.direction]
        if one.edge_variable is not None:
            return self._gathered_edges(one.edge, direction, variable, behind)
        adjacency = self.compact.neighbours(one.edge, direction)
        if behind is None:
            return np.diff(adjacency.starts)
        if len(behind) and len(adjacency.targets) * float(np.abs(behind).max()) > NUMBER_MOST:
            raise NotFactored
        running = np.zeros(len(adjacency.targets) + 1, np.int64)
        np.cumsum(behind[adjacency.targets], out=running[1:])
        return np.asarray(running[adjacency.starts[1:]] - running[adjacency.starts[:-1]])

    def _gathered_edges(self, edge: str, direction: str, variable: str, behind: np.ndarray | None) -> np.ndarray:
        """The same with parallel edges counted each."""
        import numpy as np

        ends = self.compact.ends(edge)
        near, far = (ends.dst, ends.src) if direction == "in" else (ends.src, ends.dst)
        present = (near >= 0) & (far >= 0)
        size = len(self.compact.nodes(self.form.types[variable]))
        if behind is None:
            return np.bincount(near[present], minlength=size)
        if len(behind) and len(near) * float(np.abs(behind).max()) > NUMBER_MOST:
            raise NotFactored
        return np.bincount(near[present], weights=behind[far[present]], minlength=size).astype(np.int64)

    # ------------------------------------------------------------ results

    def _total(self, sums: list[tuple[np.ndarray, np.ndarray] | None]) -> pa.Table:
        import pyarrow as pa

        arrays = {}
        for place, (projection, measure) in enumerate(zip(self.plan.projections, sums, strict=True)):
            assert measure is not None
            assert isinstance(projection.expression, Aggregate)
            total, count = _exact_sum(measure[0]), _exact_sum(measure[1])
            function = projection.expression.function
            if function == "count":
                arrays[f"r{place}"] = pa.array([count], pa.int64())
            else:
                value = None if count == 0 else float(total) / (count if function == "avg" else 1)
                arrays[f"r{place}"] = pa.array([value], pa.float64())
        offset, limit = self._cut()
        return pa.table(arrays).slice(offset, limit)

    def _cut(self) -> tuple[int, int | None]:
        cuts = [None if cut is None else self.values.of(cut)[1] for cut in (self.plan.offset, self.plan.limit)]
        offset, limit = (None if cut is None else int(str(cut)) for cut in cuts)
        return offset or 0, limit

    def _grouped(
        self,
        outputs: tuple[Output, ...],
        rows: np.ndarray,
        sums: list[tuple[np.ndarray, np.ndarray] | None],
    ) -> pa.Table:
        """The numbers per root node, summed by group and ordered in the engine."""
        import numpy as np
        import pyarrow as pa

        matched = np.flatnonzero(rows)
        places = pa.array(matched)
        arrays = {}
        type_name = self.form.types[self.form.root]
        for place, (projection, measure) in enumerate(zip(self.plan.projections, sums, strict=True)):
            if measure is not None:
                arrays[f"s{place}"], arrays[f"n{place}"] = (pa.array(numbers[matched]) for numbers in measure)
            elif outputs[place].is_key:
                arrays[f"c{place}"] = places
            else:
                cells = self.compact.column(type_name, _stored(projection.expression))
                arrays[f"c{place}"] = cells.take(places)
        cut = self._cut()
        if cut not in self.form.texts:
            self.form.texts[cut] = to_sql(self._ordered(self._summed(outputs), *cut), "duckdb")
        return engine.run(self.form.texts[cut], {}, {"g": pa.table(arrays)})

    def _summed(self, outputs: tuple[Output, ...]) -> exp.Select:
        """The numbers per root node as one row a group."""
        values: list[exp.Expression] = []
        keys: list[exp.Expression] = []
        unique = False
        for place, projection in enumerate(self.plan.projections):
            expression = projection.expression
            if isinstance(expression, Aggregate):
                values.append(named(_combined(expression, place), f"r{place}"))
                continue
            unique = unique or outputs[place].is_key or self._is_unique(expression)
            values.append(named(column(f"c{place}"), f"r{place}"))
            keys.append(column(f"c{place}"))
        query = exp.select(*values).from_(table("g"))
        # One row a root node is one row a group when the key tells root nodes apart.
        return _ungrouped(query) if unique else query.group_by(*keys)

    def _is_unique(self, expression: Expression) -> bool:
        node = self.view.catalog.nodes[self.form.types[self.form.root]]
        return isinstance(expression, PropertyRef) and node.key == (expression.column,)

    def _ordered(self, query: exp.Select, offset: int, limit: int | None) -> exp.Select:
        shown = [one.expression for one in self.plan.projections]
        keys: list[exp.Expression] = []
        for order in self.plan.order:
            name = f"r{shown.index(order.expression)}"
            keys.append(exp.Ordered(this=column(name, "q"), desc=order.descending, nulls_first=not order.descending))
        for place, expression in enumerate(shown):
            if not isinstance(expression, Aggregate):
                keys.append(exp.Ordered(this=column(f"r{place}", "q"), desc=False, nulls_first=True))
        outer = exp.select(exp.Star()).from_(query.subquery("q")).order_by(*keys).offset(offset)
        return outer if limit is None else outer.limit(limit)


def _stored(expression: Expression) -> str:
    return expression.column if isinstance(expression, PropertyRef) else "id"


def _product(first: np.ndarray | None, second: np.ndarray | None) -> np.ndarray | None:
    if first is None or second is None:
        return second if first is None else first
    _check(first.astype(float) * second)
    product: np.ndarray = first * second
    return product


def _check(numbers: np.ndarray) -> None:
    import numpy as np

    if len(numbers) and float(np.abs(numbers).max()) > NUMBER_MOST:
        raise NotFactored


def _exact_sum(numbers: np.ndarray) -> int:
    import numpy as np

    if len(numbers) and len(numbers) * float(np.abs(numbers).max()) > 2.0**62:
        raise NotFactored
    return int(numbers.sum())


def _combined(aggregate: Aggregate, place: int) -> exp.Expression:
    """An aggregate from its sums and counts per root node."""
    total, count = exp.Sum(this=column(f"s{place}")), exp.Sum(this=column(f"n{place}"))
    if aggregate.function == "count":
        return exp.cast(count, "BIGINT")
    some = exp.Nullif(this=exp.cast(count, "DOUBLE"), expression=exp.Literal.number(0))
    if aggregate.function == "avg":
        return exp.Div(this=exp.cast(total, "DOUBLE"), expression=some)
    known = exp.Not(this=exp.Is(this=some, expression=exp.null()))
    return exp.Case(ifs=[exp.If(this=known, true=exp.cast(total, "DOUBLE"))])


def _ungrouped(query: exp.Select) -> exp.Select:
    """The same columns where every group has one row: the sum of one number is that number."""
    rewritten = query.transform(lambda node: node.this if isinstance(node, exp.Sum) else node)
    assert isinstance(rewritten, exp.Select)
    return rewritten
