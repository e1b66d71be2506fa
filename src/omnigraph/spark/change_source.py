"""Changes through the Spark data source "omnigraph": a span of commits as a DataFrame, or the feed of a branch as a stream.

    spark.read.format("omnigraph").option("graph", uri).option("changes", "true").option("from", "main~10").load()
    spark.readStream.format("omnigraph").option("graph", uri).option("changes", "true").option("start", "baseline").load()

The driver plans with commit records only; tasks compare and read rows. The offset of a stream is the feed's own cursor.

Spark keeps the end of each batch before it runs it, but not where the first one began: it asks for that again after a restart.
So the first end says where its batch began, and whatever `now`, a time or a revision means by then, the batch stays the same.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadLimit, ReadMaxRows, SupportsTriggerAvailableNow

from omnigraph.changes.diff import type_order
from omnigraph.changes.entity_changes import ChangeFilter
from omnigraph.changes.feed import BatchLimits, BranchFeed
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit, to_microseconds
from omnigraph.spark.change_rows import (
    ChangeRow,
    arrow_batches,
    checked_columns,
    entity_text,
    in_one_sentence,
    items_in_one_sentence,
)
from omnigraph.spark.frames import fragment_groups
from omnigraph.tasks.target import Address, TableVersion, Target
from omnigraph.values.arrow import entity_values

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

COMMITS_PER_TASK = 16
BULK_KINDS = frozenset({"load", "merge"})
"""Commits that may have changed much: each is a task of its own."""
MAX_COMMITS = 1_000
"""Commits of a batch where nothing else is said."""
SNAPSHOT_BATCH_ROWS = 4_096
MAX_DIGITS = 9
"""Of a number in an option; Spark's own limits have 32 bits."""

BASELINE = "baseline"
STARTS = ("now", "beginning", BASELINE)
BEGINNINGS = ("from", "from_time", "cursor", "start")
_SHARED = ("graph", "changes", "branch", "type", "kind", "op", "from", "from_time", "cursor")
_OPTIONS = {"read": (*_SHARED, "to"), "readStream": (*_SHARED, "start", "max_commits", "max_rows")}

Offset: TypeAlias = dict[str, Any]


def reads_changes(options: Mapping[str, str]) -> bool:
    word = options.get("changes", "false").lower()
    if word not in ("true", "false"):
        raise UsageError(f"'{word}' is not a value of the option 'changes'", hint="true or false")
    return word == "true"


def check_options(options: Mapping[str, str], reader: str | None = None) -> None:
    """Every option must mean something: to `read`, to `readStream`, or, where it is not known yet which, to one of them."""
    known = _OPTIONS[reader] if reader else {name for names in _OPTIONS.values() for name in names}
    for name in options:
        if name.startswith("storage.") or name in known:
            continue
        readers = [f"spark.{reader}" for reader, names in _OPTIONS.items() if name in names]
        raise UsageError(
            f"the option '{name}' is for {readers[0]}" if readers else f"changes are not read with the option '{name}'",
            hint=f"options of changes: {', '.join(sorted(known))}, storage.<name>",
        )
    beginnings = [name for name in BEGINNINGS if name in options]
    if len(beginnings) > 1:
        raise UsageError(
            f"the options '{beginnings[0]}' and '{beginnings[1]}' both say where the changes begin", hint="give one"
        )
    if options.get("start", "now") not in STARTS:
        raise UsageError(
            f"'{options['start']}' is not a value of the option 'start'",
            hint=f"{', '.join(STARTS)}; the option 'from' is for a revision",
        )
    _limits(options)


def feed_of(address: Address, options: Mapping[str, str]) -> BranchFeed:
    """The feed that options choose: a branch, and types, kinds and operations as names joined by commas."""
    repository = address.open_graph()
    branch = options.get("branch", MAIN)
    catalog = repository.head(branch)[1].catalog
    words = (_names(options, name) for name in ("kind", "type", "op"))
    return BranchFeed(repository, branch, ChangeFilter.of(*words, catalog=catalog))


def _names(options: Mapping[str, str], option: str) -> list[str] | None:
    if option not in options:
        return None
    names = [name.strip() for name in options[option].split(",") if name.strip()]
    if not names:
        raise UsageError(f"the option '{option}' names nothing", hint="names joined by commas, or leave it out")
    return names


def _begin(feed: BranchFeed, options: Mapping[str, str], default: str) -> str:
    """The cursor from which changes are read."""
    if "cursor" in options:
        feed.commit(options["cursor"])
        return options["cursor"]
    revisions = feed.repository.history.revisions
    if "from" in options:
        return feed.start(f"after:{revisions.commit(options['from']).id}")
    if "from_time" in options:
        return feed.after_time(options["from_time"])
    return feed.start(options.get("start", default))


def _limits(options: Mapping[str, str]) -> BatchLimits:
    return BatchLimits(_number(options, "max_commits") or MAX_COMMITS, _number(options, "max_rows"))


def _number(options: Mapping[str, str], name: str) -> int | None:
    text = options.get(name)
    if text is None:
        return None
    number = int(text) if text.isascii() and text.isdigit() and len(text) <= MAX_DIGITS else 0
    if number < 1:
        raise UsageError(f"the option '{name}' is a number of at least 1, not '{text}'")
    return number


# ---------------------------------------------------------------- tasks


@dataclass
class CommitRun(InputPartition):  # type: ignore[misc]  # PySpark is not checked
    """Commits that one task reads, in order."""

    commits: tuple[Commit, ...]


@dataclass
class SnapshotPart(InputPartition):  # type: ignore[misc]
    """Some fragments of a type as a commit left it, which one task reads."""

    commit: Commit
    target: Target
    key: str
    place: TableVersion
    fragments: tuple[int, ...]


def commit_runs(commits: Sequence[Commit]) -> list[CommitRun]:
    runs: list[list[Commit]] = []
    for commit in commits:
        last = runs[-1] if runs else []
        if last and len(last) < COMMITS_PER_TASK and BULK_KINDS.isdisjoint((last[-1].kind, commit.kind)):
            last.append(commit)
        else:
            runs.append([commit])
    return [CommitRun(tuple(run)) for run in runs]


def snapshot_parts(feed: BranchFeed, commit: Commit) -> list[SnapshotPart]:
    repository = feed.repository
    view = repository.view(repository.history.revisions.snapshot(commit.ref))
    target = Target.of(repository, view)
    parts = []
    for entity in sorted(view.catalog.tables.values(), key=type_order):
        table = view.table(entity.table_key) if feed.only.wants_type(entity) else None
        if table is not None:
            place = TableVersion.of(table)
            parts += [SnapshotPart(commit, target, entity.table_key, place, group) for group in fragment_groups(table)]
    return parts


@dataclass(frozen=True)
class ChangesTask:
    """What a task needs beside its partition."""

    address: Address
    branch: str
    only: ChangeFilter
    columns: tuple[str, ...]

    def batches(self, partition: InputPartition) -> Iterator[Any]:
        if isinstance(partition, SnapshotPart):
            rows = self._snapshot(partition)
        else:
            assert isinstance(partition, CommitRun)
            rows = self._changes(partition)
        return items_in_one_sentence(arrow_batches(rows, self.columns))

    def _changes(self, run: CommitRun) -> Iterator[ChangeRow]:
        feed = BranchFeed(self.address.open_graph(), self.branch, self.only)
        for commit in run.commits:
            steps, changes = feed.block(commit)
            if steps and self.only.ops is None:
                yield ChangeRow.of_schema(steps, commit)
            yield from (ChangeRow.of(change, commit) for change in changes)

    def _snapshot(self, part: SnapshotPart) -> Iterator[ChangeRow]:
        """Every entity, as if the commit had inserted it."""
        commit, entity = part.commit, part.target.catalog.tables[part.key]
        table = part.target.open(part.place)
        for batch in table.scan(fragments=part.fragments, batch_rows=SNAPSHOT_BATCH_ROWS):
            for value in entity_values(batch):
                text = entity_text(value)
                yield ChangeRow(
                    "insert",
                    entity.name,
                    str(value["id"]),
                    None,
                    text,
                    commit.id,
                    commit.actor,
                    to_microseconds(commit.at),
                )


# ---------------------------------------------------------------- batch


class ChangesReader(DataSourceReader):  # type: ignore[misc]
    """The changes of the commits after one and up to another."""

    def __init__(self, address: Address, options: Mapping[str, str], schema: StructType) -> None:
        check_options(options, "read")
        feed = feed_of(address, options)
        end = feed.end()
        if "to" in options:
            end = feed.start(f"after:{feed.repository.history.revisions.commit(options['to']).id}")
        self.runs = commit_runs(feed.commits(_begin(feed, options, "beginning"), end))
        self.task = ChangesTask(address, feed.branch, feed.only, checked_columns(schema))

    def partitions(self) -> Sequence[InputPartition]:
        # Spark refuses an empty list; a run without commits reads nothing.
        return self.runs or [CommitRun(())]

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.task.batches(partition)


# ---------------------------------------------------------------- stream


class ChangesStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):  # type: ignore[misc]
    """The feed of a branch in batches of whole commits.

    An offset is `{"cursor": …}`. That of the first batch also has `from`, the cursor where it began, or `baseline`: then the
    batch is the snapshot at the cursor's commit.
    """

    def __init__(self, address: Address, options: Mapping[str, str], schema: StructType) -> None:
        check_options(options, "readStream")
        feed = feed_of(address, options)
        self._feed: BranchFeed | None = feed
        self.options = dict(options)
        self.limits = _limits(options)
        self.task = ChangesTask(address, feed.branch, feed.only, checked_columns(schema))
        self.until: str | None = None

    def __getstate__(self) -> dict[str, Any]:
        """To the tasks, which only read, it goes without the open graph."""
        return {**self.__dict__, "_feed": None}

    @property
    def feed(self) -> BranchFeed:
        assert self._feed is not None, "batches are planned where the reader was made"
        return self._feed

    @in_one_sentence
    def initialOffset(self) -> Offset:
        name = next((name for name in BEGINNINGS if name in self.options), "start")
        return {"start": f"{name}={self.options.get(name, 'now')}"}

    @in_one_sentence
    def prepareForTriggerAvailableNow(self) -> None:
        self.until = self.feed.end()

    def getDefaultReadLimit(self) -> ReadLimit:
        # Spark has no limit of commits. It gives this one back where the options hold, and ReadAllAvailable where not.
        return ReadMaxRows(self.limits.max_changes or self.limits.max_commits)

    @in_one_sentence
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        feed = self.feed
        limits = None if isinstance(limit, ReadAllAvailable) else self.limits
        if "cursor" in start:
            end = feed.next_end(start["cursor"], limits, self.until)
            return start if end == start["cursor"] else {"cursor": end}
        if self.options.get("start") == BASELINE:
            return {"cursor": feed.end(), "baseline": True}
        begin = _begin(feed, self.options, "now")
        return {"cursor": feed.next_end(begin, limits, self.until), "from": begin}

    @in_one_sentence
    def reportLatestOffset(self) -> Offset:
        return {"cursor": self.feed.end()}

    @in_one_sentence
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        feed = self.feed
        if "cursor" in start:
            return commit_runs(feed.commits(start["cursor"], end["cursor"]))
        if end.get("baseline"):
            return snapshot_parts(feed, feed.commit(end["cursor"]))
        return commit_runs(feed.commits(end["from"], end["cursor"]))

    def read(self, partition: InputPartition) -> Iterator[Any]:
        return self.task.batches(partition)


class RefusedStream(DataSourceStreamReader):  # type: ignore[misc]
    """A stream that cannot be read: whatever it is asked first, it answers with the error."""

    def __init__(self, error: OmnigraphError) -> None:
        self.error = error

    @in_one_sentence
    def initialOffset(self) -> Offset:
        raise self.error

    @in_one_sentence
    def latestOffset(self, start: Offset, limit: ReadLimit) -> Offset:
        raise self.error

    @in_one_sentence
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:
        raise self.error

    @in_one_sentence
    def read(self, partition: InputPartition) -> Iterator[Any]:
        raise self.error
