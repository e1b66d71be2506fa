"""Stored rows as text and files: the record of a graph batch, the cells of CSV, the columns of Parquet."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.errors import UsageError
from omnigraph.language.catalog import EdgeType, EntityType

if TYPE_CHECKING:
    import pyarrow as pa

_EPOCH = dt.date(1970, 1, 1)
_EPOCH_INSTANT = dt.datetime(1970, 1, 1)
_MILLISECOND = dt.timedelta(milliseconds=1)

FILE_NAMES = {"src": "from", "dst": "to"}
"""What the ends of an edge are called outside."""


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


def json_lines(entity: EntityType, rows: pa.Table) -> bytes:
    """Lines of an export. UsageError when JSON cannot hold a value."""
    encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode
    lines = []
    for row in rows.to_pylist():
        try:
            lines.append(encode(record(entity, row)))
        except ValueError:
            raise UsageError(
                f"{entity.name} '{row['id']}' holds a number that JSON has no way to write (NaN or infinity)",
                hint="export as parquet",
            ) from None
    return "".join(f"{line}\n" for line in lines).encode()


def json_value(value: Any) -> Any:
    match value:
        case dt.datetime():
            return (value - _EPOCH_INSTANT) // _MILLISECOND
        case dt.date():
            return (value - _EPOCH).days
        case bytes():
            return _blob(value)
        case list():
            return [json_value(item) for item in value]
    return value


def csv_header(columns: list[str]) -> bytes:
    return (",".join(_cell(FILE_NAMES.get(name, name)) for name in columns) + "\r\n").encode()


def csv_lines(rows: pa.Table) -> bytes:
    """Texts are always quoted, so that an empty one differs from null, which is an empty cell."""
    columns = [[_cell(value) for value in column.to_pylist()] for column in rows.columns]
    return "".join(",".join(cells) + "\r\n" for cells in zip(*columns, strict=True)).encode()


def _cell(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case int() | float():
            return repr(value)
        case dt.datetime():
            return value.isoformat(timespec="milliseconds") + "Z"
        case dt.date():
            return value.isoformat()
        case bytes():
            return _blob(value)
        case list():
            return _cell(json.dumps([json_value(item) for item in value], ensure_ascii=False))
        case _:
            return '"' + str(value).replace('"', '""') + '"'


def _blob(value: bytes) -> str:
    return "base64:" + base64.b64encode(value).decode()


def file_columns(rows: pa.Table) -> pa.Table:
    """A table with its columns under the names files use."""
    return rows.rename_columns([FILE_NAMES.get(name, name) for name in rows.column_names])
