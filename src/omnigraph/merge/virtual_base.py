"""The rows of a virtual base: the result of merging several merge bases with each other.

The bases are merged two at a time, value by value, each pair on its best common ancestors, which are merged in the same way if there
are several. If the bases contradict each other, an entity has several candidates, which is a doubt. Only requested rows are read, and
older commits only for rows about which newer ones disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import HistoryGap
from omnigraph.history.values import Commit, CommitRef
from omnigraph.language.catalog import EntityType
from omnigraph.language.projection import project
from omnigraph.merge.schemas import Bases, type_rows
from omnigraph.merge.three_way import BaseRows, doubts_schema, open_schema, values_of
from omnigraph.snapshot import Repository

# Settles doubts about a virtual base by tracing where the branches' values came from.
#
# Merge bases may contradict each other although both branches later resolved the contradiction in the same way. So each head's value is
# traced back, through edits and through the parent of a merge that supplied it, to commits that both heads share. If all of those have
# the same value, it is the base's.

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


Commits = tuple[Commit, ...]
Candidates = list[Any]
"""Distinct values; more than one if commits contradict each other."""

ABSENT, UNCHANGED, CHANGED = "absent", "unchanged", "changed"


@dataclass(frozen=True)
class BaseEntity:
    """An entity at a virtual base: candidates for its existence and, unless it is absent, for each of its values."""

    exists: Candidates
    values: tuple[Candidates, ...] = ()

    def presence(self, base: BaseEntity | None) -> Candidates:
        """Its existence as a value that changes when its other values do, so that a deletion contradicts an update."""
        had_base = base is not None and True in base.exists
        unchanged = base is not None and had_base and all(map(_same, self.values, base.values))
        return [ABSENT if not exists else UNCHANGED if unchanged else CHANGED for exists in self.exists]


NOWHERE = BaseEntity([False])


def merged(base: BaseEntity | None, first: BaseEntity, other: BaseEntity) -> BaseEntity:
    """An entity in two commits, merged on their base; a base of None is unknown."""
    known = None if base is None else base.presence(base)
    presence = _merged(known, first.presence(base), other.presence(base))
    exists = _union([value != ABSENT] for value in presence)
    holders = [entity for entity in (first, other) if True in entity.exists]
    if True not in exists or len(holders) < 2:
        return BaseEntity(exists, holders[0].values if True in exists else ())
    before: Sequence[Candidates | None] = [None] * len(first.values)
    if base is not None:
        before = base.values or [[]] * len(first.values)
    return BaseEntity(exists, tuple(map(_merged, before, first.values, other.values)))


def _merged(base: Candidates | None, first: Candidates, other: Candidates) -> Candidates:
    """The values that both kept, and those that either added. If the base is doubtful, it is unknown which were added."""
    if _same(first, other):
        return first
    if base is None or len(base) > 1:
        return _union((first, other))
    return _union(
        ([value for value in first if value in other], [value for value in (*first, *other) if value not in base])
    )


def _same(first: Candidates, other: Candidates) -> bool:
    return len(first) == len(other) and all(value in other for value in first)


def _union(lists: Iterable[Candidates]) -> Candidates:
    result: Candidates = []
    for candidates in lists:
        result += [candidate for candidate in candidates if candidate not in result]
    return result


class VirtualBase:
    """The rows of one type in several commits, merged; results for older commits are kept for reuse."""

    def __init__(self, repository: Repository, commits: Sequence[Commit], entity: EntityType) -> None:
        self._repository = repository
        self._commits = tuple(commits)
        self._entity = entity
        self._known: dict[Commits, dict[str, BaseEntity]] = {}
        self._ancestors: dict[Commits, Commits] = {}

    def rows(self, ids: pa.Array) -> BaseRows:
        """Computed without recursion: bases can have bases in turn, as far back as merges crossed."""
        todo = [(self._commits, ids.to_pylist())]
        while todo:
            older = self._merge(*todo[-1])
            if older is None:
                todo.pop()
            else:
                todo.append(older)
        return self._as_rows({id: self._known[self._commits][id] for id in ids.to_pylist()})

    def _merge(self, commits: Commits, ids: list[str]) -> tuple[Commits, list[str]] | None:
        """Merge these entities; or return the commits and entities that must be merged first."""
        known = self._known.setdefault(commits, {})
        missing = [id for id in ids if id not in known]
        result = self._in_commit(commits[0], missing)
        for count, commit in enumerate(commits[1:], 2):
            other = self._in_commit(commit, missing)
            disputed = [id for id in missing if result[id] != other[id]]
            if disputed:
                older = self._common_ancestors(commits[:count])
                bases = self._known.get(older, {})
                if older and not bases.keys() >= set(disputed):
                    return older, disputed
                result |= {id: merged(bases.get(id), result[id], other[id]) for id in disputed}
        known |= result
        return None

    def _common_ancestors(self, commits: Commits) -> Commits:
        """The best common ancestors of the last commit and the others combined; empty if cleanup removed that history, as it
        did once."""
        if commits not in self._ancestors:
            try:
                self._ancestors[commits] = tuple(self._repository.history.lineage.base_of_bases(commits))
            except HistoryGap:
                self._ancestors[commits] = ()
        return self._ancestors[commits]

    def _in_commit(self, commit: Commit, ids: list[str]) -> dict[str, BaseEntity]:
        view = self._repository.view(self._repository.history.revisions.snapshot(commit.ref))
        stored = type_rows(view, self._entity.id)
        result = dict.fromkeys(ids, NOWHERE)
        if ids and stored is not None and stored.table is not None:
            for row in project(stored.table.lookup("id", ids), stored.entity, self._entity).to_pylist():
                values = tuple([tuple(row[name] for name in names)] for names in values_of(self._entity))
                result[row["id"]] = BaseEntity([True], values)
        return result

    def _as_rows(self, entities: Mapping[str, BaseEntity]) -> BaseRows:
        """Rows with the first candidates, and the doubts about them."""
        names = [name for value in values_of(self._entity) for name in value]
        rows: list[dict[str, Any]] = []
        doubts: list[dict[str, Any]] = []
        for id, entity in entities.items():
            if True in entity.exists:
                columns = [column for candidates in entity.values for column in candidates[0]]
                rows.append({"id": id, **dict(zip(names, columns, strict=True))})
            unknown = {f"unknown_{place}": len(values) > 1 for place, values in enumerate(entity.values)}
            doubts.append({"id": id, "unsure": len(entity.exists) > 1, **unknown})
        return BaseRows(
            pa.Table.from_pylist(rows, schema=open_schema(self._entity)),
            pa.Table.from_pylist(doubts, schema=doubts_schema(self._entity)),
        )
