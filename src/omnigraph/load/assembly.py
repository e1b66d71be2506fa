"""From written fragments to table changes: check every rule against a snapshot, and stage one version per table.

Works from values that a prepared plan keeps, so a load that lost a race, or died before its publish, goes through the
same function again on the newer snapshot; no row is read from its source or written twice.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph._internal.lazy_imports import pa, pc
from omnigraph.changes.stored_rows import rows_at
from omnigraph.errors import StorageError
from omnigraph.history.plan import TableChange
from omnigraph.history.values import TableState
from omnigraph.indexing.indexes import index_specs
from omnigraph.language.catalog import EdgeType
from omnigraph.load.checks import (
    Addresses,
    CheckReport,
    CheckSources,
    CheckTask,
    by_fragments,
    committed_table,
    difference,
    key_task,
    run_checks,
    union,
)
from omnigraph.load.keyed_rows import Source, StoredReader, find_places
from omnigraph.load.receipt import CHANGE_MODES, REPLACING, LoadCounts, LoadRefusal, StagedRows, count_rows
from omnigraph.load.refusals import Locate, raise_first, refusals
from omnigraph.load.replaced_rows import MAX_HELD_PAIRS, PairFolder, Pairs, ReplacedRows, find_replaced
from omnigraph.rules.check import MAX_VIOLATIONS, Record, Violation
from omnigraph.rules.keys import TWICE, KeyCheck
from omnigraph.rules.planning import plan_checks, tables_read
from omnigraph.rules.values import DuplicateEdges, ValueCheck
from omnigraph.snapshot import View
from omnigraph.tables.addresses import ROW_ADDRESS, RowSet
from omnigraph.tables.changed_table import INLINE_FRAGMENT, ChangedTable, masks_left
from omnigraph.tables.indexes import SegmentPlan, plan_segments
from omnigraph.tables.staging import PreviousAttempt, Staged, TrimmedFragment
from omnigraph.tables.table import Table
from omnigraph.tasks.engines import LoadMode
from omnigraph.tasks.runner import LocalRunner, Runner
from omnigraph.tasks.target import TableVersion, Target
from omnigraph.values.inline_rows import NO_INLINE, Inline

# Which new rows of a dry run break a rule, each of them once, however many rules it breaks.

Blamed = tuple[Record, int | None]
"""A record that a check found to blame, and how many with such a value are too many (None: all)."""


def rejected_rows(target: Target, incoming: StagedRows, blamed: Iterable[Blamed]) -> RowSet:
    """The rows of one table that break a rule."""
    whole: dict[str, dict[str, int | None]] = {}
    some: dict[str, dict[str, int | None]] = {}
    for (table, column, value), excess in blamed:
        if table == incoming.key:
            (whole if excess is None else some).setdefault(column, {})[value] = excess
    rejected: set[int] = set()
    # Where only some are too many, those that are wrong anyway are among them.
    for column, values in (*whole.items(), *some.items()):
        for value, addresses in _addresses(target, incoming, column, values).items():
            excess = values[value]
            known = [address for address in addresses if address in rejected]
            others = [address for address in addresses if address not in rejected]
            wanted = len(others) if excess is None else max(0, excess - len(known))
            rejected.update(others[len(others) - wanted :] if wanted <= len(others) else others)
    return RowSet.of(rejected)


def _addresses(target: Target, incoming: StagedRows, column: str, values: Mapping[str, object]) -> dict[str, list[int]]:
    """The rows with each of these values, in order."""
    source = Source(incoming.place, (column,), (column,), incoming.rows, with_address=True)
    rows = StoredReader(target).holding(source, pa.array(list(values), pa.string())).sort_by(ROW_ADDRESS)
    addresses: dict[str, list[int]] = {}
    for value, address in zip(rows.column(column).to_pylist(), rows.column(ROW_ADDRESS).to_pylist(), strict=True):
        addresses.setdefault(value, []).append(address)
    return addresses


MIN_INDEX_ROWS = 50_000
"""Smaller loads leave their indexes to whoever next has a reason to build them."""

IN_PROCESS_ROWS = 200_000
"""Checks and removals of fewer rows than this are done at once in this process: sooner than a job could start."""


@dataclass(frozen=True)
class SegmentTask:
    """A task: a segment of an index to build."""

    target: Target
    place: TableVersion
    plan: SegmentPlan


def build_segment(task: SegmentTask) -> Any:
    return task.target.tables.build_segment(task.place.path, task.place.version, task.plan)


@dataclass(frozen=True)
class Removal:
    """A task: rows of one fragment to remove."""

    target: Target
    place: TableVersion
    lost: RowSet


def remove_rows(task: Removal) -> TrimmedFragment:
    ((fragment, offsets),) = task.lost.by_fragment()
    return task.target.tables.delete_rows(task.target.open(task.place), fragment, offsets)


class LoadStaging:
    """One load on one snapshot. `changes()` raises the first broken rule, or gives a change per table."""

    def __init__(
        self,
        view: View,
        incoming: Mapping[str, StagedRows],
        mode: LoadMode,
        runner: Runner,
        locate: Locate | None = None,
        *,
        removed: Addresses | None = None,
        named: Addresses | None = None,
        absent: Mapping[str, Sequence[str]] | None = None,
        index: bool = True,
        only_count: bool = False,
        folder: str,
    ) -> None:
        """`folder`: for files of the load. `removed`: rows that go; `named`: those of them that records name; `absent`: ids that they name besides."""
        self.view = view
        self.incoming = incoming
        self.mode = mode
        self.runner = runner
        self.locate = locate
        self.index = index
        """Whether many new rows get their indexes now."""
        self._pairs = PairFolder(f"{folder}/replaced", MAX_HELD_PAIRS)
        self.only_count = only_count
        """Whether broken rules are counted, as `refusals`, instead of raised."""
        self.refusals: list[LoadRefusal] = []
        self._blamed: list[Blamed] = []
        self.target = Target.of(view.repository, view)
        self.checks = plan_checks(view.catalog, {key: rows.change(mode) for key, rows in incoming.items()})
        self.staged: list[Staged] = []
        self.attempts: dict[str, PreviousAttempt] = {}
        """What `restaged` made, or used again, before indexes were built."""
        self.addresses: Addresses = {}
        """Committed rows that are replaced."""
        self.removed: Addresses = removed or {}
        """Committed rows that go, and no other comes in their place."""
        self._named = named or {}
        self._absent = absent or {}
        self.unchanged: Addresses = {}
        """Those of them that keep their values."""
        self.duplicates: dict[str, int] = {}
        """By edge type without a key: how many edges a merge adds that equal some of the branch."""

    def find_replaced(self) -> None:
        """Check the keys; then it is known which rows are replaced, and which of them keep their values."""
        are_many = self.mode in REPLACING and any(rows.rows > MAX_HELD_PAIRS for rows in self.incoming.values())
        try:
            replaced = {key: self._find_replaced(key, pairs) for key, pairs in self._check_keys().items()}
        finally:
            if are_many:
                with contextlib.suppress(StorageError):
                    self.view.repository.store.delete_prefix(self._pairs.path)
        self.addresses = {key: replacement.rows for key, replacement in replaced.items()}
        self.unchanged = {key: replacement.unchanged for key, replacement in replaced.items()}
        self._refuse_both()
        # An edge of a node that goes may be moved to another node by the same load.
        self.removed = difference(self.removed, self.addresses)

    @property
    def changes_nothing(self) -> bool:
        """Every row is there already, as it is."""
        return not any(counts.inserted or counts.updated or counts.deleted for counts in self.counts().values())

    def counts(self) -> dict[str, LoadCounts]:
        return {
            key: count_rows(
                self.view,
                incoming,
                self.mode,
                self.addresses.get(key),
                self.unchanged.get(key),
                self.removed.get(key),
            )
            for key, incoming in self.incoming.items()
        }

    def accepted(self) -> tuple[dict[str, LoadCounts], int]:
        """Of a dry run: what would become of the records that break no rule, and how many break one."""
        rejected = {key: rejected_rows(self.target, rows, self._blamed) for key, rows in self.incoming.items()}
        counts = dict(self.counts())
        for key, rows in rejected.items():
            if rows:
                left = replace(self.incoming[key], rows=self.incoming[key].rows - len(rows))
                not_met = self._met_only_by(key, rows)
                met, same = (known.get(key, RowSet()).difference(not_met) for known in (self.addresses, self.unchanged))
                counts[key] = count_rows(self.view, left, self.mode, met, same, self.removed.get(key))
        return counts, sum(map(len, rejected.values()))

    def _met_only_by(self, key: str, rows: RowSet) -> RowSet:
        """The committed rows that only these new rows would replace."""
        if not self.addresses.get(key):
            return RowSet()
        incoming, committed = self.incoming[key], self.view.table(key)
        assert committed is not None, "rows of it are replaced"
        ids = rows_at(self.target.open(incoming.place), rows.addresses(), ["id"]).column("id").unique()
        source = Source(incoming.place, ("id",), ("id",), incoming.rows, with_address=True)
        named = StoredReader(self.target).holding(source, ids)
        others = named.filter(pa.array(~rows.contains(named.column(ROW_ADDRESS).to_numpy()))).column("id")
        gone = ids.filter(pc.invert(pc.is_in(ids, value_set=others.combine_chunks())))
        places = find_places(self.target, TableVersion.of(committed), pa.chunked_array([gone]))
        return RowSet.of(places.addresses[places.known])

    def changes(
        self, done: Mapping[str, TableChange] | None = None, *, values: bool = False
    ) -> tuple[TableChange, ...]:
        """After `find_replaced`. `done`: changes made before whose table has not moved; they are checked again with the
        rest, not staged again. `values`: the rules about single rows are others than when the rows were read."""
        lost = self.lost()
        changes = {
            key: (done or {}).get(key) or self._stage(incoming, lost.get(key))
            for key, incoming in self.incoming.items()
        }
        reach(Failpoint.LOAD_AFTER_STAGE)
        states = {key: change.state for key, change in changes.items() if change.state is not None}
        self._check_rest(states, values=values)
        reach(Failpoint.LOAD_AFTER_CHECKS)
        indexed = self._index_all(changes, done)
        reach(Failpoint.LOAD_AFTER_INDEXES)
        return indexed

    def lost(self) -> Addresses:
        """Committed rows that are replaced or go."""
        return union(self.addresses, self.removed)

    def restaged(
        self,
        addresses: Addresses,
        done: Mapping[str, TableChange],
        attempts: Mapping[str, PreviousAttempt],
    ) -> tuple[TableChange, ...]:
        """The same changes for a load that is known to keep every rule on this view, and to replace these rows. `attempts`: earlier
        ones, which hold here too as far as the stored rows are the same."""
        staged = {
            key: done.get(key) or self._restage(incoming, addresses.get(key), attempts.get(key))
            for key, incoming in self.incoming.items()
        }
        return self._index_all(staged, done)

    def _index_all(
        self, changes: Mapping[str, TableChange], done: Mapping[str, TableChange] | None
    ) -> tuple[TableChange, ...]:
        """Indexes in the same commit where many rows came; otherwise they stay pending, and reads scan the new fragments."""
        tables = self.view.repository.tables
        wanted: dict[str, tuple[Table, list[SegmentPlan]]] = {}
        for key, change in changes.items():
            is_worth_it = self.index and self.incoming[key].rows >= MIN_INDEX_ROWS
            if is_worth_it and change.state is not None and not (done and key in done):
                table = self.view.staged(key, change.state.path, change.state.version)
                wanted[key] = (table, plan_segments(table, index_specs(self.view.entity(key))))
        tasks = [
            SegmentTask(self.target, TableVersion.of(table), plan) for table, plans in wanted.values() for plan in plans
        ]
        built = iter(self.runner.map("indexes", build_segment, tasks) if tasks else [])
        indexed = dict(changes)
        for key, (table, plans) in wanted.items():
            state = changes[key].state
            if plans and state is not None:
                staged = tables.stage_segments(table, plans, [next(built) for _ in plans])
                if staged is None:
                    continue
                self.staged.append(staged)
                indexed[key] = replace(changes[key], state=replace(state, version=staged.version, digest=staged.digest))
        return tuple(indexed[key] for key in sorted(indexed))

    def reads(self) -> tuple[str, ...]:
        """Tables the checks relied on beside those that change."""
        return tuple(key for key in tables_read(self.checks) if key not in self.incoming)

    # ------------------------------------------------------------ staging

    def _stage(self, incoming: StagedRows, lost: RowSet | None) -> TableChange:
        before = self.view.state(incoming.key)
        version, rows, tables = incoming.place.version, incoming.rows, self.view.repository.tables
        if self.mode != "overwrite" and before is not None and before.rows:
            base = self.view.table_or_new(incoming.key)
            trimmed = [] if lost is None else self._remove(base, lost)
            staged = tables.stage(base, fragments=incoming.fragments, trimmed=trimmed, fold=True)
            self.staged.append(staged)
            version, rows = staged.version, staged.rows
        return self._change(incoming, before, version, rows)

    def _change(
        self, incoming: StagedRows, before: TableState | None, version: int, rows: int, inline: Inline = NO_INLINE
    ) -> TableChange:
        path = incoming.place.path
        generation = (before.generation if before else 0) + 1
        digest = self.view.repository.tables.digest(path, version)
        state = TableState(path, version, generation, rows, digest, inline)
        return TableChange(incoming.key, CHANGE_MODES[self.mode], before, state, incoming.to_json(self.mode))

    def _restage(self, incoming: StagedRows, lost: RowSet | None, attempt: PreviousAttempt | None) -> TableChange:
        """The same after a lost race. Rows that stand in commits stay there, unless the load replaces them: so beside small
        commits an attempt writes no file."""
        before, base = self.view.state(incoming.key), self.view.table(incoming.key)
        if self.mode == "overwrite" or before is None or base is None or not before.rows:
            return self._stage(incoming, lost)
        tables = self.view.repository.tables
        gone = RowSet() if lost is None else lost
        stored, gone_there, inline = base.stored, gone.without_fragments([INLINE_FRAGMENT]), base.inline
        if isinstance(base, ChangedTable):
            in_commits = gone.difference(gone_there).addresses().tolist()
            inline = inline.without_ids(frozenset(base.ids_at(in_commits)))
        if attempt is not None and attempt.lacks(gone_there, stored):
            version = attempt.staged
        else:
            unknown = gone_there if attempt is None else attempt.not_yet_removed(gone_there, stored)
            trimmed = self._remove(stored, unknown)
            staged = tables.stage(
                stored, fragments=incoming.fragments, trimmed=trimmed, fold=False, reuse_deletions=attempt
            )
            self.staged.append(staged)
            version = self.view.staged(incoming.key, staged.path, staged.version)
            attempt = PreviousAttempt(stored, version, gone_there)
        self.attempts[incoming.key] = attempt
        inline = masks_left(version, inline)
        rows = version.rows + inline.row_count - inline.masked_count
        assert rows == base.rows - len(gone) + incoming.rows, "a load adds its rows and removes those that it replaces"
        return self._change(incoming, before, version.version, rows, inline)

    def _remove(self, base: Table, lost: RowSet) -> list[TrimmedFragment]:
        """The fragments that lose rows, each made by one task when there are many."""
        if len(lost) <= IN_PROCESS_ROWS:
            tables = self.view.repository.tables
            return [tables.delete_rows(base, fragment, offsets) for fragment, offsets in lost.by_fragment()]
        tasks = [Removal(self.target, TableVersion.of(base), part) for part in lost.parts(1)]
        return self.runner.map("remove", remove_rows, tasks)

    # ------------------------------------------------------------ rules

    def _check_keys(self) -> dict[str, list[Pairs]]:
        """The rows that the load replaces, with those that come in their place."""
        tasks = [
            key_task(self.view, self.incoming[check.table], self.mode, check, self._pairs)
            for check in self.checks
            if isinstance(check, KeyCheck) and self.incoming[check.table].may_clash(check.entity)
        ]
        reports = self._run("check keys", tasks)
        return {
            task.check.table: report.replaced for task, report in zip(tasks, reports, strict=True) if report.replaced
        }

    def _refuse_both(self) -> None:
        """UniqueViolation for an id that the load both puts and removes."""
        contradictions: dict[str, list[str]] = {}
        for key, rows in self._named.items():
            both = rows.intersection(self.addresses.get(key, RowSet()))
            table = committed_table(self.view, key)
            if both and table is not None:
                contradictions[key] = rows_at(table, both.addresses(), ["id"]).column("id").to_pylist()
        for key, ids in self._absent.items():
            place = self.incoming[key].place
            source = Source(place, ("id",), ("id",), self.incoming[key].rows)
            put = StoredReader(self.target).holding(source, pa.array(ids, pa.string())).column("id").to_pylist()
            if put:
                contradictions[key] = [*contradictions.get(key, []), *put]
        checks = [KeyCheck(self.view.entity(key), inserts=False) for key in contradictions]
        reports = [
            CheckReport([Violation(TWICE, "id", id, id) for id in sorted(ids)[:MAX_VIOLATIONS]], count=len(ids))
            for ids in contradictions.values()
        ]
        if self.only_count:
            self.refusals += refusals(checks, reports, self.locate)
            self._blamed += [((key, "id", id), None) for key, ids in contradictions.items() for id in ids]
        else:
            raise_first(checks, reports, self.locate)

    def _find_replaced(self, key: str, pairs: list[Pairs]) -> ReplacedRows:
        committed = committed_table(self.view, key)
        assert committed is not None, "rows of it are replaced"
        runner = self.runner if sum(map(len, pairs)) > IN_PROCESS_ROWS else LocalRunner()
        return find_replaced(self.target, key, committed, self.incoming[key].place, pairs, runner)

    def _check_rest(self, states: Mapping[str, TableState], *, values: bool) -> None:
        """All rules but those about keys, and those about single rows, if they were checked when the rows were read."""
        sources = CheckSources(self.view, self.incoming, self.mode, states, self.lost())
        tasks = [sources.task(check) for check in self.checks if not isinstance(check, KeyCheck)]
        alone = [part for task in tasks if values and isinstance(task.check, ValueCheck) for part in by_fragments(task)]
        self._run("check rules", [*alone, *(task for task in tasks if not isinstance(task.check, ValueCheck))])
        self._count_duplicates(sources)

    def _count_duplicates(self, sources: CheckSources) -> None:
        edges = [self.view.entity(key) for key in self.incoming if self.mode == "merge"]
        checks = [DuplicateEdges(edge) for edge in edges if isinstance(edge, EdgeType) and not edge.key]
        tasks = [sources.task(check) for check in checks if self._inserts(check.table)]
        runner = self.runner if sum(task.rows for task in tasks) > IN_PROCESS_ROWS else LocalRunner()
        for task, report in zip(tasks, run_checks("find equal edges", tasks, runner) if tasks else (), strict=True):
            if report.violations:
                self.duplicates[task.check.table] = sum(int(violation.number or 0) for violation in report.violations)

    def _inserts(self, key: str) -> bool:
        """Whether it puts more rows than it replaces, beside rows that the branch has."""
        replaced = self.addresses.get(key)
        return bool(self.view.rows(key)) and self.incoming[key].rows > (0 if replaced is None else len(replaced))

    def _run(self, stage: str, tasks: list[CheckTask]) -> list[CheckReport]:
        runner = self.runner if sum(task.rows for task in tasks) > IN_PROCESS_ROWS else LocalRunner()
        if not self.only_count:
            reports = run_checks(stage, tasks, runner)
            raise_first([task.check for task in tasks], reports, self.locate)
            return reports
        reports = run_checks(stage, [replace(task, counts=True) for task in tasks], runner)
        self.refusals += refusals([task.check for task in tasks], reports, self.locate)
        self._blamed += [blamed for report in reports for blamed in report.blamed]
        return reports
