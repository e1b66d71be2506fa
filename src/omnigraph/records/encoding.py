"""Stored rows as text and files: the record of a graph batch, the cells of CSV, the columns of Parquet.

Loading what is written here gives the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.values.csv_cells import cell_text
from omnigraph.values.json_values import json_value

if TYPE_CHECKING:
    import pyarrow as pa

FILE_NAMES = {"src": "from", "dst": "to"}
"""What the ends of an edge are called outside."""

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def record(entity: EntityType, row: Mapping[str, Any]) -> dict[str, Any]:
    """The envelope of one row. A null is left out, unless leaving it out would mean the property's default."""
    data: dict[str, Any] = {"id": row["id"]}
    for name, property in entity.properties.items():
        value = row[name]
        if value is not None or property.default is not None:
            data[name] = json_value(value)
    if isinstance(entity, EdgeType):
        return {"edge": entity.name, "from": row["src"], "to": row["dst"], "data": data}
    return {"type": entity.name, "data": data}


def record_text(entity: EntityType, row: Mapping[str, Any]) -> str:
    """One line of a graph batch, without its newline."""
    return _encode(record(entity, row))


def json_lines(entity: EntityType, rows: pa.Table) -> bytes:
    return "".join(f"{record_text(entity, row)}\n" for row in rows.to_pylist()).encode()


def csv_header(columns: list[str]) -> bytes:
    return (",".join(cell_text(FILE_NAMES.get(name, name)) for name in columns) + "\r\n").encode()


def csv_lines(rows: pa.Table) -> bytes:
    columns = [[cell_text(value) for value in column.to_pylist()] for column in rows.columns]
    return "".join(",".join(cells) + "\r\n" for cells in zip(*columns, strict=True)).encode()


def file_columns(rows: pa.Table) -> pa.Table:
    """A table with its columns under the names files use."""
    return rows.rename_columns([FILE_NAMES.get(name, name) for name in rows.column_names])
