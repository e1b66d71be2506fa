"""Numbers per match as rows of a result: summed by group, ordered, cut. By hand for few rows, in the engine for many."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from omnigraph.language.plan import Aggregate, ReadPlan
from omnigraph.read import engine
from omnigraph.read.direct import is_ordered
from omnigraph.read.hops import named, table
from omnigraph.relational.expressions import column, to_sql

if TYPE_CHECKING:
    import pyarrow as pa

ROWS_MOST = 2_000
"""Beyond so many rows the engine is faster."""
EXACT_MOST = 2**53
"""Whole numbers up to this are the same as fractions."""

Cut = tuple[int, int | None]
"""Offset and limit."""
Row = list[Any]


@dataclass(frozen=True)
class Grouping:
    """How a plan's projections follow from columns c (group keys), s and n (sums and counts), numbered as they are.

    `unique`: every row is a group of its own.
    """

    plan: ReadPlan
    unique: bool
    texts: dict[Cut, str] = field(default_factory=dict, compare=False)
    """SQL by offset and limit: writing it takes longer than running it."""

    def run(self, rows: pa.Table, cut: Cut) -> pa.Table:
        """The tree's columns (r0 …)."""
        if rows.num_rows <= ROWS_MOST and all(is_ordered(one.expression) for one in self._keys):
            found = self._by_hand(rows, cut)
            if found is not None:
                return found
        if cut not in self.texts:
            self.texts[cut] = to_sql(self._ordered(self._summed(), *cut), "duckdb")
        return engine.run(self.texts[cut], {}, {"g": rows})

    @property
    def _keys(self) -> list[Any]:
        return [one for one in self.plan.projections if not isinstance(one.expression, Aggregate)]

    # ------------------------------------------------------------ by hand

    def _by_hand(self, rows: pa.Table, cut: Cut) -> pa.Table | None:
        """None when a sum leaves the range in which Python and SQL agree on every digit."""
        import pyarrow as pa

        shown = [one.expression for one in self.plan.projections]
        keys = [place for place, one in enumerate(shown) if not isinstance(one, Aggregate)]
        sums = [place for place, one in enumerate(shown) if isinstance(one, Aggregate)]
        cells = [rows.column(f"c{place}").to_pylist() for place in keys]
        numbers = [rows.column(f"{kind}{place}").to_pylist() for place in sums for kind in "sn"]
        groups: dict[tuple[Any, ...], list[int]] = {}
        for place, key in enumerate(zip(*cells, strict=True)):
            own = [column[place] for column in numbers]
            known = groups.get(key)
            groups[key] = own if known is None else [a + b for a, b in zip(known, own, strict=True)]
        if any(abs(number) > EXACT_MOST for own in groups.values() for number in own):
            return None
        found: list[Row] = []
        for key, own in groups.items():
            row: Row = [None] * len(shown)
            for place, cell in zip(keys, key, strict=True):
                row[place] = cell
            for index, place in enumerate(sums):
                row[place] = _value(shown[place], own[2 * index], own[2 * index + 1])
            found.append(row)
        offset, limit = cut
        found = self._sorted(found, keys)[offset : None if limit is None else offset + limit]
        types = [rows.schema.field(f"c{p}").type if p in keys else _type(shown[p]) for p in range(len(shown))]
        columns = zip(*found, strict=True) if found else [()] * len(shown)
        arrays = [pa.array(values, type_) for values, type_ in zip(columns, types, strict=True)]
        return pa.table(arrays, names=[f"r{place}" for place in range(len(shown))])

    def _sorted(self, rows: list[Row], keys: list[int]) -> list[Row]:
        """Least significant key first: sorting is stable."""
        shown = [one.expression for one in self.plan.projections]
        order = [(shown.index(one.expression), one.descending) for one in self.plan.order]
        for place, descending in reversed([*order, *((place, False) for place in keys)]):
            rows = sorted(rows, key=_nulls_first(place), reverse=descending)
        return rows

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


def _value(aggregate: Any, total: int, count: int) -> int | float | None:
    if aggregate.function == "count":
        return count
    if count == 0:
        return None
    return float(total) / count if aggregate.function == "avg" else float(total)


def _type(aggregate: Any) -> pa.DataType:
    import pyarrow as pa

    return pa.int64() if aggregate.function == "count" else pa.float64()


def _nulls_first(place: int) -> Callable[[Row], tuple[bool, Any]]:
    return lambda row: (row[place] is not None, row[place])


def _combined(aggregate: Aggregate, place: int) -> exp.Expression:
    """An aggregate from its sums and counts per row."""
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
