"""Putting a checked load on a newer snapshot by looking only at what others added or removed since.

A load may take an hour to prepare while others commit every few milliseconds. Were it checked as a whole each time it
loses a race, it would lose every one. A load that keeps the rules on one snapshot keeps them on the next unless a row that
came or went meets one of its own keys in a way that a check names as a risk. Rows that came are few, and whether the load
has a key is told by sorted hashes of its keys, made once. What meets is checked in full, so the messages are those of
every other load.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from typing import Any

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph._internal.lazy_imports import np, pa, pc
from omnigraph.changes.stored_rows import TypeRows, rows_at
from omnigraph.changes.table_diff import differing, unshared_rows
from omnigraph.errors import (
    BranchReplaced,
    CommitNotFound,
    ExpectedVersionMismatch,
    InputError,
    NotFound,
    OmnigraphError,
    StagedTooLongAgo,
    StorageError,
)
from omnigraph.history.plan import LONG_AGO, PublishPlan, TableChange, check_attribution
from omnigraph.history.publish import SCHEMA
from omnigraph.history.values import Commit, Snapshot, TableState
from omnigraph.indexing.adjacency import refresh_after
from omnigraph.language.catalog import EntityType
from omnigraph.load.assembly import LoadStaging
from omnigraph.load.checks import Addresses, union
from omnigraph.load.receipt import REPLACING, LoadCounts, StagedRows, count_rows, depends_on_rows, mode_of
from omnigraph.relational import duck
from omnigraph.relational.sql import exp, to_sql
from omnigraph.rules.check import Check, Need
from omnigraph.rules.keys import KeyCheck
from omnigraph.snapshot import Repository, View
from omnigraph.tables import filters
from omnigraph.tables.addresses import OFFSET_BITS, ROW_ADDRESS, RowSet
from omnigraph.tables.ascending import distinct
from omnigraph.tables.changed_table import INLINE_FRAGMENT, ChangedTable
from omnigraph.tables.filters import in_list
from omnigraph.tables.staging import PreviousAttempt
from omnigraph.tables.table import Table
from omnigraph.tasks.engines import Engine, LoadMode, make_runner
from omnigraph.tasks.progress import Silent
from omnigraph.tasks.runner import IN_PROCESS, Runner
from omnigraph.write.publishing import publish as publish_plan
from omnigraph.write.row_write import SchemaRebase

FEW_ROWS = 50_000
"""More rows than this that came since the last check are checked in full."""
MAX_KEYS_HASHED = 250_000_000
"""Rows of a load whose hashed keys are held in memory (8 bytes each). A larger one is checked in full."""
INDEXED_REBASES = 1
"""Rebases that build their indexes again. Whoever loses again has no time for them: they stay pending."""


@dataclass(frozen=True)
class CheckedLoad:
    """A load that was checked and staged on a view, where it replaces the rows at `addresses`; those at `unchanged` keep
    their values. Those at `removed` go."""

    view: View
    addresses: Addresses
    unchanged: Addresses
    removed: Addresses = field(default_factory=dict)
    attempts: Mapping[str, PreviousAttempt] = field(default_factory=dict)

    @classmethod
    def of(cls, assembly: LoadStaging) -> CheckedLoad:
        return cls(assembly.view, assembly.addresses, assembly.unchanged, assembly.removed)

    def count(self, type_id: int, incoming: StagedRows, mode: LoadMode) -> LoadCounts:
        """What the load does to one type, whatever that is called by now. Rows that another writer wrote meanwhile count as
        updated."""
        key = self.view.catalog.by_id[type_id].table_key
        renamed = replace(incoming, key=key)
        return count_rows(
            self.view, renamed, mode, self.addresses.get(key), self.unchanged.get(key), self.removed.get(key)
        )


class LoadRebase:
    """The rebase of one load, with its memory from one attempt to the next."""

    def __init__(
        self, repository: Repository, mode: LoadMode, runner: Runner, checked: CheckedLoad | None = None
    ) -> None:
        self._repository = repository
        self._mode = mode
        self._runner = runner
        self.checked = checked
        self._keys = _KeyHashes(repository)
        self._attempts = 0
        self._given: dict[object, frozenset[object]] = {}
        """By the id of a type, the ids of the properties that the load gives values to. Later changes of the schema may fill more."""

    def __call__(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        self._attempts += 1
        if plan.schema == snapshot.schema:
            return self._put_on(plan, snapshot)
        if any(depends_on_rows(change) for change in plan.changes):
            raise ExpectedVersionMismatch(SCHEMA, plan.base.seq, snapshot.commit.ref.seq)
        carrying = SchemaRebase(self._repository, plan, snapshot)
        for change in plan.changes:
            carrying.check_values(carrying.before.tables[change.key], self._assigned(plan, change))
        self.checked = None
        try:
            return self._put_on(carrying.plan(plan), snapshot, values=True)
        except InputError as error:
            raise carrying.refused(error) from None

    def _assigned(self, plan: PublishPlan, change: TableChange) -> frozenset[str]:
        """Properties that the load gives values to."""
        entity = self._repository.catalog(plan.schema).tables[change.key]
        if entity.id not in self._given:
            layout = self._repository.layout(plan.schema, change.key)
            incoming = StagedRows.from_json(change.key, change.staged, layout)
            table = self._repository.tables.open(incoming.place.path, incoming.place.version, layout=layout)
            self._given[entity.id] = frozenset(
                property.id
                for name, property in entity.properties.items()
                if table.count(f"{filters.column(name)} IS NOT NULL")
            )
        assigned = self._given[entity.id]
        return frozenset(name for name, property in entity.properties.items() if property.id in assigned)

    def _put_on(self, plan: PublishPlan, snapshot: Snapshot, *, values: bool = False) -> PublishPlan:
        """`values`: also the rules about single rows are others than those that they were read by."""
        view = self._repository.view(snapshot)
        incoming = {
            change.key: StagedRows.from_json(change.key, change.staged, view.layout(change.key))
            for change in plan.changes
        }
        removed = {} if self.checked is None else self.checked.removed
        is_indexed = self._attempts <= INDEXED_REBASES
        folder = f"staging/{plan.commit_id}"
        assembly = LoadStaging(
            view, incoming, self._mode, self._runner, removed=removed, index=is_indexed, folder=folder
        )
        unmoved = {change.key: change for change in plan.changes if change.base == snapshot.table(change.key)}
        lost = self._lost_if_still_valid(assembly)
        if lost is None:
            for change in plan.changes:
                is_known = self.checked is not None or not incoming[change.key].removed
                if depends_on_rows(change) and not (change.key in unmoved and is_known):
                    raise _mismatch(change.key, change.base, snapshot.table(change.key))
            assembly.find_replaced()
            changes = assembly.changes(unmoved, values=values)
            self.checked = CheckedLoad.of(assembly)
        else:
            assert self.checked is not None, "it was valid on another view"
            attempts = self.checked.attempts
            changes = assembly.restaged(union(lost.addresses, lost.removed), unmoved, attempts)
            self.checked = replace(lost, attempts={**attempts, **assembly.attempts})
        self._repository.tables.sync(assembly.staged)
        return replace(plan, changes=changes, reads=assembly.reads())

    def _lost_if_still_valid(self, assembly: LoadStaging) -> CheckedLoad | None:
        """What the load replaces and removes on this view, when no rule can break on the way there; None: check in full."""
        checked = self.checked
        if checked is None or self._mode == "overwrite":
            return None
        if sum(incoming.rows for incoming in assembly.incoming.values()) > MAX_KEYS_HASHED:
            return None
        movements: dict[str, _Movement] = {}
        for key in {*assembly.incoming, *assembly.reads()}:
            movement = _Movement.between(checked.view, assembly.view, key)
            if movement is None:
                return None
            movements[key] = movement
        self._refuse_touched(checked, assembly, movements)
        if any(self._may_break(check, assembly, movements) for check in assembly.checks):
            return None
        addresses = {
            key: self._replaced(assembly.view.entity(key), incoming, movements[key], checked.addresses.get(key))
            for key, incoming in assembly.incoming.items()
        }
        unchanged = {
            key: movements[key].placed(rows).intersection(addresses[key]) for key, rows in checked.unchanged.items()
        }
        removed = {key: movements[key].placed(rows) for key, rows in checked.removed.items()}
        return CheckedLoad(assembly.view, addresses, unchanged, removed)

    def _refuse_touched(self, checked: CheckedLoad, assembly: LoadStaging, movements: Mapping[str, _Movement]) -> None:
        """ExpectedVersionMismatch when somebody changed a row that the load was made from."""
        for key, incoming in assembly.incoming.items():
            movement, is_patch = movements[key], self._mode == "patch"
            used = RowSet.union(
                checked.removed.get(key, RowSet()), checked.addresses.get(key, RowSet()) if is_patch else RowSet()
            )
            is_touched = len(movement.placed(used)) < len(used)
            if is_touched or (is_patch and self._keys.meet(incoming, ("id",), movement.changed)):
                raise _mismatch(key, checked.view.state(key), assembly.view.state(key))

    def _may_break(self, check: Check, assembly: LoadStaging, movements: Mapping[str, _Movement]) -> bool:
        """Whether rows that others added or removed meet rows of the load in a way that can break the check."""
        if isinstance(check, KeyCheck) and not assembly.incoming[check.table].may_clash(check.entity):
            return False
        for others in check.others:
            movement = movements[others.table]
            for rows in movement.harmful(others):
                if rows.num_rows and any(self._meets(own, assembly, rows) for own in check.own):
                    return True
        return False

    def _meets(self, own: Need, assembly: LoadStaging, rows: pa.Table) -> bool:
        if own.state == "lost":
            return True  # The load's own keys do not tell which rows it replaces.
        if own.state == "result":
            return False
        return self._keys.meet(assembly.incoming[own.table], own.by, rows.rename_columns(list(own.by)))

    def _replaced(self, entity: EntityType, incoming: StagedRows, movement: _Movement, before: RowSet | None) -> RowSet:
        """Where the rows of before are that are still there, and those that came under one of the load's ids."""
        if self._mode not in REPLACING or not incoming.may_clash(entity):
            return RowSet()
        kept = RowSet() if before is None else movement.staying(before)
        met = self._keys.meeting(incoming, ("id",), movement.added)
        if not met.num_rows:
            return kept
        table = self._repository.tables.open(incoming.place.path, incoming.place.version, layout=incoming.place.layout)
        held = set(table.read(["id"], in_list("id", met.column("id").to_pylist())).column("id").to_pylist())
        return kept.with_(row[ROW_ADDRESS] for row in met.to_pylist() if row["id"] in held)


def _mismatch(key: str, before: TableState | None, now: TableState | None) -> ExpectedVersionMismatch:
    return ExpectedVersionMismatch(key, *(0 if state is None else state.generation for state in (before, now)))


@dataclass(frozen=True)
class _Movement:
    """The rows of a table that came and went between two views, as ids and addresses."""

    before: TypeRows
    after: TypeRows
    added: pa.Table
    removed: pa.Table

    @classmethod
    def between(cls, before: View, after: View, key: str) -> _Movement | None:
        """None: more than a few rows, or rows that are stored in other places than before."""
        old, new = before.table(key), after.table(key)
        places = {} if old is None else {fragment.files: fragment for fragment in old.fragments}
        fresh = 0
        for fragment in () if new is None else new.fragments:
            was = places.get(fragment.files)
            if was is not None and was.id != fragment.id:
                return None
            fresh += fragment.rows if was is None else 0
        if fresh > FEW_ROWS:
            return None
        old_rows, new_rows = TypeRows(before.entity(key), old), TypeRows(after.entity(key), new)
        if before.state(key) == after.state(key):
            nothing = unshared_rows(old_rows, old_rows, IN_PROCESS)
            return cls(old_rows, new_rows, nothing, nothing)
        return cls(old_rows, new_rows, _only_in(new_rows, old_rows), _only_in(old_rows, new_rows))

    @cached_property
    def _moved(self) -> pa.Table:
        """Rows that are only stored elsewhere: id, before and after (addresses)."""
        gone = self.removed.rename_columns(["id", "before"])
        both = gone.join(self.added.rename_columns(["id", "after"]), "id", join_type="inner").combine_chunks()
        return both.filter(pa.array(~differing(self.before, self.after, both, IN_PROCESS)))

    @property
    def changed(self) -> pa.Table:
        """Rows that came or have other values."""
        if not self.removed.num_rows:
            return self.added
        return self.added.filter(pc.invert(pc.is_in(self.added.column("id"), value_set=self._moved.column("id"))))

    def staying(self, rows: RowSet) -> RowSet:
        """Of rows before, those that are stored as they were: where they are now. Rows in commits have other places, when others went."""
        kept = rows.without(self.removed.column(ROW_ADDRESS).to_numpy()) if self.removed.num_rows else rows
        old, new, stored = self.before.table, self.after.table, kept.without_fragments([INLINE_FRAGMENT])
        if isinstance(old, ChangedTable) and isinstance(new, ChangedTable) and len(stored) < len(kept):
            in_commits = kept.difference(stored).addresses().tolist()
            places = [new.place_of(id) for id in old.ids_at(in_commits)]
            kept = stored.with_([place for place in places if place is not None])
        return kept

    def placed(self, rows: RowSet) -> RowSet:
        """Of rows before, those that still have the same values: where they are now."""
        staying = self.staying(rows)
        if len(staying) == len(rows):
            return staying
        moved = self._moved.filter(pa.array(rows.contains(self._moved.column("before").to_numpy())))
        return staying.with_(moved.column("after").to_numpy())

    def harmful(self, need: Need) -> Iterator[pa.Table]:
        """What came and what went, as far as it can break a check that has this need: the columns that tie its rows."""
        if need.risk != "fewer":
            yield _columns_at(self.after.table, self.added, need.by)
        if need.risk != "more":
            yield _columns_at(self.before.table, self._gone() if need.by == ("id",) else self.removed, need.by)

    def _gone(self) -> pa.Table:
        """Rows whose id is no longer there. A row that was only stored again is still there."""
        back = pc.is_in(self.removed.column("id"), value_set=self.added.column("id").combine_chunks())
        return self.removed.filter(pc.invert(back))


def _only_in(side: TypeRows, against: TypeRows) -> pa.Table:
    """Ids and addresses of the rows of one side that are not, as stored or as they stand in commits, rows of the other."""
    rows = unshared_rows(side, against, IN_PROCESS)
    if not isinstance(side.table, ChangedTable) or not isinstance(against.table, ChangedTable):
        return rows
    addresses = rows.column(ROW_ADDRESS).to_numpy()
    is_stored = addresses >> np.uint64(OFFSET_BITS) != np.uint64(INLINE_FRAGMENT)
    is_new = np.isin(addresses, side.table.addresses_unlike(against.table))
    return rows.filter(pa.array(is_stored | is_new))


def _columns_at(table: Table | None, rows: pa.Table, columns: Sequence[str]) -> pa.Table:
    if table is None or not rows.num_rows:
        return pa.table({name: pa.array([], pa.string()) for name in columns})
    if set(columns) <= set(rows.column_names):
        return rows.select(list(columns))
    return rows_at(table, rows.column(ROW_ADDRESS).to_numpy(), columns).select(list(columns))


class _KeyHashes:
    """Whether new rows may hold a key, by sorted hashes of all their keys: 8 bytes a row, read once per set of columns."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._sorted: dict[tuple[str, tuple[str, ...]], np.ndarray[Any, Any]] = {}

    def meet(self, incoming: StagedRows, columns: Sequence[str], rows: pa.Table) -> bool:
        return bool(self.meeting(incoming, columns, rows).num_rows)

    def meeting(self, incoming: StagedRows, columns: Sequence[str], rows: pa.Table) -> pa.Table:
        """Of these rows, those whose key the new rows may hold too."""
        if not rows.num_rows or not incoming.rows:
            return rows.slice(0, 0)
        known = self._of(incoming, tuple(columns))
        hashes = _hashes(rows.select(list(columns)), columns)
        is_known = known[np.minimum(np.searchsorted(known, hashes), len(known) - 1)] == hashes
        for name in columns:  # null is no key
            is_known &= np.asarray(rows.column(name).is_valid())
        return rows.filter(pa.array(is_known))

    def _of(self, incoming: StagedRows, columns: tuple[str, ...]) -> np.ndarray[Any, Any]:
        if (incoming.key, columns) not in self._sorted:
            table = self._repository.tables.open(
                incoming.place.path, incoming.place.version, layout=incoming.place.layout
            )
            self._sorted[incoming.key, columns] = distinct(_hashes(table.scan(list(columns)), columns))
        return self._sorted[incoming.key, columns]


def _hashes(rows: Any, columns: Sequence[str]) -> np.ndarray[Any, Any]:
    """One hash per row. The rows may be a stream."""
    text = _hash_query(tuple(columns))
    hashes: np.ndarray[Any, Any] = duck.run_text(text, {"rows": rows}).column("hash").to_numpy()
    return hashes


@lru_cache(maxsize=256)
def _hash_query(columns: tuple[str, ...]) -> str:
    values = ", ".join(f'"{name}"' for name in columns)
    return to_sql(exp.select(f'hash({values}) AS "hash"').from_('"rows"'), "duckdb")


# The last step of a load: a prepared plan becomes a commit, or stays prepared.

MIN_PATIENCE_S = 60.0


def publish(repository: Repository, plan: PublishPlan, rebase: LoadRebase, *, patience_s: float = 0.0) -> Commit:
    """Publish a prepared plan and remove it. A plan that is not published stays prepared.

    Attempts continue for `patience_s`, and at least for a minute: a load that took long to prepare may also take long to publish.
    """
    reach(Failpoint.LOAD_BEFORE_PUBLISH)
    commit = publish_plan(repository.history, plan, rebase, patience_s=max(patience_s, MIN_PATIENCE_S))
    reach(Failpoint.LOAD_AFTER_PUBLISH)
    forget(repository, plan)
    return commit


def forget(repository: Repository, plan: PublishPlan) -> None:
    """Remove a prepared plan. Storage errors are ignored: a plan that stays behind is harmless, and publishing it again gives the
    same commit."""
    with contextlib.suppress(StorageError):
        repository.history.recovery.remove(plan.commit_id)


def add_recovery_hint(error: OmnigraphError, plan: PublishPlan) -> None:
    """Add a hint to the error of a load that was not, or may not have been, published: how to publish its staged rows."""
    way_on = (
        f"its rows are staged: `omnigraph recovery {plan.commit_id} --resume` publishes them, "
        f"`omnigraph recovery {plan.commit_id} --discard` forgets them"
    )
    error.hint = f"{error.hint}; {way_on}" if error.hint else way_on


# Prepared loads: finishing one that died between staging and publishing, in seconds.


def resume(repository: Repository, commit_id: str, actor: str | None = None, engine: Engine = "local") -> Commit:
    """Publish a prepared load; the commit it has already when it was published before. NotFound: no such load.

    What others committed since may require its checks and indexes again: `engine` does that, and stores adjacency.

    A load that is refused stays prepared: what stands in its way may go away, and only its user can tell.
    """
    try:
        prepared = repository.history.recovery.get(commit_id)
    except NotFound as missing:
        try:
            return repository.history.revisions.find(commit_id)
        except CommitNotFound:
            raise missing from None
    plan = replace(prepared.plan, kept_since=LONG_AGO)
    if prepared.provisional:
        error = StagedTooLongAgo(plan.branch, "it ended before it had made sure that its data is safe from cleanup")
        error.hint = f"unless that load still runs, `omnigraph recovery {commit_id} --discard`, and load again"
        raise error
    if actor is not None:
        plan = _resumed_by(actor, plan)
    try:
        runner = make_runner(engine, repository.store.uri, Silent(), "resume")
        commit = publish(repository, plan, LoadRebase(repository, mode_of(plan), runner))
        refresh_after(repository, commit, [change.staged.get("rows", 0) for change in plan.changes], runner)
        return commit
    except BranchReplaced as error:
        error.hint = (
            f"`omnigraph recovery {commit_id} --discard` drops it; load again, into a branch that exists or with a new one "
            f"(load --branch {plan.branch} --from main)"
        )
        raise
    except OmnigraphError as error:
        add_recovery_hint(error, plan)
        raise


def _resumed_by(actor: str, plan: PublishPlan) -> PublishPlan:
    """The plan as the actor's own; its message says who had prepared it, if that was somebody else."""
    check_attribution(actor, None)
    if plan.actor in (None, actor):
        return replace(plan, actor=actor)
    prepared_by = f"prepared by {plan.actor}"
    message = prepared_by if plan.message is None else f"{plan.message} ({prepared_by})"
    return replace(plan, actor=actor, message=message)
