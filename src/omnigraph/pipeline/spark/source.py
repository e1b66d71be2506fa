"""The Spark data source "omnigraph": a type of a graph as a DataFrame, and a DataFrame into a graph as one commit.

    register(spark)
    spark.read.format("omnigraph").option("graph", uri).option("type", "Person").option("revision", "main").load()
    frame.write.format("omnigraph").option("graph", uri).option("type", "Person").mode("append").save()

Options: graph, type; to read: revision (a branch, tag, commit id or branch~N), as_of (a time on that branch), columns (names
joined by commas), filter (`age > 30 AND tier IN ('pro', 'vip')`), applied inside the scan; to write: branch, actor, message,
and a write key: once (a text) or sequence ("orders 17"); to write a stream: mode (append or merge) and rejects (a folder for
rejected records, which stop the query otherwise); `storage.<name>` for the store. With changes, what commits changed
is read instead (`change_source`). Spark tells a Python source no required columns, and the filters it does tell stick to a
DataFrame: a later query of the same DataFrame without filters would still get the earlier ones. So both are chosen by
options, and Spark's own filters stay with Spark.

A relative path of a graph starts in the folder where the source was registered.

A read is cut by the table's fragments. A write stages on the executors and publishes once, at the end; one that is aborted
leaves nothing visible.
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.history import MAIN, Once, check_attribution, new_ulid
from omnigraph.pipeline.choices import LoadMode
from omnigraph.pipeline.engines import refuse_memory
from omnigraph.pipeline.load.inputs import table_key
from omnigraph.pipeline.load.reading import ReadReport, read_batches
from omnigraph.pipeline.load.spark_write import SparkWrite, publish_spark_write
from omnigraph.pipeline.spark.change_rows import spark_schema
from omnigraph.pipeline.spark.change_source import (
    ChangesReader,
    ChangesStreamReader,
    RefusedStream,
    check_options,
    feed_of,
    reads_changes,
)
from omnigraph.pipeline.spark.frames import FragmentsReader, check_filter, checked_columns, fragment_groups
from omnigraph.pipeline.spark.sentences import in_one_sentence, items_in_one_sentence
from omnigraph.pipeline.spark.types import struct_type
from omnigraph.pipeline.target import Address, TableVersion, Target, table_versions_of
from omnigraph.views import Repository, View

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


def register(spark: SparkSession) -> None:
    """Make the source known to a session."""

    class RegisteredSource(OmnigraphSource):
        # Sources are made in Python workers, and those stay in the folder where the JVM was started.
        folder = os.getcwd()

    spark.dataSource.register(RegisteredSource)


class OmnigraphSource(DataSource):  # type: ignore[misc]  # PySpark is not checked
    folder = ""

    @classmethod
    def name(cls) -> str:
        return "omnigraph"

    def _option(self, name: str) -> str:
        value = self.options.get(name)
        if not value:
            raise UsageError(f"the option '{name}' is missing", hint='for example .option("graph", "./people")')
        return str(value)

    def _repository(self) -> Repository:
        storage_options = {
            name.removeprefix("storage."): value for name, value in self.options.items() if name.startswith("storage.")
        }
        graph = self._option("graph")
        refuse_memory(graph)
        return Repository.open(graph if "://" in graph else os.path.join(self.folder, graph), storage_options or None)

    def _once(self) -> Once | None:
        """The write key: a text, or an application and a number with a space between them."""
        key: str | None = self.options.get("once")
        sequence: str | None = self.options.get("sequence")
        if sequence is None:
            return key
        application, _, number = sequence.rpartition(" ")
        if key is not None or not application or not (number.isascii() and number.isdigit()):
            raise UsageError(
                f"{sequence!r} cannot be the sequence of a write key",
                hint='.option("once", "orders-2026-11-15") or .option("sequence", "orders 17")',
            )
        return application, int(number)

    def _address(self) -> Address:
        return Address.of_graph(self._repository())

    def _view(self) -> View:
        repository = self._repository()
        return repository.resolve(self.options.get("revision", MAIN), self.options.get("as_of"))

    def _columns(self, view: View, key: str) -> list[str]:
        chosen = [name.strip() for name in self.options.get("columns", "").split(",") if name.strip()]
        return checked_columns(view, key, chosen or None)

    @in_one_sentence
    def schema(self) -> StructType:
        import pyarrow as pa

        if reads_changes(self.options):
            check_options(self.options)
            feed_of(self._address(), self.options)
            return spark_schema()
        view = self._view()
        key = table_key(view.catalog, self._option("type"))
        stored = view.schema(key)
        return struct_type(pa.schema([stored.field(name) for name in self._columns(view, key)]))

    @in_one_sentence
    def reader(self, schema: StructType) -> DataSourceReader:
        if reads_changes(self.options):
            return ChangesReader(self._address(), self.options, schema)
        view = self._view()
        key = table_key(view.catalog, self._option("type"))
        self._check_schema(view, key, schema)
        table = view.table(key)
        if table is not None:
            check_filter(table, self.options.get("filter"))
        place = None if table is None else TableVersion.of(table)
        groups = () if table is None else fragment_groups(table)
        return TableReader(
            Target.of(view.repository, view), place, groups, list(schema.names), self.options.get("filter")
        )

    def _check_schema(self, view: View, key: str, schema: StructType) -> None:
        """A DataFrame keeps the schema that it was made with, which may be another one by now."""
        import pyarrow as pa

        stored = view.schema(key)
        for field in schema.fields:
            if field.name not in stored.names:
                raise UsageError(
                    f"{key} has no column '{field.name}'",
                    hint=f"it has: {', '.join(stored.names)}; if its schema was changed, make the DataFrame again",
                )
            now = struct_type(pa.schema([stored.field(field.name)])).fields[0].dataType
            if field.dataType != now:
                was = field.dataType.simpleString()
                raise UsageError(
                    f"the column '{field.name}' of {key} is {now.simpleString()} now, and was {was}",
                    hint="the schema was changed since this DataFrame was made: make it again",
                )

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        # Spark loses an error that is raised here; one that a method of the reader raises reaches the user.
        try:
            return self._stream_reader(schema)
        except OmnigraphError as error:
            return RefusedStream(error)

    def _stream_reader(self, schema: StructType) -> ChangesStreamReader:
        if not reads_changes(self.options):
            raise UsageError(
                "a stream reads the changes of a branch, not its rows",
                hint='.option("changes", "true"); .option("start", "baseline") begins with every row',
            )
        return ChangesStreamReader(self._address(), self.options, schema)

    @in_one_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        return TableWriter(self._write("overwrite" if overwrite else "append", self._once()))

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from omnigraph.pipeline.spark.stream_sink import StreamTableWriter

        if self._once() is not None:
            raise UsageError(
                "a stream has the write keys of its batches",
                hint="leave the options 'once' and 'sequence' out",
            )
        mode = self.options.get("mode", "append")
        if mode not in ("append", "merge"):
            raise UsageError(
                f"'{mode}' is not a mode of a stream",
                hint='.option("mode", "append") or "merge"; outputMode("complete") replaces the type',
            )
        return StreamTableWriter(self._write("overwrite" if overwrite else mode, None), self.options.get("rejects"))

    def _write(self, mode: LoadMode, once: Once | None) -> SparkWrite:
        check_attribution(self.options.get("actor"), self.options.get("message"))
        repository = self._repository()
        branch = self.options.get("branch", MAIN)
        _, view = repository.head(branch)
        return SparkWrite(
            uri=repository.store.uri,
            options=tuple(sorted(repository.tables.options.items())),
            branch=branch,
            key=table_key(view.catalog, self._option("type")),
            target=Target.of(repository, view),
            schema=view.snapshot.schema,
            versions=table_versions_of(view),
            mode=mode,
            commit_id=new_ulid(),
            actor=self.options.get("actor"),
            message=self.options.get("message"),
            once=once,
            since=repository.history.retention.store_now(),
        )


# ---------------------------------------------------------------- reading


@dataclass
class _Group(InputPartition):  # type: ignore[misc]
    """Some fragments of the table, read by one task."""

    fragments: tuple[int, ...]


class TableReader(DataSourceReader):  # type: ignore[misc]
    def __init__(
        self,
        target: Target,
        place: TableVersion | None,
        groups: Sequence[tuple[int, ...]],
        columns: list[str],
        filter: str | None,
    ) -> None:
        self.target = target
        self.place = place
        self.groups = groups
        self.columns = columns
        self.filter = filter

    def partitions(self) -> Sequence[InputPartition]:
        # Spark refuses an empty list; a partition without fragments reads nothing.
        return [_Group(fragments) for fragments in self.groups] or [_Group(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Group)
        if self.place is None or not partition.fragments:
            return
        reader = FragmentsReader(self.target, self.place, self.columns, self.filter)
        yield from items_in_one_sentence(reader.batches(partition.fragments))


# ---------------------------------------------------------------- writing


@dataclass
class _Written(WriterCommitMessage):  # type: ignore[misc]
    report: bytes


class TableWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Tasks write fragments; `commit` runs once, in a process of its own, and publishes under an id fixed beforehand."""

    def __init__(self, rows: SparkWrite) -> None:
        self.rows = rows

    @in_one_sentence
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        history = self.rows.repository().history
        with history.leases.hold(history.chain.head(self.rows.branch).head.commit.ref, since=self.rows.since):
            report = read_batches(self.rows.target, self.rows.key, self.rows.versions, 0, iterator)
        return _Written(pickle.dumps(report))

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        reports: list[ReadReport] = [
            pickle.loads(message.report) for message in messages if isinstance(message, _Written)
        ]
        publish_spark_write(self.rows, reports)

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is removed: Spark aborts after a failed `commit` too, whose outcome may be unknown. What no commit names
        is invisible, and `omnigraph cleanup` collects it."""
