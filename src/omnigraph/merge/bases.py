"""The commits where two branches diverged (several if merges crossed), and the differences between snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.changes.diff import same_state
from omnigraph.changes.stored_rows import TypeRows
from omnigraph.changes.table_diff import DELETE, INSERT, ComparedPair, changed_rows
from omnigraph.history import Commit, Entry, TableState
from omnigraph.tables import Table
from omnigraph.views import Repository, View
from omnigraph.workers import IN_PROCESS, ExchangingWorkers

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True)
class Bases:
    """The best common ancestors of two heads, newest first."""

    heads: tuple[Entry, Entry]
    commits: tuple[Commit, ...]
    views: tuple[View, ...]

    def agree_on(self, type_id: int) -> bool:
        """Whether all bases have the same rows of a type, judging by metadata."""
        first = state_of(self.views[0], type_id)
        return all(same_state(first, state_of(view, type_id)) for view in self.views[1:])

    def moved(self, view: View) -> frozenset[int]:
        """The types whose rows in a snapshot differ from those of at least one base."""
        return frozenset(
            type_id
            for type_id in view.catalog.by_id
            if not all(same_state(state_of(view, type_id), state_of(base, type_id)) for base in self.views)
        )


def find_bases(repository: Repository, a: Entry, b: Entry) -> Bases:
    history = repository.history
    commits = tuple(history.lineage.merge_bases(a, b))
    views = tuple(repository.view(history.revisions.snapshot(commit.ref)) for commit in commits)
    return Bases((a, b), commits, views)


class Differences:
    """The differences between versions of a type's table. Each pair is compared once, even if a merge is attempted several times."""

    def __init__(self, workers: ExchangingWorkers = IN_PROCESS) -> None:
        self.workers = workers
        self._rows: dict[tuple[int, Table | None, Table | None], pa.Table] = {}

    def of(self, pair: ComparedPair) -> pa.Table:
        """Columns id, op, before and after (addresses), including rows that were only rewritten."""
        type_id, before, after = pair.after.entity.id, pair.before.table, pair.after.table
        rows = self._rows.get((type_id, before, after))
        if rows is None:
            back = self._rows.get((type_id, after, before))
            rows = changed_rows(pair.before, pair.after, self.workers) if back is None else _reversed(back)
            self._rows[type_id, before, after] = rows
        return rows


def _reversed(rows: pa.Table) -> pa.Table:
    """The changes in the opposite direction."""
    import pyarrow as pa
    import pyarrow.compute as pc

    op = rows.column("op")
    back = pc.if_else(pc.equal(op, INSERT), DELETE, pc.if_else(pc.equal(op, DELETE), INSERT, op)).cast(pa.int8())
    columns = [rows.column("id"), back, rows.column("after"), rows.column("before")]
    return pa.table(dict(zip(("id", "op", "before", "after"), columns, strict=True)))


def state_of(view: View, type_id: int) -> TableState | None:
    entity = view.catalog.by_id.get(type_id)
    return None if entity is None else view.state(entity.table_key)


def type_rows(view: View, type_id: int) -> TypeRows | None:
    """A type's rows in a snapshot; None if its schema does not have the type."""
    entity = view.catalog.by_id.get(type_id)
    return None if entity is None else TypeRows(entity, view.table(entity.table_key))
