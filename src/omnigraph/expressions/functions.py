"""The meaning of value functions, in Python: one value per call, nulls already excluded."""

from __future__ import annotations

import calendar
import datetime as dt
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from omnigraph._internal.deadlines import NEVER, Deadline
from omnigraph._internal.runtime import WorkingMemory
from omnigraph.errors import ArithmeticOverflow
from omnigraph.language.query.plan import Constant, Expression, FunctionCall, ListOf, Now, Parameter, children
from omnigraph.values.columns import spelled_value
from omnigraph.values.json_text import plain_text
from omnigraph.values.json_values import typed_value, utc_without_zone
from omnigraph.values.types import INTEGER_RANGES, PropertyType, Scalar

WHITE_SPACE = " \t\n\r"
SECONDS = {"week": 604_800, "day": 86_400, "hour": 3_600, "minute": 60, "second": 1}


def evaluated(call: FunctionCall, arguments: Sequence[Any]) -> Any:
    """The value of a call. Raises ArithmeticOverflow."""
    if call.function == "coalesce":
        return next((in_type(value, call.type) for value in arguments if value is not None), None)
    if any(argument is None for argument in arguments):
        return None
    try:
        return _whole(_MEANINGS[call.function](*arguments), call.type)
    except OverflowError as error:
        raise ArithmeticOverflow from error


def in_type(value: Any, type_: PropertyType) -> Any:
    """A number in the wider type that several numbers share."""
    if value is None or type_.is_list:
        return value
    return _whole(float(value) if type_.scalar.is_float else value, type_)


def _whole(value: Any, type_: PropertyType) -> Any:
    if type_.scalar.is_integer and not type_.is_list and value is not None:
        low, high = INTEGER_RANGES[type_.scalar]
        if not low <= value <= high:
            raise ArithmeticOverflow
    return value


# ---------------------------------------------------------------- texts


def _upper(letter: str) -> str:
    """The single letter that is this one's upper case, if there is one: Unicode's simple mapping."""
    capital = letter.upper() if letter != "ß" else "ẞ"
    if len(capital) == 1:
        return capital
    title = letter.title()
    return title if len(title) == 1 else letter


def _lower(letter: str) -> str:
    return letter.lower() if letter != "İ" else "i"


def _replaced(text: str, part: str, other: str) -> str:
    return text.replace(part, other) if part else text


def _substring(text: str, start: int, count: int | None = None) -> str:
    end = len(text) + 1 if count is None else start + count
    return text[max(start, 1) - 1 : max(end, 1) - 1]


def _split(text: str, separator: str) -> list[str] | None:
    return text.split(separator) if separator else None


def _joined(items: Sequence[str | None], separator: str) -> str:
    return separator.join(item for item in items if item is not None)


# ---------------------------------------------------------------- numbers


def _rounded(number: int | float, digits: int = 0) -> int | float:
    if isinstance(number, int):
        return number
    scale = 10.0**digits
    scaled = abs(number) * scale
    below = math.floor(scaled) if math.isfinite(scaled) else scaled
    return math.copysign((below + (scaled - below >= 0.5)) / scale if math.isfinite(scaled) else number, number)


def _integer(value: str | int | float) -> object:
    return spelled_value(value, PropertyType(Scalar.I64)) if isinstance(value, str) else int(value)


def _float(value: str | int | float) -> object:
    return spelled_value(value, PropertyType(Scalar.F64)) if isinstance(value, str) else float(value)


def _floor(number: int | float) -> int | float:
    return number if isinstance(number, int) else float(math.floor(number))


def _ceil(number: int | float) -> int | float:
    return number if isinstance(number, int) else float(math.ceil(number))


def _power(base: float, exponent: float) -> float | None:
    try:
        power = math.pow(base, exponent)
    except (ValueError, OverflowError, ZeroDivisionError):
        return None
    return power if math.isfinite(power) else None


# ---------------------------------------------------------------- dates and timestamps

Time = dt.date | dt.datetime


def _truncated(unit: str, time: Time) -> Time:
    day = dt.date(time.year, time.month, time.day)
    if unit == "week":
        day -= dt.timedelta(days=day.weekday())
    elif unit in ("month", "year"):
        day = day.replace(day=1, month=day.month if unit == "month" else 1)
    if not isinstance(time, dt.datetime):
        return day
    if unit not in ("hour", "minute", "second"):
        return dt.datetime(day.year, day.month, day.day)
    coarse = time.replace(microsecond=0)
    if unit != "second":
        coarse = coarse.replace(second=0)
    return coarse.replace(minute=0) if unit == "hour" else coarse


def _added(time: Time, count: int, unit: str) -> Time:
    if unit in ("month", "year"):
        months = time.year * 12 + time.month - 1 + count * (12 if unit == "year" else 1)
        year, month = divmod(months, 12)
        if not 1 <= year <= 9999:
            raise OverflowError
        return time.replace(year=year, month=month + 1, day=min(time.day, calendar.monthrange(year, month + 1)[1]))
    return time + dt.timedelta(seconds=SECONDS[unit] * count)


def _between(first: Time, last: Time, unit: str) -> float:
    microseconds = (_instant(last) - _instant(first)) // dt.timedelta(microseconds=1)
    return float(microseconds) / float(SECONDS[unit] * 1_000_000)


def _instant(time: Time) -> dt.datetime:
    return time if isinstance(time, dt.datetime) else dt.datetime(time.year, time.month, time.day)


_MEANINGS: dict[str, Callable[..., Any]] = {
    "lower": lambda text: "".join(map(_lower, text)),
    "upper": lambda text: "".join(map(_upper, text)),
    "trim": lambda text: text.strip(WHITE_SPACE),
    "replace": _replaced,
    "substring": _substring,
    "length": len,
    "split": _split,
    "join": _joined,
    "text": plain_text,
    "integer": _integer,
    "float": _float,
    "abs": abs,
    "round": _rounded,
    "floor": _floor,
    "ceil": _ceil,
    "sqrt": lambda number: math.sqrt(number) if number >= 0 else None,
    "ln": lambda number: math.log(number) if number > 0 else None,
    "power": _power,
    "year": lambda time: time.year,
    "month": lambda time: time.month,
    "day": lambda time: time.day,
    "week": lambda time: time.isocalendar().week,
    "weekday": lambda time: time.isoweekday(),
    "hour": lambda time: getattr(time, "hour", 0),
    "date_trunc": _truncated,
    "date_add": _added,
    "duration": _between,
    "size": len,
}


# The values of an expression's parameters, literals and `now()` in one call.


@dataclass(frozen=True)
class Arguments:
    """The arguments of one call of a query: bound parameters, its one point in time, how long it may take and in which memory."""

    parameters: Mapping[str, object]
    now: dt.datetime
    deadline: Deadline = NEVER
    memory: WorkingMemory = field(default_factory=partial(WorkingMemory, 0), compare=False, repr=False)

    def value(self, expression: Expression) -> object:
        """The Python value of a known expression, as a column of its type would hold it."""
        match expression:
            case Constant(tuple() as items, type):
                # Unlike a stored list, a list written in a query may hold nulls.
                item = PropertyType(Scalar.F32 if type.dimension is not None else type.scalar)
                return [typed_value(value, item) for value in items]
            case Constant(value, type):
                return typed_value(value, type)
            case Parameter(name, _):
                return self.parameters.get(name)
            case Now():
                return utc_without_zone(self.now)
            case ListOf(items, _):
                return [self.value(item) for item in items]
            case FunctionCall():
                return evaluated(expression, [self.value(argument) for argument in expression.arguments])
        raise TypeError(f"{expression!r} depends on a row")

    def number(self, cut: Constant | Parameter) -> int:
        """The value of a `limit` or `offset`."""
        value = self.value(cut)
        assert isinstance(value, int)
        return value


def is_known(expression: Expression) -> bool:
    """Whether an expression has a value before any row is read."""
    if isinstance(expression, ListOf | FunctionCall):
        return all(is_known(item) for item in children(expression))
    return isinstance(expression, Constant | Parameter | Now)
