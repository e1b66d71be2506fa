"""Export: types in the order of their tables (edges first), rows in the order of their ids. Loading it gives the graph back.

A type is cut into ranges of ids. In process the ranges are written one after the other; on Spark each is a task that puts
its piece beside the graph, and the driver joins the pieces in order.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Literal
from uuid import uuid4

from omnigraph.errors import UsageError
from omnigraph.pipeline.export.encoding import csv_header, csv_lines, file_columns, json_lines
from omnigraph.pipeline.load.inputs import FORMATS, Format
from omnigraph.pipeline.spark.runner import SparkRunner
from omnigraph.pipeline.target import Place, Target
from omnigraph.storage import open_store
from omnigraph.storage.options import scheme_of
from omnigraph.tables import Table, literal
from omnigraph.views import View

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

RANGE_ROWS = 250_000


@dataclass(frozen=True)
class Range:
    """Rows of a table with first <= id < end (None: open)."""

    key: str
    place: Place
    first: str | None
    end: str | None


@dataclass(frozen=True)
class ExportTask:
    target: Target
    range: Range
    format: Format
    store_key: str


@dataclass(frozen=True)
class ExportPiece:
    store_key: str
    rows: int


def export(
    view: View,
    target: str | Path | IO[bytes],
    *,
    format: Format = "jsonl",
    types: Sequence[str] | None = None,
    engine: Literal["spark", "local"] = "spark",
    spark: SparkSession | None = None,
) -> int:
    """Write the view's entities; how many. JSON lines go to one file ("-": stdout), CSV and Parquet to a folder, a file a type."""
    if format not in FORMATS:
        raise UsageError(f"'{format}' is no format to export", hint=f"one of {', '.join(FORMATS)}")
    keys = _keys(view, types)
    options = view.repository.tables.options
    pieces = _Pieces(view, format, spark) if engine == "spark" else None
    if format == "jsonl":
        with _opened(target, "graph.jsonl", options) as out:
            return sum(_write_lines(view, key, format, out, pieces) for key in keys)
    if not isinstance(target, str | Path) or target == "-":
        raise UsageError(f"{format} is written to a folder", hint="give the path of a folder")
    count = 0
    for key in keys:
        if view.table(key) is None:
            continue
        with _opened(f"{str(target).rstrip('/')}/{_file_name(view, key)}.{format}", "", options) as out:
            count += (
                _write_parquet(view, key, out, pieces)
                if format == "parquet"
                else _write_lines(view, key, format, out, pieces)
            )
    return count


def _keys(view: View, types: Sequence[str] | None) -> list[str]:
    """Table keys in order; a name that a node and an edge share selects both."""
    if types is None:
        return list(view.catalog.tables)
    for name in types:
        if not any(key in view.catalog.tables for key in (name, f"node:{name}", f"edge:{name}")):
            raise UsageError(
                f"the schema has no type '{name}'", hint=f"it has: {', '.join(sorted(view.catalog.tables))}"
            )
    return [key for key in view.catalog.tables if {key, key.partition(":")[2]} & set(types)]


def _file_name(view: View, key: str) -> str:
    name = key.partition(":")[2]
    return key if name in view.catalog.nodes and name in view.catalog.edges else name


@contextlib.contextmanager
def _opened(target: str | Path | IO[bytes], name_in_folder: str, options: Mapping[str, str]) -> Iterator[IO[bytes]]:
    """Where the bytes go. A file appears under its name when it is complete. `options` are those of the graph's store."""
    if not isinstance(target, str | Path):
        yield target
        return
    if target == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    text = str(target)
    if scheme_of(text) != "file":
        with _remote(text, name_in_folder, options) as out:
            yield out
        return
    path = Path(text.removeprefix("file://"))
    if name_in_folder and (path.is_dir() or text.endswith("/")):
        path = path / name_in_folder
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = path.with_name(f".{path.name}.{uuid4().hex}")
    try:
        with partial.open("wb") as out:
            yield out
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)


@contextlib.contextmanager
def _remote(address: str, name_in_folder: str, options: Mapping[str, str]) -> Iterator[IO[bytes]]:
    import tempfile

    folder, _, name = address.rpartition("/")
    with tempfile.TemporaryFile() as out:
        yield out
        out.seek(0)
        open_store(folder, storage_options=options or None).put(name or name_in_folder, out.read())


# ---------------------------------------------------------------- ranges


def ranges(table: Table, key: str) -> list[Range]:
    """The table cut at ids that are about RANGE_ROWS apart."""
    if table.rows <= RANGE_ROWS:
        return [Range(key, Place.of(table), None, None)]
    step = max(1, RANGE_ROWS // 100)
    sample: list[str] = []
    for batch in table.scan(["id"]):
        sample += batch.column(0).to_pylist()[::step]
    sample.sort()
    cuts = [None, *sample[:: max(1, RANGE_ROWS // step)][1:], None]
    return [Range(key, Place.of(table), first, end) for first, end in itertools.pairwise(cuts)]


def range_rows(table: Table, one: Range) -> pa.Table:
    bounds = []
    if one.first is not None:
        bounds.append(f"`id` >= {literal(one.first)}")
    if one.end is not None:
        bounds.append(f"`id` < {literal(one.end)}")
    return table.read(filter=" AND ".join(bounds) or None).sort_by("id")


def _encoded(view_entity: Any, rows: pa.Table, format: Format) -> bytes:
    return json_lines(view_entity, rows) if format == "jsonl" else csv_lines(rows)


def _write_lines(view: View, key: str, format: Format, out: IO[bytes], pieces: _Pieces | None) -> int:
    table = view.table(key)
    if table is None:
        return 0
    if format == "csv":
        out.write(csv_header(list(table.schema.names)))
    count = 0
    if pieces is not None:
        for data, rows in pieces.of(table, key):
            out.write(data)
            count += rows
        return count
    for one in ranges(table, key):
        rows = range_rows(table, one)
        out.write(_encoded(view.entity(key), rows, format))
        count += rows.num_rows
    return count


def _write_parquet(view: View, key: str, out: IO[bytes], pieces: _Pieces | None) -> int:
    import pyarrow as pa
    import pyarrow.parquet as pq

    table = view.table(key)
    assert table is not None, "the caller asked"
    with pq.ParquetWriter(out, file_columns(table.schema.empty_table()).schema) as writer:
        if pieces is None:
            for one in ranges(table, key):
                writer.write_table(file_columns(range_rows(table, one)))
        else:
            for data, _ in pieces.of(table, key):
                writer.write_table(pq.read_table(pa.BufferReader(data)).cast(writer.schema))
    return table.rows


# ---------------------------------------------------------------- on Spark


class _Pieces:
    """Encoded ranges made by Spark's tasks, fetched in order."""

    def __init__(self, view: View, format: Format, spark: SparkSession | None) -> None:
        from omnigraph.pipeline.spark.session import cores_of, spark_session

        session = spark or spark_session()
        self._view = view
        self._format = format
        self._runner = SparkRunner(session, cores_of(session))
        self._folder = f"staging/export-{uuid4().hex}"

    def of(self, table: Table, key: str) -> Iterator[tuple[bytes, int]]:
        target = Target.of(self._view.repository, self._view)
        tasks = [ExportTask(target, one, self._format, f"{self._folder}/{uuid4().hex}") for one in ranges(table, key)]
        store = self._view.repository.store
        try:
            for piece in self._runner.map(f"export {key}", export_range, tasks):
                yield store.get(piece.store_key), piece.rows
        finally:
            store.delete_prefix(self._folder)


def export_range(task: ExportTask) -> ExportPiece:
    rows = range_rows(task.target.open(task.range.place), task.range)
    if task.format == "parquet":
        data = _parquet_bytes(file_columns(rows))
    else:
        data = _encoded(task.target.catalog.tables[task.range.key], rows, task.format)
    # A task that is tried again must not meet the piece of its first attempt half written.
    key = f"{task.store_key}-{uuid4().hex}"
    task.target.store.put(key, data)
    return ExportPiece(key, rows.num_rows)


def _parquet_bytes(rows: pa.Table) -> bytes:
    import io

    import pyarrow.parquet as pq

    buffer = io.BytesIO()
    pq.write_table(rows, buffer)
    return buffer.getvalue()
