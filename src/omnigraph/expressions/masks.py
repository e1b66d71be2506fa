"""Conditions on one node as truth values over a whole column, where Arrow means exactly what SQL does; else None."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from omnigraph.expressions.pushdown import MIRRORED, Values, fits_exactly
from omnigraph.language.query.plan import Binary, Expression, PropertyRef, Unary

if TYPE_CHECKING:
    import pyarrow as pa

_FUNCTIONS = {
    "=": "equal",
    "!=": "not_equal",
    "<": "less",
    "<=": "less_equal",
    ">": "greater",
    ">=": "greater_equal",
}


def truth(expression: Expression, values: Values, column: Callable[[str], pa.Array]) -> pa.Array | None:
    """True, false or null per row; `column` gives a stored column."""
    import pyarrow.compute as pc

    match expression:
        case Binary("and" | "or" as op, left, right, _):
            first, second = truth(left, values, column), truth(right, values, column)
            if first is None or second is None:
                return None
            return pc.and_kleene(first, second) if op == "and" else pc.or_kleene(first, second)
        case Unary("not", operand, _):
            inner = truth(operand, values, column)
            return None if inner is None else pc.invert(inner)
        case Unary("is_null", PropertyRef(_, name, _), _):
            return pc.is_null(column(name))
        case Unary("is_not_null", PropertyRef(_, name, _), _):
            return pc.is_valid(column(name))
        case Binary("in", PropertyRef() as ref, right, _):
            return _membership(ref, right, values, column)
        case Binary(op, PropertyRef() as ref, other, _) if op in _FUNCTIONS:
            return _comparison(op, ref, other, values, column)
        case Binary(op, other, PropertyRef() as ref, _) if op in _FUNCTIONS:
            return _comparison(MIRRORED[op], ref, other, values, column)
    return None


def _comparison(
    op: str, ref: PropertyRef, other: Expression, values: Values, column: Callable[[str], pa.Array]
) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    known, value = values.of(other)
    if not known or value is None or not fits_exactly(value, ref.type):
        return None
    cells = column(ref.column)
    return pc.call_function(_FUNCTIONS[op], [cells, pa.scalar(_naive(value), cells.type)])


def _membership(
    ref: PropertyRef, right: Expression, values: Values, column: Callable[[str], pa.Array]
) -> pa.Array | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    known, items = values.of(right)
    if not known or not isinstance(items, list) or not items:
        return None
    if not all(item is not None and fits_exactly(item, ref.type) for item in items):
        return None
    cells = column(ref.column)
    found = pc.is_in(cells, value_set=pa.array([_naive(item) for item in items], cells.type))
    return pc.if_else(pc.is_valid(cells), found, pa.scalar(None, pa.bool_()))


def _naive(value: object) -> object:
    import datetime as dt

    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        return value.astimezone(dt.UTC).replace(tzinfo=None)
    return value
