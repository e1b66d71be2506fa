"""A CSV cell as a value, and a value as a cell. A null is an empty cell; text is quoted, so that "" is empty text."""

from __future__ import annotations

import json
import re
from datetime import date

from omnigraph.values.json_values import json_value
from omnigraph.values.types import PropertyType, Scalar

INTEGER = r"-?[0-9]+"
NUMBER = r"-?([0-9]+(\.[0-9]*)?|\.[0-9]+)([eE][+-]?[0-9]+)?"
"""How numbers are written in a cell."""

_INTEGER = re.compile(INTEGER)
_NUMBER = re.compile(NUMBER)
_BOOLS = {"true": True, "false": False}


def cell_value(cell: str | None, type: PropertyType) -> object:
    """The value that a cell spells, or the text itself if it spells none: then the check of the type refuses it."""
    if cell is None:
        return None
    try:
        if type.is_list or type.dimension is not None:
            return json.loads(cell)
        if type.scalar is Scalar.BOOL:
            return _BOOLS.get(cell, cell)
        if type.scalar.is_integer or type.scalar in (Scalar.DATE, Scalar.DATETIME):
            return int(cell) if _INTEGER.fullmatch(cell) else cell
        if type.scalar.is_float:
            return float(cell) if _NUMBER.fullmatch(cell) else cell
    except (ValueError, RecursionError):
        pass
    return cell


def cell_text(value: object) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case date() | bytes():
            return str(json_value(value))
        case list():
            return _quoted(json.dumps(json_value(value), ensure_ascii=False))
        case str():
            return _quoted(value)
    raise TypeError(f"{type(value).__name__} is not a value of a graph")


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
