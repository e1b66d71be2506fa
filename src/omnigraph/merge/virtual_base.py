"""The rows of a virtual base: the result of merging several merge bases with each other.

The bases are merged two at a time, value by value, each pair on its best common ancestors, which are merged in the same way if there
are several. If the bases contradict each other, an entity has several candidates, which is a doubt. Only requested rows are read, and
older commits only for rows about which newer ones disagree.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from omnigraph.errors import HistoryGap
from omnigraph.history import Commit
from omnigraph.language.catalog import EntityType
from omnigraph.language.projection import project
from omnigraph.merge.bases import type_rows
from omnigraph.merge.three_way import BaseRows, doubts_schema, open_schema, values_of
from omnigraph.views import Repository

if TYPE_CHECKING:
    import pyarrow as pa

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
        """The best common ancestors of the last commit and the others combined; empty if cleanup removed that history."""
        if commits not in self._ancestors:
            lineage = self._repository.history.lineage
            try:
                entries = [lineage.entry_of(commit.ref) for commit in commits]
                reached = [lineage.reached_at(entry, c.ref) for entry, c in zip(entries, commits, strict=True)]
                others: dict[str, int] = {}
                for ancestor in reached[:-1]:
                    others |= {name: max(seq, others.get(name, -1)) for name, seq in ancestor.items()}
                self._ancestors[commits] = tuple(lineage.common_ancestors(others, reached[-1], entries))
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
        import pyarrow as pa

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
