"""Values that a commit lost and its files still hold: the merge or the load that made it left out a column of a property."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import Damaged
from omnigraph.history import Snapshot, TableState
from omnigraph.pipeline.verify.chains import RetainedCommit
from omnigraph.pipeline.verify.findings import Finding, newest_of
from omnigraph.tables import Staged, Table
from omnigraph.tables.lost_values import rows_with, without_addresses
from omnigraph.views import Repository

if TYPE_CHECKING:
    import pyarrow as pa

BRING_BACK = "'omnigraph repair --deep --yes' brings them back, in a new commit"


@dataclass(frozen=True)
class LostValues:
    """Values that the head of a branch lacks, of one type. `commits`: those that lost them."""

    key: str
    commits: tuple[str, ...]
    rows: int
    properties: tuple[str, ...]

    def finding(self) -> Finding:
        name = self.key.partition(":")[2]
        lost = ", ".join(f"{name}.{property}" for property in self.properties)
        problem = f"{self.rows} entities lack a value of {lost} that commit {self.commits[0]} lost"
        count, commits = len(self.commits), newest_of(self.commits)
        return Finding("lost_values", "type", name, problem, BRING_BACK, commits, count, (name,), self.rows)


States = Mapping[str, Sequence[tuple[str, TableState]]]
"""By the path of a table: its states in the commits of a branch, each with the oldest commit that has it, oldest first."""


def states_by_path(commits: Iterable[RetainedCommit]) -> States:
    by_path: dict[str, dict[tuple[str, int], tuple[str, TableState]]] = {}
    for commit in commits:
        for state in commit.tables.values():
            if state is not None:
                by_path.setdefault(state.path, {}).setdefault((state.path, state.version), (commit.ref.id, state))
    return {path: list(states.values()) for path, states in by_path.items()}


def lost_values(repository: Repository, head: Snapshot, states: States) -> Iterator[LostValues]:
    """What the commits of a branch lost and its head does not have."""
    view = repository.view(head)
    tables = {key: view.table(key) for key in view.catalog.tables} if view.catalog.is_evolved else {}
    for key, table in tables.items():
        if table is None:
            continue
        rows, commits, properties = 0, dict[str, None](), dict[str, None]()
        for commit, values in _lost(repository, table, states):
            if gained := rows_with(table, values).num_rows:
                rows += gained
                commits[commit] = None
                properties |= dict.fromkeys(values.column_names[1:])
        if rows:
            yield LostValues(key, tuple(commits), rows, tuple(properties))


def with_lost_values(repository: Repository, head: Snapshot, key: str, states: States) -> list[Staged]:
    """Versions of a type's table with what the commits of a branch lost; the last has all of it."""
    view, staged = repository.view(head), list[Staged]()
    table = view.table(key)
    assert table is not None, "a type without rows has lost none"
    for _, values in _lost(repository, table, states):
        rows = rows_with(table, values)
        if rows.num_rows:
            restored, addresses = without_addresses(rows)
            staged.append(repository.tables.stage(table, rows=restored, remove=addresses, fold=False))
            table = view.staged(key, staged[-1].path, staged[-1].version)
    return staged


def _lost(repository: Repository, head: Table, states: States) -> Iterator[tuple[str, pa.Table]]:
    """The values that commits lost, as the head's schema has them, with the oldest commit that did. Each file counts once."""
    seen = set[tuple[str, ...]]()
    for commit, state in states.get(head.path, ()):
        try:
            table = repository.tables.open(state.path, state.version, state.digest, layout=head.layout)
            for files, values in repository.tables.lost_values(table):
                if files not in seen:
                    seen.add(files)
                    yield commit, values
        except Damaged:
            continue  # It has a finding of its own.
