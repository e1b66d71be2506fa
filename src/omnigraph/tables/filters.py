"""Values and names as text of a scan filter. Every name is quoted: camelCase and SQL words are ordinary names."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Iterable


def column(name: str) -> str:
    return f"`{name}`"


def literal(value: object) -> str:
    """One value as filter text."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE)"
        case int() | float():
            return repr(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case dt.datetime():
            return f"timestamp '{_utc(value).isoformat(sep=' ', timespec='milliseconds')}'"
        case dt.date():
            return f"date '{value.isoformat()}'"
        case _:
            raise TypeError(f"no filter text for {type(value).__name__}")


def _utc(value: dt.datetime) -> dt.datetime:
    return value if value.tzinfo is None else value.astimezone(dt.UTC).replace(tzinfo=None)


def equals(name: str, value: object) -> str:
    return f"{column(name)} = {literal(value)}"


def in_list(name: str, values: Iterable[object]) -> str:
    """`name IN (...)`; the caller bounds the number of values."""
    return f"{column(name)} IN ({', '.join(literal(value) for value in values)})"
