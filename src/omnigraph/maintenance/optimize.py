"""Maintenance of a branch: rewrites fragments and completes indexes, and publishes both as one commit that changes no row.

The work is based on the head at the start. It is then rebased on the newest head, in time that depends on what changed meanwhile
and not on the size of the tables: rows that others deleted are deleted from the new fragments, fragments that others added are
kept, and inline rows stay inline. So it gets published even if writers never pause.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import ExpectedVersionMismatch
from omnigraph.history.plan import PublishPlan, TableChange, check_attribution
from omnigraph.history.publish import SCHEMA
from omnigraph.history.values import Commit, Entry, Snapshot, TableState
from omnigraph.indexing.adjacency import left_out_of, refresh_adjacency
from omnigraph.indexing.indexes import index_specs
from omnigraph.language.catalog import EdgeType, EntityType
from omnigraph.maintenance.reports import PendingIndex, TableShape, shape_of
from omnigraph.snapshot import Repository, View
from omnigraph.tables.compaction import MAX_DELETED_SHARE, Group, plan_rewrite, rewritten
from omnigraph.tables.indexes import SegmentPlan, plan_segments, unneeded_segments
from omnigraph.tables.inline import InlineRebase
from omnigraph.tables.lost_rows import LostRows, Rewrite
from omnigraph.tables.staging import Staged
from omnigraph.tables.store import TablePlace
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import IN_PROCESS, InProcess, OnSpark, Workers
from omnigraph.values.inline_rows import NO_INLINE, Inline
from omnigraph.write.publishing import LostRace, on_newest_head, publish

IN_PROCESS_ROWS = 262_144
"""A table with fewer rows is maintained in this process, which takes less time than to start a job."""
INDEXED_REBASES = 3
"""How many rebases of tables also index rows that arrived meanwhile; later ones leave them out, to publish sooner."""
MAX_ROWS_INDEXED_LATE = 65_536


MIN_WORTHWHILE_ROWS = 50_000
"""A smaller table is read whole as fast as by an index, and loads leave its indexes unbuilt."""


@dataclass(frozen=True)
class TableReport:
    """What `optimize` did to the table of a type (or would do), why, and how it is stored before and after.

    >>> for table in g.maintenance.optimize(dry_run=True).tables:
    ...     print(table.table_key, table.actions)
    """

    table_key: str
    actions: tuple[str, ...]
    """What was done, with reasons; empty if there was nothing to do."""
    before: TableShape
    after: TableShape
    is_worthwhile: bool
    """Whether the work makes reads much faster: not where a table has few rows, or would only be sorted."""


@dataclass(frozen=True)
class OptimizeReport:
    """The commit that `optimize` made, if there was anything to do, and a report of every table.

    >>> assert g.maintenance.optimize(dry_run=True).commit is None
    """

    commit: Commit | None
    tables: tuple[TableReport, ...]


@dataclass(frozen=True)
class _TableWork:
    """What is to be done for one table."""

    key: str
    table: Table
    cluster_by: str | None
    rewrites: bool
    groups: tuple[Group, ...]
    segments: tuple[SegmentPlan, ...]
    """Index segments to build; those for rewritten fragments are planned after the rewrite."""
    unneeded: frozenset[str]
    """UUIDs of index segments to drop; the rewrite of fragments may add more."""
    purge: bool
    inline: int
    """How many inline rows and inline deletions are to be stored."""

    @property
    def is_needed(self) -> bool:
        return bool(self.groups or self.segments or self.unneeded or self.inline)

    @property
    def is_worthwhile(self) -> bool:
        is_worn = any(len(group.fragments) > 1 or group.worn or group.outdated for group in self.groups)
        return self.table.rows >= MIN_WORTHWHILE_ROWS and bool(is_worn or self.segments or self.unneeded)

    def actions(self) -> tuple[str, ...]:
        done = [f"store {self.inline} changes of recent commits"] if self.inline else []
        fragments = sum(len(group.fragments) for group in self.groups)
        if fragments:
            counts = {
                "small": sum(group.small for group in self.groups),
                "with deleted rows": sum(group.worn for group in self.groups),
                f"not sorted by {self.cluster_by}": sum(group.unsorted for group in self.groups),
                "older than the schema": sum(group.outdated for group in self.groups),
            }
            reasons = ", ".join(f"{count} {reason}" for reason, count in counts.items() if count)
            done.append(f"write {fragments} of {len(self.table.fragments)} fragments again ({reasons})")
        rows = {fragment.id: fragment.rows for fragment in self.table.fragments}
        missing: dict[str, int] = {}
        for plan in self.segments:
            missing[plan.spec.name] = missing.get(plan.spec.name, 0) + sum(
                rows[fragment] for fragment in plan.fragments
            )
        done += [f"build index {name} for {count:,} rows" for name, count in sorted(missing.items())]
        if self.unneeded:
            done.append(f"drop {len(self.unneeded)} index segments with values of rows that are gone")
        return tuple(done)


@dataclass(frozen=True)
class _Done:
    """The result of the work on a table, as a version on top of its base, and what is needed to rebase it on a later version."""

    work: _TableWork
    rewrite: Rewrite | None
    lost: LostRows | None
    plans: tuple[SegmentPlan, ...]
    built: tuple[Any, ...]
    unneeded: frozenset[str]
    built_on: Table
    version: Staged
    files: tuple[str, ...]


def maintain(
    repository: Repository,
    branch: str,
    *,
    rewrite: bool,
    purge: bool = False,
    dry_run: bool = False,
    actor: str | None = None,
    workers: Workers = IN_PROCESS,
) -> OptimizeReport:
    """Maintain a branch with one commit, or none if there is nothing to do. Starts again from the new head if the schema changes
    meanwhile.

    With `purge` no file of the new state contains a deleted row: fragments with deleted rows are rewritten, and so are the
    indexes over them. If the newest entry has inline rows that are deleted by now, another entry follows it.
    """
    check_attribution(actor)
    if isinstance(
        workers, OnSpark
    ):  # Also a single task of a large table would take more memory than this process shall.
        workers = workers.runner

    def attempt(head: tuple[Entry, View]) -> OptimizeReport:
        since = repository.history.clock()
        entry, view = head
        planned = [_planned(view, key, rewrite, purge) for key in view.catalog.tables if view.table(key) is not None]
        needed = [work for work in planned if work.is_needed]
        is_needed = bool(needed) or (purge and _holds_gone_rows(entry))
        if dry_run or not is_needed:
            left_out = {} if dry_run else left_out_of(view, refresh_adjacency(repository, view, workers=workers))
            return OptimizeReport(None, tuple(_report(view, work, work.table, left_out) for work in planned))
        with repository.history.leases.hold(view.snapshot.commit.ref):
            commit = _done_and_published(repository, entry, view, needed, workers, since=since, actor=actor)
        if commit is None:
            return OptimizeReport(None, tuple(_report(view, work, work.table) for work in planned))
        after = repository.view(repository.history.revisions.snapshot(commit.ref))
        left_out = left_out_of(after, refresh_adjacency(repository, after, workers=workers))
        return OptimizeReport(commit, tuple(_report(view, work, after.table(work.key), left_out) for work in planned))

    return on_newest_head(repository.history, branch, partial(repository.head, branch), attempt)


def _holds_gone_rows(entry: Entry) -> bool:
    """Whether an entry has inline rows, or ids of removed rows, that its newest commit does not have."""
    live = {(key, row) for key, state in entry.head.tables.items() for row in state.inline.row_texts.items()}
    states = [*entry.before.tables.items(), *(item for step in entry.steps for item in step.tables.items())]
    if any(step.removed_ids for step in entry.steps):
        return True
    return any((key, row) not in live for key, state in states if state for row in state.inline.row_texts.items())


def _done_and_published(
    repository: Repository,
    entry: Entry,
    view: View,
    works: Sequence[_TableWork],
    workers: Workers,
    *,
    since: float,
    actor: str | None,
) -> Commit | None:
    """None if it turns out that no table needs a new version. LostRace if the schema has changed, or others have replaced
    everything that was worked on."""
    done = [result for work in works if (result := _do(repository, view, work, workers)) is not None]
    if works and not done:
        return None
    repository.tables.sync([replace(result.version, files=result.files) for result in done])
    plan = PublishPlan(
        commit_id=repository.history.new_id(),
        branch=entry.branch,
        incarnation=entry.incarnation,
        base=view.snapshot.commit.ref,
        schema=view.snapshot.schema,
        changes=tuple(_change(result.work.key, view.state(result.work.key), result.version) for result in done),
        kind="optimize",
        actor=actor,
        staged_since=since,
    )
    reach(Failpoint.OPTIMIZE_BEFORE_PUBLISH)
    try:
        return publish(repository.history, plan, _Rebase(repository, {result.work.key: result for result in done}))
    except ExpectedVersionMismatch as lost:
        raise LostRace from lost


def _planned(view: View, key: str, rewrite: bool, purge: bool) -> _TableWork:
    table = view.table(key)
    assert table is not None, "it is stored"
    return _planned_for(view.entity(key), table, rewrite, purge)


def _planned_for(entity: EntityType, whole: Table, rewrite: bool, purge: bool) -> _TableWork:
    key, table = entity.table_key, whole.stored
    cluster_by = "src" if isinstance(entity, EdgeType) else None
    share = 0.0 if purge else MAX_DELETED_SHARE
    groups = plan_rewrite(table, cluster_by, max_deleted_share=share) if rewrite else []
    specs = index_specs(entity)
    segments = plan_segments(table, specs, purge=purge)
    unneeded = unneeded_segments(table, specs, purge=purge) if rewrite else frozenset()
    inline = whole.inline.row_count + whole.inline.masked_count
    return _TableWork(key, whole, cluster_by, rewrite, tuple(groups), tuple(segments), unneeded, purge, inline)


def _report(
    view: View, work: _TableWork, after: Table | None, without_adjacency: Mapping[str, str] = MappingProxyType({})
) -> TableReport:
    """`without_adjacency`: by table key, why its adjacency was not stored."""
    entity = view.entity(work.key)
    before = shape_of(entity, work.table)
    shape = before if after is None else shape_of(entity, after)
    if (reason := without_adjacency.get(work.key)) is not None:
        shape = replace(shape, pending=(*shape.pending, PendingIndex("src, dst", "ADJACENCY", shape.rows, reason)))
    return TableReport(work.key, work.actions(), before, shape, work.is_worthwhile)


# ---------------------------------------------------------------- the work


@dataclass(frozen=True)
class _GroupTask:
    place: TablePlace
    fragments: tuple[int, ...]
    cluster_by: str | None


@dataclass(frozen=True)
class _SegmentTask:
    place: TablePlace
    plan: SegmentPlan


def _write_group(task: _GroupTask) -> tuple[str, ...]:
    return task.place.tables.rewrite(task.place.open(), task.fragments, task.cluster_by)


def _build_segment(task: _SegmentTask) -> Any:
    return task.place.tables.build_segment(task.place.path, task.place.version, task.plan)


def _do(repository: Repository, view: View, work: _TableWork, workers: Workers) -> _Done | None:
    """Rewrite groups of fragments and build index segments, each as one task; in this process if the table is small. None if no
    new version is needed."""
    tables = repository.tables
    table, settled = tables.settle(work.table)
    if settled is not None:
        again = _planned_for(view.entity(work.key), table, work.rewrites, work.purge)
        work = replace(again, table=work.table, inline=work.inline)
    at_hand = IN_PROCESS if table.rows < IN_PROCESS_ROWS else workers
    rewrite: Rewrite | None = None
    staged: Staged | None = None
    files: tuple[str, ...] = settled.files if settled else ()
    if work.groups:
        place = TablePlace.of(tables, table)
        tasks = [_GroupTask(place, group.fragments, work.cluster_by) for group in work.groups]
        written = at_hand.map("compact", _write_group, tasks)
        rewrite = rewritten(table, work.groups, written, work.cluster_by)
        staged = tables.stage_rewrite(rewrite)
        files = (*files, *staged.files)
        table = tables.open(staged.path, staged.version, layout=table.layout)
    reach(Failpoint.OPTIMIZE_AFTER_REWRITE)
    specs = index_specs(view.entity(work.key))
    plans = plan_segments(table, specs, purge=work.purge)
    unneeded = unneeded_segments(table, specs, purge=work.purge)
    built = _built(repository, table, plans, at_hand)
    indexed = tables.stage_segments(table, plans, built, unneeded) if plans or unneeded else None
    reach(Failpoint.OPTIMIZE_AFTER_INDEXES)
    version = indexed or staged or settled
    if version is None:
        return None
    files = (*files, *(indexed.files if indexed else ()))
    lost = None if rewrite is None else tables.lost_rows(rewrite, version)
    return _Done(work, rewrite, lost, tuple(plans), tuple(built), unneeded, table, version, files)


def _built(repository: Repository, table: Table, plans: Sequence[SegmentPlan], workers: Workers) -> list[Any]:
    if isinstance(workers, InProcess):
        return repository.tables.build_segments(table, plans)
    place = TablePlace.of(repository.tables, table)
    return workers.map("indexes", _build_segment, [_SegmentTask(place, plan) for plan in plans])


# ---------------------------------------------------------------- on a newer head


class _Rebase:
    """Rebases the work on the newest snapshot; called once for each lost race. Rows that were committed inline since stay inline,
    so an attempt that races with small commits writes no file."""

    def __init__(self, repository: Repository, done: dict[str, _Done]) -> None:
        self._repository = repository
        self._done = done
        self._placed = {
            (result.work.key, result.work.table.version): _Placed.on_base(repository, result)
            for result in done.values()
        }
        """The rebased work by table and stored version."""
        self._stagings = 0

    def __call__(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        if plan.schema != snapshot.schema:
            # The new fragments lack the columns of a property that has come back.
            raise ExpectedVersionMismatch(SCHEMA, plan.base.seq, snapshot.commit.ref.seq)
        view = self._repository.view(snapshot)
        known = {change.key: change for change in plan.changes}
        changes: list[TableChange] = []
        for key, done in self._done.items():
            change, state = known.get(key), snapshot.table(key)
            if change is not None and change.base == state:
                changes.append(change)
                continue
            if state is None or state.path != done.built_on.path:
                continue
            if (carried := self._carried(view, done, state)) is not None:
                changes.append(_change(key, state, *carried))
        if not changes:
            # Other writers have replaced everything that was worked on.
            raise ExpectedVersionMismatch("branch", plan.base.seq, snapshot.commit.ref.seq)
        return replace(plan, changes=tuple(changes))

    def _carried(self, view: View, done: _Done, state: TableState) -> tuple[Staged, Inline] | None:
        """The work on top of the current version of a table, and the inline changes on top of it; None if none of the work
        applies any more."""
        place = (done.work.key, state.version)
        if (placed := self._placed.get(place)) is not None:
            inline = placed.rebase.moved(state.inline)
            if inline is not None:
                return placed.version, inline
        placed = self._put_on(view, done)
        if placed is None:
            return None
        self._placed[place] = placed
        inline = placed.rebase.moved(state.inline)
        assert inline is not None, "nothing was absorbed"
        return placed.version, inline

    def _put_on(self, view: View, done: _Done) -> _Placed | None:
        """Stage the work on top of the current version of a table; None if none of it applies any more."""
        table = view.table(done.work.key)
        assert table is not None, "it has a state"
        tables, head = self._repository.tables, table.stored
        self._stagings += 1
        staged: list[Staged] = []
        if done.rewrite is not None and done.lost is not None:
            placed = tables.stage_rewrite_on(head, done.rewrite, done.lost)
            if placed is not None:
                staged.append(placed)
                head = tables.open(placed.path, placed.version, layout=head.layout)
        indexed = tables.stage_segments_on(head, done.built_on, done.plans, done.built, done.unneeded)
        if indexed is not None:
            staged.append(indexed)
            head = tables.open(indexed.path, indexed.version, layout=head.layout)
        if self._stagings <= INDEXED_REBASES and (arrived := self._index_arrivals(view, done.work.key, head)):
            staged.append(arrived)
        if not staged:
            return None
        after = tables.open(head.path, staged[-1].version, layout=head.layout)
        tables.sync(staged)
        return _Placed(staged[-1], InlineRebase(table.stored, after))

    def _index_arrivals(self, view: View, key: str, head: Table) -> Staged | None:
        """Index the rows that arrived since, unless they are many: those are left for the next run."""
        plans = plan_segments(head, index_specs(view.entity(key)), rebuild=False)
        missing = {fragment for plan in plans for fragment in plan.fragments}
        if (
            not plans
            or sum(fragment.rows for fragment in head.fragments if fragment.id in missing) > MAX_ROWS_INDEXED_LATE
        ):
            return None
        tables = self._repository.tables
        return tables.stage_segments(head, plans, tables.build_segments(head, plans))


@dataclass(frozen=True)
class _Placed:
    """The work on top of a stored version, and how inline changes on top of that version are moved on top of the work."""

    version: Staged
    rebase: InlineRebase

    @classmethod
    def on_base(cls, repository: Repository, done: _Done) -> _Placed:
        table, version = done.work.table, done.version
        after = repository.tables.open(version.path, version.version, layout=table.layout)
        return cls(version, InlineRebase(table.stored, after, table.inline))


def _change(key: str, before: TableState | None, staged: Staged, inline: Inline = NO_INLINE) -> TableChange:
    assert before is not None, "a table that is maintained has a state"
    rows = staged.rows + inline.row_count - inline.masked_count
    assert rows == before.rows, "maintenance changes no row"
    after = TableState(before.path, staged.version, before.generation + 1, rows, staged.digest, inline)
    return TableChange(key, "rewrite", before, after)
