"""Literals meet types: a written value becomes a typed Constant, or is refused with a reason; and the one canonical text of
a value in a key, of which node ids are made."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from datetime import date, datetime
from decimal import Decimal

from omnigraph.values.json_values import (
    Unfit,
    as_f32,
    days_since_1970,
    float_digits,
    instant_text,
    microseconds_since_1970,
    parse_date,
    parse_datetime,
    shown,
    typed_value,
)
from omnigraph.values.types import INTEGER_RANGES, PropertyType, Scalar


@dataclass(frozen=True)
class Constant:
    """A literal in its typed form: dates as ISO text, vectors and lists as tuples, null as None."""

    value: str | int | float | bool | tuple[object, ...] | None
    type: PropertyType


def temporal_constant(kind: str, text: str) -> Constant:
    """`date("…")` or `datetime("…")`. Raises Unfit."""
    try:
        if kind == "date":
            return Constant(parse_date(text).isoformat(), PropertyType(Scalar.DATE))
        return Constant(instant_text(parse_datetime(text)), PropertyType(Scalar.DATETIME))
    except ValueError as error:
        raise Unfit(f"'{text}' is not a {kind}: {error}") from None


def untyped_constant(value: str | int | float | bool | None) -> Constant:
    """A literal without a target type gets the widest type of its kind. Raises Unfit for a number beyond 64 bits."""
    if value is None:
        return Constant(None, PropertyType(Scalar.STRING, nullable=True))
    if isinstance(value, bool):
        return Constant(value, PropertyType(Scalar.BOOL))
    if isinstance(value, int):
        for scalar in (Scalar.I64, Scalar.U64):
            low, high = INTEGER_RANGES[scalar]
            if low <= value <= high:
                return Constant(value, PropertyType(scalar))
        raise Unfit(f"{shown(value)} does not fit in 64 bits")
    if isinstance(value, float):
        return _number(value, PropertyType(Scalar.F64))
    return Constant(value, PropertyType(Scalar.STRING))


def fitted(constant: Constant, target: PropertyType, *, check_enum: bool = True) -> Constant:
    """The constant as a value of the target type, for storing it. Raises Unfit."""
    if constant.value is None:
        if not target.nullable:
            raise Unfit(f"null is not a value of {target}")
        return Constant(None, target)
    required = replace(target, nullable=False)
    if target.is_list or target.scalar is Scalar.VECTOR:
        return _fitted_list(constant, required)
    if constant.type.is_list:
        raise Unfit(f"a list is not a value of {required}")
    return _fitted_scalar(constant, required, check_enum)


def compared(constant: Constant, other: PropertyType, *, check_enum: bool) -> Constant:
    """The constant as the other side of a comparison: like `fitted`, except that any two numbers compare. Raises Unfit."""
    if constant.value is None:
        return Constant(None, replace(other, nullable=True))
    if isinstance(constant.value, float) and other.scalar.is_integer:
        return constant
    return fitted(constant, other, check_enum=check_enum)


def _fitted_scalar(constant: Constant, target: PropertyType, check_enum: bool) -> Constant:
    value, scalar = constant.value, target.scalar
    match value:
        case bool():
            if scalar is Scalar.BOOL:
                return Constant(value, target)
        case int() if scalar.is_integer:
            low, high = INTEGER_RANGES[scalar]
            if not low <= value <= high:
                raise Unfit(f"{shown(value)} is not between {low} and {high}, the range of {scalar.value}")
            return Constant(value, target)
        case int() | float() if scalar.is_float:
            return _number(value, target)
        case str():
            return _fitted_text(value, constant.type.scalar, target, check_enum)
    raise Unfit(f"{_written(value)} is not a value of {target}")


def _number(value: int | float, target: PropertyType) -> Constant:
    try:
        number = typed_value(value, target)
    except Unfit:
        raise Unfit(f"{shown(value)} is beyond the range of {target.scalar.value}") from None
    assert isinstance(number, float)
    return Constant(number, target)


def _fitted_text(value: str, written: Scalar, target: PropertyType, check_enum: bool) -> Constant:
    scalar = target.scalar
    if scalar is written:
        if target.enum and check_enum and value not in target.enum:
            raise Unfit(f"'{value}' is not one of {', '.join(target.enum)}")
        return Constant(value, target)
    if scalar is Scalar.DATE and written is Scalar.STRING:
        return replace(temporal_constant("date", value), type=target)
    if scalar is Scalar.DATETIME and written is Scalar.STRING:
        return replace(temporal_constant("datetime", value), type=target)
    if scalar is Scalar.DATETIME and written is Scalar.DATE:
        return replace(temporal_constant("datetime", f"{value}T00:00:00Z"), type=target)
    if scalar is Scalar.BLOB and written is Scalar.STRING:
        return Constant(value, target)
    raise Unfit(f"{_written(value)} is not a value of {target}")


def _fitted_list(constant: Constant, target: PropertyType) -> Constant:
    if not isinstance(constant.value, tuple):
        raise Unfit(f"{_written(constant.value)} is not a value of {target}")
    if target.scalar is Scalar.VECTOR:
        if len(constant.value) != target.dimension:
            raise Unfit(f"a list of {len(constant.value)} numbers is not a value of {target}")
        item = PropertyType(Scalar.F32)
    else:
        item = PropertyType(target.scalar)
    # Items keep the kind in which they were written (text, date …), which is the list's own.
    written = PropertyType(constant.type.scalar)
    fitted_items = (
        fitted(Constant(value, _item_type(value, written)), item).value  # type: ignore[arg-type]  # items are scalars
        for value in constant.value
    )
    return Constant(tuple(fitted_items), target)


def _item_type(value: object, written: PropertyType) -> PropertyType:
    if isinstance(value, str):
        return written
    return untyped_constant(value).type  # type: ignore[arg-type]  # items are scalars


def _written(value: object) -> str:
    return "a list" if isinstance(value, tuple) else shown(value)


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
