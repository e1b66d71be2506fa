"""Values of parameters: JSON or Python in, typed Python values out.

| declared | accepted | gives |
|---|---|---|
| String | text | str |
| Bool | true, false | bool |
| I32, U32 | whole number | int |
| I64, U64 | whole number, or its decimal digits as text (safe beyond 2^53); U64 up to 2^63 - 1 | int |
| F32, F64 | number | float |
| Date | `YYYY-MM-DD`, a Python date; a date-time is refused, because its day depends on the time zone | date |
| DateTime | ISO date-time (UTC unless it has an offset), a Python datetime (UTC if naive) | datetime in UTC, milliseconds |
| Blob | `base64:…`, bytes, or a URI | bytes, or the URI as str |
| [T] | array of T, no nulls | list |
| Vector(N) | array of N finite numbers | list of float |

A nullable parameter may be left out or null. A value for an undeclared parameter is ignored, unless it is an object.
"""

from __future__ import annotations

import base64
import binascii
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, date, datetime
from numbers import Integral, Real

from omnigraph.errors import ParameterError
from omnigraph.language.query.plan import DeclaredParameter
from omnigraph.values.temporal import parse_date, parse_datetime
from omnigraph.values.types import INTEGER_RANGES, MAX_F32, PropertyType, Scalar

_DIGITS = re.compile(r"[+-]?[0-9]{1,20}", re.ASCII)
_URI = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://\S+")


def bind_parameters(declared: Iterable[DeclaredParameter], values: Mapping[str, object]) -> dict[str, object]:
    """One typed value per declared parameter. Raises ParameterError, which names the parameter."""
    bound: dict[str, object] = {}
    for parameter in declared:
        bound[parameter.name] = _value(parameter.name, parameter.type, values.get(parameter.name), values)
    for name, value in values.items():
        if name not in bound and isinstance(value, Mapping):
            raise ParameterError(f"${name}: an object is not a parameter value", parameter=name)
    return bound


class _Wrong(Exception):
    """The message completes "$name: "."""


def _value(name: str, type_: PropertyType, value: object, given: Mapping[str, object]) -> object:
    if value is None:
        if type_.nullable:
            return None
        problem = "null is not allowed" if name in given else "a value is required"
        raise ParameterError(f"${name}: {problem}", parameter=name, hint=f"declared as {type_}")
    try:
        if type_.scalar is Scalar.VECTOR:
            return _vector(value, type_.dimension or 0)
        if type_.is_list:
            return _list(value, replace(type_, is_list=False, nullable=False))
        return _READERS[type_.scalar](value, type_.scalar)
    except _Wrong as wrong:
        raise ParameterError(f"${name}: {wrong}", parameter=name, hint=f"declared as {type_}") from None


def _items(value: object) -> list[object]:
    """The items of an array: a list, a tuple, or anything that can turn itself into a list of plain values."""
    if isinstance(value, list | tuple):
        return list(value)
    to_list = getattr(value, "tolist", None)
    if to_list is not None and isinstance(items := to_list(), list):
        return items
    raise _Wrong(f"expected an array, got {_shown(value)}")


def _list(value: object, item: PropertyType) -> list[object]:
    read: list[object] = []
    for index, one in enumerate(_items(value)):
        try:
            if one is None:
                raise _Wrong("null is not allowed in a list")
            read.append(_READERS[item.scalar](one, item.scalar))
        except _Wrong as wrong:
            raise _Wrong(f"item {index}: {wrong}") from None
    return read


def _vector(value: object, dimension: int) -> list[float]:
    numbers = [_float(one, Scalar.F32) for one in _items(value)]
    if len(numbers) != dimension:
        raise _Wrong(f"expected {dimension} numbers, got {len(numbers)}")
    if not all(math.isfinite(number) for number in numbers):
        raise _Wrong("a vector holds finite numbers only")
    return numbers


def _string(value: object, _scalar: Scalar) -> str:
    if not isinstance(value, str):
        raise _Wrong(f"expected a string, got {_shown(value)}")
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise _Wrong("the text is not valid Unicode") from None
    return value


def _bool(value: object, _scalar: Scalar) -> bool:
    if not isinstance(value, bool):
        raise _Wrong(f"expected true or false, got {_shown(value)}")
    return value


def _integer(value: object, scalar: Scalar) -> int:
    wide = scalar in (Scalar.I64, Scalar.U64)
    as_digits = wide and isinstance(value, str) and _DIGITS.fullmatch(value)
    if isinstance(value, str | Integral) and not isinstance(value, bool) and (as_digits or not isinstance(value, str)):
        number = int(value)
    else:
        also = " or its digits as a string" if wide else ""
        raise _Wrong(f"expected a whole number{also}, got {_shown(value)}")
    low, high = INTEGER_RANGES[scalar]
    high = min(high, INTEGER_RANGES[Scalar.I64][1])
    if not low <= number <= high:
        raise _Wrong(f"{number} is not between {low} and {high}")
    return number


def _float(value: object, scalar: Scalar) -> float:
    if not isinstance(value, Real) or isinstance(value, bool):
        raise _Wrong(f"expected a number, got {_shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise _Wrong(f"the number is beyond the range of {scalar.value}") from None
    if scalar is Scalar.F32 and math.isfinite(number) and abs(number) > MAX_F32:
        raise _Wrong("the number is beyond the range of F32")
    return number


def _date(value: object, _scalar: Scalar) -> date:
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    if isinstance(value, str):
        try:
            return parse_date(value)
        except ValueError as error:
            raise _Wrong(f"'{value}' is not a date: {error}") from None
    raise _Wrong(f"expected a date, got {_shown(value)}")


def _datetime(value: object, _scalar: Scalar) -> datetime:
    if isinstance(value, datetime):
        try:
            instant = value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
        except OverflowError:
            raise _Wrong("the instant is out of range") from None
        return instant.replace(microsecond=instant.microsecond // 1000 * 1000)
    if isinstance(value, str):
        try:
            return parse_datetime(value)
        except ValueError as error:
            raise _Wrong(f"'{value}' is not an instant: {error}") from None
    raise _Wrong(f"expected an instant, got {_shown(value)}")


def _blob(value: object, _scalar: Scalar) -> bytes | str:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if isinstance(value, str) and value.startswith("base64:"):
        try:
            return base64.b64decode(value.removeprefix("base64:"), validate=True)
        except (binascii.Error, ValueError):
            raise _Wrong("the text after base64: is not base64") from None
    if isinstance(value, str) and _URI.fullmatch(value):
        return value
    raise _Wrong(f"expected base64:… or a URI, got {_shown(value)}")


_READERS: Mapping[Scalar, Callable[[object, Scalar], object]] = {
    Scalar.STRING: _string,
    Scalar.BLOB: _blob,
    Scalar.BOOL: _bool,
    Scalar.I32: _integer,
    Scalar.I64: _integer,
    Scalar.U32: _integer,
    Scalar.U64: _integer,
    Scalar.F32: _float,
    Scalar.F64: _float,
    Scalar.DATE: _date,
    Scalar.DATETIME: _datetime,
}


def _shown(value: object) -> str:
    """What was given, in the words of JSON, short."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return f"'{value}'" if len(value) <= 40 else f"'{value[:40]}…'"
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, list | tuple):
        return "an array"
    if isinstance(value, int | float):
        return str(value) if not isinstance(value, int) or abs(value) < 10**40 else "a very large number"
    return type(value).__name__
