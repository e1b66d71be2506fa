"""The Spark data source "omnigraph": a type of a graph as a DataFrame, and a DataFrame into a graph as one commit.

    register(spark)
    spark.read.format("omnigraph").option("graph", uri).option("type", "Person").option("revision", "main").load()
    frame.write.format("omnigraph").option("graph", uri).option("type", "Person").mode("append").save()

Options: graph, type; to read: revision (a branch, tag, commit id or branch~N), as_of (a time on that branch), columns (names
joined by commas); to write: branch, actor, message, and a write key: once (a text) or sequence ("orders 17");
filter (`age > 30 AND tier IN ('pro', 'vip')`), applied inside the scan; `storage.<name>` for the store. Spark tells a
Python source no required columns, and the filters it does tell stick to a DataFrame: a later query of the same DataFrame
without filters would still get the earlier ones. So both are chosen by options, and Spark's own filters stay with Spark.

A relative path of a graph starts in the folder where the source was registered.

A read is cut by the table's fragments. A write stages on the executors and publishes once, at the end; one that is aborted
leaves nothing visible.
"""

from __future__ import annotations

import functools
import os
import pickle
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    InputPartition,
    WriterCommitMessage,
)

from omnigraph.errors import OmnigraphError, RejectedRecords, UsageError
from omnigraph.history import MAIN, Once, check_attribution, new_ulid
from omnigraph.pipeline.engines import refuse_memory
from omnigraph.pipeline.load.inputs import table_key
from omnigraph.pipeline.load.reading import ReadReport, read_batches
from omnigraph.pipeline.load.spark_write import SparkWrite, publish_spark_write
from omnigraph.pipeline.spark.frames import FragmentsReader, check_filter, fragment_groups
from omnigraph.pipeline.spark.types import struct_type
from omnigraph.pipeline.target import TableVersion, Target, table_versions_of
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


Method = TypeVar("Method", bound=Callable[..., Any])


def in_one_sentence(method: Method) -> Method:
    """For methods that Spark calls in a Python worker: an error of ours reaches the user as a sentence, without the
    tracebacks of the worker. The worker ends with it, so nobody else's tracebacks are lost."""

    @functools.wraps(method)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return method(*args, **named)
        except OmnigraphError as error:
            raise _as_sentence(error) from None

    return call  # type: ignore[return-value]


def _as_sentence(error: OmnigraphError) -> OmnigraphError:
    os.environ["SPARK_HIDE_TRACEBACK"] = "1"
    if error.hint and not isinstance(error, RejectedRecords):  # whose hint is about another way to load
        error.args = (f"{error.message} ({error.hint})",)
    return error


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

    def _view(self) -> View:
        repository = self._repository()
        return repository.resolve(self.options.get("revision", MAIN), self.options.get("as_of"))

    def _columns(self, view: View, key: str) -> list[str]:
        known = view.schema(key).names
        chosen = [name.strip() for name in self.options.get("columns", "").split(",") if name.strip()] or known
        for name in chosen:
            if name not in known:
                raise UsageError(f"{key} has no column '{name}'", hint=f"it has: {', '.join(known)}")
        return list(chosen)

    @in_one_sentence
    def schema(self) -> StructType:
        import pyarrow as pa

        view = self._view()
        key = table_key(view.catalog, self._option("type"))
        stored = view.schema(key)
        return struct_type(pa.schema([stored.field(name) for name in self._columns(view, key)]))

    @in_one_sentence
    def reader(self, schema: StructType) -> DataSourceReader:
        view = self._view()
        key = table_key(view.catalog, self._option("type"))
        known = view.schema(key).names
        unknown = [name for name in schema.names if name not in known]
        if unknown:
            raise UsageError(f"{key} has no column '{unknown[0]}'", hint=f"it has: {', '.join(known)}")
        table = view.table(key)
        if table is not None:
            check_filter(table, self.options.get("filter"))
        place = None if table is None else TableVersion.of(table)
        groups = () if table is None else fragment_groups(table)
        return TableReader(
            Target.of(view.repository, view), place, groups, list(schema.names), self.options.get("filter")
        )

    @in_one_sentence
    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        check_attribution(self.options.get("actor"), self.options.get("message"))
        repository = self._repository()
        branch = self.options.get("branch", MAIN)
        _, view = repository.head(branch)
        key = table_key(view.catalog, self._option("type"))
        rows = SparkWrite(
            uri=repository.store.uri,
            options=tuple(sorted(repository.tables.options.items())),
            branch=branch,
            key=key,
            target=Target.of(repository, view),
            schema=view.snapshot.schema,
            versions=table_versions_of(view),
            mode="overwrite" if overwrite else "append",
            commit_id=new_ulid(),
            actor=self.options.get("actor"),
            message=self.options.get("message"),
            once=self._once(),
        )
        return TableWriter(rows)


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
        try:
            yield from FragmentsReader(self.target, self.place, self.columns, self.filter).batches(partition.fragments)
        except OmnigraphError as error:
            raise _as_sentence(error) from None


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
        is invisible, and a clean-up of the graph collects it."""
