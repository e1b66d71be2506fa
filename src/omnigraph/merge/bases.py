"""Where two branches parted: one commit, or several where merges crossed; and the differences between snapshots."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.changes.diff import same_state
from omnigraph.changes.stored_rows import TypeRows
from omnigraph.changes.table_diff import DELETE, INSERT, ComparedPair, changed_rows, no_changes
from omnigraph.history import Commit, Entry, TableState
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
        """Whether all of them have the same rows of a type, as far as metadata tells."""
        first = state_of(self.views[0], type_id)
        return all(same_state(first, state_of(view, type_id)) for view in self.views[1:])


def find_bases(repository: Repository, a: Entry, b: Entry) -> Bases:
    history = repository.history
    commits = tuple(history.lineage.merge_bases(a, b))
    views = tuple(repository.view(history.revisions.snapshot(commit.ref)) for commit in commits)
    return Bases((a, b), commits, views)


class Differences:
    """Differences between snapshots, type by type; each small pair of table versions is compared once."""

    def __init__(self, workers: ExchangingWorkers = IN_PROCESS) -> None:
        self.workers = workers
        self._rows: dict[tuple[object, ...], pa.Table] = {}

    def between(self, before: View, after: View, type_id: int) -> pa.Table:
        """`changed_rows` of one type, for pairs that are small."""
        old, new = state_of(before, type_id), state_of(after, type_id)
        if same_state(old, new):
            return no_changes()
        key = (type_id, _place(before, old), _place(after, new))
        if key not in self._rows:
            pair = compared_pair(before, after, type_id)
            self._rows[key] = changed_rows(pair.before, pair.after, self.workers)
            self._rows[type_id, key[2], key[1]] = _reversed(self._rows[key])
        return self._rows[key]


def compared_pair(before: View, after: View, type_id: int) -> ComparedPair:
    """A type in two snapshots. One that does not know it has no rows of it; neither has where both have the same."""
    old, new = type_rows(before, type_id), type_rows(after, type_id)
    known = new or old
    assert known is not None, "asked for a type that neither side has"
    none = TypeRows(known.entity, None)
    if same_state(state_of(before, type_id), state_of(after, type_id)):
        return ComparedPair(none, none)
    return ComparedPair(old or none, new or none)


def _place(view: View, state: TableState | None) -> tuple[object, ...]:
    """What the rows of a type in a snapshot depend on."""
    return (view.snapshot.schema, state and state.content)


def _reversed(rows: pa.Table) -> pa.Table:
    """The changes that lead back."""
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
    """A type's rows in a snapshot; None when its schema does not have the type."""
    entity = view.catalog.by_id.get(type_id)
    return None if entity is None else TypeRows(entity, view.table(entity.table_key))
