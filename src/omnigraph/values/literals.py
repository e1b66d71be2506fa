"""Literals meet types: a written value becomes a typed Constant, or is refused with a reason."""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.values.json_values import Unfit, instant_text, parse_date, parse_datetime, shown, typed_value
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
