"""Tiny reads without an engine: a key, a hop or two, a few dozen rows.

An engine takes longer to plan such a query than it takes to answer it by hand. Only plans whose every expression means
the same in Python as in SQL qualify (`direct_form`); everything else goes to the engine.
"""

from __future__ import annotations

import datetime as dt
import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.expressions.pushdown import Values
from omnigraph.language.query.plan import (
    Aggregate,
    Binary,
    Constant,
    EntityRef,
    Expression,
    ListOf,
    Now,
    Parameter,
    PropertyRef,
    ReadPlan,
    Unary,
)
from omnigraph.read.sql.shapes import EDGE, KEY, SOURCE, TARGET, HopInput, NodeInput, RelationalQuery
from omnigraph.values.arrow import arrow_type
from omnigraph.values.types import PropertyType, Scalar

if TYPE_CHECKING:
    import pyarrow as pa

MAX_ROWS = 2_000
"""Beyond so many input or intermediate rows the engine is faster."""

Row = dict[str, Any]
"""A match: per variable its key, or its edge row (a dict of stored columns)."""
Evaluate = Callable[[Row], Any]

_EXACT = (Scalar.STRING, Scalar.BOOL, Scalar.DATE, Scalar.DATETIME)
_COMPARE: Mapping[str, Callable[[Any, Any], Any]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


class TooMany(Exception):
    """More rows than a read by hand is good for."""


@dataclass(frozen=True)
class DirectForm:
    """A plan that qualifies. `counts`: it returns one row of counts."""

    plan: ReadPlan
    counts: bool


def direct_form(plan: ReadPlan) -> DirectForm | None:
    """The plan, if Python gives it exactly the meaning SQL does."""
    pattern = plan.pattern
    if plan.distinct or any(len(binding.types) > 1 for binding in pattern.bindings):
        return None
    if not all(_is_direct(one) for one in pattern.filters):
        return None
    shown = [one.expression for one in plan.projections]
    if plan.grouped:
        countable = all(
            isinstance(one, Aggregate) and one.function == "count" and not one.distinct and _is_column(one.operand)
            for one in shown
        )
        return DirectForm(plan, True) if countable and not plan.order else None
    ordered = all(_is_column(key.expression) and is_ordered(key.expression) for key in plan.order)
    return DirectForm(plan, False) if ordered and all(_is_column(one) for one in shown) else None


def _is_column(expression: Expression) -> bool:
    return isinstance(expression, PropertyRef | EntityRef)


def is_ordered(expression: Expression) -> bool:
    """Does Python order (and tell apart) its values as SQL does?"""
    return isinstance(expression, EntityRef) or _family(expression) is not None


def _family(expression: Expression) -> str | None:
    """Values of one family compare in Python as they do in SQL; None for those that do not (fractions, lists)."""
    if isinstance(expression, EntityRef):
        return "String"
    type_ = expression.type
    if type_.is_list:
        return None
    if type_.scalar.is_integer:
        return "integer"
    return type_.scalar.value if type_.scalar in _EXACT else None


def _is_direct(expression: Expression) -> bool:
    match expression:
        case Binary("and" | "or", left, right, _):
            return _is_direct(left) and _is_direct(right)
        case Unary("not", operand, _):
            return _is_direct(operand)
        case Unary("is_null" | "is_not_null", operand, _):
            return _is_column(operand)
        case Binary("in", left, ListOf(items, _), _):
            return _is_value(left) and all(_is_value(one) and _family(one) == _family(left) for one in items)
        case Binary("in", left, Parameter(_, type_), _):
            return _is_value(left) and _family(left) == _family(Parameter("", PropertyType(type_.scalar)))
        case Binary("starts_with", left, right, _):
            return _is_value(left) and _is_value(right)
        case Binary(op, left, right, _) if op in _COMPARE:
            return _is_value(left) and _is_value(right) and _family(left) == _family(right)
    return False


def _is_value(expression: Expression) -> bool:
    known = isinstance(expression, PropertyRef | EntityRef | Constant | Parameter | Now)
    return known and _family(expression) is not None


# ---------------------------------------------------------------- running


def run_direct(
    form: DirectForm, query: RelationalQuery, relations: Mapping[str, pa.Table], values: Values
) -> pa.Table | None:
    """The tree's columns (r0 …) as a table; None when it turned out to be too much for Python."""
    if sum(relation.num_rows for relation in relations.values()) > MAX_ROWS:
        return None
    try:
        return _Direct(form, query, relations, values).run()
    except TooMany:
        return None


class _Direct:
    def __init__(
        self, form: DirectForm, query: RelationalQuery, relations: Mapping[str, pa.Table], values: Values
    ) -> None:
        self.plan, self.counts = form.plan, form.counts
        self.query = query
        self.values = values
        self.nodes = {one.variable: _by_key(one, relations[one.name]) for one in query.inputs}
        self.hops = [(hop, relations[hop.name]) for hop in query.hops]

    def run(self) -> pa.Table:
        rows = self._matches()
        for condition in self.plan.pattern.filters:
            test = self._compile(condition)
            rows = [row for row in rows if test(row) is True]
        if self.counts:
            return self._counted(rows)
        rows = self._cut(self._ordered(rows))
        return self._projected(rows)

    # ------------------------------------------------------------ matches

    def _matches(self) -> list[Row]:
        rows: list[Row] = [{}]
        bound: set[str] = set()
        pending, waiting = list(self.hops), list(self.nodes)
        while pending or waiting:
            following = next((h for h in pending if {h[0].expansion.source, h[0].expansion.target} & bound), None)
            if following is None and (start := next((name for name in waiting if name not in bound), None)):
                rows = _few([{**row, start: key} for row in rows for key in self.nodes[start]])
                bound.add(start)
            elif following is not None or pending:
                following = following or pending[0]
                pending.remove(following)
                rows = _few(self._expand(rows, *following, bound))
            waiting = [name for name in waiting if name not in bound]
        return rows

    def _expand(self, rows: list[Row], hop: HopInput, relation: pa.Table, bound: set[str]) -> list[Row]:
        one = hop.expansion
        ends = list(zip(relation.column(SOURCE).to_pylist(), relation.column(TARGET).to_pylist(), strict=True))
        edges = _edge_rows(hop, relation) if one.edge_variable is not None else [None] * len(ends)
        near = one.source if one.source in bound else one.target
        side = 0 if near == one.source else 1
        by_near: dict[str, list[int]] = {}
        for place, pair in enumerate(ends):
            by_near.setdefault(pair[side], []).append(place)
        found: list[Row] = []
        for row in rows:
            places = by_near.get(row[near], ()) if near in bound else range(len(ends))
            for place in places:
                extended = self._extended(row, one.source, one.target, ends[place])
                if extended is not None:
                    if one.edge_variable is not None:
                        extended[one.edge_variable] = edges[place]
                    found.append(extended)
        bound.update((one.source, one.target))
        return found

    def _extended(self, row: Row, source: str, target: str, pair: tuple[str, str]) -> Row | None:
        extended = dict(row)
        for name, key in ((source, pair[0]), (target, pair[1])):
            if extended.setdefault(name, key) != key or (name in self.nodes and key not in self.nodes[name]):
                return None
        return extended

    # ------------------------------------------------------------ columns

    def _column(self, expression: Expression) -> Evaluate:
        assert isinstance(expression, PropertyRef | EntityRef)
        variable = expression.variable
        name = "id" if isinstance(expression, EntityRef) else expression.column
        if any(hop.expansion.edge_variable == variable for hop, _ in self.hops):
            return lambda row: row[variable][name]
        if name == "id":
            return lambda row: row[variable]
        nodes = self.nodes[variable]
        return lambda row: nodes[row[variable]][name]

    def _compile(self, expression: Expression) -> Evaluate:
        match expression:
            case PropertyRef() | EntityRef():
                return self._column(expression)
            case Constant() | Parameter() | Now():
                value = _naive(self.values.of(expression)[1])
                return lambda row: value
            case Unary(op, operand, _):
                return _unary(op, self._compile(operand))
            case Binary("in", left, right, _):
                return self._membership(left, right)
            case Binary(op, left, right, _):
                return _binary(op, self._compile(left), self._compile(right))
        raise TypeError(f"{expression!r} is not read directly")

    def _membership(self, left: Expression, right: Expression) -> Evaluate:
        value = self._compile(left)
        if isinstance(right, ListOf):
            members = [self._compile(item) for item in right.items]
            return lambda row: _is_in(value(row), [member(row) for member in members])
        _, known = self.values.of(right)
        items = None if known is None else [_naive(item) for item in known]  # type: ignore[attr-defined]  # a bound list
        return lambda row: _is_in(value(row), items)

    # ------------------------------------------------------------ results

    def _ordered(self, rows: list[Row]) -> list[Row]:
        """Least significant key first: sorting is stable."""
        keys = [(self._column(EntityRef(name)), False) for name in self.plan.tie_break]
        keys = [*((self._column(key.expression), key.descending) for key in self.plan.order), *keys]
        for column, descending in reversed(keys):
            rows = sorted(rows, key=_nulls_first(column), reverse=descending)
        return rows

    def _cut(self, rows: list[Row]) -> list[Row]:
        offset = 0 if self.plan.offset is None else int(str(self.values.of(self.plan.offset)[1]))
        limit = None if self.plan.limit is None else int(str(self.values.of(self.plan.limit)[1]))
        return rows[offset:] if limit is None else rows[offset : offset + limit]

    def _projected(self, rows: list[Row]) -> pa.Table:
        import pyarrow as pa

        arrays = {}
        for output, projection in zip(self.query.outputs, self.plan.projections, strict=True):
            column = self._column(projection.expression)
            type_ = pa.utf8() if output.type is None else arrow_type(output.type)
            arrays[output.value] = pa.array([column(row) for row in rows], type_)
        return pa.table(arrays)

    def _counted(self, rows: list[Row]) -> pa.Table:
        import pyarrow as pa

        arrays = {}
        for output, projection in zip(self.query.outputs, self.plan.projections, strict=True):
            assert isinstance(projection.expression, Aggregate)
            column = self._column(projection.expression.operand)
            total = sum(column(row) is not None for row in rows)
            arrays[output.value] = pa.array([total] if self._cut([{}]) else [], pa.int64())
        return pa.table(arrays)


def _by_key(node: NodeInput, relation: pa.Table) -> dict[str, Row]:
    columns = {column.stored: relation.column(column.alias).to_pylist() for column in node.columns}
    keys = relation.column(KEY).to_pylist()
    return {key: {name: items[place] for name, items in columns.items()} for place, key in enumerate(keys)}


def _edge_rows(hop: HopInput, relation: pa.Table) -> list[Row | None]:
    columns = {column.stored: relation.column(column.alias).to_pylist() for column in hop.columns}
    columns["id"] = relation.column(EDGE).to_pylist()
    return [{name: items[place] for name, items in columns.items()} for place in range(relation.num_rows)]


def _few(rows: list[Row]) -> list[Row]:
    if len(rows) > MAX_ROWS:
        raise TooMany
    return rows


def _naive(value: object) -> object:
    """Stored instants have no zone and mean UTC; so do the values they are compared with."""
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value


def _unary(op: str, operand: Evaluate) -> Evaluate:
    match op:
        case "is_null":
            return lambda row: operand(row) is None
        case "is_not_null":
            return lambda row: operand(row) is not None

    def negate(row: Row) -> bool | None:
        value = operand(row)
        return None if value is None else not value

    return negate


def _binary(op: str, left: Evaluate, right: Evaluate) -> Evaluate:
    if op in ("and", "or"):
        decisive = op == "or"

        def logical(row: Row) -> bool | None:
            first, second = left(row), right(row)
            if first is decisive or second is decisive:
                return op == "or"
            return None if first is None or second is None else not decisive

        return logical
    apply = str.startswith if op == "starts_with" else _COMPARE[op]

    def compare(row: Row) -> bool | None:
        first, second = left(row), right(row)
        return None if first is None or second is None else bool(apply(first, second))

    return compare


def _is_in(value: object, items: list[object] | None) -> bool | None:
    if items is None:
        return None
    if not items:
        return False
    if value is None:
        return None
    if value in items:
        return True
    return None if None in items else False


def _nulls_first(column: Evaluate) -> Callable[[Row], tuple[bool, Any]]:
    def sortable(row: Row) -> tuple[bool, Any]:
        value = column(row)
        return (value is not None, value)

    return sortable
