"""The values at the ends of each type's range, and the awkward ones in between."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

from omnigraph.values.types import INTEGER_RANGES, Scalar

EXTREMES: dict[Scalar, list[Any]] = {
    Scalar.STRING: ["a", "", "\0", "\\", "'", '"', "a\r\nb", ",", "null", "2020-01-01", "\u2028", "😀", "\ufeff", " "],
    Scalar.BOOL: [True, False],
    Scalar.I32: [*INTEGER_RANGES[Scalar.I32], 0],
    Scalar.I64: [*INTEGER_RANGES[Scalar.I64], 0, 2**53, -(2**53) - 1],
    Scalar.U32: [*INTEGER_RANGES[Scalar.U32], 2**31],
    Scalar.U64: [*INTEGER_RANGES[Scalar.U64], 2**63 - 1, 2**63, 2**53 + 1],
    Scalar.F32: [0.0, 3.4028234663852886e38, -3.4028234663852886e38, 1.401298464324817e-45, 0.10000000149011612, 0.5],
    Scalar.F64: [0.0, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324, 0.1, 1e16, 123456789.125],
    Scalar.DATE: [dt.date.min, dt.date.max, dt.date(1969, 12, 31), dt.date(2024, 2, 29)],
    Scalar.DATETIME: [
        dt.datetime.min,
        dt.datetime.max,
        dt.datetime(1969, 12, 31, 23, 59, 59, 999_999),
        dt.datetime(2024, 2, 29, 12, 0, 0, 1),
        dt.datetime(2024, 2, 29, 12),
    ],
}

KEYABLE = {scalar: [value for value in values if value != ""] for scalar, values in EXTREMES.items()}
"""An id is never empty."""


def as_literal(value: Any) -> str:
    """A value as `.gq` writes it."""
    match value:
        case bool():
            return "true" if value else "false"
        case dt.datetime():
            return f'datetime("{value.isoformat()}Z")'
        case dt.date():
            return f'date("{value.isoformat()}")'
        case str():
            escaped = value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n").replace("\r", "\\r")
            return f'"{escaped}"'
        case list():
            return f"[{', '.join(as_literal(item) for item in value)}]"
    return repr(value)


def as_json(value: Any) -> Any:
    """A value as JSON that loads take, written independently of the product."""
    match value:
        case dt.datetime() | dt.date():
            return value.isoformat()
        case list():
            return [as_json(item) for item in value]
    return value


def as_cell(value: Any) -> str:
    """A value as a cell of CSV."""
    match value:
        case bool():
            return "true" if value else "false"
        case str():
            text = value
        case list():
            text = json.dumps(as_json(value))
        case dt.datetime() | dt.date():
            return value.isoformat()
        case _:
            return repr(value)
    return '"' + text.replace('"', '""') + '"'


def from_json(value: Any, scalar: Scalar) -> Any:
    """The value that JSON of ours stands for, by the rules of the guide."""
    if isinstance(value, list):
        return [from_json(item, scalar) for item in value]
    if scalar is Scalar.DATETIME:
        return dt.datetime.fromisoformat(value).replace(tzinfo=None)
    if scalar is Scalar.DATE:
        return dt.date.fromisoformat(value)
    return int(value) if scalar in INTEGER_RANGES else value
