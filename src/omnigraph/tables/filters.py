"""Values and names as text of a scan filter. Every name is quoted, so camelCase and SQL keywords are ordinary names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable

from omnigraph.values.json_values import utc_without_zone
from omnigraph.values.types import INTEGER_RANGES, Scalar

_MIN_I64, _ = INTEGER_RANGES[Scalar.I64]


def column(name: str) -> str:
    return f"`{name}`"


def literal(value: object) -> str:
    match value:
        case None:
            return "NULL"
        case bool():
            return "true" if value else "false"
        case int() if value <= _MIN_I64:
            # The scan parses the digits before the sign, and these alone overflow.
            return f"CAST('{value}' AS BIGINT)"
        case int() | float():
            return repr(value)
        case str():
            return "'" + value.replace("'", "''") + "'"
        case dt.datetime():
            return f"timestamp '{utc_without_zone(value).isoformat(sep=' ', timespec='microseconds')}'"
        case dt.date():
            return f"date '{value.isoformat()}'"
        case _:
            raise TypeError(f"no filter text for {type(value).__name__}")


def equals(name: str, value: object) -> str:
    return f"{column(name)} = {literal(value)}"


def in_list(name: str, values: Iterable[object]) -> str:
    """`name IN (...)`; the caller bounds the number of values."""
    return f"{column(name)} IN ({', '.join(literal(value) for value in values)})"
