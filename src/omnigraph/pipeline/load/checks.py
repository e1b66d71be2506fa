"""The checks about more than one row, run as tasks over the staged tables, each with DuckDB and Arrow in one process.

Every check ties its rows together by one key (an id, a unique value, an endpoint, a source) and names the columns it
needs. What fits in memory is one task that reads the columns. What does not is cut by key into buckets: each fragment is
read once, whatever the number of buckets and of checks, and its columns travel as Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from omnigraph.language.arrow import arrow_schema
from omnigraph.pipeline.load.keyed_rows import (
    MAX_BUCKETS,
    BucketReader,
    Cut,
    Source,
    SourceReader,
    StoredReader,
    are_few,
    cut,
    fragment_groups,
)
from omnigraph.pipeline.runner import Runner
from omnigraph.pipeline.target import Target
from omnigraph.relational import duck
from omnigraph.relational.trees import exp
from omnigraph.rules import Check, Need, Violation
from omnigraph.rules.check import MAX_VIOLATIONS, Record
from omnigraph.tables.fragment import ROW_ADDRESS
from omnigraph.workers import Exchange, unpacked

if TYPE_CHECKING:
    import pyarrow as pa

BUCKET_ROWS = 12_000_000
"""Rows that one task holds in memory."""


@dataclass(frozen=True)
class CheckTask:
    """A check over the rows of one load, or of whole tables. `sources` say where the rows of each need are. `replaced`: the committed rows among
    which the check of ids in a merge also finds those that the new rows replace."""

    target: Target
    check: Check
    sources: Mapping[Need, tuple[Source, ...]]
    replaced: Need | None = None
    counts: bool = False
    """Whether all violations are counted, not only looked for."""

    @property
    def read(self) -> tuple[Source, ...]:
        """All that is read to find violations."""
        needs = (*self.check.own, *self.check.others, *(() if self.replaced is None else (self.replaced,)))
        return tuple(dict.fromkeys(source for need in needs for source in self.sources[need]))

    @property
    def rows(self) -> int:
        return sum(source.rows for source in self.read)

    def is_large(self, max_rows: int) -> bool:
        """Whether its rows must not be read by one task, which holds so many."""
        own = sum(source.rows for need in self.check.own for source in self.sources[need])
        return self.rows > max_rows and not are_few(own, self.rows)


@dataclass
class CheckReport:
    violations: list[Violation] = field(default_factory=list)
    """The first ones of each task."""
    count: int = 0
    blamed: list[tuple[Record, int | None]] = field(default_factory=list)
    """Where violations are counted: the record that is to blame for each, and how many of its kind are too many (None: all)."""
    replaced: list[pa.Table] = field(default_factory=list)
    """Addresses of committed rows and of the new rows that replace them: columns old and new."""

    def add(self, other: CheckReport) -> None:
        self.violations += other.violations
        self.count += other.count
        self.blamed += other.blamed
        self.replaced += other.replaced


def by_fragments(task: CheckTask) -> Iterator[CheckTask]:
    """A check of single rows as several, each of a bounded part of them."""
    ((need, sources),) = task.sources.items()
    for source in sources:
        for rows, fragments in fragment_groups(task.target, source):
            yield replace(task, sources={need: (replace(source, rows=rows, fragments=fragments),)})


def run_checks(stage: str, tasks: Sequence[CheckTask], runner: Runner) -> list[CheckReport]:
    """What each check found."""
    reports = [CheckReport() for _ in tasks]
    max_rows = runner.settings.checked_values(BUCKET_ROWS)
    whole = [number for number, task in enumerate(tasks) if not task.is_large(max_rows)]
    large = [number for number, task in enumerate(tasks) if task.is_large(max_rows)]
    for number, report in zip(whole, runner.map(stage, run_check, [tasks[number] for number in whole]), strict=True):
        reports[number].add(report)
    for bucket in _in_buckets(stage, [tasks[number] for number in large], runner, max_rows):
        for number, report in zip(large, bucket, strict=True):
            reports[number].add(report)
    return reports


def run_check(task: CheckTask) -> CheckReport:
    return _report(task, StoredReader(task.target))


def _report(task: CheckTask, reader: SourceReader) -> CheckReport:
    rows = TaskRows(task, reader)
    violations = task.check.find(rows, complete=task.counts)
    report = CheckReport(violations[:MAX_VIOLATIONS], count=len(violations))
    if task.counts:
        check = task.check
        report.blamed = [
            (record, check.excess(violation)) for violation in violations for record in check.records(violation)[:1]
        ]
    if task.replaced is not None and (task.counts or not report.violations):
        report.replaced = [_replaced(rows, task.check.own[0], task.replaced)]
    return report


def _replaced(rows: TaskRows, new: Need, old: Need) -> pa.Table:
    added = rows.all(new)
    relations = {"new": added, "old": rows.matching(old, added.column("id"))}
    columns = [f'"{alias[0]}"."{ROW_ADDRESS}" AS "{alias}"' for alias in ("old", "new")]
    query = exp.select(*columns).from_('"old" AS "o"').join('"new" AS "n"', on='"n"."id" = "o"."id"')
    return duck.run(query, relations)


class TaskRows:
    """The rows of one load, as its sources say. What was read is kept for the check's next question."""

    def __init__(self, task: CheckTask, reader: SourceReader) -> None:
        self._task = task
        self._reader = reader
        self._read: dict[tuple[Source, ...], pa.Table] = {}

    def all(self, need: Need) -> pa.Table:
        sources = self._task.sources[need]
        if sources not in self._read:
            self._read[sources] = self._joined(need, [self._reader.read(source) for source in sources])
        return self._read[sources]

    def matching(self, need: Need, values: pa.Array) -> pa.Table:
        reader = StoredReader(self._task.target) if need in self._task.check.details else self._reader
        return self._joined(need, [reader.matching(source, values) for source in self._task.sources[need]])

    def _joined(self, need: Need, tables: list[pa.Table]) -> pa.Table:
        import pyarrow as pa

        if not tables:
            schema = arrow_schema(self._task.target.catalog.tables[need.table])
            return schema.empty_table().select(list(need.columns))
        return tables[0] if len(tables) == 1 else pa.concat_tables(tables)


# ---------------------------------------------------------------- buckets


@dataclass(frozen=True)
class _BucketChecks:
    """What is done with a bucket: each check, over its own rows in it."""

    tasks: tuple[CheckTask, ...]
    sources: tuple[Source, ...]

    def __call__(self, bucket: int, pieces: Iterable[tuple[int, Any]]) -> list[CheckReport]:
        held: dict[Source, list[pa.Table]] = {}
        for number, data in pieces:
            held.setdefault(self.sources[number], []).append(unpacked(data))
        return [_report(task, BucketReader(task.target, held)) for task in self.tasks]


def _in_buckets(stage: str, tasks: Sequence[CheckTask], runner: Runner, max_rows: int) -> list[list[CheckReport]]:
    """For each bucket, what each check found in it."""
    if not tasks:
        return []
    target = tasks[0].target
    sources = tuple(dict.fromkeys(source for task in tasks for source in task.read))
    groups = [fragment_groups(target, source) for source in sources]
    rows = sum(rows for group in groups for rows, _ in group)
    buckets = min(-(-rows // max_rows), MAX_BUCKETS)
    cuts = [
        Cut(target, number, source, fragments, buckets)
        for number, (source, group) in enumerate(zip(sources, groups, strict=True))
        for _, fragments in group
    ]
    return runner.exchange(Exchange(stage, cut, cuts, buckets, _BucketChecks(tuple(tasks), sources)))
