"""One value from outside as the Python value its column holds. Strict: nothing is guessed, cut or nulled."""

from __future__ import annotations

import base64
import binascii
import datetime as dt
import math
import struct
from collections.abc import Callable

from omnigraph.values.temporal import parse_date, parse_datetime
from omnigraph.values.types import INTEGER_RANGES, PropertyType, Scalar

_EPOCH = dt.date(1970, 1, 1)
_EPOCH_INSTANT = dt.datetime(1970, 1, 1)


class Unfit(ValueError):
    """The value does not fit the type; the text says why, without naming the property."""


def typed_value(value: object, type: PropertyType) -> object:
    """None stays None (whether that is allowed is a rule of the data, not of the type). Raises Unfit.

    Enum membership is a rule too, so that it is reported in the order of the other rules.
    """
    if value is None:
        return None
    if type.dimension is not None:
        return _vector(value, type.dimension)
    if type.is_list:
        if not isinstance(value, list | tuple):
            raise Unfit(f"expects a list, got {shown(value)}")
        item = PropertyType(type.scalar)
        if any(member is None for member in value):
            raise Unfit("expects a list without nulls")
        return [typed_value(member, item) for member in value]
    return _SCALARS[type.scalar](value)


def shown(value: object) -> str:
    """A value in a message: short, and quoted when it is text."""
    text = (
        f"'{value}'" if isinstance(value, str) else repr(value) if not isinstance(value, bool) else str(value).lower()
    )
    return text if len(text) <= 80 else text[:77] + "..."


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise Unfit(f"expects String, got {shown(value)}")
    return value


def _bool(value: object) -> bool:
    if not isinstance(value, bool):
        raise Unfit(f"expects Bool, got {shown(value)}")
    return value


def _integer(scalar: Scalar) -> Callable[[object], int]:
    low, high = INTEGER_RANGES[scalar]

    def convert(value: object) -> int:
        if isinstance(value, str) and scalar in (Scalar.I64, Scalar.U64) and value.lstrip("-").isdecimal():
            value = int(value)  # 64-bit integers may come as text, because JSON tools round them
        if isinstance(value, bool) or not isinstance(value, int):
            raise Unfit(f"expects {scalar.value}, got {shown(value)}")
        if not low <= value <= high:
            raise Unfit(f"expects {scalar.value} ({low} to {high}), got {value}")
        return value

    return convert


def _float(value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unfit(f"expects a number, got {shown(value)}")
    return float(value)


def _float32(value: object) -> float:
    number = _float(value)
    try:
        return float(struct.unpack("<f", struct.pack("<f", number))[0])
    except OverflowError:
        raise Unfit(f"expects F32, got {number!r}") from None


def _date(value: object) -> dt.date:
    match value:
        case dt.datetime():
            raise Unfit(f"expects Date, got an instant {value.isoformat()}")
        case dt.date():
            return value
        case bool():
            pass
        case int():
            try:
                return _EPOCH + dt.timedelta(days=value)
            except OverflowError:
                raise Unfit(f"Date value out of range: {value}") from None
        case str():
            try:
                return parse_date(value)
            except ValueError:
                raise Unfit(f"invalid Date literal '{value}'") from None
    raise Unfit(f"expects Date, got {shown(value)}")


def _datetime(value: object) -> dt.datetime:
    """An instant in UTC without a zone, in whole milliseconds: how the column holds it."""
    match value:
        case dt.datetime():
            moment = value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)
            return moment.replace(microsecond=moment.microsecond // 1000 * 1000)
        case bool():
            pass
        case int():
            try:
                return _EPOCH_INSTANT + dt.timedelta(milliseconds=value)
            except OverflowError:
                raise Unfit(f"DateTime value out of range: {value}") from None
        case str():
            try:
                return parse_datetime(value).replace(tzinfo=None)
            except ValueError:
                raise Unfit(f"invalid DateTime literal '{value}'") from None
    raise Unfit(f"expects DateTime, got {shown(value)}")


def _blob(value: object) -> bytes:
    if isinstance(value, bytes):
        return value
    if not isinstance(value, str):
        raise Unfit(f"expects Blob, got {shown(value)}")
    if not value.startswith("base64:"):
        raise Unfit("expects Blob as 'base64:...'; external addresses are not allowed")
    try:
        return base64.b64decode(value.removeprefix("base64:"), validate=True)
    except binascii.Error:
        raise Unfit("expects Blob as valid base64") from None


def _vector(value: object, dimension: int) -> list[float]:
    if not isinstance(value, list | tuple):
        raise Unfit(f"expects Vector({dimension}), got {shown(value)}")
    if len(value) != dimension:
        raise Unfit(f"expects Vector({dimension}), got {len(value)} numbers")
    numbers = [_float32(member) for member in value]
    if not all(math.isfinite(number) for number in numbers):
        raise Unfit(f"expects Vector({dimension}) of finite numbers")
    return numbers


_SCALARS: dict[Scalar, Callable[[object], object]] = {
    Scalar.STRING: _string,
    Scalar.BLOB: _blob,
    Scalar.BOOL: _bool,
    Scalar.F32: _float32,
    Scalar.F64: _float,
    Scalar.DATE: _date,
    Scalar.DATETIME: _datetime,
    **{scalar: _integer(scalar) for scalar in INTEGER_RANGES},
}
