"""The first task of a load: read a bundle of splits, type every record, check its values, write the rows as fragments.

Rows are written as soon as they are typed: fragments that no commit names are garbage, so nothing is at risk, and no row
travels between machines. What may not be written is reported with its place.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import IO, Any
from uuid import uuid4

from omnigraph._internal.lazy_imports import np, pa, pq
from omnigraph.errors import UnreadableInput
from omnigraph.load.databases import table_columns, table_rows
from omnigraph.load.fragments import FragmentWriter, HeldRows, TypeReport
from omnigraph.load.inputs import Split
from omnigraph.load.mapped_rows import ColumnsReader, document_rows, rows_from, without_structs
from omnigraph.load.refusals import RejectsOfReason, by_reason
from omnigraph.load.text import (
    START_BYTES,
    UTF_8,
    kind_of,
    open_text,
    refuse_json_document,
    refuse_other_kinds,
    start_of,
)
from omnigraph.load.typed_frames import FrameReader
from omnigraph.load.written import WrittenFiles
from omnigraph.records.csv_rows import CsvReader
from omnigraph.records.documents import read_cells
from omnigraph.records.graph_batch import GraphBatchReader
from omnigraph.records.ids import FreshIds
from omnigraph.records.rows import WHOLE, NamedRows, RecordForm, Reject, TypedRows
from omnigraph.tasks.engines import DEFAULT_SETTINGS, TaskSettings
from omnigraph.tasks.target import TableVersions, Target
from omnigraph.values.types import Scalar

BLOCK_BYTES = 4 * 1024 * 1024
MAX_SAMPLE = 100
"""Refused records per split that travel to the driver."""


@dataclass(frozen=True)
class ReadTask:
    """One bundle. `rejects_folder`: where to put every refused record, when they are wanted."""

    target: Target
    splits: tuple[Split, ...]
    versions: TableVersions
    rejects_folder: str | None = None
    written: WrittenFiles | None = None
    """Where a task of this process notes its files; other processes tell them by their report."""
    form: RecordForm = WHOLE
    settings: TaskSettings = DEFAULT_SETTINGS
    max_held_rows: int = 0
    """How many rows of a table the task hands over instead of writing them, if there are no more."""


@dataclass
class SplitReport:
    """What one split held. Lines count from 1 within the split."""

    index: int
    lines: int = 0
    rejected: int = 0
    sample: list[Reject] = field(default_factory=list)
    reasons: list[RejectsOfReason] = field(default_factory=list)
    stored: str | None = None
    problem: UnreadableInput | None = None
    """Why the file cannot be read at all."""


@dataclass
class ReadReport:
    splits: list[SplitReport] = field(default_factory=list)
    types: dict[str, TypeReport] = field(default_factory=dict)
    held: HeldRows | None = None
    """The rows, if the task has not written them."""


def read_bundle(task: ReadTask) -> ReadReport:
    writer = _writer(task.target, task.versions, task.written, task.settings, task.form, task.max_held_rows)
    report = ReadReport(types=writer.types, held=writer if isinstance(writer, HeldRows) else None)
    for split in task.splits:
        reader = SplitReader(task.target, split, task.form)
        for rows in reader.read():
            writer.add(split.index, rows)
        report.splits.append(SplitReport(split.index, reader.lines, 0, reader.rejects, problem=reader.problem))
    writer.finish()
    for done in report.splits:
        rejects = sorted([*done.sample, *writer.rejects.get(done.index, ())], key=lambda reject: reject.line)
        done.rejected = len(rejects)
        done.sample, done.reasons = rejects[:MAX_SAMPLE], by_reason(rejects)
        done.stored = _store_rejects(task.target, task.rejects_folder, done.index, rejects)
    return report


def _writer(
    target: Target,
    versions: TableVersions,
    written: WrittenFiles | None,
    settings: TaskSettings,
    form: RecordForm,
    max_held_rows: int,
) -> FragmentWriter:
    if max_held_rows:
        return HeldRows(target, versions, written, settings, form, max_rows=max_held_rows)
    return FragmentWriter(target, versions, written, settings, form)


_quoted = json.JSONEncoder(ensure_ascii=False).encode


def stored_reject(reject: Reject) -> bytes:
    """The line of a rejected record, and what the file of rejects says of it beside its place, as a part of JSON."""
    reason, code, record = (_quoted(text) for text in (reject.reason, reject.code, reject.record))
    hint = "" if reject.hint is None else f', "hint": {_quoted(reject.hint)}'
    text = f'{reject.line} "reason": {reason}, "code": {code}, "record": {record}{hint}}}\n'
    return text.encode("utf-8", "replace")


def _store_rejects(target: Target, folder: str | None, index: int, rejects: Sequence[Reject]) -> str | None:
    """The key of what was stored, if rejects are wanted and there are any."""
    if folder is None or not rejects:
        return None
    key = f"{folder}/{index:08}-{uuid4().hex}.jsonl"
    target.store.put(key, b"".join(stored_reject(reject) for reject in rejects))
    return key


def read_batches(
    target: Target,
    key: str | None,
    versions: TableVersions,
    index: int,
    batches: Iterable[Any],
    fresh: FreshIds,
    written: WrittenFiles | None = None,
    *,
    form: RecordForm = WHOLE,
    type_column: str = "type",
    settings: TaskSettings = DEFAULT_SETTINGS,
    max_held_rows: int = 0,
    rejects_folder: str | None = None,
) -> ReadReport:
    """Rows from the Arrow batches of a data frame: of one table, or of the types that a column names. `rejects_folder`: where to
    put every refused row, when they are wanted."""
    writer = _writer(target, versions, written, settings, form, max_held_rows)
    done = SplitReport(index)
    reader = FrameReader(target.catalog, key, type_column, fresh, form)
    try:
        for batch in batches:
            lines = pa.array(np.arange(done.lines + 1, done.lines + batch.num_rows + 1, dtype=np.int64))
            done.lines += batch.num_rows
            for rows in reader.read(pa.Table.from_batches([batch]), lines):
                writer.add(index, rows)
    except UnreadableInput as error:
        done.problem = error
        return ReadReport([done], writer.types)
    writer.finish()
    rejected = [*reader.rejects, *writer.rejects.get(index, ())]
    rejects = sorted(rejected, key=lambda reject: reject.line)
    done.rejected, done.sample, done.reasons = len(rejects), rejects[:MAX_SAMPLE], by_reason(rejects)
    done.stored = _store_rejects(target, rejects_folder, index, rejects)
    return ReadReport([done], writer.types, writer if isinstance(writer, HeldRows) else None)


class SplitReader:
    """The typed rows of one split, its number of lines, the records it refuses, and why its file cannot be read."""

    def __init__(self, target: Target, split: Split, form: RecordForm = WHOLE) -> None:
        self.target = target
        self.split = split
        self.form = form
        self.lines = 0
        self.rejects: list[Reject] = []
        self.problem: UnreadableInput | None = None

    def read(self) -> Iterator[TypedRows | NamedRows]:
        try:
            readers = {
                "jsonl": self._json_lines,
                "csv": self._csv,
                "parquet": self._parquet,
                "documents": self._documents,
                "sqlite": self._database,
                "duckdb": self._database,
            }
            yield from readers[self.split.format]()
        except UnreadableInput as error:
            self.problem = error

    def _json_lines(self) -> Iterator[TypedRows | NamedRows]:
        reader = GraphBatchReader(self.target.catalog, self.split.fresh, self.form)
        encoding, start = self.split.text.encoding, self.split.start
        with open_text(self.split.file, encoding, max(start - 1, 0)) as file:
            if start == 0:
                first = start_of(file)
                refuse_other_kinds(first, "JSON lines")
                refuse_json_document(first)
            is_cut = encoding == UTF_8 and self.split.file.compression is None
            for block in line_blocks(file, start, self.split.end if is_cut else sys.maxsize):
                yield from reader.read(block, self.lines + 1)
                self.lines += block.count(b"\n") + (not block.endswith(b"\n"))
        self.rejects += reader.rejects

    def _csv(self) -> Iterator[TypedRows | NamedRows]:
        text, split = self.split.text, self.split
        is_piece = (split.start, split.end) != (0, split.file.size)
        with open_text(split.file, text.encoding, split.start, split.end if is_piece else None) as file:
            if split.start == 0:
                refuse_other_kinds(start_of(file), "CSV")
            columns, is_later = split.header or text.columns, split.start > 0
            source = CsvReader(
                file, text.delimiter, quote=text.quote, null=text.null, columns=columns, is_later_piece=is_later
            )
            if not source.header:
                return
            try:
                reader = self._tabular(source.header, text=True)
            except UnreadableInput as error:
                error.line = 1
                raise
            formats = self._time_formats()
            for table, lines in source.blocks():
                yield from reader.read(self._with_partitions(in_iso(table, formats)), lines)
            self.lines = source.lines
        self.rejects += source.rejects + reader.rejects

    def _parquet(self) -> Iterator[TypedRows | NamedRows]:
        with self.split.file.open_anywhere() as stream:
            batches = parquet_batches(stream, self.split.row_groups)
            is_mapped = self.split.source is not None
            empty: pa.Table = next(batches)
            reader = self._tabular((without_structs(empty) if is_mapped else empty).column_names, text=False)
            for batch in batches:
                lines = rows_from(self.lines, batch.num_rows)
                self.lines += batch.num_rows
                table = pa.Table.from_batches([batch])
                yield from reader.read(self._with_partitions(without_structs(table) if is_mapped else table), lines)
        self.rejects += reader.rejects

    def _documents(self) -> Iterator[TypedRows | NamedRows]:
        assert self.split.source is not None
        with open_text(self.split.file, self.split.text.encoding) as file:
            refuse_other_kinds(start_of(file), "JSON")
            source = self.split.source
            reader = self._tabular(source.picked.sources, text=True)
            for table, lines in document_rows(file, source, self.rejects, self.split.file.partitions):
                yield from reader.read(self._with_partitions(table), lines)
        self.rejects += reader.rejects

    def _database(self) -> Iterator[TypedRows | NamedRows]:
        source, kind = self.split.source, self.split.format
        assert source is not None
        assert kind in ("sqlite", "duckdb")
        table, path = source.table or source.type, self.split.file.address
        names = table_columns(kind, path, table)
        reader = self._tabular(names, text=True)
        for rows in table_rows(kind, path, table, names):
            lines = rows_from(self.lines, rows.num_rows)
            self.lines += rows.num_rows
            yield from reader.read(self._with_partitions(rows), lines)
        self.rejects += reader.rejects

    def _tabular(self, names: list[str], *, text: bool) -> ColumnsReader:
        assert self.split.key is not None
        every = [*names, *self.split.file.partitions]
        return ColumnsReader(self.target.catalog, self.split, every, text=text, form=self.form)

    def _with_partitions(self, table: pa.Table) -> pa.Table:
        """With the columns that the folders of the file stand for."""
        for name, value in self.split.file.partitions.items():
            table = table.append_column(name, pa.repeat(pa.scalar(value, pa.string()), table.num_rows))
        return table

    def _time_formats(self) -> dict[str, str]:
        """Columns of dates and instants that are written in a format of their own."""
        assert self.split.key is not None
        text, formats = self.split.text, {}
        for name, property in self.target.catalog.tables[self.split.key].properties.items():
            for source in [column for column, own in self.split.names.items() if own == name] or [name]:
                if property.type.scalar is Scalar.DATE and text.date_format:
                    formats[source] = text.date_format
                elif property.type.scalar is Scalar.DATETIME and text.time_format:
                    formats[source] = text.time_format
        return formats


def in_iso(table: pa.Table, formats: Mapping[str, str]) -> pa.Table:
    """The table with its dates and instants in ISO text. What is not in the format stays as it is."""
    for name, format in formats.items():
        if name in table.column_names:
            place = table.column_names.index(name)
            table = table.set_column(place, name, read_cells(table.column(name), format))
    return table


def parquet_batches(stream: Any, row_groups: tuple[int, ...] | None = None) -> Iterator[Any]:
    """A table without rows, then the rows in batches."""
    start = stream.read(START_BYTES)
    stream.seek(0)
    if not start.startswith(b"PAR1"):
        kind = kind_of(start)
        raise UnreadableInput(
            f"the file is {kind}, not Parquet" if kind else "the file is not Parquet",
            hint="give its real format with format='jsonl' or format='csv', or write it as Parquet",
        )
    try:
        with pq.ParquetFile(stream, pre_buffer=True) as file:
            yield file.schema_arrow.empty_table()
            for group in range(file.num_row_groups) if row_groups is None else row_groups:
                yield from file.iter_batches(batch_size=65_536, row_groups=[group])
    except (pa.ArrowException, OSError) as error:
        reason = str(error).splitlines()[0] if str(error) else type(error).__name__
        raise UnreadableInput(f"the Parquet file is damaged: {reason}", hint="write or copy it again") from None


def line_blocks(file: IO[bytes], start: int, end: int) -> Iterator[bytes]:
    """Blocks of whole lines that start in [start, end). The file stands one byte before `start` (or at 0)."""
    at = start + len(file.readline()) - 1 if start > 0 else 0
    while at < end:
        block = file.read(min(BLOCK_BYTES, end - at))
        if not block:
            return
        if not block.endswith(b"\n"):
            block += file.readline()
        yield block.removeprefix(_MARK) if at == 0 else block
        at += len(block)


_MARK = b"\xef\xbb\xbf"
"""Some editors begin a file with it; it is no text."""
