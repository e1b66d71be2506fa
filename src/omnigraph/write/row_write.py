"""A write of rows: they are checked and written, but not yet part of any version of a table.

The version that they are added to is chosen when it is published: by then the branch may have moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from omnigraph.errors import ExpectedVersionMismatch, InputError, OmnigraphError, ValueViolation
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.publish import SCHEMA, Attempt
from omnigraph.history.values import CommitKind, Entry, Snapshot, WriteKey
from omnigraph.language.catalog import Catalog, EdgeType, EntityType
from omnigraph.language.projection import is_readable, project
from omnigraph.snapshot import Repository, View
from omnigraph.write.constraints import (
    Addresses,
    Deltas,
    Fragments,
    check_again,
    check_deltas,
    check_plan,
    stage_versions,
    write_rows,
    written_rows,
)
from omnigraph.write.inlining import Delta, NewRows, bounds
from omnigraph.write.publishing import Write

# Converts a write that lost the race to a schema change into one under the new schema.
#
# Types and properties are matched by their stable ids, so neither renames nor additions are an obstacle. A property that the write
# sets must still exist, its values must still fit it, and its rows must obey the rules of the new schema. Otherwise the write ends
# with a conflict on `schema`.


class SchemaRebase:
    """Converts a write from the schema of its plan to that of a newer snapshot."""

    def __init__(self, repository: Repository, plan: PublishPlan, snapshot: Snapshot) -> None:
        self.before = repository.catalog(plan.schema)
        self.after = repository.catalog(snapshot.schema)
        self.expected, self.snapshot = plan.base, snapshot

    def mismatch(self, reason: str) -> ExpectedVersionMismatch:
        return ExpectedVersionMismatch(SCHEMA, self.expected.seq, self.snapshot.commit.ref.seq, reason=reason)

    def key(self, key: str) -> str:
        """The current key of a table."""
        return self._now(self.before.tables[key]).table_key

    def _now(self, entity: EntityType) -> EntityType:
        now = self.after.by_id.get(entity.id)
        if now is None:
            raise self.mismatch(f"{entity.name} was dropped")
        return now

    def plan(self, plan: PublishPlan) -> PublishPlan:
        """The plan with the current keys of its tables. Conflict if a change depends on the exact state of a table that has
        changed."""
        changes = []
        for change in plan.changes:
            key = self.key(change.key)
            state = self.snapshot.table(key)
            if change.mode == "strict" and change.base != state:
                versions = (side.generation if side else 0 for side in (change.base, state))
                raise ExpectedVersionMismatch(key, *versions)
            changes.append(replace(change, key=key))
        known = {key: self.key(key) for key in plan.reads if self.before.tables[key].id in self.after.by_id}
        return replace(
            plan,
            schema=self.snapshot.schema,
            changes=tuple(changes),
            reads=tuple(known.values()),
            read_states={known[key]: state for key, state in plan.read_states.items() if key in known},
        )

    def delta(self, delta: Delta) -> Delta:
        """The change of one table, with rows of the current type."""
        entity = self._now(delta.entity)
        self.check_values(delta.entity, delta.assigned)
        try:
            rows = project(delta.rows, delta.entity, entity)
        except ValueError as error:
            raise self.mismatch(f"values of {entity.name} do not fit it any more: {error}") from None
        return replace(delta, entity=entity, new=NewRows.of_table(rows))

    def check_values(self, before: EntityType, names: frozenset[str]) -> None:
        """Conflict unless every property that the write sets still exists, and reads what the write stores, and ids follow from the
        same key."""
        entity = self._now(before)
        if entity.key_ids not in ((), before.key_ids):
            raise self.mismatch(f"{before.name} has another key")
        known = {property.id: property for property in entity.properties.values()}
        for name in sorted(names):
            now = known.get(before.properties[name].id)
            if now is None:
                raise self.mismatch(f"{before.name}.{name} was dropped")
            if not is_readable(before.properties[name], now):
                raise self.mismatch(f"{before.name}.{name} has a narrower type")

    def refused(self, error: InputError) -> OmnigraphError:
        """Why the rows cannot be written: the change of the schema, if they obeyed the rules that they were checked against."""
        entity = next(
            (candidate for candidate in self.after.tables.values() if candidate.name == error.type_name), None
        )
        if isinstance(error, ValueViolation) or (entity is not None and self._has_new_rules(entity)):
            return self.mismatch(error.message)
        return error

    def _has_new_rules(self, entity: EntityType) -> bool:
        before = self.before.by_id.get(entity.id)
        return before is None or _rules(self.before, before) != _rules(self.after, entity)


def _rules(catalog: Catalog, entity: EntityType) -> tuple[object, ...]:
    """The rules of a type beyond its values, independent of names."""
    ids = {name: property.id for name, property in entity.properties.items()}
    unique = {
        frozenset(str(ids.get(name, name)) for name in constraint.fields)
        for constraint in entity.constraints_of("unique")
    }
    if not isinstance(entity, EdgeType):
        return (unique,)
    return unique, entity.min_out, entity.max_out, tuple(node.id for _, _, node in catalog.ends(entity))


class Rerun(NamedTuple):
    """How to make the deltas of a write again on a newer state, and the tables that they depend on."""

    deltas: Callable[[View], Deltas]
    reads: frozenset[str]
    commits_empty: bool
    """Whether there is a commit even if nothing is left to change."""


@dataclass(kw_only=True)
class RowWrite(Write):
    """`deltas` were checked against `view`, where they supersede the rows at `addresses`. Without addresses they are not checked
    yet: a small write is checked once, on the head that it is published on.

    `plan` is the write as far as it is known: the state of each table is still the one before it. A write that has read the branch
    is made again if what it read has changed.
    """

    view: View
    deltas: Deltas
    addresses: Addresses | None
    fragments: Fragments
    rerun: Rerun | None = None
    superseded: dict[int, Collection[str]] = field(default_factory=dict, compare=False)
    """By type: the ids whose row the write replaces or removes on the snapshot that it was last staged on."""

    def stage_on(self, plan: PublishPlan, attempt: Attempt) -> PublishPlan | None:
        """Checks are repeated only if something that they depend on has changed."""
        known, snapshot = self.view.snapshot, attempt.snapshot
        if self.rerun is not None and self._has_read_moved(self.rerun, snapshot):
            return self._rerun_on(self.rerun, plan, self.view.repository.view(snapshot))
        if known.schema != snapshot.schema:
            self.check()
            return self._staged_under(self.view.repository.view(snapshot), plan)
        if known.commit.ref == snapshot.commit.ref:
            checked = check_deltas(self.view, self.deltas) if self.addresses is None else self.addresses
            return self._staged(plan, self.view, checked)
        view = self.view.repository.view(snapshot)
        if self.addresses is None or self._moved(snapshot):
            addresses = check_again(view, self.view, self.deltas, own_rows=self.addresses is None)
        else:
            addresses = self.addresses
        return self._staged(plan, view, addresses)

    def check(self) -> None:
        """Raises what is wrong with the write on the state that it was made on."""
        if self.addresses is None:
            check_deltas(self.view, self.deltas)

    def _has_read_moved(self, rerun: Rerun, snapshot: Snapshot) -> bool:
        known, carrying = self.view.snapshot, None
        if known.schema != snapshot.schema:
            carrying = SchemaRebase(self.view.repository, self.plan, snapshot)
        return any(
            known.table(key) != snapshot.table(key if carrying is None else carrying.key(key)) for key in rerun.reads
        )

    def _rerun_on(self, rerun: Rerun, plan: PublishPlan, view: View) -> PublishPlan | None:
        deltas = rerun.deltas(view)
        if not deltas and not rerun.commits_empty:
            return None
        large = bounds().too_large(deltas, view)
        addresses = check_deltas(view, deltas)
        fragments = written_rows(view, large)
        reads = check_plan(view, deltas).reads if large else ()
        plan = replace(plan, schema=view.snapshot.schema, reads=reads)
        return replace(self, view=view, deltas=deltas, fragments=fragments)._staged(plan, view, addresses)

    def _staged_under(self, view: View, plan: PublishPlan) -> PublishPlan:
        """The write under another schema: its rows are checked against all of its rules, and rewritten."""
        repository, snapshot = view.repository, view.snapshot
        if plan.schema != snapshot.schema:
            plan = SchemaRebase(repository, plan, snapshot).plan(plan)
        carrying = SchemaRebase(repository, self.plan, snapshot)
        carried = map(carrying.delta, self.deltas.values())
        deltas = {delta.key: delta for delta in carried}
        try:
            addresses = check_again(view, self.view, deltas, own_rows=True)
        except InputError as error:
            raise carrying.refused(error) from None
        fragments = write_rows(view, deltas)
        plan = replace(plan, reads=check_plan(view, deltas).reads)
        return replace(self, view=view, deltas=deltas, fragments=fragments)._staged(plan, view, addresses)

    def _staged(self, plan: PublishPlan, view: View, addresses: Addresses) -> PublishPlan:
        self.superseded.clear()
        self.superseded.update({delta.entity.id: addresses[key].keys() for key, delta in self.deltas.items()})
        lost = any(change.state is not change.base for change in plan.changes)
        staged = stage_versions(view, self.deltas, addresses, self.fragments, after_lost_race=lost)
        all_versions = [version for _, versions in staged for version in versions]
        unsynced = view.repository.tables.unsynced(all_versions) if all_versions else ()
        return plan.staged(tuple(change for change, _ in staged), unsynced)

    def _moved(self, snapshot: Snapshot) -> bool:
        checked = self.view.snapshot
        return any(checked.table(key) != snapshot.table(key) for key in (*self.deltas, *self.plan.reads))

    # ------------------------------------------------------------ relations to other writes of a group

    @property
    def only_adds(self) -> bool:
        """Whether it supersedes no row of the branch, as far as is known, involves no rule that requires a minimum of rows, which
        more rows could satisfy, and does not depend on rows that others may add."""
        known = self.addresses or {}
        if self.rerun is not None or [key for key, delta in self.deltas.items() if delta.removed or known.get(key)]:
            return False
        return not check_plan(self.view, self.deltas).needs_more_rows

    @property
    def is_written(self) -> bool:
        """Whether all its rows are written as fragments, and none is inline."""
        return self.fragments.keys() >= self.deltas.keys()

    @property
    def rows(self) -> int:
        return sum([len(delta.new) for delta in self.deltas.values()])


def prepare_write(
    view: View,
    entry: Entry,
    deltas: Deltas,
    *,
    actor: str | None = None,
    message: str | None = None,
    if_commit: str | None = None,
    once: WriteKey | None = None,
    rerun: Rerun | None = None,
    kind: CommitKind = "mutation",
) -> RowWrite:
    """The write of deltas on the view of an entry's head. A large write is checked, and its rows are written, before it enters
    the queue."""
    history, snapshot = view.repository.history, view.snapshot
    since = history.clock()
    large = bounds().too_large(deltas, view)
    addresses = check_deltas(view, deltas) if large else None
    fragments = written_rows(view, large)
    # A small write is checked on the head that it is published on, so nothing can change after the check.
    reads = check_plan(view, deltas).reads if large else ()
    states = {key: snapshot.table(key) for key in (*deltas, *reads)}
    plan = PublishPlan(
        commit_id=history.new_id(),
        branch=entry.branch,
        incarnation=entry.incarnation,
        base=snapshot.commit.ref,
        schema=snapshot.schema,
        changes=tuple(TableChange(key, delta.mode, states[key], states[key]) for key, delta in deltas.items()),
        reads=reads,
        read_states={key: states[key] for key in reads},
        kind=kind,
        actor=actor,
        message=message,
        if_commit=if_commit,
        once=once,
        staged_since=since,
    )
    return RowWrite(
        plan=plan,
        is_staged=False,
        is_small=not fragments,
        is_new=True,
        view=view,
        deltas=deltas,
        addresses=addresses,
        fragments=fragments,
        rerun=rerun,
    )
