"""Conditions on one entity as text of a scan filter, where that means exactly the same; otherwise None.

A condition that is not translated is simply applied later, so nothing here needs to be complete, only right.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from omnigraph.language.query.plan import Binary, Constant, Expression, ListOf, Now, Parameter, PropertyRef, Unary
from omnigraph.tables import column, in_list, literal
from omnigraph.values.temporal import parse_date, parse_datetime
from omnigraph.values.types import INTEGER_RANGES, PropertyType, Scalar

_COMPARISONS = ("=", "!=", "<", "<=", ">", ">=")
MIRRORED = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
MAX_IN = 4_096


@dataclass(frozen=True)
class Values:
    """What parameters and now() are in this call."""

    parameters: Mapping[str, object]
    now: dt.datetime

    def of(self, expression: Expression) -> tuple[bool, object]:
        """(known before the scan?, its Python value)."""
        match expression:
            case Constant(value, type):
                return True, _typed(value, type)
            case Parameter(name, _):
                return True, self.parameters.get(name)
            case Now():
                return True, self.now
            case ListOf(items, _):
                known = [self.of(item) for item in items]
                return all(one[0] for one in known), [one[1] for one in known]
        return False, None


def _typed(value: object, type: PropertyType) -> object:
    if isinstance(value, tuple):
        return [_typed(item, PropertyType(type.scalar)) for item in value]
    if isinstance(value, str) and type.scalar is Scalar.DATE:
        return parse_date(value)
    if isinstance(value, str) and type.scalar is Scalar.DATETIME:
        return parse_datetime(value)
    return value


def conjunction(filters: Iterable[Expression], values: Values) -> str | None:
    """The translatable ones of these conditions, all of which must hold."""
    texts = [text for one in filters if (text := condition(one, values)) is not None]
    return " AND ".join(f"({text})" for text in texts) or None


def condition(expression: Expression, values: Values) -> str | None:
    """Filter text that is true for exactly the rows for which the condition is true."""
    match expression:
        case Binary("and" | "or" as op, left, right, _):
            first, second = condition(left, values), condition(right, values)
            if first is None or second is None:
                return None
            return f"({first}) {op.upper()} ({second})"
        case Unary("is_null", PropertyRef() as ref, _):
            return f"{column(ref.column)} IS NULL"
        case Unary("is_not_null", PropertyRef() as ref, _):
            return f"{column(ref.column)} IS NOT NULL"
        case Binary("in", PropertyRef() as ref, right, _):
            return _membership(ref, right, values)
        case Binary(op, PropertyRef() as ref, right, _) if op in _COMPARISONS:
            return _comparison(op, ref, right, values)
        case Binary(op, left, PropertyRef() as ref, _) if op in _COMPARISONS:
            return _comparison(MIRRORED[op], ref, left, values)
    return None


def _comparison(op: str, ref: PropertyRef, other: Expression, values: Values) -> str | None:
    known, value = values.of(other)
    if not known:
        return None
    if value is None:
        return "false"
    text = _literal(value, ref.type)
    return None if text is None else f"{column(ref.column)} {op} {text}"


def _membership(ref: PropertyRef, right: Expression, values: Values) -> str | None:
    known, items = values.of(right)
    if not known:
        return None
    if items is None:
        return "false"
    assert isinstance(items, list)
    wanted = [item for item in items if item is not None]
    if not wanted or len(wanted) > MAX_IN:
        return None if wanted else "false"
    if any(_literal(item, ref.type) is None for item in wanted):
        return None
    return in_list(ref.column, wanted)


def _literal(value: object, type: PropertyType) -> str | None:
    """Text of a value that the column's own type holds exactly; None when the comparison needs a wider type."""
    if type.is_list or type.dimension is not None:
        return None
    scalar = type.scalar
    match value:
        case bool():
            return literal(value) if scalar is Scalar.BOOL else None
        case int() if scalar.is_integer:
            low, high = INTEGER_RANGES[scalar]
            return literal(value) if low <= value <= high else None
        case int() | float() if scalar is Scalar.F64:
            number = float(value)
            return literal(number) if number == number and abs(number) != float("inf") else None
        case str() if scalar is Scalar.STRING:
            return literal(value) if "\\" not in value and "\0" not in value else None
        case dt.datetime() if scalar is Scalar.DATETIME:
            return literal(value)
        case dt.date() if scalar is Scalar.DATE and not isinstance(value, dt.datetime):
            return literal(value)
    return None


def fits_exactly(value: object, type: PropertyType) -> bool:
    """Does a column of this type hold the value exactly, so that comparing needs no wider type?"""
    return _literal(value, type) is not None


def fixes(expression: Expression, name: str) -> bool:
    """Does the condition only say which values one column has?"""
    match expression:
        case Binary("=", PropertyRef(_, column_name, _), Constant() | Parameter(), _):
            return column_name == name
        case Binary("=", Constant() | Parameter(), PropertyRef(_, column_name, _), _):
            return column_name == name
        case Binary("in", PropertyRef(_, column_name, _), _, _):
            return column_name == name
    return False


def looked_up(filters: Iterable[Expression], values: Values) -> dict[str, list[object]]:
    """Columns that a condition fixes to a few values: {column: values}. What an index can answer."""
    fixed: dict[str, list[object]] = {}
    for one in filters:
        match one:
            case Binary("=", PropertyRef() as ref, other, _) | Binary("=", other, PropertyRef() as ref, _):
                known, value = values.of(other)
                found = [value]
            case Binary("in", PropertyRef() as ref, other, _):
                known, value = values.of(other)
                found = value if isinstance(value, list) else []
            case _:
                continue
        usable = known and len(found) <= MAX_IN and all(_literal(item, ref.type) is not None for item in found)
        if usable and (ref.column not in fixed or len(found) < len(fixed[ref.column])):
            fixed[ref.column] = found
    return fixed
