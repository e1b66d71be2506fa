"""What an expression's parameters, literals and `now()` are in one call."""

from __future__ import annotations

import datetime as dt
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.language.query.plan import Constant, Expression, ListOf, Now, Parameter
from omnigraph.values.temporal import parse_date, parse_datetime, utc_without_zone
from omnigraph.values.types import PropertyType, Scalar


@dataclass(frozen=True)
class Arguments:
    """The bound parameters of a call, and its one instant."""

    parameters: Mapping[str, object]
    now: dt.datetime

    def value(self, expression: Expression) -> object:
        """The Python value of a known expression, as a column of its type would hold it: instants in UTC without a zone,
        F32 rounded, lists as lists."""
        match expression:
            case Constant(value, type):
                return _stored(_parsed(value, type), type)
            case Parameter(name, type):
                return _stored(self.parameters.get(name), type)
            case Now(type):
                return _stored(self.now, type)
            case ListOf(items, _):
                return [self.value(item) for item in items]
        raise TypeError(f"{expression!r} depends on a row")

    def number(self, cut: Constant | Parameter) -> int:
        """The value of a `limit` or `offset`."""
        value = self.value(cut)
        assert isinstance(value, int)
        return value


def is_known(expression: Expression) -> bool:
    """Does it have a value before any row is read?"""
    if isinstance(expression, ListOf):
        return all(is_known(item) for item in expression.items)
    return isinstance(expression, Constant | Parameter | Now)


def _parsed(value: object, type: PropertyType) -> object:
    """Constants hold dates and instants as ISO text."""
    if isinstance(value, tuple):
        return [_parsed(item, type) for item in value]
    if isinstance(value, str) and type.scalar is Scalar.DATE:
        return parse_date(value)
    if isinstance(value, str) and type.scalar is Scalar.DATETIME:
        return parse_datetime(value)
    return value


def _stored(value: object, type: PropertyType) -> object:
    match value:
        case list():
            return [_stored(item, type) for item in value]
        case dt.datetime():
            return utc_without_zone(value)
        case int() | float() if type.scalar is Scalar.F32 and not isinstance(value, bool):
            return struct.unpack("f", struct.pack("f", value))[0]
    return value
