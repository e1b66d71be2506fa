"""The versions of an entity along history. Properties are compared by their stable ids, so a rename is not a version."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors import HistoryGap, NotFound, UsageError
from omnigraph.history.values import Commit, CommitRef, Entry, Snapshot, TableState
from omnigraph.read.entities import entity, entity_key
from omnigraph.snapshot import Repository, View
from omnigraph.values.arrow import Entity


@dataclass(frozen=True)
class EntityVersion:
    """An entity as a commit left it; `value` is None if the commit removed it.

    >>> newest = g.history("Person", "Cy")[0]
    >>> assert (newest.commit, newest.value["age"]) == (g.head(), 2)
    """

    commit: Commit
    value: Entity | None

    def __repr__(self) -> str:
        return f"<EntityVersion at {self.commit.id}: {'removed' if self.value is None else 'written'}>"


def history_of(repository: Repository, type_name: str, entity_id: str, entry: Entry) -> Iterator[EntityVersion]:
    """The versions of an entity along first parents up to the last commit of an entry, newest first. Each has the names of its
    time. Raises UsageError for a type that is not in the schema there."""
    states = EntityStates.of(repository, type_name, entity_id, entry)
    for place in states.versions():
        yield EntityVersion(states.commits[place], states.entity(place))


@dataclass
class EntityStates:
    """An entity along a log. A place is the index of a commit in it; the newest is 0.

    The cost depends on what changed: only commits that changed the type's table are read, once each, and they are found by
    bisection. The table is looked into only where a commit may have changed the entity.
    """

    repository: Repository
    commits: list[Commit]
    type_id: int
    entity_id: str
    _seen: dict[int, tuple[View, TableState | None]] = field(default_factory=dict)
    _snapshots: dict[str, Snapshot] = field(default_factory=dict)
    """By commit, of the entries that were read."""
    _read: dict[tuple[TableState, str], Entity | None] = field(default_factory=dict)

    @classmethod
    def of(cls, repository: Repository, type_name: str, entity_id: str, entry: Entry) -> EntityStates:
        view = repository.view(entry.head)
        type_id = view.entity(entity_key(view, type_name)).id
        return cls(repository, list(repository.history.log.walk(entry)), type_id, entity_id)

    def versions(self) -> Iterator[int]:
        """The places whose commit wrote or removed the entity, newest first."""
        for place in self._changes():
            if self._may_differ(place) and _differ(self.values(place), self.values(place + 1)):
                yield place
        oldest = len(self.commits) - 1
        if self.entity(oldest) is not None:
            yield oldest

    def entity(self, place: int) -> Entity | None:
        view, state = self._at(place)
        if state is None:
            return None
        key = (state, view.snapshot.schema)
        if key not in self._read:
            self._read[key] = entity(view, view.catalog.by_id[self.type_id].name, self.entity_id)
        return self._read[key]

    def names(self, place: int) -> dict[str, int | str]:
        """The property names at a place, each with its id; the ends of an edge have none."""
        declared = self._at(place)[0].catalog.by_id.get(self.type_id)
        return {} if declared is None else {name: property.id for name, property in declared.properties.items()}

    def values(self, place: int) -> dict[int | str, Any] | None:
        """The entity, by the ids of its properties."""
        value = self.entity(place)
        names = self.names(place)
        return None if value is None else {names.get(name, name): item for name, item in value.items()}

    def added(self, property_id: int | str, newer: int, older: int) -> Commit:
        """The commit that declared a property that exists at `newer` and not at `older`."""
        while older - newer > 1:
            middle = (newer + older) // 2
            if property_id in self.names(middle).values():
                newer = middle
            else:
                older = middle
        return self.commits[newer]

    def _may_differ(self, place: int) -> bool:
        """Whether a commit may have written or removed the entity. A small one lists the ids that it did."""
        newer, older = self._at(place)[1], self._at(place + 1)[1]
        if self.commits[place].kind != "mutation" or newer is None or older is None or not newer.inline:
            return True
        if (newer.path, newer.version) != (older.path, older.version):
            return True
        change = newer.inline[-1]
        return self.entity_id in change.ids or self.entity_id in change.removed

    def _snapshot(self, ref: CommitRef) -> Snapshot:
        if ref.id not in self._snapshots:
            entry = self.repository.history.lineage.entry_of(ref)
            self._snapshots |= {snapshot.commit.id: snapshot for snapshot in entry.snapshots()}
        return self._snapshots[ref.id]

    def _at(self, place: int) -> tuple[View, TableState | None]:
        if place not in self._seen:
            view = self.repository.view(self._snapshot(self.commits[place].ref))
            known = view.catalog.by_id.get(self.type_id)
            self._seen[place] = (view, None if known is None else view.state(known.table_key))
        return self._seen[place]

    def _changes(self) -> Iterator[int]:
        """The places whose state differs from that of the next older commit, newest first. A state never recurs: its generation
        would differ."""
        stack = [(0, len(self.commits) - 1)]
        while stack:
            newest, oldest = stack.pop()
            if newest >= oldest or self._at(newest)[1] == self._at(oldest)[1]:
                continue
            if newest + 1 == oldest:
                yield newest
                continue
            middle = (newest + oldest) // 2
            stack += [(middle, oldest), (newest, middle)]


def _differ(newer: Mapping[int | str, Any] | None, older: Mapping[int | str, Any] | None) -> bool:
    """Whether an entity was written between two consecutive commits; a new property that is null does not count."""
    if newer is None or older is None:
        return newer is not older
    return any(value != older.get(id) for id, value in newer.items())


# Which commit gave each property of an entity its current value.


def blame_of(repository: Repository, type_name: str, entity_id: str, entry: Entry) -> dict[str, Commit]:
    """By property, and by end for an edge: the commit that set its value as of the last commit of an entry. Empty if the entity
    does not exist. A value that came with a merge is followed into the merged branch, to the commit that set it there. A property
    never set since it was declared was set by the schema change that declared it."""
    states = EntityStates.of(repository, type_name, entity_id, entry)
    value = states.entity(0)
    if value is None:
        return {}
    versions, ids = list(states.versions()), states.names(0)
    setters = {name: _setter(states, versions, ids.get(name, name)) for name in value if name != "id"}
    merges = {commit.id: commit for commit in setters.values() if commit.merged is not None}
    for merge in merges.values():
        source = _merged_source(repository, type_name, entity_id, merge)
        for name in [name for name, commit in setters.items() if commit.id == merge.id]:
            if source is not None and name in source[0] and source[0][name] == value[name]:
                setters[name] = source[1][name]
    return setters


_UNDECLARED = object()


def _setter(states: EntityStates, versions: Sequence[int], property_id: int | str) -> Commit:
    """The oldest of the newest versions that agree on a property."""
    newest: list[Any] = []
    newer = 0
    for place in versions:
        values = states.values(place)
        if values is None:
            break
        if property_id not in values:
            # It was declared in between. The commit of the newer version may have been the first to set it.
            before = (states.values(newer + 1) or {}) if newest else {}
            was_set = bool(newest) and not _is_same(newest[0], before.get(property_id, _UNDECLARED))
            return states.commits[newer] if was_set else states.added(property_id, newer, place)
        if newest and not _is_same(newest[0], values[property_id]):
            break
        newest.append(values[property_id])
        newer = place
    return states.commits[newer]


def _is_same(newer: Any, older: Any) -> bool:
    """Whether two values are the same: a schema change may have turned a scalar into a list of one."""
    return bool(newer == older or newer == [older])


def _merged_source(
    repository: Repository, type_name: str, entity_id: str, merge: Commit
) -> tuple[Entity, dict[str, Commit]] | None:
    """The entity at the commit that was merged, and who set its properties there; None if it is unknown there."""
    assert merge.merged is not None, "a merge has a second parent"
    try:
        entry = repository.history.revisions.entry(merge.merged.id)
        merged_entity = entity(repository.view(entry.head), type_name, entity_id)
        return None if merged_entity is None else (merged_entity, blame_of(repository, type_name, entity_id, entry))
    except (HistoryGap, NotFound, UsageError):
        # Cleaned up, or the type has another name there: then the merge itself is the answer.
        return None
