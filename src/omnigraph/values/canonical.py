"""The one canonical text of a value in a key: node ids are made of these."""

from __future__ import annotations

import math
from datetime import date, datetime
from decimal import Decimal

from omnigraph.values.json_values import (
    as_f32,
    days_since_1970,
    float_digits,
    microseconds_since_1970,
    parse_date,
    parse_datetime,
)
from omnigraph.values.types import PropertyType, Scalar


def canonical_text(value: object, type: PropertyType) -> str:
    """The canonical text of a column's value. Raises TypeError if it is not a value of the type.

    Strings as they are; integers in decimal; true and false; dates as days since 1970; instants as milliseconds since 1970, with
    decimals if there are microseconds; floats as the shortest digits that give the value back at its stored width, without a
    trailing ".0", and with an exponent only from 1e21 up and below 1e-6.
    """
    scalar = type.scalar
    match value:
        case str() if scalar is Scalar.STRING:
            return value
        case bool():
            if scalar is Scalar.BOOL:
                return "true" if value else "false"
        case int() if scalar.is_integer:
            return str(value)
        case int() | float() if scalar.is_float:
            return _float_text(float(value), scalar)
        case datetime():
            if scalar is Scalar.DATETIME:
                return milliseconds_text(microseconds_since_1970(value))
        case date() if scalar is Scalar.DATE:
            return str(days_since_1970(value))
    raise TypeError(f"{value!r} is not a {scalar}")


def key_text(text: str, type: PropertyType) -> str:
    """The canonical text of a key that a user wrote: dates and instants may be ISO text, anything else stays."""
    try:
        if type.scalar is Scalar.DATE:
            return canonical_text(parse_date(text), type)
        if type.scalar is Scalar.DATETIME:
            return canonical_text(parse_datetime(text), type)
    except ValueError:
        pass
    return text


def milliseconds_text(microseconds: int) -> str:
    whole, rest = divmod(abs(microseconds), 1000)
    decimals = f".{rest:03}".rstrip("0") if rest else ""
    return f"{'-' if microseconds < 0 else ''}{whole}{decimals}"


def _float_text(value: float, scalar: Scalar) -> str:
    if scalar is Scalar.F32:
        rounded = as_f32(value)
        value = math.nan if rounded is None else rounded
    if not math.isfinite(value):
        raise TypeError(f"{value!r} is not a {scalar}")
    if value == 0:
        return "0"
    digits = Decimal(float_digits(value, scalar))
    if 1e-6 <= abs(value) < 1e21:
        text = format(digits, "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = format(digits, "e").partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent):+d}"
