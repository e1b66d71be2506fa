"""A stored row as a record of a graph batch: the one encoding of exports and of reports."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Mapping
from typing import Any

from omnigraph.errors import UsageError
from omnigraph.language.catalog import EdgeType, EntityType

_EPOCH = dt.date(1970, 1, 1)
_EPOCH_INSTANT = dt.datetime(1970, 1, 1)
_MILLISECOND = dt.timedelta(milliseconds=1)


def record(entity: EntityType, row: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope of one row: dates as days, instants as milliseconds, blobs as base64; null properties left out."""
    data = {"id": row["id"]}
    for name in entity.properties:
        value = row[name]
        if value is not None:
            data[name] = json_value(value)
    if isinstance(entity, EdgeType):
        return {"edge": entity.name, "from": row["src"], "to": row["dst"], "data": data}
    return {"type": entity.name, "data": data}


def record_text(entity: EntityType, row: Mapping[str, Any]) -> str:
    """One line for a report; what JSON cannot hold is shown as text."""
    return json.dumps(record(entity, row), ensure_ascii=False, separators=(",", ":"), default=str)


def record_line(entity: EntityType, row: Mapping[str, Any]) -> bytes:
    """One line of an export. UsageError when JSON cannot hold a value."""
    try:
        text = json.dumps(record(entity, row), ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    except ValueError:
        raise UsageError(
            f"{entity.name} '{row['id']}' holds a number that JSON has no way to write (NaN or infinity)",
            hint="export as parquet",
        ) from None
    return text.encode() + b"\n"


def json_value(value: Any) -> Any:
    match value:
        case dt.datetime():
            return (value - _EPOCH_INSTANT) // _MILLISECOND
        case dt.date():
            return (value - _EPOCH).days
        case bytes():
            return "base64:" + base64.b64encode(value).decode()
        case list():
            return [json_value(item) for item in value]
    return value
