"""Export: types in the order of their tables (edges first), rows in the order of their ids. Loading it gives the graph back."""

from __future__ import annotations

import io
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import IO, get_args

from omnigraph._internal.lazy_imports import pa, pq
from omnigraph.changes.diff import type_order
from omnigraph.changes.feed import scanned_batches
from omnigraph.errors import UsageError
from omnigraph.export.ranges import PartFiles, SparkEncoder, encoded, id_ranges
from omnigraph.language.catalog import EntityType
from omnigraph.load.inputs import FORMATS
from omnigraph.records.encoding import BLOCK_BYTES, csv_header, csv_lines, file_columns, json_blocks
from omnigraph.snapshot import View
from omnigraph.storage.options import scheme_of
from omnigraph.storage.outputs import AppendOnly, OutputFile, Target, is_folder, is_special, local_path, outputs
from omnigraph.tasks.engines import Engine, FileFormat, StreamFormat, open_session


def export(
    view: View,
    target: Target,
    *,
    format: FileFormat = "jsonl",
    types: Sequence[str] | None = None,
    overwrite: bool = False,
    engine: Engine = "local",
) -> int:
    """Write the view's entities; how many.

    JSON lines are one file. CSV and Parquet are a file a type in a folder; a single type may also go to a file named
    `.csv` or `.parquet`, to a pipe or to a stream. "-" is standard output. Files appear when all of them are complete.
    In a folder that Spark writes, a type is a folder of files, each written by a task, with rows as they are stored.
    AlreadyExists for a file that is there, unless `overwrite` replaces it.
    """
    if format not in FORMATS:
        raise UsageError(f"'{format}' is not an export format", hint=f"choose one of {', '.join(FORMATS)}")
    keys = selected_types(view, types)
    targets = _targets(view, target, keys, format)
    _refuse_own_folder(view, targets)
    session = open_session(engine, view.repository.store.uri)
    if session is not None and isinstance(target, str | Path) and _is_in_folder(target, targets, format):
        names = {key: _file_name(view, key) for key in keys}
        return PartFiles(view, str(target), format, session).write(names, replace=overwrite)
    encoder = None if session is None else SparkEncoder(view, format, session)
    with outputs(targets, view.repository.tables.options, replace=overwrite) as files:
        if format == "jsonl":
            return _write(view, keys, format, files[0], encoder)
        return sum(_write(view, [key], format, file, encoder) for key, file in zip(keys, files, strict=True))


def selected_types(view: View, types: Sequence[str] | None) -> list[str]:
    """Table keys in order; a name that a node and an edge share selects both."""
    if types is None:
        return list(view.catalog.tables)
    for name in types:
        if not any(key in view.catalog.tables for key in (name, f"node:{name}", f"edge:{name}")):
            raise UsageError(
                f"the schema has no type '{name}'", hint=f"it has: {', '.join(sorted(view.catalog.tables))}"
            )
    return [key for key in view.catalog.tables if {key, key.partition(":")[2]} & set(types)]


# ---------------------------------------------------------------- where it goes


def _targets(view: View, target: Target, keys: list[str], format: FileFormat) -> list[Target]:
    """One target for JSON lines, otherwise one for each type."""
    if not isinstance(target, str | Path) and hasattr(target, "write"):
        return _single(target, keys, format)
    text = str(target)
    if not isinstance(target, str | Path) or not text or "\0" in text:
        raise UsageError(f"cannot export to {text!r}", hint="give a file, a folder, or - for standard output")
    if format == "jsonl":
        return [f"{text.rstrip('/')}/graph.jsonl" if is_folder(text) else text]
    is_file = is_special(text) or (scheme_of(text) == "file" and os.path.isfile(local_path(text)))
    if not is_folder(text) and (is_file or text.endswith(f".{format}")):
        return _single(text, keys, format)
    return [f"{text.rstrip('/')}/{_file_name(view, key)}.{format}" for key in keys]


def _is_in_folder(target: str | Path, targets: list[Target], format: FileFormat) -> bool:
    """Whether the target is not one file that the user named."""
    return is_folder(target) if format == "jsonl" else targets != [target]


def _single(target: Target, keys: list[str], format: FileFormat) -> list[Target]:
    if format != "jsonl" and len(keys) != 1:
        raise UsageError(
            f"a {format} file has one type, and {len(keys)} are exported",
            hint="choose one with types=['TYPE'], or write to a folder",
        )
    return [target]


def _file_name(view: View, key: str) -> str:
    name = key.partition(":")[2]
    return key if name in view.catalog.nodes and name in view.catalog.edges else name


def _refuse_own_folder(view: View, targets: list[Target]) -> None:
    """A graph's folder holds nothing but the graph."""
    root = view.repository.store.uri
    for target in targets:
        if isinstance(target, str | Path) and "://" not in root and scheme_of(str(target)) == "file":
            path = os.path.realpath(local_path(str(target)))
            if path.startswith(os.path.realpath(root) + os.sep):
                raise UsageError(f"'{target}' is inside the graph's own folder", hint="write to another folder")


# ---------------------------------------------------------------- writing


def _write(view: View, keys: list[str], format: FileFormat, file: OutputFile, encoder: SparkEncoder | None) -> int:
    with file.open() as out:
        if format == "parquet":
            return sum(_write_parquet(view, key, out, encoder) for key in keys)
        return sum(_write_lines(view, key, format, out, encoder) for key in keys)


def _write_lines(view: View, key: str, format: FileFormat, out: IO[bytes], encoder: SparkEncoder | None) -> int:
    if format == "csv":
        out.write(csv_header(list(view.schema(key).names)))
    table = view.table(key)
    if table is None:
        return 0
    if encoder is None:
        for range in id_ranges(table, key):
            out.write(encoded(view.entity(key), range.rows(table), format))
    else:
        for data in encoder.encoded(table, key):
            out.write(data)
    return table.rows


def _write_parquet(view: View, key: str, out: IO[bytes], encoder: SparkEncoder | None) -> int:
    with pq.ParquetWriter(out, file_columns(view.schema(key).empty_table()).schema) as writer:
        table = view.table(key)
        if table is None:
            return 0
        if encoder is None:
            for range in id_ranges(table, key):
                writer.write_table(file_columns(range.rows(table)))
        else:
            for data in encoder.encoded(table, key):
                writer.write_table(pq.read_table(pa.BufferReader(data)).cast(writer.schema))
    return table.rows


# An export as a stream of bytes: rows in the order in which they are stored, a batch at a time.
#
# Nothing is read before it is asked for, so a slow reader stops the work; at most one batch is held.

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
    yield csv_header(list(view.schema(entity.table_key).names))
    for batch in scanned_batches(view, entity):
        yield csv_lines(pa.Table.from_batches([batch]))


def _drained(view: View, entity: EntityType, format: StreamFormat) -> Iterator[bytes]:
    """What a writer of Parquet or Arrow has written since it was last looked at."""
    buffer = io.BytesIO()
    schema = file_columns(view.schema(entity.table_key).empty_table()).schema
    with _writer(buffer, schema, format) as writer:
        for batch in scanned_batches(view, entity):
            writer.write_table(file_columns(pa.Table.from_batches([batch])).cast(schema))
            yield _taken(buffer)
    yield _taken(buffer)


def _writer(buffer: io.BytesIO, schema: pa.Schema, format: StreamFormat) -> pa.ipc.RecordBatchStreamWriter:
    """Parquet's writer has the same two methods; it does not go back in what it has written."""
    if format == "arrow":
        return pa.ipc.new_stream(buffer, schema)
    return pq.ParquetWriter(pa.PythonFile(AppendOnly(buffer), "w"), schema)


def _taken(buffer: io.BytesIO) -> bytes:
    data = buffer.getvalue()
    buffer.seek(0)
    buffer.truncate()
    return data
