"""Export: types in the order of their tables (edges first), rows in the order of their ids. Loading it gives the graph back."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import IO

from omnigraph.errors import UsageError
from omnigraph.pipeline.choices import FileFormat
from omnigraph.pipeline.engines import Engine, session_of
from omnigraph.pipeline.export.ranges import encoded, id_ranges
from omnigraph.pipeline.export.spark import SparkEncoder
from omnigraph.pipeline.load.inputs import FORMATS
from omnigraph.records.encoding import csv_header, file_columns
from omnigraph.storage.options import scheme_of
from omnigraph.storage.outputs import OutputFile, Target, is_folder, is_special, local_path, outputs
from omnigraph.views import View


def export(
    view: View,
    target: Target,
    *,
    format: FileFormat = "jsonl",
    types: Sequence[str] | None = None,
    force: bool = False,
    engine: Engine = "local",
) -> int:
    """Write the view's entities; how many.

    JSON lines are one file. CSV and Parquet are a file a type in a folder; a single type may also go to a file named
    `.csv` or `.parquet`, to a pipe or to a stream. "-" is standard output. Files appear when all of them are complete.
    AlreadyExists for a file that is there, unless `force` replaces it.
    """
    if format not in FORMATS:
        raise UsageError(f"'{format}' is not an export format", hint=f"choose one of {', '.join(FORMATS)}")
    keys = selected_types(view, types)
    targets = _targets(view, target, keys, format)
    _refuse_own_folder(view, targets)
    session = session_of(engine, view.repository.store.uri)
    encoder = None if session is None else SparkEncoder(view, format, session)
    with outputs(targets, view.repository.tables.options, replace=force) as files:
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


def _single(target: Target, keys: list[str], format: FileFormat) -> list[Target]:
    if format != "jsonl" and len(keys) != 1:
        raise UsageError(
            f"a {format} file has one type, and {len(keys)} are exported",
            hint="choose one with --type, or give a folder with --out",
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
    import pyarrow as pa
    import pyarrow.parquet as pq

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
