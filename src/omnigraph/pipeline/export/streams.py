"""An export as a stream of bytes: rows in the order in which they are stored, a batch at a time.

Nothing is read before it is asked for, so a slow reader stops the work; at most one batch is held.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, get_args

from omnigraph.changes.baseline import scanned_batches
from omnigraph.changes.diff import type_order
from omnigraph.errors import UsageError
from omnigraph.language.catalog import EntityType
from omnigraph.pipeline.choices import StreamFormat
from omnigraph.pipeline.export.job import selected_types
from omnigraph.records.encoding import BLOCK_BYTES, csv_header, csv_lines, file_columns, json_blocks
from omnigraph.storage.outputs import AppendOnly
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa

STREAM_FORMATS: tuple[StreamFormat, ...] = get_args(StreamFormat)


def export_stream(view: View, format: StreamFormat, types: Sequence[str] | None) -> Iterator[bytes]:
    """JSON lines: nodes, then edges, by type. CSV, Parquet and Arrow (its stream format) are of exactly one type.

    What is wrong with the call is said before the first chunk is asked for."""
    if format not in STREAM_FORMATS:
        raise UsageError(f"'{format}' is not a format of a stream", hint=f"choose one of {', '.join(STREAM_FORMATS)}")
    entities = sorted((view.entity(key) for key in selected_types(view, types)), key=type_order)
    if format == "jsonl":
        return chunks(block for entity in entities for block in _json(view, entity))
    if len(entities) != 1:
        raise UsageError(f"a {format} stream has one type, and {len(entities)} are exported", hint="choose one type")
    if format == "csv":
        return chunks(_csv(view, entities[0]))
    return chunks(_drained(view, entities[0], format))


def chunks(pieces: Iterable[bytes], size: int = BLOCK_BYTES) -> Iterator[bytes]:
    """The same bytes in chunks of about this size; none is cut, so that a line is always whole."""
    held: list[bytes] = []
    held_bytes = 0
    for piece in pieces:
        held.append(piece)
        held_bytes += len(piece)
        if held_bytes >= size:
            yield b"".join(held)
            held, held_bytes = [], 0
    if held:
        yield b"".join(held)


def _json(view: View, entity: EntityType) -> Iterator[bytes]:
    for batch in scanned_batches(view, entity):
        yield from json_blocks(entity, batch)


def _csv(view: View, entity: EntityType) -> Iterator[bytes]:
    import pyarrow as pa

    yield csv_header(list(view.schema(entity.table_key).names))
    for batch in scanned_batches(view, entity):
        yield csv_lines(pa.Table.from_batches([batch]))


def _drained(view: View, entity: EntityType, format: StreamFormat) -> Iterator[bytes]:
    """What a writer of Parquet or Arrow has written since it was last looked at."""
    import pyarrow as pa

    buffer = io.BytesIO()
    schema = file_columns(view.schema(entity.table_key).empty_table()).schema
    with _writer(buffer, schema, format) as writer:
        for batch in scanned_batches(view, entity):
            writer.write_table(file_columns(pa.Table.from_batches([batch])).cast(schema))
            yield _taken(buffer)
    yield _taken(buffer)


def _writer(buffer: io.BytesIO, schema: pa.Schema, format: StreamFormat) -> pa.ipc.RecordBatchStreamWriter:
    """Parquet's writer has the same two methods; it does not go back in what it has written."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if format == "arrow":
        return pa.ipc.new_stream(buffer, schema)
    return pq.ParquetWriter(pa.PythonFile(AppendOnly(buffer), "w"), schema)


def _taken(buffer: io.BytesIO) -> bytes:
    data = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return data
