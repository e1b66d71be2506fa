"""Which commit gave each property of an entity its current value."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from omnigraph.errors import HistoryGap, NotFound, UsageError
from omnigraph.history import Commit, Entry
from omnigraph.read.entities import entity
from omnigraph.read.versions import EntityStates
from omnigraph.values.entities import Entity
from omnigraph.views import Repository


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
