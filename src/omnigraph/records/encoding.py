"""Stored rows as text and files: the records of a graph batch, the cells of CSV, the columns of Parquet.

Loading what is written here gives the same rows.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.values.columns import json_column
from omnigraph.values.csv_cells import cell_text
from omnigraph.values.entities import OUTSIDE_NAMES

if TYPE_CHECKING:
    import pyarrow as pa

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode


def record_lines(entity: EntityType, rows: pa.Table | pa.RecordBatch) -> Iterator[str]:
    """A line of a graph batch for each row, without its newline.

    A null is left out, unless leaving it out would mean the property's default.
    """
    columns = {name: json_column(rows.column(name)) for name in ("id", *entity.properties)}
    with_default = {name for name, property in entity.properties.items() if property.default is not None}
    ends = [rows.column(name).to_pylist() for name in ("src", "dst")] if isinstance(entity, EdgeType) else None
    for row, values in enumerate(zip(*columns.values(), strict=True)):
        data = {n: v for n, v in zip(columns, values, strict=True) if v is not None or n in with_default}
        record: dict[str, Any] = {"type": entity.name, "data": data}
        if ends is not None:
            record = {"edge": entity.name, "from": ends[0][row], "to": ends[1][row], "data": data}
        yield _encode(record)


def json_lines(entity: EntityType, rows: pa.Table) -> bytes:
    return "".join(f"{line}\n" for line in record_lines(entity, rows)).encode()


def csv_header(columns: list[str]) -> bytes:
    return (",".join(cell_text(OUTSIDE_NAMES.get(name, name)) for name in columns) + "\r\n").encode()


def csv_lines(rows: pa.Table) -> bytes:
    columns = [[cell_text(value) for value in column.to_pylist()] for column in rows.columns]
    return "".join(",".join(cells) + "\r\n" for cells in zip(*columns, strict=True)).encode()


def file_columns(rows: pa.Table) -> pa.Table:
    """A table with its columns under the names files use."""
    return rows.rename_columns([OUTSIDE_NAMES.get(name, name) for name in rows.column_names])
