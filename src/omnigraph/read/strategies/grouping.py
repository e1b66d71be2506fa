"""Numbers per match as rows of a result: summed by group, ordered, cut. In Python for few rows, in the engine for many.

A few hundred groups take 1 to 2 ms in Python and 4 to 6 in the engine; groups of one match each are not summed, which halves the
time of a hundred thousand of them (`bench/bench_reads.py`, queries 1 to 7).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

from omnigraph.expressions.functions import Arguments
from omnigraph.language.query.plan import Aggregate, ReadPlan
from omnigraph.read import engine
from omnigraph.read.strategies.counting import largest
from omnigraph.read.strategies.forms import is_ordered
from omnigraph.relational.sql import column, exp, named, table, to_sql

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

MAX_ROWS = 2_000
"""Beyond this many rows the engine is faster."""
MAX_EXACT = 2**53
"""Integers up to this are exact as doubles."""

Cut = tuple[int, int | None]
"""Offset and limit."""


@dataclass(frozen=True)
class Grouping:
    """How a plan's projections follow from columns c (group keys), s and n (sums and counts), numbered like the projections.

    `unique`: every row is a group of its own.
    """

    plan: ReadPlan
    unique: bool
    texts: dict[Cut, str] = field(default_factory=dict, compare=False)
    """SQL by offset and limit: generating it takes longer than running it."""

    def run(self, rows: pa.Table, cut: Cut, arguments: Arguments) -> pa.Table:
        """The tree's columns (r0 …)."""
        if rows.num_rows <= MAX_ROWS and self._is_exact:
            table = self._by_hand(rows, cut)
            if table is not None:
                return table
        if cut not in self.texts:
            self.texts[cut] = to_sql(self._ordered(self._summed(), *cut), "duckdb")
        return engine.run(self.texts[cut], {}, {"g": rows}, arguments)

    @cached_property
    def _is_exact(self) -> bool:
        """Whether Python distinguishes and orders the groups as SQL does."""
        return all(is_ordered(self.plan.projections[place].expression) for place in self._keys)

    @cached_property
    def _keys(self) -> list[int]:
        """Positions of the group key among the projections."""
        return [
            place
            for place, projection in enumerate(self.plan.projections)
            if not isinstance(projection.expression, Aggregate)
        ]

    # ------------------------------------------------------------ by hand

    def _by_hand(self, rows: pa.Table, cut: Cut) -> pa.Table | None:
        """None if a sum may leave the range in which Python and SQL agree on every digit."""
        import pyarrow as pa

        cells = [rows.column(f"c{place}").to_pylist() for place in self._keys]
        first: dict[tuple[Any, ...], int] = {}
        groups = [first.setdefault(key, len(first)) for key in zip(*cells, strict=True)]
        columns: list[list[Any]] = [[] for _ in self.plan.projections]
        types = [rows.schema.field(f"c{place}").type if place in self._keys else None for place in range(len(columns))]
        for place, known in zip(self._keys, zip(*first, strict=True) if first else cells, strict=True):
            columns[place] = list(known)
        for place, projection in enumerate(self.plan.projections):
            if isinstance(projection.expression, Aggregate):
                sums, counts = (_totals(rows.column(f"{kind}{place}"), groups, len(first)) for kind in "sn")
                if sums is None or counts is None:
                    return None
                columns[place] = _values(projection.expression, sums, counts)
                types[place] = pa.float64() if projection.expression.function == "avg" else pa.int64()
        offset, limit = cut
        kept = self._order(columns)[offset : None if limit is None else offset + limit]
        arrays = [
            pa.array([values[place] for place in kept], type_) for values, type_ in zip(columns, types, strict=True)
        ]
        return pa.table(arrays, names=[f"r{place}" for place in range(len(columns))])

    def _order(self, columns: list[list[Any]]) -> list[int]:
        """The groups in the plan's order, then by their keys. Least significant key first: sorting is stable."""
        shown = [projection.expression for projection in self.plan.projections]
        order = [(shown.index(key.expression), key.descending) for key in self.plan.order]
        places = list(range(len(columns[0])))
        for place, descending in reversed([*order, *((place, False) for place in self._keys)]):
            places.sort(key=_nulls_first(columns[place]), reverse=descending)
        return places

    # ------------------------------------------------------------ in the engine

    def _summed(self) -> exp.Select:
        values: list[exp.Expression] = []
        keys: list[exp.Expression] = []
        for place, projection in enumerate(self.plan.projections):
            if isinstance(projection.expression, Aggregate):
                values.append(named(_combined(projection.expression, place), f"r{place}"))
            else:
                values.append(named(column(f"c{place}"), f"r{place}"))
                keys.append(column(f"c{place}"))
        query = exp.select(*values).from_(table("g"))
        return _ungrouped(query) if self.unique else query.group_by(*keys)

    def _ordered(self, query: exp.Select, offset: int, limit: int | None) -> exp.Select:
        shown = [projection.expression for projection in self.plan.projections]
        keys: list[exp.Expression] = []
        for order in self.plan.order:
            name = f"r{shown.index(order.expression)}"
            keys.append(exp.Ordered(this=column(name, "q"), desc=order.descending, nulls_first=not order.descending))
        for place, expression in enumerate(shown):
            if not isinstance(expression, Aggregate):
                keys.append(exp.Ordered(this=column(f"r{place}", "q"), desc=False, nulls_first=True))
        outer = exp.select(exp.Star()).from_(query.subquery("q")).order_by(*keys).offset(offset)
        return outer if limit is None else outer.limit(limit)


def _totals(column: pa.ChunkedArray, groups: list[int], size: int) -> np.ndarray | None:
    """Numbers summed by group; None if that may not be exact."""
    import numpy as np

    numbers = column.to_numpy()
    if len(numbers) * largest(numbers) > MAX_EXACT:
        return None
    return numbers if size == len(groups) else np.bincount(groups, weights=numbers, minlength=size).astype(np.int64)


def _values(aggregate: Aggregate, sums: np.ndarray, counts: np.ndarray) -> list[Any]:
    if aggregate.function == "count":
        return list(counts.tolist())
    pairs = zip(sums.tolist(), counts.tolist(), strict=True)
    if aggregate.function == "sum":
        return [total if count else None for total, count in pairs]
    return [total / count if count else None for total, count in pairs]


def _nulls_first(values: list[Any]) -> Callable[[int], Any]:
    return (lambda place: (values[place] is not None, values[place])) if None in values else values.__getitem__


def _combined(aggregate: Aggregate, place: int) -> exp.Expression:
    """An aggregate from its sums and counts per row."""
    total, count = exp.Sum(this=column(f"s{place}")), exp.Sum(this=column(f"n{place}"))
    if aggregate.function == "count":
        return exp.cast(count, "BIGINT")
    some = exp.Nullif(this=exp.cast(count, "DOUBLE"), expression=exp.Literal.number(0))
    if aggregate.function == "avg":
        return exp.Div(this=exp.cast(total, "DOUBLE"), expression=some)
    known = exp.Not(this=exp.Is(this=some, expression=exp.null()))
    return exp.Case(ifs=[exp.If(this=known, true=exp.cast(total, "BIGINT"))])


def _ungrouped(query: exp.Select) -> exp.Select:
    """The same columns if every group has one row: the sum of one number is that number."""
    rewritten = query.transform(lambda node: node.this if isinstance(node, exp.Sum) else node)
    assert isinstance(rewritten, exp.Select)
    return rewritten
