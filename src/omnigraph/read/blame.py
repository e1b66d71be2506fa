"""Which commit gave each property of an entity the value it has."""

from __future__ import annotations

from omnigraph.history import Commit, Entry
from omnigraph.read.entities import EntityVersion, history_of
from omnigraph.values.entities import Entity
from omnigraph.views import Repository


def blame_of(repository: Repository, type_name: str, entity_id: str, entry: Entry) -> dict[str, Commit]:
    """By property, and by end for an edge: the commit that set what it has at the last commit of an entry. Nothing for an
    entity that is not there. What a merge brought is followed into the branch that was merged, to the commit that set it."""
    versions = list(history_of(repository, type_name, entity_id, entry))
    if not versions or versions[0].value is None:
        return {}
    found = {name: _setter(versions, name) for name in versions[0].value if name != "id"}
    merges = {commit.id: commit for commit in found.values() if commit.merged is not None}
    for merge in merges.values():
        source = _merged_source(repository, type_name, entity_id, merge)
        for name in [name for name, commit in found.items() if commit.id == merge.id]:
            if source is not None and name in source[0] and source[0][name] == versions[0].value[name]:
                found[name] = source[1][name]
    return found


def _setter(versions: list[EntityVersion], name: str) -> Commit:
    """The oldest of the newest versions that agree on a property."""
    newest = versions[0]
    assert newest.value is not None, "the entity is there"
    value, setter = newest.value[name], newest.commit
    for version in versions[1:]:
        if version.value is None or name not in version.value or version.value[name] != value:
            break
        setter = version.commit
    return setter


def _merged_source(
    repository: Repository, type_name: str, entity_id: str, merge: Commit
) -> tuple[Entity, dict[str, Commit]] | None:
    """The entity at the commit that was merged, and who set its properties there; None when it is not there."""
    from omnigraph.errors import HistoryGap, NotFound, UsageError
    from omnigraph.read.entities import entity

    assert merge.merged is not None, "a merge has a second parent"
    try:
        entry = repository.history.revisions.entry(merge.merged.id)
        there = entity(repository.view(entry.head), type_name, entity_id)
        return None if there is None else (there, blame_of(repository, type_name, entity_id, entry))
    except (HistoryGap, NotFound, UsageError):
        # Swept, or a type of another name: then the merge itself is what is known.
        return None
