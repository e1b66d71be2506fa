"""What a load would do, before it does anything: which engine, why, and how its input is cut into tasks."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from omnigraph.errors import BranchNotFound, OmnigraphError, UnreadableInput, UsageError
from omnigraph.history.chain import PROBE_WINDOW_S
from omnigraph.history.values import Commit, Entry, WriteKey
from omnigraph.language.catalog import Catalog
from omnigraph.load.inputs import (
    FORMATS,
    Frame,
    Sources,
    by_type,
    find_inputs,
    is_type,
    paths_of,
    refuse_text_options,
    table_key,
)
from omnigraph.load.options import LoadOptions
from omnigraph.records.ids import FreshIds
from omnigraph.snapshot import Repository, View
from omnigraph.storage.options import scheme_of
from omnigraph.tasks.engines import (
    MAX_IN_PROCESS_BYTES,
    Engine,
    TaskSettings,
    check_engine,
    choose_engine,
    engine_with_reader,
)
from omnigraph.tasks.runner import LocalRunner

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# The state that a load is based on.


class TrialView(View):
    """A state in which types without rows get their tables in a temporary folder of the load. A table in its final place could not be
    removed again, because others may write to it by then."""

    def __init__(self, view: View, folder: str) -> None:
        super().__init__(view.repository, view.snapshot)
        self._folder = folder

    def path(self, key: str) -> str:
        path = super().path(key)
        return path if self.state(key) is not None else f"{self._folder}/{path}"


@dataclass(frozen=True)
class LoadBase:
    """The state that a load is based on: the head of its branch, or the start of the branch that its commit creates (`opening`).

    `entry` is that head or opening. The commit has the id of the opening, and `source` is the revision that the branch starts from.
    """

    view: View
    branch: str
    incarnation: str
    commit_id: str
    entry: Entry
    opening: Entry | None = None
    new_branch: bool = False
    source: str | None = None
    since: float = 0.0
    """When the load began, before it read anything, by the clock of history."""
    start: Entry | None = None
    start_protected: frozenset[str] | None = None
    """The entry that the branch will start from, and what protects it from cleanup (`Branches.protection`)."""

    @classmethod
    def of(cls, repository: Repository, branch: str, from_: str | None = None, new_branch: bool = False) -> LoadBase:
        history = repository.history
        since = history.clock()
        if new_branch and from_ is None:
            raise UsageError("a new branch needs a revision to start from", hint="from_='main'")
        newest = history.chain.newest(branch)
        if newest is not None and newest.alive and not new_branch:
            return cls.at_head(repository, newest, since)
        if from_ is None:
            raise BranchNotFound(
                f"branch '{branch}' does not exist",
                hint="see 'omnigraph branch list'; from_='main' makes the branch with the load",
            )
        source = history.revisions.entry(from_)
        protected = history.branches.protection(source)
        opening = history.branches.opening(branch, source, history.new_id())
        history.tags.check_no_tag(branch)
        view = repository.view(opening.before)
        return cls(
            view,
            branch,
            opening.incarnation,
            opening.id,
            opening,
            opening,
            new_branch,
            from_,
            since,
            source,
            protected,
        )

    @classmethod
    def at_head(cls, repository: Repository, head: Entry, since: float) -> LoadBase:
        commit_id = repository.history.new_id()
        return cls(repository.view(head.head), head.branch, head.incarnation, commit_id, head, since=since)

    @property
    def folder(self) -> str:
        """The folder for files that are needed only while the load runs."""
        return f"staging/{self.commit_id}"

    def for_trial(self) -> LoadBase:
        """The base of a dry run, which publishes nothing."""
        return replace(self, view=TrialView(self.view, self.folder))

    def committed(self, repository: Repository, key: WriteKey | None) -> Commit | None:
        """The earlier commit under a write key. A new branch inherits the keys of its starting point."""
        return None if key is None else repository.history.keys.committed(key, self.entry)

    def check_protected(self, repository: Repository) -> None:
        """Called after the plan was stored: raises HistoryGap if cleanup may have removed the state that the branch starts from."""
        history = repository.history
        is_late = history.clock() - self.since >= PROBE_WINDOW_S
        if self.start is not None and (is_late or self.start_protected is not None):
            history.branches.check_protected(self.start, self.start_protected or frozenset())


# Rows that the Spark session reads by itself: every format that it has a reader for (orc, jdbc, delta, iceberg, ...).

_READERS = {
    "delta": {
        "spark.jars.packages": "io.delta:delta-spark_2.13:VERSION",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
    },
    "iceberg": {
        "spark.jars.packages": "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:VERSION",
        "spark.sql.catalog.NAME": "org.apache.iceberg.spark.SparkCatalog",
    },
    "avro": {"spark.jars.packages": "org.apache.spark:spark-avro_2.13:VERSION"},
}
"""What a session needs for readers that Spark itself does not have."""


@dataclass(frozen=True)
class SessionReader:
    """A reader of Spark by its name, and what it is to read: paths, tables, or of `jdbc` addresses of databases."""

    format: str
    places: tuple[str, ...]
    options: Mapping[str, str]
    type: str | None
    names: Mapping[str, str]
    """Properties by the columns that are them."""

    @classmethod
    def of(cls, sources: Sources, options: LoadOptions) -> SessionReader | None:
        """None where this package reads the sources itself."""
        format, mapped = options.format, options.mapping
        if format is None or format in FORMATS or isinstance(sources, Mapping):
            if options.reader_options:
                raise UsageError(
                    "reader options are for a format that Spark reads",
                    hint="for example format='orc', or jdbc, delta, iceberg",
                )
            return None
        refuse_text_options((), options.text.chosen)
        if mapped.sources:
            raise UsageError(
                f"a map file is for {', '.join(FORMATS)}",
                hint=f"give the columns of '{format}': map={{'COLUMN': 'PROPERTY'}}",
            )
        return cls(format, tuple(paths_of(sources)), dict(options.reader_options or {}), options.type, mapped.names)

    def frames(self, session: SparkSession, catalog: Catalog) -> tuple[Frame, ...]:
        """A DataFrame for each place."""
        return tuple(
            Frame(
                _key_of(place, self.format, catalog, self.type),
                _renamed(_read(session, place, self.format, self.options), self.names, place),
            )
            for place in self.places
        )


def _read(session: SparkSession, place: str, format: str, options: Mapping[str, str]) -> DataFrame:
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes with PySpark, without types
    from pyspark.errors import PySparkException

    reader = session.read.format(format).options(**options)
    is_local = scheme_of(place) == "file" and os.path.exists(place)
    try:
        if format == "jdbc":
            return reader.option("url", place).load()
        return reader.load(os.path.abspath(place) if is_local else place)
    except (PySparkException, Py4JError) as error:
        raise _failure(error, place, format) from None


def _failure(error: Exception, place: str, format: str) -> OmnigraphError:
    """What Spark says about a source that it cannot read, in one sentence."""
    reason = next((line.strip() for line in str(error).splitlines() if line.strip()), error.__class__.__name__)
    if any(sign in str(error) for sign in ("DATA_SOURCE_NOT_FOUND", "ClassNotFoundException", "No suitable driver")):
        if format == "jdbc":
            return UsageError(
                f"the Spark session has no driver for '{place.split('?')[0]}'",
                hint="put its jar into the session: conf={'spark.jars': 'driver.jar'}, and name its class with "
                "reader_options={'driver': 'CLASS'}",
            )
        any_package = {"spark.jars.packages": "GROUP:NAME:VERSION"}
        return UsageError(
            f"the Spark session cannot read '{format}'",
            hint=f"put its reader into the session: conf={_READERS[format]}"
            if format in _READERS
            else f"check its name, or put the package of its reader into the session: conf={any_package}",
        )
    if "PATH_NOT_FOUND" in reason:
        return UsageError(f"there is nothing to load at '{place}'", hint="check the path or the pattern")
    return UnreadableInput(f"Spark cannot read it as {format}: {reason[:500]}", file=place)


def _key_of(place: str, format: str, catalog: Catalog, type: str | None) -> str:
    """The table of a type: as given, or as the last name of the place says, be it a file, a folder or a table."""
    if type is not None:
        return table_key(catalog, type)
    last = place.rstrip("/").replace("\\", "/").rpartition("/")[2]
    for name in (os.path.splitext(last)[0], last.rpartition(".")[2]):
        if format != "jdbc" and is_type(catalog, name):
            return table_key(catalog, name)
    raise UsageError(
        f"'{place}' does not say of which type its rows are",
        hint=f"pass type='TYPE'; the schema has: {', '.join(sorted(catalog.tables))}",
    )


def _renamed(frame: DataFrame, names: Mapping[str, str], place: str) -> Any:
    missing = [name for name in names if name not in frame.columns]
    if missing:
        raise UsageError(
            f"'{place}' has no column {', '.join(repr(name) for name in missing)}",
            hint=f"it has: {', '.join(frame.columns)}",
        )
    return frame.withColumnsRenamed(dict(names)) if names else frame


@dataclass(frozen=True)
class LoadExplanation:
    """Where a load would run, and in how many tasks.

    >>> explained = g.explain_load("people.jsonl")
    >>> assert (explained.engine, explained.files, explained.tasks) == ("in process", 1, 1)
    """

    engine: str
    """"in process" or "on Spark"."""
    reason: str
    input_bytes: int
    """What the files hold, counted as text."""
    max_in_process_bytes: int
    """With how much input a load runs in process when no engine was chosen."""
    files: int
    parallelism: int | None
    """How many tasks run at once; None: what the Spark session says when it is there."""
    tasks: int | None
    """Tasks that read; None for what Spark reads and cuts itself, and where the parallelism is not known."""
    task_bytes: int | None
    """Input of one of them, at most, counted as text."""


def explain_load(
    repository: Repository,
    sources: Sources,
    options: LoadOptions,
) -> LoadExplanation:
    """Nothing is read but the names and sizes of files and the metadata of large Parquet files; Spark is not started.
    Standard input is refused: it could be read only once."""
    settings = TaskSettings.of(options.conf or {})
    sources = by_type(sources, options.type)
    reader = SessionReader.of(sources, options)
    if reader is not None:
        choice = engine_with_reader(options.engine, reader.format)
        check_engine(choice.engine)
        return LoadExplanation("on Spark", choice.reason, 0, MAX_IN_PROCESS_BYTES, 0, None, None, None)
    catalog = LoadBase.of(repository, options.branch, options.from_).view.catalog
    located = find_inputs(sources, catalog, options, repository.tables.options or None)
    choice = choose_engine(options.engine, repository.store.uri, located.text_bytes, located.session)
    check_engine(choice.engine)
    is_local = isinstance(choice.engine, str) and choice.engine == "local"
    parallelism = LocalRunner(settings=settings).parallelism if is_local else _parallelism(choice.engine, settings)
    inputs = None if parallelism is None else located.cut(parallelism, FreshIds.new(), settings)
    return LoadExplanation(
        "in process" if is_local else "on Spark",
        choice.reason,
        located.text_bytes,
        MAX_IN_PROCESS_BYTES,
        len({rows.file.address for rows in located.files}),
        parallelism,
        None if inputs is None or located.frames else len(inputs.bundles()),
        None if inputs is None or located.frames else inputs.task_bytes,
    )


def _parallelism(engine: Engine, settings: TaskSettings) -> int | None:
    """Tasks at a time on Spark, as far as it is known without starting it."""
    if settings.parallelism is not None:
        return settings.parallelism
    session = engine
    if isinstance(engine, str):
        if local := re.fullmatch(r"local\[(\d+|\*).*\]", engine):
            return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
        if engine != "spark" or "SPARK_REMOTE" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ:
            return None
        module = sys.modules.get("pyspark.sql")
        session = None if module is None else module.SparkSession.getActiveSession()
        if session is None:
            return os.cpu_count() or 1
    from omnigraph.spark.sessions import cores_of

    return cores_of(session)
