"""The commits where two branches diverged (several if merges crossed), and the differences between snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.changes.diff import same_state
from omnigraph.changes.stored_rows import TypeRows
from omnigraph.changes.table_diff import DELETE, INSERT, ComparedPair, changed_rows
from omnigraph.errors import HistoryGap
from omnigraph.history import Commit, Entry, TableState
from omnigraph.history.revisions import snapshot_in
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
    """The bases of a merge of `a` into `b`. HistoryGap if one was removed: cleanup keeps them now, and did not always."""
    try:
        bases = repository.history.lineage.merge_bases(a, b)
        views = tuple(repository.view(snapshot_in(entry, commit.ref)) for commit, entry in bases)
    except HistoryGap as gap:
        raise HistoryGap(
            f"cleanup has removed the commit at which '{a.branch}' and '{b.branch}' parted, so it is not known which of them changed what",
            branch=gap.branch,
            watermark=gap.watermark,
            commit_id=gap.commit_id,
            hint=f"bring the content over: 'branch create NEW --from {b.branch}', 'branch reset NEW {a.branch}'; 'diff {b.branch} NEW' shows "
            f"every difference: undo on NEW what {b.branch} should keep, and 'branch merge NEW --into {b.branch}'",
        ) from gap
    return Bases((a, b), tuple(commit for commit, _ in bases), views)


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
