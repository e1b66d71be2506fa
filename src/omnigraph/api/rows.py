"""Rows of a query as CSV, JSON lines, Parquet or Arrow, written in pieces: the result is not copied as a whole."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import IO, TYPE_CHECKING, Literal, TypeAlias

from omnigraph._internal.lazy_imports import np, pa, pc, pq, pt
from omnigraph.errors import UsageError
from omnigraph.storage.outputs import AppendOnly, Target, outputs
from omnigraph.values.arrow import zoned
from omnigraph.values.json_text import text_column
from omnigraph.values.json_values import json_value

if TYPE_CHECKING:
    from omnigraph.read.result import Rows


RowFormat: TypeAlias = Literal["csv", "jsonl", "parquet", "arrow"]
BATCH_ROWS = 64 * 1_024
_SPECIAL = '",\r\n'
"""Characters that make it necessary to quote a CSV cell."""


def write_rows(result: Rows, target: Target, format: RowFormat, *, replace: bool = False) -> None:
    """Write the rows to a file, an address, or standard output ("-"). Parquet and Arrow are refused on a terminal."""
    with outputs([target], {}, replace=replace) as (file,), file.open() as out:
        if format in ("csv", "jsonl"):
            out.writelines(_csv(result._table) if format == "csv" else _json_lines(result._table))
            return
        if out.isatty():
            raise UsageError(f"{format} is not for a terminal", hint="write it to a file (--out FILE) or into a pipe")
        _write_columns(zoned(result._table), out, format)


def text_batches(table: pa.Table) -> Iterator[list[pa.LargeStringArray]]:
    """The columns as text, in batches of rows; null where there is no value."""
    for batch in table.to_batches(max_chunksize=BATCH_ROWS):
        yield [text_column(column) for column in batch.columns]


def joined_lines(columns: Sequence[pa.LargeStringArray], separator: str) -> pa.Buffer:
    """The texts of each row joined by a separator, with a newline after each row. No text may be null."""

    def text(value: str) -> pa.Scalar:
        return pa.scalar(value, pa.large_string())

    rows = pc.binary_join_element_wise(*columns, text(separator)) if len(columns) > 1 else columns[0]
    lines = pc.binary_join_element_wise(rows, text("\n"), text(""))
    _, offsets, characters = lines.buffers()
    bounds = np.frombuffer(offsets, np.int64)[lines.offset : lines.offset + len(lines) + 1]
    return characters[int(bounds[0]) : int(bounds[-1])]


def _csv(table: pa.Table) -> Iterator[pa.Buffer | bytes]:
    """A null is an empty cell and empty text is `""`; in a single column a null is `""` too, so that no line is empty."""
    is_single = table.num_columns == 1
    header = text_column(pa.array(table.column_names))
    yield b",".join(_csv_cells(header, is_text=True, null="").cast(pa.binary()).to_pylist()) + b"\n"
    is_text = [not _is_plain(column.type) for column in table.columns]
    for columns in text_batches(table):
        cells = [
            _csv_cells(column, is_text=quoted, null='""' if is_single else "")
            for column, quoted in zip(columns, is_text, strict=True)
        ]
        yield joined_lines(cells, ",")


def _is_plain(type: pa.DataType) -> bool:
    return bool(pt.is_integer(type) or pt.is_boolean(type) or pt.is_temporal(type) or pt.is_floating(type))


def _csv_cells(texts: pa.LargeStringArray, *, is_text: bool, null: str) -> pa.LargeStringArray:
    if is_text and _needs_quotes(texts):
        has_special = pc.or_(pc.match_substring_regex(texts, f"[{_SPECIAL}]"), pc.equal(texts, ""))
        quote, nothing = pa.scalar('"', pa.large_string()), pa.scalar("", pa.large_string())
        doubled = pc.replace_substring(texts, '"', '""')
        texts = pc.if_else(has_special, pc.binary_join_element_wise(quote, doubled, quote, nothing), texts)
    return texts.fill_null(null)


def _needs_quotes(texts: pa.LargeStringArray) -> bool:
    """Whether any text may have to be quoted. Checks all characters at once, which is far cheaper than text by text."""
    _, offsets, characters = texts.buffers()
    bounds = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
    if (np.diff(bounds) == 0).any():
        return True
    written = np.frombuffer(characters, np.uint8)[bounds[0] : bounds[-1]]
    return any((written == ord(special)).any() for special in _SPECIAL)


def _json_lines(table: pa.Table) -> Iterator[bytes]:
    names = table.column_names
    for batch in table.to_batches(max_chunksize=BATCH_ROWS):
        columns = [[json_value(value) for value in column.to_pylist()] for column in batch.columns]
        rows = (dict(zip(names, row, strict=True)) for row in zip(*columns, strict=True))
        yield "".join(f"{json.dumps(row, ensure_ascii=False)}\n" for row in rows).encode()


def _write_columns(table: pa.Table, out: IO[bytes], format: RowFormat) -> None:
    if format == "arrow":
        with pa.ipc.new_stream(out, table.schema) as writer:
            writer.write_table(table, max_chunksize=BATCH_ROWS)
        return
    pq.write_table(table, pa.PythonFile(AppendOnly(out), "w"))
