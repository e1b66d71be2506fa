"""Stored rows as text and files: the records of a graph batch, the cells of CSV, the columns of Parquet.

Loading what is written here gives the same rows.
"""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph._internal.lazy_imports import pa
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.values.arrow import OUTSIDE_NAMES
from omnigraph.values.columns import cell_text
from omnigraph.values.json_text import column_texts, joined_texts, json_text, object_texts, text_blocks

BLOCK_BYTES = 64 * 1_024
"""How much text is written or sent at a time."""
ENCODED_BYTES = 4 * 1_024 * 1_024
"""How many bytes of rows are converted to text at a time."""


def record_lines(entity: EntityType, rows: pa.RecordBatch) -> pa.LargeStringArray:
    """A line of a graph batch for each row, with its newline.

    A null is left out, unless leaving it out would mean the property's default.
    """
    members = {name: rows.column(name) for name in ("id", *entity.properties)}
    with_default = frozenset(name for name, property in entity.properties.items() if property.default is not None)
    data, name = object_texts(members, written_nulls=with_default), json_text(entity.name)
    if not isinstance(entity, EdgeType):
        return joined_texts(f'{{"type":{name},"data":', data, "}\n")
    ends = [column_texts(rows.column(end)) for end in ("src", "dst")]
    return joined_texts(f'{{"edge":{name},"from":', ends[0], ',"to":', ends[1], ',"data":', data, "}\n")


def json_blocks(entity: EntityType, rows: pa.RecordBatch) -> Iterator[bytes]:
    """The lines of the rows in blocks of whole lines. Rows are converted a part at a time, so that wide ones take little
    memory."""
    part = max(1, rows.num_rows * ENCODED_BYTES // max(rows.nbytes, 1))
    for first in range(0, rows.num_rows, part):
        yield from text_blocks(record_lines(entity, rows.slice(first, part)), BLOCK_BYTES)


def json_lines(entity: EntityType, rows: pa.Table) -> bytes:
    return b"".join(block for batch in rows.to_batches() for block in json_blocks(entity, batch))


def csv_header(columns: list[str]) -> bytes:
    return (",".join(cell_text(OUTSIDE_NAMES.get(name, name)) for name in columns) + "\r\n").encode()


def csv_lines(rows: pa.Table) -> bytes:
    columns = [[cell_text(value) for value in column.to_pylist()] for column in rows.columns]
    return "".join(",".join(cells) + "\r\n" for cells in zip(*columns, strict=True)).encode()


def file_columns(rows: pa.Table) -> pa.Table:
    """A table with its columns under the names that files use."""
    return rows.rename_columns([OUTSIDE_NAMES.get(name, name) for name in rows.column_names])
