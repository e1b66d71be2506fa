"""Patterns for lines of a graph batch, and cells of CSV, that are plainly right: the column reader accepts everything they match.

They are used if some of many records are wrong: records that do not match are examined one by one, the others are read together.
A record that is right in an unusual way, with other escapes or the widest numbers, does not match, and is only read more slowly.
"""

from __future__ import annotations

import re

from omnigraph.language.catalog import EdgeType, EntityType, Property
from omnigraph.values.types import PropertyType, Scalar

_SIGN = (
    r"(?:[\x20\x21\x23-\x5b\x5d-\x7e]|[\xc2-\xdf][\x80-\xbf]|[\xe1-\xec\xee\xef][\x80-\xbf]{2}"
    r'|[\xf1-\xf3][\x80-\xbf]{3}|\\["\\/bfnrt])'
)
"""A character of a JSON string, byte by byte: valid UTF-8 is part of being right."""
_TEXT = f'"{_SIGN}*"'
_NAME = f'"{_SIGN}+"'
_FLOAT = r"-?(?:0|[1-9]\d{0,14})(?:\.\d{1,17})?"
_INTEGERS = {
    Scalar.I32: r"-?(?:0|[1-9]\d{0,8})",
    Scalar.U32: r"(?:0|[1-9]\d{0,8})",
    Scalar.U64: r"(?:0|[1-9]\d{0,17})",
}
_MAX_COUNTED = 32
"""The numbers of longer vectors are not counted: the pattern would be too long."""
_INTEGER = r"-?(?:0|[1-9]\d{0,17})"
_DAY = r"\d{4}-(?:0[1-9]|1[0-2])-(?:0[1-9]|1\d|2[0-8])"
_INSTANT = rf"{_DAY}[T ](?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d{{1,6}})?Z?"


def plain_pattern(entity: EntityType, member: str, *, dates_as_text: bool, allows_null: bool) -> str:
    """The pattern of whole lines with their newline, as bytes."""
    ends = ""
    if isinstance(entity, EdgeType):
        source, target = (rf',\s*"{word}":\s*{_NAME}' for word in ("from", "to"))
        ends = f"(?:{source}{target}|{target}{source})"
    members = [f'"id":\\s*{_NAME}']
    for property in entity.properties.values():
        null = "|null" if allows_null and _may_be_null(entity, property) else ""
        members.append(f'"{re.escape(property.name)}":\\s*(?:{_value(entity, property, dates_as_text)}{null})')
    any_member = f"(?:{'|'.join(members)})"
    data = rf"\{{\s*(?:{any_member}(?:,\s*{any_member})*\s*)?\}}"
    return rf'^\{{"{member}":\s*"{re.escape(entity.name)}"{ends},\s*"data":\s*{data}\}}\n$'


def plain_cell(type: PropertyType) -> str | None:
    """The pattern of cells of text that hold a value of the type; None if a pattern is not enough."""
    if type.is_list or type.dimension is not None or type.scalar in (Scalar.STRING, Scalar.BLOB):
        return None
    return f"^(?:{_scalar(type, dates_as_text=True)})$".replace('"', "")


def _may_be_null(entity: EntityType, property: Property) -> bool:
    return property.default is None and property.name not in entity.key


def _value(entity: EntityType, property: Property, dates_as_text: bool) -> str:
    type = property.type
    if type.dimension is not None:
        short = type.dimension <= _MAX_COUNTED
        return rf"\[{_FLOAT}(?:,\s*{_FLOAT}){{{type.dimension - 1}}}\]" if short else _list(_FLOAT)
    if type.is_list:
        return _list(_scalar(type, dates_as_text))
    if type.scalar is Scalar.STRING and property.name in entity.key:
        return _NAME
    return _scalar(type, dates_as_text)


def _list(item: str) -> str:
    return rf"\[\s*(?:{item}(?:\s*,\s*{item})*\s*)?\]"


def _scalar(type: PropertyType, dates_as_text: bool) -> str:
    match type.scalar:
        case Scalar.STRING | Scalar.BLOB:
            return _TEXT
        case Scalar.BOOL:
            return "(?:true|false)"
        case Scalar.F32 | Scalar.F64:
            return _FLOAT
        case Scalar.DATE:
            return f'"{_DAY}"' if dates_as_text else r"-?(?:0|[1-9]\d{0,4})"
        case Scalar.DATETIME:
            return f'"{_INSTANT}"' if dates_as_text else r"-?(?:0|[1-9]\d{0,12})"
    return _INTEGERS.get(type.scalar, _INTEGER)
