"""The rows of a virtual base: what several merge bases come to when they are merged with each other.

The bases are merged two at a time, value by value, each pair on the best common ancestors of the two, which are merged
in the same way if there are several. What they contradict each other in stays open, as a doubt. Only rows that are asked
for are looked at, and older commits only for the rows on which newer ones disagree.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.changes.projection import project
from omnigraph.errors import HistoryGap
from omnigraph.history import Commit
from omnigraph.language.catalog import EntityType
from omnigraph.merge.bases import type_rows
from omnigraph.merge.three_way import Rows, ThreeWay, doubts_schema, open_schema
from omnigraph.views import Repository

if TYPE_CHECKING:
    import pyarrow as pa

Commits = tuple[Commit, ...]


class VirtualBase:
    """The rows of one type in some commits, merged; and beside it what older commits came to, as far as it was needed."""

    def __init__(self, repository: Repository, commits: Sequence[Commit], entity: EntityType) -> None:
        self._repository = repository
        self._commits = tuple(commits)
        self._entity = entity
        self._none = Rows.of(open_schema(entity).empty_table(), entity)
        self._known: dict[Commits, tuple[set[str], Rows]] = {}
        self._ancestors: dict[Commits, Commits] = {}

    def rows(self, ids: pa.Array) -> Rows:
        """Without recursion: bases have bases have bases, as far back as merges crossed."""
        todo = [(self._commits, ids)]
        while todo:
            older = self._merge(*todo[-1])
            if older is None:
                todo.pop()
            else:
                todo.append(older)
        return self._known[self._commits][1].only(ids)

    def _merge(self, commits: Commits, ids: pa.Array) -> tuple[Commits, pa.Array] | None:
        """Make these rows known; or say which others must be known first."""
        import pyarrow as pa

        known_ids, known = self._known.get(commits, (set(), self._none))
        missing = pa.array([id for id in ids.to_pylist() if id not in known_ids], pa.utf8())
        merged = self._in_commit(commits[0], missing)
        for count, commit in enumerate(commits[1:], 2):
            other = self._in_commit(commit, missing)
            compared = ThreeWay(self._entity, missing, base=self._none, theirs=other, ours=merged)
            disputed = missing.filter(pa.array(~compared.is_same))
            if len(disputed):
                older = self._common_ancestors(commits[:count])
                base = self._older_rows(older, disputed)
                if base is None:
                    return older, disputed
                settled = ThreeWay(self._entity, disputed, base=base, theirs=other, ours=merged).merged()
                merged = merged.replaced(disputed, settled)
        self._known[commits] = (known_ids.union(missing.to_pylist()), known.replaced(missing, merged))
        return None

    def _older_rows(self, commits: Commits, ids: pa.Array) -> Rows | None:
        """None: not known yet."""
        import pyarrow as pa

        if not commits:
            schema = doubts_schema(self._entity)
            in_doubt = [pa.repeat(True, len(ids))] * (len(schema) - 1)
            return Rows(self._none.values, pa.table([ids, *in_doubt], schema=schema))
        known_ids, known = self._known.get(commits, (set[str](), self._none))
        return known.only(ids) if known_ids.issuperset(ids.to_pylist()) else None

    def _common_ancestors(self, commits: Commits) -> Commits:
        """The best ones of the last commit and the others merged; none where the history before them was swept."""
        if commits not in self._ancestors:
            lineage = self._repository.history.lineage
            try:
                entries = [lineage.entry_of(commit.ref) for commit in commits]
                reached = [lineage.reached_at(entry, c.ref) for entry, c in zip(entries, commits, strict=True)]
                others: dict[str, int] = {}
                for each in reached[:-1]:
                    others |= {name: max(seq, others.get(name, -1)) for name, seq in each.items()}
                self._ancestors[commits] = tuple(lineage.common_ancestors(others, reached[-1], entries))
            except HistoryGap:
                self._ancestors[commits] = ()
        return self._ancestors[commits]

    def _in_commit(self, commit: Commit, ids: pa.Array) -> Rows:
        view = self._repository.view(self._repository.history.revisions.snapshot(commit.ref))
        stored = type_rows(view, self._entity.id)
        if stored is None or stored.table is None:
            return self._none
        rows = stored.table.lookup("id", ids.to_pylist())
        return Rows.of(project(rows, stored.entity, self._entity), self._entity)
