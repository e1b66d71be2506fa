"""The checks about more than one row, run as tasks over the staged tables, each with DuckDB and Arrow in one process.

Every check ties its rows together by one key (an id, a unique value, an endpoint, a source) and names the columns it
needs. What fits in memory is one task that reads the columns. What does not is cut by key into buckets: each fragment is
read once, whatever the number of buckets and of checks, and its columns travel as Arrow.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.changes.stored_rows import rows_at
from omnigraph.history.values import TableState
from omnigraph.language.projection import arrow_schema
from omnigraph.load.keyed_rows import (
    MAX_BUCKETS,
    MAX_LOOKUP,
    BucketReader,
    Cut,
    Source,
    SourceReader,
    StoredReader,
    are_few,
    cut,
    fragment_groups,
)
from omnigraph.load.receipt import REPLACING, StagedRows
from omnigraph.load.replaced_rows import PairFolder, Pairs
from omnigraph.relational import duck
from omnigraph.relational.sql import exp
from omnigraph.rules.check import MAX_VIOLATIONS, Check, Need, Record, Violation
from omnigraph.rules.endpoints import ends_of
from omnigraph.snapshot import View
from omnigraph.tables.addresses import ROW_ADDRESS, RowSet
from omnigraph.tables.table import Table
from omnigraph.tasks.engines import LoadMode
from omnigraph.tasks.runner import Exchange, LocalRunner, Runner, unpacked
from omnigraph.tasks.target import TableVersion, Target

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
    pairs: PairFolder | None = None
    """Where to write these, and the new rows in their place, if they are many."""
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
    replaced: list[Pairs] = field(default_factory=list)
    """Committed rows and the new rows that replace them."""

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
        assert task.pairs is not None, "it has a folder for those that are many"
        report.replaced = [task.pairs.keep(task.target, _replaced(rows, task.check.own[0], task.replaced))]
    return report


def _replaced(rows: TaskRows, new: Need, old: Need) -> pa.Table:
    """Addresses of committed rows and of the new rows that replace them: columns old and new."""
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


# Where the rows are that the checks of one load look at.

Addresses = Mapping[str, RowSet]
"""Table key -> rows that a load replaces or removes; there may be many millions."""


class CheckSources:
    """`states`: the tables that the load changes, as they are after it. `replaced`: the rows that it replaces."""

    def __init__(
        self,
        view: View,
        incoming: Mapping[str, StagedRows],
        mode: LoadMode,
        states: Mapping[str, TableState],
        replaced: Addresses,
    ) -> None:
        self._view = view
        self._incoming = incoming
        self._mode = mode
        self._states = states
        self._replaced = replaced

    def task(self, check: Check) -> CheckTask:
        needs = (*check.own, *check.others, *check.details)
        return CheckTask(
            Target.of(self._view.repository, self._view), check, {need: self._sources(need) for need in needs}
        )

    def _sources(self, need: Need) -> tuple[Source, ...]:
        committed = committed_table(self._view, need.table)
        match need.state:
            case "new" | "inserted":
                incoming = self._incoming[need.table]
                return _source(need, incoming.place, incoming.rows)
            case "lost":
                return () if committed is None else self._lost(need, committed)
            case "staying":
                return () if committed is None else self._staying(need, committed)
            case "result":
                state = self._states.get(need.table) or self._view.state(need.table)
                return () if state is None else _source(need, self._place(need.table, state), state.rows)

    def _lost(self, need: Need, committed: Table) -> tuple[Source, ...]:
        """Few rows are read by their addresses. Of many, all rows of the fragments that lose any are looked at: those that
        are not lost change nothing."""
        if self._mode == "overwrite":
            return _source(need, TableVersion.of(committed), committed.rows)
        lost = self._replaced.get(need.table, RowSet())
        if len(lost) <= MAX_LOOKUP:
            addresses = tuple(lost.addresses().tolist())
            return _source(need, TableVersion.of(committed), len(lost), addresses=addresses)
        fragments = [fragment for fragment in committed.fragments if fragment.id in lost.fragments]
        rows = sum(fragment.rows for fragment in fragments)
        return _source(need, TableVersion.of(committed), rows, fragments=tuple(fragment.id for fragment in fragments))

    def _staying(self, need: Need, committed: Table) -> tuple[Source, ...]:
        incoming = self._incoming.get(need.table)
        if incoming is None:
            return _source(need, TableVersion.of(committed), committed.rows)
        if self._mode == "overwrite":
            return ()
        state = self._states[need.table]
        fragments = self._fragments_staying(incoming, state)
        return _source(need, self._place(need.table, state), committed.rows, fragments=fragments)

    def _place(self, key: str, state: TableState) -> TableVersion:
        return TableVersion.of_state(state, self._view.layout(key))

    def _fragments_staying(self, incoming: StagedRows, state: TableState) -> tuple[int, ...]:
        """The fragments of the result that hold rows which were there before."""
        new = self._view.staged(incoming.key, incoming.place.path, incoming.place.version)
        added = {file for fragment in new.fragments for file in fragment.files}
        layout = self._view.layout(incoming.key)
        result = self._view.repository.tables.open(state.path, state.version, layout=layout, inline=state.inline)
        return tuple(fragment.id for fragment in result.fragments if not added & set(fragment.files))


def key_task(view: View, incoming: StagedRows, mode: LoadMode, check: Check, pairs: PairFolder) -> CheckTask:
    """The check of ids. Where rows are replaced it also finds which, and by which."""
    with_address = mode in REPLACING
    existing = None if mode == "overwrite" else committed_table(view, incoming.key)
    lost = Need("lost", incoming.key, ("id",), ("id",), "more")
    sources = {need: _source(need, incoming.place, incoming.rows, with_address=with_address) for need in check.own}
    sources[lost] = (
        () if existing is None else _source(lost, TableVersion.of(existing), existing.rows, with_address=with_address)
    )
    replaced = lost if with_address and existing is not None else None
    return CheckTask(Target.of(view.repository, view), check, sources, replaced, pairs)


def committed_table(view: View, key: str) -> Table | None:
    """The rows that the branch has; None when it has none."""
    table = view.table(key)
    return table if table is not None and table.rows else None


def _source(need: Need, place: TableVersion, rows: int, **chosen: Any) -> tuple[Source, ...]:
    return (Source.of(need, place, rows, **chosen),) if rows else ()


# Rows that a load removes: those that its records name, and with a node every edge at it.

NODES_PER_TASK = 4_194_304
"""Nodes whose edges a task finds: each time all edges of a type may have to be read."""
NODES_IN_PROCESS = 262_144
EDGES_PER_TASK = 16_777_216
"""Edges that a task looks at for that, in pieces."""


@dataclass(frozen=True)
class EdgesAt:
    """A task: the edges of a type that have one of these nodes at an end."""

    target: Target
    nodes: TableVersion
    removed: RowSet
    edges: Source


def edges_at(task: EdgesAt) -> RowSet:
    ids = rows_at(task.target.open(task.nodes), task.removed.addresses(), ["id"]).column("id").combine_chunks()
    return RowSet.of(StoredReader(task.target).holding(task.edges, ids).column(ROW_ADDRESS).to_numpy())


def with_edges(view: View, removed: Addresses, runner: Runner) -> dict[str, RowSet]:
    """The rows that go, by table: these, and the edges at the nodes among them."""
    target = Target.of(view.repository, view)
    tasks: list[EdgesAt] = []
    keys: list[str] = []
    for key, rows in removed.items():
        nodes = committed_table(view, key)
        if nodes is None or not key.startswith("node:"):
            continue
        entity = view.entity(key)
        for edge in view.catalog.edges_of(entity.name):
            edges = committed_table(view, edge.table_key)
            for end, node in ends_of(edge) if edges is not None else ():
                assert edges is not None
                source = Source(TableVersion.of(edges), (end,), (end,), edges.rows, with_address=True)
                for part in rows.parts(NODES_PER_TASK) if node == entity.name else ():
                    # The edges of a few nodes are looked up.
                    is_whole = are_few(len(part), edges.rows)
                    groups = [(0, None)] if is_whole else fragment_groups(target, source, EDGES_PER_TASK)
                    tasks += [
                        EdgesAt(target, TableVersion.of(nodes), part, replace(source, fragments=group))
                        for _, group in groups
                    ]
                    keys += [edge.table_key] * len(groups)
    chosen = runner if sum(map(len, removed.values())) > NODES_IN_PROCESS else LocalRunner()
    gone: dict[str, list[RowSet]] = {key: [rows] for key, rows in removed.items()}
    for key, edge_rows in zip(keys, chosen.map("find edges of deleted nodes", edges_at, tasks), strict=True):
        if edge_rows:
            gone.setdefault(key, []).append(edge_rows)
    return {key: RowSet.union(*parts) for key, parts in gone.items()}


def difference(addresses: Addresses, others: Addresses) -> dict[str, RowSet]:
    """Those that are not among the others, table by table."""
    return {key: rows.difference(others[key]) if key in others else rows for key, rows in addresses.items()}


def union(*several: Addresses) -> dict[str, RowSet]:
    """All addresses of each table."""
    keys = dict.fromkeys(key for addresses in several for key in addresses)
    return {key: RowSet.union(*(rows[key] for rows in several if key in rows)) for key in keys}
