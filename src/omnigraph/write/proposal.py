"""A write whose rows are checked and written, but not yet part of any version of a table.

The version that they are added to is chosen when it is published: by then the branch may have moved.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from omnigraph.errors import InputError
from omnigraph.history import CommitKind, Entry, PublishPlan, Snapshot, TableChange, WriteKey
from omnigraph.views import View
from omnigraph.write.carrying import Carrying
from omnigraph.write.constraints import Addresses, Deltas, check_deltas, check_plan
from omnigraph.write.inlining import bounds
from omnigraph.write.staging import Fragments, check_again, stage_versions, write_rows, written_rows


class Rerun(NamedTuple):
    """How to make the deltas of a write again on a newer state, and the tables that they depend on."""

    deltas: Callable[[View], Deltas]
    reads: frozenset[str]
    commits_empty: bool
    """Whether there is a commit even if nothing is left to change."""


@dataclass(frozen=True)
class Proposal:
    """`deltas` were checked against `view`, where they supersede the rows at `addresses`. Without addresses they are not checked
    yet: a small write is checked once, on the head that it is published on.

    `plan` is the write as far as it is known: the state of each table is still the one before it. A write that has read the branch
    is made again if what it read has changed.
    """

    view: View
    deltas: Deltas
    addresses: Addresses | None
    fragments: Fragments
    plan: PublishPlan
    rerun: Rerun | None = None
    superseded: dict[int, Collection[str]] = field(default_factory=dict, compare=False)
    """By type: the ids whose row the write replaces or removes on the snapshot that it was last staged on."""

    def staged_on(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan | None:
        """The plan with its versions staged on a snapshot; None if nothing is left to change there. Checks are repeated only if
        something that they depend on has changed."""
        known = self.view.snapshot
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
            carrying = Carrying(self.view.repository, self.plan, snapshot)
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
            plan = Carrying(repository, plan, snapshot).plan(plan)
        carrying = Carrying(repository, self.plan, snapshot)
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


def propose(
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
) -> Proposal:
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
    return Proposal(view, deltas, addresses, fragments, plan, rerun)
