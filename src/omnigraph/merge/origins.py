"""Settles doubts about a virtual base by tracing where the branches' values came from.

Merge bases may contradict each other although both branches later resolved the contradiction in the same way. So each head's value is
traced back, through edits and through the parent of a merge that supplied it, to commits that both heads share. If all of those have
the same value, it is the base's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omnigraph.errors import HistoryGap
from omnigraph.history import Commit, CommitRef
from omnigraph.language.catalog import EntityType
from omnigraph.language.projection import project
from omnigraph.merge.bases import Bases, type_rows
from omnigraph.merge.three_way import BaseRows, values_of
from omnigraph.views import Repository

if TYPE_CHECKING:
    import pyarrow as pa

Row = dict[str, Any]
Names = tuple[str, ...]
"""The columns of one value. An empty tuple traces whether the entity exists."""
Value = tuple[Any, ...] | None
"""None if the entity does not exist."""


class Origins:
    """The rows of one type in the commits that two heads share."""

    def __init__(self, repository: Repository, bases: Bases, entity: EntityType) -> None:
        lineage = repository.history.lineage
        self._repository = repository
        self._heads = [head.head.commit for head in bases.heads]
        self._reached = [lineage.reached(head.ancestry) for head in bases.heads]
        self._entity = entity
        self._ids: list[str] = []
        self._rows: dict[str, dict[str, Row]] = {}
        self._ends: dict[str, Commit] = {}

    def settled(self, base: BaseRows) -> BaseRows:
        """The base rows with as many doubts settled as possible."""
        import pyarrow as pa

        doubts = [
            doubt for doubt in base.doubts.to_pylist() if any(flag for name, flag in doubt.items() if name != "id")
        ]
        if not doubts:
            return base
        self._ids = [doubt["id"] for doubt in doubts]
        self._rows.clear()
        values = {row["id"]: row for row in base.values.to_pylist()}
        try:
            for question in doubts:
                self._settle(question, values)
        except HistoryGap:
            return base
        return BaseRows(
            pa.Table.from_pylist(list(values.values()), schema=base.values.schema),
            pa.Table.from_pylist(doubts, schema=base.doubts.schema),
        )

    def _settle(self, doubts: dict[str, Any], values: dict[str, Row]) -> None:
        """Clear the doubts about one entity that can be settled, and correct its row."""
        id = doubts["id"]
        if doubts["unsure"]:
            existed, *others = self._origins(id, ())
            if any(answer != existed for answer in others):
                return
            doubts["unsure"] = False
            if existed is None:
                values.pop(id, None)
                doubts.update(dict.fromkeys(doubts.keys() - {"id"}, False))
                return
            values.setdefault(id, {"id": id})
        for place, names in enumerate(values_of(self._entity)):
            if doubts[f"unknown_{place}"]:
                value, *others = self._origins(id, names)
                if value is not None and all(answer == value for answer in others):
                    values[id].update(zip(names, value, strict=True))
                    doubts[f"unknown_{place}"] = False

    def _origins(self, id: str, names: Names) -> Iterator[Value]:
        """The value of an entity at each shared commit from which either head's value came."""
        todo = list(self._heads)
        seen: set[str] = set()
        while todo:
            commit = self._last_of_run(todo.pop())
            if commit.id in seen:
                continue
            seen.add(commit.id)
            value = self._value(commit.ref, id, names)
            if self._is_shared(commit.ref):
                yield value
                continue
            givers = [parent for parent in commit.parents if self._value(parent, id, names) == value]
            todo += [self._commit(parent) for parent in givers or commit.parents]

    def _last_of_run(self, commit: Commit) -> Commit:
        """The first commit, this one or an older one, that is shared or a merge: in between there are only edits."""
        if commit.id not in self._ends:
            history = self._repository.history
            older = (
                older_commit
                for older_commit in history.log.walk(history.lineage.entry_of(commit.ref))
                if older_commit.ref.seq <= commit.ref.seq
            )
            self._ends[commit.id] = next(
                older_commit
                for older_commit in older
                if older_commit.merged is not None or self._is_shared(older_commit.ref)
            )
        return self._ends[commit.id]

    def _is_shared(self, ref: CommitRef) -> bool:
        return all(reached.get(ref.incarnation, -1) >= ref.seq for reached in self._reached)

    def _commit(self, ref: CommitRef) -> Commit:
        return self._repository.history.revisions.snapshot(ref).commit

    def _value(self, ref: CommitRef, id: str, names: Names) -> Value:
        if ref.id not in self._rows:
            stored = type_rows(self._repository.view(self._repository.history.revisions.snapshot(ref)), self._entity.id)
            value: pa.Table | None = None
            if stored is not None and stored.table is not None:
                value = project(stored.table.lookup("id", self._ids), stored.entity, self._entity)
            self._rows[ref.id] = {} if value is None else {row["id"]: row for row in value.to_pylist()}
        row = self._rows[ref.id].get(id)
        return None if row is None else tuple(row[name] for name in names)
