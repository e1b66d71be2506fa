"""A table cut into ranges of ids: what is sorted, encoded and written at a time."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import shutil
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from omnigraph._internal.lazy_imports import pa, pq
from omnigraph.errors import AlreadyExists
from omnigraph.language.catalog import EntityType
from omnigraph.records.encoding import csv_header, csv_lines, file_columns, json_lines
from omnigraph.snapshot import View
from omnigraph.spark.frames import BATCH_ROWS, fragment_groups
from omnigraph.spark.runner import SparkRunner
from omnigraph.storage.options import open_store, options_shared_with, scheme_of
from omnigraph.storage.outputs import local_path
from omnigraph.storage.store import Store
from omnigraph.tables.filters import literal
from omnigraph.tables.table import Table
from omnigraph.tasks.engines import FileFormat
from omnigraph.tasks.target import TableVersion, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


ROWS_PER_RANGE = 250_000
_SAMPLES_PER_RANGE = 100


@dataclass(frozen=True)
class IdRange:
    """Rows of a table with first <= id < end (None: no bound)."""

    key: str
    place: TableVersion
    first: str | None
    end: str | None

    def rows(self, table: Table) -> pa.Table:
        """In the order of their ids."""
        bounds = []
        if self.first is not None:
            bounds.append(f"`id` >= {literal(self.first)}")
        if self.end is not None:
            bounds.append(f"`id` < {literal(self.end)}")
        return table.read(filter=" AND ".join(bounds) or None).sort_by("id")


def id_ranges(table: Table, key: str) -> list[IdRange]:
    """The table cut at ids that are about ROWS_PER_RANGE rows apart."""
    if table.rows <= ROWS_PER_RANGE:
        return [IdRange(key, TableVersion.of(table), None, None)]
    step = max(1, ROWS_PER_RANGE // _SAMPLES_PER_RANGE)
    sample: list[str] = []
    for batch in table.scan(["id"]):
        sample += batch.column(0).to_pylist()[::step]
    sample.sort()
    cuts = [None, *sample[:: max(1, ROWS_PER_RANGE // step)][1:], None]
    return [IdRange(key, TableVersion.of(table), first, end) for first, end in itertools.pairwise(cuts)]


def encoded(entity: EntityType, rows: pa.Table, format: FileFormat) -> bytes:
    """Rows as the bytes that stand in a file: lines, or a Parquet file of their own."""
    if format == "jsonl":
        return json_lines(entity, rows)
    if format == "csv":
        return csv_lines(rows)
    buffer = io.BytesIO()
    pq.write_table(file_columns(rows), buffer)
    return buffer.getvalue()


# Exports by Spark's tasks: into a folder, each task writes a file of its own there; into one file, each puts the bytes of a range of ids
# beside the graph, and the driver fetches them in order.


@dataclass(frozen=True)
class EncodeTask:
    target: Target
    range: IdRange
    format: FileFormat
    folder: str


def encode_range(task: EncodeTask) -> str:
    """Where its bytes are."""
    rows = task.range.rows(task.target.open(task.range.place))
    # A task that is tried again must not meet what its first attempt left half written.
    key = f"{task.folder}/{uuid4().hex}"
    task.target.store.put(key, encoded(task.target.catalog.tables[task.range.key], rows, task.format))
    return key


@dataclass(frozen=True)
class PartTask:
    """Some fragments of a table, to be written as the file `name` of a folder."""

    target: Target
    key: str
    place: TableVersion
    fragments: tuple[int, ...]
    format: FileFormat
    folder: str
    options: tuple[tuple[str, str], ...]
    name: str


def write_part(task: PartTask) -> int:
    """How many rows it has. A task that is tried again writes the same file again."""
    batches = task.target.open(task.place).scan(fragments=task.fragments, batch_rows=BATCH_ROWS)
    buffer, count = io.BytesIO(), 0
    if task.format == "csv":
        buffer.write(csv_header(batches.schema.names))
    empty = file_columns(batches.schema.empty_table())
    with pq.ParquetWriter(buffer, empty.schema) if task.format == "parquet" else contextlib.nullcontext() as writer:
        for batch in batches:
            rows = pa.Table.from_batches([batch])
            count += rows.num_rows
            if writer is None:
                buffer.write(encoded(task.target.catalog.tables[task.key], rows, task.format))
            else:
                writer.write_table(file_columns(rows))
    open_store(task.folder, storage_options=dict(task.options) or None).put(task.name, buffer.getvalue())
    return count


class PartFiles:
    """The folder of an export. In it a type is a folder of files, in which rows come as they are stored."""

    def __init__(self, view: View, folder: str, format: FileFormat, session: SparkSession) -> None:
        self._view = view
        self._folder = folder.rstrip("/")
        self._format = format
        self._session = session
        self._is_local = scheme_of(folder) == "file"
        self._options = options_shared_with(folder, view.repository.tables.options)

    def write(self, names: Mapping[str, str], *, replace: bool) -> int:
        """The types by their table keys, in folders of these names; how many rows they have. On disk a folder appears when
        everything is written; in an object store files do, and those of an export that fails are deleted."""
        from omnigraph.spark.sessions import cores_of

        staging = f"_omnigraph-{uuid4().hex}" if self._is_local else ""
        store = open_store(self._folder, storage_options=dict(self._options) or None)
        self._refuse_existing(store, names.values(), replace)
        tasks = [task for key, name in names.items() for task in self._tasks(key, f"{staging}/{name}".lstrip("/"))]
        runner = SparkRunner(self._session, cores_of(self._session), work="omnigraph export")
        written = False
        try:
            with self._view.repository.history.leases.hold(self._view.snapshot.commit.ref):
                rows = sum(runner.map("write files", write_part, tasks))
            written = True
            if self._is_local:
                self._show(staging, names.values())
            return rows
        finally:
            if self._is_local:
                shutil.rmtree(os.path.join(local_path(self._folder), staging), ignore_errors=True)
            elif not written:
                store.delete_many([task.name for task in tasks])

    def _refuse_existing(self, store: Store, names: Collection[str], replace: bool) -> None:
        """What an earlier export has left: files of parts, or the one file of a type that this process wrote."""
        for name in names:
            single = f"{name}.{self._format}"
            earlier = [info.key for info in store.list(f"{name}/")] + [single] * bool(store.has(single))
            if earlier and not replace:
                raise AlreadyExists(
                    f"'{self._folder}/{earlier[0]}' exists",
                    hint="replace it with overwrite=True, or write to another folder",
                )
            store.delete_many([key for key in earlier if key == single or key.startswith(f"{name}/part-")])

    def _show(self, staging: str, names: Collection[str]) -> None:
        """Files get their final names."""
        folder = Path(local_path(self._folder))
        for name in names:
            if not (folder / staging / name).is_dir():  # It has no rows.
                continue
            place = folder / name
            place.mkdir(exist_ok=True)
            for file in sorted((folder / staging / name).iterdir()):
                file.rename(place / file.name)

    def _tasks(self, key: str, folder: str) -> list[PartTask]:
        table = self._view.table(key)
        if table is None:
            return []
        target, place = Target.of(self._view.repository, self._view), TableVersion.of(table)
        options = tuple(sorted(self._options.items()))
        name = f"{folder}/part-{{:05}}.{self._format}"
        return [
            PartTask(target, key, place, fragments, self._format, self._folder, options, name.format(number))
            for number, fragments in enumerate(fragment_groups(table))
        ]


class SparkEncoder:
    """Encodes the tables of one view. Needs a folder of the graph's store while it works."""

    def __init__(self, view: View, format: FileFormat, session: SparkSession) -> None:
        from omnigraph.spark.sessions import cores_of

        self._view = view
        self._format = format
        self._runner = SparkRunner(session, cores_of(session))
        self._folder = f"staging/export-{uuid4().hex}"

    def encoded(self, table: Table, key: str) -> Iterator[bytes]:
        """The bytes of each range."""
        target = Target.of(self._view.repository, self._view)
        tasks = [EncodeTask(target, range, self._format, self._folder) for range in id_ranges(table, key)]
        with self._view.repository.history.leases.hold(self._view.snapshot.commit.ref):
            yield from self._encoded(tasks, key)

    def _encoded(self, tasks: list[EncodeTask], key: str) -> Iterator[bytes]:
        store = self._view.repository.store
        try:
            for store_key in self._runner.map(f"export {key}", encode_range, tasks):
                yield store.get(store_key)
        finally:
            store.delete_prefix(self._folder)
