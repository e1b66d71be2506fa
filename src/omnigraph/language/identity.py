"""A node's id: a pure function of its key, so that the same key gives the same node everywhere."""

from __future__ import annotations

import json
import math
import struct
from collections.abc import Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal

from omnigraph.errors import RecordError, UsageError, ValueViolation
from omnigraph.language.catalog import NodeType
from omnigraph.values.types import PropertyType, Scalar

_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


def node_id(node_type: NodeType, values: Mapping[str, object]) -> str:
    """The id of a keyed node: the key's canonical text, or a compact JSON array of texts when it has several members.

    Members stand in the order of their stable ids. Raises ValueViolation when one is missing or has no canonical text.
    """
    if not node_type.key:
        raise UsageError(f"{node_type.name} has no @key, so its ids are not derived")
    texts = [_member_text(node_type, name, values.get(name)) for name in node_type.key]
    return texts[0] if len(texts) == 1 else json.dumps(texts, separators=(",", ":"), ensure_ascii=False)


def _member_text(node_type: NodeType, name: str, value: object) -> str:
    target = f"{node_type.name}.{name}"
    if value is None:
        raise ValueViolation(f"key property {target} is missing", type_name=node_type.name, property=name)
    try:
        return canonical_text(value, node_type.properties[name].type)
    except ValueError as error:
        raise ValueViolation(
            f"key property {target}: {error}", type_name=node_type.name, property=name, value=value
        ) from None
    except TypeError as error:
        raise RecordError(
            f"key property {target}: {error}", type_name=node_type.name, property=name, value=value
        ) from None


def canonical_text(value: object, type: PropertyType) -> str:
    """The one text of a plain value. ValueError when it has none (NaN, infinity), TypeError when it is no such value.

    Strings as they are; integers in decimal; true and false; dates as days and date-times as milliseconds since 1970
    (a date-time without zone is UTC); floats as the shortest digits that give the value back at its stored width,
    without a trailing ".0", and with an exponent only from 1e21 up and below 1e-6.
    """
    scalar = type.scalar
    if scalar is Scalar.STRING and isinstance(value, str):
        return value
    if scalar is Scalar.BOOL and isinstance(value, bool):
        return "true" if value else "false"
    if scalar is Scalar.DATE:
        return str(_days(value))
    if scalar is Scalar.DATETIME:
        return str(_milliseconds(value))
    if scalar.is_integer and isinstance(value, int) and not isinstance(value, bool):
        return str(value)
    if scalar.is_float and isinstance(value, int | float) and not isinstance(value, bool):
        return _float_text(float(value), scalar)
    raise TypeError(f"{value!r} is not a {scalar}")


def _days(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        value = date.fromisoformat(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return (value - _EPOCH_DAY).days
    raise TypeError(f"{value!r} is not a Date")


def _milliseconds(value: object) -> int:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if isinstance(value, str):
        value = datetime.fromisoformat(value.upper())
    if isinstance(value, datetime):
        instant = value if value.tzinfo else value.replace(tzinfo=UTC)
        return (instant - _EPOCH) // _MILLISECOND
    raise TypeError(f"{value!r} is not a DateTime")


def _float_text(value: float, scalar: Scalar) -> str:
    if not math.isfinite(value):
        raise ValueError(f"{value} cannot be part of a key")
    if scalar is Scalar.F32:
        value = _as_f32(value)
    if value == 0:
        return "0"
    digits = _shortest_f32(value) if scalar is Scalar.F32 else repr(value)
    size = abs(value)
    if 1e-6 <= size < 1e21:
        text = format(Decimal(digits), "f")
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = format(Decimal(digits), "e").partition("e")
    if "." in mantissa:
        mantissa = mantissa.rstrip("0").rstrip(".")
    return f"{mantissa}e{int(exponent):+d}"


def _as_f32(value: float) -> float:
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        raise ValueError(f"{value} does not fit F32") from None


def _shortest_f32(value: float) -> str:
    for precision in range(1, 9):
        text = f"{value:.{precision}g}"
        if _fits_f32(text) == value:
            return text
    return f"{value:.9g}"


def _fits_f32(text: str) -> float | None:
    try:
        return _as_f32(float(text))
    except ValueError:
        return None
