"""The Spark data source "omnigraph": a type of a graph as a DataFrame, and a DataFrame into a graph as one commit.

    register(spark)
    spark.read.format("omnigraph").option("graph", uri).option("type", "Person").option("revision", "main").load()
    frame.write.format("omnigraph").option("graph", uri).option("type", "Person").mode("append").save()

Options: graph, type; to read: revision (a branch, tag, commit id or branch~N), as_of (a time on that branch), columns (names
joined by commas), filter (`age > 30 AND tier IN ('pro', 'vip')`), applied inside the scan; to write: mode (append, merge, patch,
delete or overwrite), branch and from (where a branch starts that is missing), actor, message, rejects (a file, of a stream a
folder), missing (refuse, skip or stub: what is done about edges that name missing nodes), and a write key: once (a text) or sequence ("orders 17"). Without type, a column (type, or what type_column names) names
the type of each row that is written. `storage.<name>` is for the store (what is secret of it is refused where Spark would keep it, in a
table of its catalog), and an unknown option is refused. With changes, what commits changed
is read instead (`change_source`). Spark tells a Python source no required columns, and the filters it does tell stick to a
DataFrame: a later query of the same DataFrame without filters would still get the earlier ones. So both are chosen by
options, and Spark's own filters stay with Spark.

A relative path of a graph starts in the folder where the source was registered. Spark also finds the source by itself
(`pyspark_omnigraph`) in every session whose Python has this package; there a path must be absolute.

A read is cut by the table's fragments. A write stages on the executors and publishes once, at the end; one that is aborted
leaves nothing visible.
"""

from __future__ import annotations

import json
import os
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    InputPartition,
    WriterCommitMessage,
)

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.history.chain import MAIN
from omnigraph.history.history import new_ulid
from omnigraph.history.plan import check_attribution
from omnigraph.history.write_keys import Once
from omnigraph.load.explaining import LoadBase
from omnigraph.load.inputs import table_key
from omnigraph.load.options import check_mode, checked_missing
from omnigraph.load.reading import ReadReport
from omnigraph.load.receipt import FORMS
from omnigraph.load.spark_write import SparkWrite, publish_spark_write
from omnigraph.load.typed_frames import FrameReader
from omnigraph.records.ids import FreshIds
from omnigraph.snapshot import Repository, View
from omnigraph.spark.change_rows import in_one_sentence, items_in_one_sentence, spark_schema
from omnigraph.spark.change_source import (
    ChangesReader,
    ChangesStreamReader,
    RefusedStream,
    check_options,
    feed_of,
    reads_changes,
)
from omnigraph.spark.frames import FragmentsReader, check_filter, checked_columns, fragment_groups
from omnigraph.spark.graph_catalog import (
    ABOUT_GRAPHS,
    ROW_ID,
    AboutReader,
    CountReader,
    about_schema,
    call,
    graph_names,
    type_names,
)
from omnigraph.spark.jvm import share, shared_session
from omnigraph.spark.runner import SparkRunner
from omnigraph.spark.sessions import cores_of
from omnigraph.spark.types import refuse_intervals, struct_type
from omnigraph.storage.options import is_secret
from omnigraph.tasks.engines import LoadMode, refuse_memory, settings_of_session
from omnigraph.tasks.target import Address, TableVersion, Target, table_versions_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from pyspark.sql.types import StructType


OPTIONS = frozenset(
    {
        *("graph", "type", "revision", "as_of", "columns", "filter"),
        *("mode", "type_column", "branch", "from", "actor", "message", "rejects", "missing", "once", "sequence"),
        *("changes", "if_commit"),
    }
)
"""A table of SQL has one list of options, for what is read and for what is written."""
OPTIONS_OF_CATALOG = frozenset({"limit", "count", "wap"})
"""What only the catalog of the jar asks for."""
OPTIONS_OF_SPARK = frozenset(
    {
        *("provider", "owner", "path", "location", "comment", "collation", "external", "is_managed_location"),
        *("table_type", "checkpointlocation"),
    }
)
"""What Spark says of its tables and streams beside the options."""
_OF_A_TABLE = "option."
"""What Spark puts before the names of options that a table of its catalog was made with."""


_IN_SCHEMA = "omnigraph"
"""Where the columns of a table of Spark's catalog keep its options: Spark gives them to nobody who reads or writes the table."""


def own_options(options: Mapping[str, str]) -> dict[str, str]:
    """The options that a user gave, however they reach the source."""
    named = {name.lower().removeprefix(_OF_A_TABLE): value for name, value in options.items()}
    return {name: value for name, value in named.items() if name not in OPTIONS_OF_SPARK}


def register(spark: SparkSession) -> None:
    """Make the source known to a session."""

    class RegisteredSource(OmnigraphSource):
        # Sources are made in Python workers, and those stay in the folder where the JVM was started.
        folder = os.getcwd()

    spark.dataSource.register(RegisteredSource)
    share(spark)


class OmnigraphSource(DataSource):  # type: ignore[misc]  # PySpark is not checked
    folder = ""

    def __init__(self, options: Mapping[str, str]) -> None:
        self.options: dict[str, str] = own_options(options)
        self._is_new_table = any(name.startswith(_OF_A_TABLE) for name in options)

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
        return Repository.open(self._absolute(graph), storage_options or None)

    def _absolute(self, address: str) -> str:
        if not self.folder and "://" not in address and not os.path.isabs(address):
            raise UsageError(
                f"'{address}' is a relative path, and this session does not know where it starts",
                hint="give an absolute path, or call og.spark.register(spark)",
            )
        return address if "://" in address else os.path.join(self.folder, address)

    def _refuse_kept_secrets(self) -> None:
        """Spark keeps the options of a table in its catalog, as plain text."""
        names = [name.removeprefix("storage.") for name in self.options if name.startswith("storage.")]
        if secrets := [name for name in names if is_secret(name)]:
            raise UsageError(
                f"Spark's catalog would keep '{secrets[0]}' as plain text",
                hint="leave it to the environment of the driver and the executors (AWS_SECRET_ACCESS_KEY, "
                "spark.executorEnv.NAME), or make a view: spark.read.format('omnigraph').option(...).load()"
                ".createOrReplaceTempView('people')",
            )

    def _check_options(self) -> None:
        if self._is_new_table:
            self._refuse_kept_secrets()
        known = OPTIONS | OPTIONS_OF_CATALOG
        unknown = [name for name in self.options if name not in known and not name.startswith("storage.")]
        if unknown:
            names = ", ".join(f"'{name}'" for name in sorted(unknown))
            raise UsageError(
                f"unknown option{'s' if len(unknown) > 1 else ''} {names}",
                hint=f"the options are {', '.join(sorted(OPTIONS))} and storage.<name>",
            )

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
        self._check_options()
        return self._repository().resolve(*self._revision())

    def _columns(self, view: View, key: str) -> list[str]:
        chosen = [name.strip() for name in self.options.get("columns", "").split(",") if name.strip()]
        return checked_columns(view, key, chosen or None)

    @in_one_sentence
    def schema(self) -> StructType:
        if "catalog" in self.options:
            return self._answer(self.options.pop("catalog"))
        if reads_changes(self.options):
            check_options(self.options)
            feed_of(self._address(), self.options)
            return spark_schema()
        view = self._view()
        key = table_key(view.catalog, self._option("type"))
        stored = view.schema(key)
        columns = struct_type(pa.schema([stored.field(name) for name in self._columns(view, key)]))
        for field in columns.fields if self._is_new_table else ():
            field.metadata[_IN_SCHEMA] = json.dumps(self.options)
        return columns

    def _answer(self, question: str) -> StructType:
        """What the catalog asks, as columns: names, or the columns of a table and behind them a word about it."""
        from pyspark.sql.types import StringType, StructType

        about = self.options.get("type") if question == "table" else None
        if about in ABOUT_GRAPHS:
            commit = self._repository().resolve(*self._revision()).snapshot.commit.id
            columns, names = about_schema(about), [f"about {commit} -1"]
        elif question == "table":
            self.options["revision"], as_of = self._revision()
            if as_of is not None:
                self.options["as_of"] = as_of
            columns, view = self.schema(), self._view()
            rows = view.rows(table_key(view.catalog, self._option("type")))
            names = [f"type {view.snapshot.commit.id} {rows}"]
        else:
            columns, names = StructType(), self._names(question)
        for name in names:
            columns.add(name, StringType())
        return columns

    def _names(self, kind: str) -> list[str]:
        """What a catalog lists: graphs, branches of a graph, or its types on a branch; or what a procedure has done."""
        if kind == "graphs":
            return graph_names(self._absolute(self._option("root")), self.options.get("graphs"))
        if kind == "branches":
            return [entry.branch for entry in self._repository().history.branches.list()]
        if kind == "call":
            return call(
                self._repository(), self._option("procedure"), self._option("what"), self.options.get("where", MAIN)
            )
        return type_names(self._view())

    def _revision(self) -> tuple[str, str | None]:
        """What is read. Of writes that are set aside on a branch (`spark.wap.branch`): that branch, as soon as there is one."""
        aside = self.options.pop("wap", None)
        if aside is not None:
            newest = self._repository().history.chain.newest(aside)
            return (aside if newest is not None and newest.alive else MAIN), None
        return self.options.get("revision") or self.options.get("branch", MAIN), self.options.get("as_of")

    def _take_options(self, schema: StructType) -> None:
        """Of a table of the catalog: from its columns."""
        kept = {field.name: field.metadata[_IN_SCHEMA] for field in schema.fields if _IN_SCHEMA in field.metadata}
        if not kept or "graph" in self.options:
            return
        self.options = {**json.loads(next(iter(kept.values()))), **self.options}
        if others := [field.name for field in schema.fields if field.name not in kept]:
            raise UsageError(
                f"ALTER TABLE has added '{others[0]}' to Spark's catalog, and no column to the graph",
                hint="DROP TABLE leaves the graph as it is: change the schema of the graph (omnigraph schema apply), then CREATE TABLE again",
            )

    @in_one_sentence
    def reader(self, schema: StructType) -> DataSourceReader:
        self._take_options(schema)
        about = self.options.pop("about", None)
        if about == "changes":
            self.options |= {"changes": "true", "to": self.options.pop("revision")}
        elif about is not None:
            return AboutReader(self._address(), about, self._option("revision"), list(schema.names))
        if reads_changes(self.options):
            return ChangesReader(self._address(), self.options, schema)
        view = self._view()
        key = table_key(view.catalog, self._option("type"))
        if "count" in self.options:
            return CountReader(view.rows(key))
        self._check_schema(view, key, schema)
        table = view.table(key)
        if table is not None:
            check_filter(table, self.options.get("filter"))
        place = None if table is None else TableVersion.of(table)
        groups = () if table is None else fragment_groups(table)
        limit = self.options.get("limit")
        return TableReader(
            Target.of(view.repository, view),
            place,
            groups,
            list(schema.names),
            self.options.get("filter"),
            None if limit is None else int(limit),
        )

    def _check_schema(self, view: View, key: str, schema: StructType) -> None:
        """A DataFrame keeps the schema that it was made with, which may be another one by now."""
        stored = view.schema(key)
        for field in schema.fields:
            if field.name == ROW_ID:
                continue
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
        self._take_options(schema)
        if "graph" not in self.options:
            raise UsageError(
                "the option 'graph' is missing; Spark hands on none of CREATE TABLE ... AS SELECT",
                hint="CREATE TABLE ... USING omnigraph OPTIONS (graph '...', type '...'), then INSERT INTO ... SELECT; "
                'of a DataFrame: .option("graph", "./people")',
            )
        return TableWriter(self._write(self._mode(overwrite), self._once(), schema))

    @in_one_sentence
    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from omnigraph.spark.stream_sink import StreamTableWriter

        if self._once() is not None:
            raise UsageError(
                "a stream has the write keys of its batches",
                hint="leave the options 'once' and 'sequence' out",
            )
        mode = self.options.get("mode", "append")
        if mode not in ("append", "merge", "patch", "delete"):
            raise UsageError(
                f"'{mode}' is not a mode of a stream",
                hint='.option("mode", "append"), "merge", "patch" or "delete"; outputMode("complete") replaces the type',
            )
        return StreamTableWriter(self._write(self._mode(overwrite), None, schema))

    def _mode(self, overwrite: bool) -> LoadMode:
        """As the option says; Spark's own modes are append and overwrite."""
        mode = self.options.get("mode")
        if mode is None:
            return "overwrite" if overwrite else "append"
        check_mode(mode)
        if overwrite and mode != "overwrite":
            raise UsageError(
                f"the option mode '{mode}' and Spark's mode overwrite exclude each other",
                hint=f'.mode("append").option("mode", "{mode}")',
            )
        chosen: LoadMode = mode  # type: ignore[assignment]  # checked
        return chosen

    def _write(self, mode: LoadMode, once: Once | None, schema: StructType) -> SparkWrite:
        self._check_options()
        check_attribution(self.options.get("actor"), self.options.get("message"))
        repository = self._repository()
        branch, from_ = self.options.get("branch", MAIN), self.options.get("from")
        view = LoadBase.of(repository, branch, from_).view
        type_name = self.options.get("type")
        type_column = self.options.get("type_column", "type")
        if type_name is None and type_column not in schema.names:
            raise UsageError(
                f"neither the option 'type' nor a column '{type_column}' says of which type the rows are",
                hint='.option("type", "Person")',
            )
        key, fresh = (
            None if type_name is None else table_key(view.catalog, type_name),
            FreshIds.new(repository.history.clock),
        )
        refuse_intervals(schema)
        FrameReader(view.catalog, key, type_column, fresh, FORMS[mode]).check(list(schema.names))
        return SparkWrite(
            uri=repository.store.uri,
            options=tuple(sorted(repository.tables.options.items())),
            branch=branch,
            from_=from_,
            key=key,
            type_column=type_column,
            target=Target.of(repository, view),
            schema=view.snapshot.schema,
            versions=table_versions_of(view),
            mode=mode,
            commit_id=new_ulid(),
            actor=self.options.get("actor"),
            message=self.options.get("message"),
            once=once,
            if_commit=self.options.get("if_commit"),
            since=repository.history.retention.store_now(),
            base=view.snapshot.commit.ref,
            fresh=fresh,
            rejects=self.options.get("rejects"),
            missing=checked_missing(self.options.get("missing", "refuse"), mode),
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
        limit: int | None = None,
    ) -> None:
        """`limit`: how many rows of each partition are enough."""
        self.target = target
        self.place = place
        self.groups = groups
        self.columns = columns
        self.filter = filter
        self.limit = limit

    def partitions(self) -> Sequence[InputPartition]:
        # Spark refuses an empty list; a partition without fragments reads nothing.
        return [_Group(fragments) for fragments in self.groups] or [_Group(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        assert isinstance(partition, _Group)
        if self.place is None or not partition.fragments:
            return
        stored = ["id" if name == ROW_ID else name for name in self.columns]
        names = list(dict.fromkeys(stored))
        reader, left = FragmentsReader(self.target, self.place, names, self.filter), self.limit
        for batch in items_in_one_sentence(reader.batches(partition.fragments)):
            rows = batch if left is None else batch.slice(0, left)
            if ROW_ID in self.columns:
                rows = rows.select(stored).rename_columns(self.columns)
            yield rows
            if left is not None:
                left -= rows.num_rows
                if left == 0:
                    return


# ---------------------------------------------------------------- writing


def shared_runner(rows: SparkWrite) -> SparkRunner | None:
    """Of the session in which a write runs, for its commit; None if that session is not shared."""
    session = shared_session()
    if session is None:
        return None
    settings = settings_of_session(session, {})
    work = f"omnigraph write {rows.uri.rstrip('/').rpartition('/')[2]}"
    return SparkRunner(session, settings.parallelism or cores_of(session), work=work, settings=settings)


@dataclass
class _Written(WriterCommitMessage):  # type: ignore[misc]
    report: bytes


class TableWriter(DataSourceArrowWriter):  # type: ignore[misc]
    """Tasks write fragments; `commit` runs once, in a process of its own, and publishes under an id fixed beforehand."""

    def __init__(self, rows: SparkWrite) -> None:
        self.rows = rows

    @in_one_sentence
    def write(self, iterator: Iterator[Any]) -> WriterCommitMessage:
        return _Written(pickle.dumps(self.rows.read(TaskContext.get().partitionId(), iterator)))

    @in_one_sentence
    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        reports: list[ReadReport] = [
            pickle.loads(message.report) for message in messages if isinstance(message, _Written)
        ]
        publish_spark_write(self.rows, reports, many=partial(shared_runner, self.rows))

    def abort(self, messages: list[WriterCommitMessage | None]) -> None:
        """Nothing is removed: Spark aborts after a failed `commit` too, whose outcome may be unknown. What no commit names
        is invisible, and `omnigraph cleanup` collects it."""
