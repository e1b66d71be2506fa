"""One value from outside (JSON or Python) as the value its column holds, and back as JSON.

Strict on the way in: nothing is guessed, cut or nulled. What goes out as JSON comes in again as the same value.
"""

from __future__ import annotations

import base64
import math
import operator
import re
import struct
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any, SupportsIndex

from omnigraph.values.types import INTEGER_RANGES, MAX_SAFE_INTEGER, PropertyType, Scalar

# Dates and instants: strict ISO 8601 text and back, nothing guessed, nothing cut.
#
# Both range over the years 1 to 9999, which every engine and Python support. An instant is in UTC, in whole microseconds; a column
# holds it without a zone, callers get it with one.

DAYS = (-719_162, 2_932_896)
"""The first and the last day, counted from 1970-01-01."""
MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The first and the last instant, counted from 1970-01-01T00:00:00Z."""

TOO_FINE = "an instant has microseconds at most"

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|z|[+-]([01]\d|2[0-3]):?[0-5]\d)?", re.ASCII
)
_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def parse_date(text: str) -> date:
    """`YYYY-MM-DD` only: which day a date-time is on depends on the time zone, so it is refused. Raises ValueError."""
    if not _DATE.fullmatch(text):
        raise ValueError("a date is written YYYY-MM-DD")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("there is no such day") from None


def parse_datetime(text: str) -> datetime:
    """`YYYY-MM-DDTHH:MM[:SS[.ffffff]]` with `Z`, an offset, or neither (UTC), as an instant in UTC. Raises ValueError."""
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError("an instant is written YYYY-MM-DDTHH:MM:SS with Z or an offset")
    day, minute, second, fraction, zone, _ = match.groups()
    fraction = (fraction or "").ljust(6, "0")
    if fraction[6:].strip("0"):
        raise ValueError(TOO_FINE)
    offset = "+00:00" if zone in (None, "Z", "z") else zone
    try:
        return datetime.fromisoformat(f"{day}T{minute}:{second or '00'}.{fraction[:6]}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("there is no such day or time") from None


def instant_text(instant: datetime) -> str:
    """RFC 3339 in UTC with `Z`: with milliseconds, or microseconds if there are any. Without a zone, UTC is meant."""
    moment = utc_without_zone(instant)
    return moment.isoformat(timespec="microseconds" if moment.microsecond % 1000 else "milliseconds") + "Z"


def utc_without_zone(instant: datetime) -> datetime:
    """The instant as a column holds it. Without a zone, UTC is meant. Raises OverflowError."""
    return instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None)


def days_since_1970(day: date) -> int:
    return (day - _EPOCH_DAY).days


def day_at(days: int) -> date:
    """The day this many days after 1970-01-01. Raises OverflowError."""
    return _EPOCH_DAY + timedelta(days=days)


def microseconds_since_1970(instant: datetime) -> int:
    return (utc_without_zone(instant) - _EPOCH) // _MICROSECOND


def instant_at(microseconds: int) -> datetime:
    """The instant this many microseconds after 1970, without a zone. Raises OverflowError."""
    return _EPOCH + timedelta(microseconds=microseconds)


MAX_SHOWN = 80
"""How many characters of a value a message repeats."""

_DIGITS = re.compile(r"-?[0-9]{1,20}", re.ASCII)
_WHOLE = (int, SupportsIndex)
"""Types that may be integers. The check for the second one's methods is slow, and most values are of the first."""


class Unfit(ValueError):
    """The value does not fit the type; the text says why, without naming the property."""

    def about(self, target: str) -> str:
        """The text as a sentence about the target of the value: "Person.age expects I32, got 'x'"."""
        separator = " " if str(self).startswith("expects") else ": "
        return f"{target}{separator}{self}"


@dataclass(frozen=True)
class Unrepresentable:
    """A value of another system that no property can hold; the text describes it."""

    text: str

    def __str__(self) -> str:
        return self.text


# ---------------------------------------------------------------- in


def typed_value(value: object, type: PropertyType) -> object:
    """The value as the column's own Python type (an instant without zone, meaning UTC). Raises Unfit.

    None stays None, and a word that is not in the enum stays a word: these are rules of the data, not of the type, and are
    reported in the order of the other rules.
    """
    if value is None:
        return None
    if type.dimension is not None:
        return _vector(value, type.dimension)
    if type.is_list:
        return _list(value, _SCALARS[type.scalar])
    return _SCALARS[type.scalar](value)


def shown(value: object) -> str:
    """A value in a message: short, as JSON if possible."""
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            text = f"'{value}'".encode("utf-8", "backslashreplace").decode()
        case float() if not math.isfinite(value):
            return _non_finite(value)
        case int() if abs(value) >= 10**40:
            return "a very large number"
        case int() | float() | Decimal() | list() | tuple():
            text = str(value)
        case Mapping():
            return "an object"
        case datetime():
            return f"the instant {value.isoformat()}"
        case date():
            return f"the day {value.isoformat()}"
        case bytes():
            return f"{len(value)} bytes"
        case Unrepresentable():
            return str(value)
        case _:
            return type(value).__name__
    return text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."


def _items(value: object, expected: str) -> list[object]:
    """The items of a list, a tuple, or an array of a numeric library."""
    if isinstance(value, list | tuple):
        return list(value)
    to_list = getattr(value, "tolist", None)
    if to_list is not None and isinstance(items := to_list(), list):
        return items
    raise Unfit(f"expects {expected}, got {shown(value)}")


def _list(value: object, convert: Callable[[object], object]) -> list[object]:
    items: list[object] = []
    for index, item in enumerate(_items(value, "a list")):
        if item is None:
            raise Unfit("expects a list without nulls")
        try:
            items.append(convert(item))
        except Unfit as unfit:
            raise Unfit(unfit.about(f"item {index}")) from None
    return items


def _vector(value: object, dimension: int) -> list[float]:
    items = _items(value, f"Vector({dimension})")
    if len(items) != dimension:
        raise Unfit(f"expects Vector({dimension}), got {len(items)} numbers")
    numbers: list[float] = []
    for index, item in enumerate(items):
        try:
            numbers.append(_float32(item))
        except Unfit as unfit:
            raise Unfit(unfit.about(f"item {index}")) from None
    return numbers


def _string(value: object) -> str:
    if not isinstance(value, str):
        raise Unfit(f"expects String, got {shown(value)}")
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError:
            raise Unfit(f"expects valid Unicode, got {shown(value)}, which holds half of a surrogate pair") from None
    return value


def _bool(value: object) -> bool:
    if isinstance(value, bool):
        return value
    if getattr(value, "dtype", None) == "bool" and not getattr(value, "shape", None):
        return bool(value)  # a bool of a numeric library
    raise Unfit(f"expects Bool, got {shown(value)}")


def _whole(value: object) -> int | None:
    """An integer as a Python int, whichever library made it; None if it is something else."""
    if isinstance(value, bool | str) or not isinstance(value, _WHOLE):
        return None
    try:
        return operator.index(value)
    except TypeError:
        return None


def _integer(scalar: Scalar) -> Callable[[object], int]:
    low, high = INTEGER_RANGES[scalar]
    as_text = high > MAX_SAFE_INTEGER

    def convert(value: object) -> int:
        number = _whole(value)
        match value:
            case Decimal() if value.is_finite() and value.adjusted() < 20 and value == value.to_integral_value():
                number = int(value)
            case str() if as_text and _DIGITS.fullmatch(value):
                number = int(value)  # 64-bit integers may come as text, because many JSON tools round them
        if number is None:
            raise Unfit(f"expects {scalar.value}, got {shown(value)}")
        if not low <= number <= high:
            raise Unfit(f"expects {scalar.value} ({low} to {high}), got {shown(number)}")
        return number

    return convert


def _float64(value: object) -> float:
    if isinstance(value, Decimal):
        return _from_decimal(value, Scalar.F64)
    if isinstance(value, bool) or not isinstance(value, Real):
        raise Unfit(f"expects a number, got {shown(value)}")
    try:
        number = float(value)
    except OverflowError:
        raise Unfit(f"expects F64, got {shown(value)}") from None
    except TypeError:  # NumPy's durations claim to be numbers
        raise Unfit(f"expects a number, got {shown(value)}") from None
    if not math.isfinite(number):
        raise Unfit(f"expects a finite number, got {shown(number)}")
    return number


def _float32(value: object) -> float:
    """The nearest 32-bit float."""
    if isinstance(value, Decimal):
        return _from_decimal(value, Scalar.F32)
    number = _float64(value)
    rounded = as_f32(number)
    if rounded is None:
        raise Unfit(f"expects F32, got {shown(number)}")
    return rounded


def _from_decimal(value: Decimal, scalar: Scalar) -> float:
    """The digits of a decimal are deliberate: it is accepted only if the float gives all of them back."""
    number = float(value) if value.is_finite() else math.nan
    rounded = as_f32(number) if scalar is Scalar.F32 else number
    if rounded is None or not math.isfinite(rounded) or Decimal(float_digits(rounded, scalar)) != value:
        raise Unfit(f"expects {scalar.value}, which has no value {shown(value)}")
    return rounded


def as_f32(value: float) -> float | None:
    """The nearest 32-bit float; None if the number is out of its range."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return None


def float_digits(value: float, scalar: Scalar) -> str:
    """The shortest digits that give a float back at its width."""
    if scalar is Scalar.F32:
        for precision in range(1, 9):
            text = f"{value:.{precision}g}"
            if as_f32(float(text)) == value:
                return text
        return f"{value:.9g}"
    return repr(value)


def _date(value: object) -> date:
    match value:
        case datetime():
            # Many data frames have days as midnights. With a zone, the day would depend on it.
            is_an_instant = value == value  # NaT, which is none, has no year either.
            if is_an_instant and value.tzinfo is None and value == datetime(value.year, value.month, value.day):
                return date(value.year, value.month, value.day)
            raise Unfit(f"expects Date, got {shown(value)}")
        case date():
            return value
        case str():
            try:
                return parse_date(value)
            except ValueError as error:
                raise Unfit(f"invalid Date literal {shown(value)}: {error}") from None
    days = _whole(value)
    if days is None:
        raise Unfit(f"expects Date, got {shown(value)}")
    try:
        return day_at(days)
    except OverflowError:
        raise Unfit(f"Date value out of range: {shown(days)}") from None


def _datetime(value: object) -> datetime:
    match value:
        case datetime():
            return _moment(value)
        case str():
            try:
                return parse_datetime(value).replace(tzinfo=None)
            except ValueError as error:
                raise Unfit(f"invalid DateTime literal {shown(value)}: {error}") from None
    milliseconds = _whole(value)
    if milliseconds is None:
        raise Unfit(f"expects DateTime, got {shown(value)}")
    try:
        return instant_at(milliseconds * 1000)
    except OverflowError:
        raise Unfit(f"DateTime value out of range: {shown(milliseconds)}") from None


def _moment(value: datetime) -> datetime:
    """Libraries have their own datetime types, which may be finer, or not a time at all (NaT); columns hold Python's."""
    if value != value:
        raise Unfit("expects DateTime, got NaT")
    if getattr(value, "nanosecond", 0):
        raise Unfit(f"expects DateTime, got {shown(value)}: {TOO_FINE}")
    try:
        moment = utc_without_zone(value)
    except OverflowError:
        raise Unfit(f"DateTime value out of range: {value.isoformat()}") from None
    return moment if type(moment) is datetime else datetime.combine(moment.date(), moment.time())


def _blob(value: object) -> bytes:
    if isinstance(value, bytes | bytearray | memoryview):
        return bytes(value)
    if not isinstance(value, str):
        raise Unfit(f"expects Blob, got {shown(value)}")
    if not value.startswith(_BASE64):
        raise Unfit("expects Blob as 'base64:...'; external addresses are not allowed")
    try:
        return base64.b64decode(value.removeprefix(_BASE64), validate=True)
    except ValueError:
        raise Unfit("expects Blob as valid base64") from None


_BASE64 = "base64:"
_SCALARS: Mapping[Scalar, Callable[[object], object]] = {
    Scalar.STRING: _string,
    Scalar.BLOB: _blob,
    Scalar.BOOL: _bool,
    Scalar.F32: _float32,
    Scalar.F64: _float64,
    Scalar.DATE: _date,
    Scalar.DATETIME: _datetime,
    **{scalar: _integer(scalar) for scalar in INTEGER_RANGES},
}


# ---------------------------------------------------------------- out


def json_value(value: object) -> Any:
    """A value as JSON: dates and instants as ISO text, bytes as base64, integers that a float cannot hold as text.

    NaN and the infinities, which no column holds but a computation may give, are words.
    """
    match value:
        case None | bool() | str():
            return value
        case int():
            return value if -MAX_SAFE_INTEGER <= value <= MAX_SAFE_INTEGER else str(value)
        case float():
            return value if math.isfinite(value) else _non_finite(value)
        case datetime():
            return instant_text(value)
        case date():
            return value.isoformat()
        case bytes():
            return blob_text(value)
        case list():
            return [json_value(item) for item in value]
        case dict():
            return {name: json_value(item) for name, item in value.items()}
    raise TypeError(f"{type(value).__name__} is not a value of a graph")


def blob_text(value: bytes) -> str:
    return _BASE64 + base64.b64encode(value).decode()


def _non_finite(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
