"""Where two branches parted: one commit, or several when merges crossed.

With several bases the value an entity had "at the base" is that of a virtual base, made by merging the bases the same
way: where they agree, their value; where one of them still has the value of *their* own base, the other's. Where both
changed it, differently, there is no base value (NO_BASE), and the sides conflict unless they are equal.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.changes.changed import SAME, Stored, changed, no_changes
from omnigraph.changes.diff import same_state
from omnigraph.changes.projection import by_id
from omnigraph.changes.workers import IN_PROCESS, Workers
from omnigraph.history import Commit, CommitRef, Entry, History, TableState
from omnigraph.history.values import Ancestry
from omnigraph.views import Repository, View

if TYPE_CHECKING:
    import pyarrow as pa

NO_BASE = -1


@dataclass(frozen=True)
class Bases:
    """The best common ancestors of two heads, newest first; `above`: those of the bases themselves, if several."""

    commits: tuple[Commit, ...]
    views: tuple[View, ...]
    above: Bases | None = None


def find_bases(repository: Repository, a: Entry, b: Entry) -> Bases:
    return _bases(repository, repository.history.lineage.merge_bases(a, b))


def _bases(repository: Repository, commits: list[Commit]) -> Bases:
    history = repository.history
    views = tuple(repository.view(history.revisions.snapshot(commit.ref)) for commit in commits)
    if len(commits) == 1:
        return Bases(tuple(commits), views)
    entries = [entry_at(history, commit.ref) for commit in commits]
    found: dict[str, Commit] = {}
    for entry in entries[1:]:
        found.update({commit.id: commit for commit in history.lineage.merge_bases(entries[0], entry)})
    return Bases(tuple(commits), views, _bases(repository, list(found.values())))


def entry_at(history: History, ref: CommitRef) -> Entry:
    """The chain as it was when `ref` was the head."""
    entry = history.lineage.entry_of(ref)
    kept = tuple(step for step in entry.steps if step.commit.ref.seq <= ref.seq)
    return replace(entry, steps=kept, ancestry=Ancestry(history.lineage.reached_at(entry, ref)))


class Differences:
    """Differences between snapshots, type by type; each pair of table versions is compared once."""

    def __init__(self, workers: Workers = IN_PROCESS) -> None:
        self.workers = workers
        self._rows: dict[tuple[object, ...], pa.Table] = {}
        self._ids: dict[tuple[object, ...], frozenset[str]] = {}

    def between(self, before: View, after: View, type_id: int) -> pa.Table:
        """`changed` of one type; a type that one snapshot does not know has no rows there."""
        key = _pair_key(before, after, type_id)
        if key is None:
            return no_changes()
        if key not in self._rows:
            old, new = stored_type(before, type_id), stored_type(after, type_id)
            known = new or old
            assert known is not None, "asked for a type that neither side has"
            none = Stored(known.entity, None)
            self._rows[key] = changed(old or none, new or none, self.workers)
        return self._rows[key]

    def ids(self, before: View, after: View, type_id: int) -> frozenset[str]:
        """Entities whose values differ."""
        import pyarrow.compute as pc

        key = _pair_key(before, after, type_id)
        if key is None:
            return frozenset()
        if key not in self._ids:
            rows = self.between(before, after, type_id)
            self._ids[key] = frozenset(rows.filter(pc.not_equal(rows.column("op"), SAME)).column("id").to_pylist())
        return self._ids[key]

    def picks(self, bases: Bases, type_id: int) -> Mapping[str, int]:
        """For each entity the bases disagree on, the base that has its value; NO_BASE when it has none."""
        views = bases.views
        if bases.above is None:
            return {}
        disputed = frozenset[str]().union(*(self.ids(views[0], view, type_id) for view in views[1:]))
        if not disputed:
            return {}
        above = bases.above
        above_picks = self.picks(above, type_id)
        moved = [[self.ids(old, view, type_id) for old in above.views] for view in views]
        result = {}
        for id in disputed:
            origin = above_picks.get(id, 0)
            changers = [i for i in range(len(views)) if origin == NO_BASE or id in moved[i][origin]]
            result[id] = self._one_value(views, changers, type_id, id)
        return result

    def _one_value(self, views: tuple[View, ...], changers: list[int], type_id: int, id: str) -> int:
        if not changers:
            return NO_BASE
        first = changers[0]
        agree = all(id not in self.ids(views[first], views[other], type_id) for other in changers[1:])
        return first if agree else NO_BASE


def state_of(view: View, type_id: int) -> TableState | None:
    entity = by_id(view.catalog).get(type_id)
    return None if entity is None else view.state(entity.table_key)


def stored_type(view: View, type_id: int) -> Stored | None:
    """A type's rows in a snapshot; None when its schema does not have the type."""
    entity = by_id(view.catalog).get(type_id)
    return None if entity is None else Stored(entity, view.table(entity.table_key))


def _pair_key(before: View, after: View, type_id: int) -> tuple[object, ...] | None:
    """What a difference depends on; None when there can be none."""
    old, new = state_of(before, type_id), state_of(after, type_id)
    if same_state(old, new):
        return None
    places = [state and (state.path, state.version) for state in (old, new)]
    return (type_id, *places, before.snapshot.schema, after.snapshot.schema)
