"""A write that is checked and whose rows are written, before any version of a table holds them.

Which version its rows go on is decided when its turn to publish comes: by then the branch may have moved.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

from omnigraph.history import Entry, PublishPlan, Rebase, Snapshot, TableChange
from omnigraph.language.catalog import EdgeType
from omnigraph.views import View
from omnigraph.write.constraints import Addresses, Deltas, affected_reads, checks_of_deltas
from omnigraph.write.staging import Fragments, Sync, check_again, stage_versions

Ids = frozenset[tuple[str, str]]
"""(table key, entity id)"""


@dataclass(frozen=True)
class Proposal:
    """`deltas` were checked against `view`, where they supersede the rows at `addresses`."""

    view: View
    deltas: Deltas
    addresses: Addresses
    fragments: Fragments

    def plan(
        self,
        entry: Entry,
        *,
        commit_id: str,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
    ) -> PublishPlan:
        """The plan as far as it is known: each table's state is the one before it."""
        changes = []
        for key, delta in self.deltas.items():
            before = self.view.state(key)
            changes.append(TableChange(key, delta.mode, before, before))
        reads = affected_reads(self.view, self.deltas)
        return PublishPlan(
            commit_id=commit_id,
            branch=entry.branch,
            incarnation=entry.incarnation,
            base=self.view.snapshot.commit.ref,
            schema=self.view.snapshot.schema,
            changes=tuple(changes),
            reads=reads,
            read_states={key: self.view.state(key) for key in reads},
            kind="mutation",
            actor=actor,
            message=message,
            if_commit=if_commit,
        )

    def rebase(self, sync: Sync) -> Rebase:
        """Makes the versions, on any snapshot. What was checked is checked again only where it moved."""
        tried = False

        def onto(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
            nonlocal tried
            view = self.view.repository.view(snapshot)
            addresses = check_again(view, plan, self.deltas) if self._moved(plan, snapshot) else self.addresses
            changes = stage_versions(view, self.deltas, addresses, self.fragments, sync, after_lost_race=tried)
            tried = True
            return replace(plan, changes=changes)

        return onto

    def _moved(self, plan: PublishPlan, snapshot: Snapshot) -> bool:
        checked = self.view.snapshot
        return any(checked.table(key) != snapshot.table(key) for key in (*self.deltas, *plan.reads))

    # ------------------------------------------------------------ what it has to do with its neighbours

    @cached_property
    def only_adds(self) -> bool:
        """No row of the branch goes, and no rule asks for a least number of rows: adding more rows never mends it."""
        if any(delta.removed or self.addresses.get(key) for key, delta in self.deltas.items()):
            return False
        return not any(check.needs_more_rows for check in checks_of_deltas(self.view, self.deltas))

    @cached_property
    def rows(self) -> int:
        return sum(delta.rows.num_rows for delta in self.deltas.values())

    @cached_property
    def writes(self) -> Ids:
        """Nodes that it writes."""
        return frozenset(
            (key, id)
            for key, delta in self.deltas.items()
            if not isinstance(delta.entity, EdgeType)
            for id in delta.ids
        )

    @cached_property
    def needs(self) -> Ids:
        """Nodes that it relies on and does not write: the ends of its edges."""
        ends: set[tuple[str, str]] = set()
        for delta in self.deltas.values():
            if isinstance(delta.entity, EdgeType):
                for column, node in (("src", delta.entity.source), ("dst", delta.entity.target)):
                    ends.update((f"node:{node}", id) for id in delta.rows.column(column).to_pylist())
        return frozenset(ends) - self.writes
