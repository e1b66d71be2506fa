"""Reading chains of commits: which table states each retained commit has, and which objects its entry names.

Entries are read in ranges, each by a task. What is kept of them is what they changed, so that a long history with many
tables stays small.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest

from omnigraph.errors import Damaged, HistoryGap
from omnigraph.history import CommitRef, Entry, Snapshot, TableState, new_ulid
from omnigraph.history.chain import Chain, key_of
from omnigraph.history.genesis import GRAPH_KEY
from omnigraph.history.log import Log
from omnigraph.maintenance.reachable import entry_snapshots, history_objects
from omnigraph.pipeline.target import Address

RANGE_ENTRIES = 256
"""Entries that one task reads."""


@dataclass(frozen=True)
class EntryRange:
    """A task: entries of one branch, oldest first."""

    address: Address
    branch: str
    positions: tuple[int, ...]


@dataclass(frozen=True)
class RetainedCommit:
    """A commit, and what is different in it from the one before it in its run; in the first of a run, everything."""

    ref: CommitRef
    tables: Mapping[str, TableState | None]
    starts_run: bool = False


@dataclass
class ChainFacts:
    """What some entries say. `named`: the objects they name, and of each branch the position of the newest entry that does."""

    commits: list[RetainedCommit] = field(default_factory=list)
    named: dict[str, dict[str, int]] = field(default_factory=dict)
    damage: list[Damaged] = field(default_factory=list)
    entries: int = 0

    def add(self, other: ChainFacts) -> None:
        self.commits += other.commits
        for name, places in other.named.items():
            for branch, position in places.items():
                self.name(name, branch, position)
        self.damage += other.damage
        self.entries += other.entries

    def name(self, name: str, branch: str, position: int) -> None:
        places = self.named.setdefault(name, {})
        places[branch] = max(position, places.get(branch, 0))

    def states(self) -> dict[TableState, str]:
        """Every state of a table that some commit has, with the key of its type."""
        return {state: key for commit in self.commits for key, state in commit.tables.items() if state is not None}

    def uses(self, wanted: set[TableState]) -> Iterator[tuple[CommitRef, str, TableState]]:
        """Each commit that has one of these states, with the type."""
        current: dict[str, TableState] = {}
        for commit in self.commits:
            if commit.starts_run:
                current = {}
            for key, state in commit.tables.items():
                current.pop(key, None)
                if state is not None and state in wanted:
                    current[key] = state
            for key, state in current.items():
                yield commit.ref, key, state


def ranges(address: Address, branch: str, positions: Sequence[int]) -> list[EntryRange]:
    return [
        EntryRange(address, branch, tuple(positions[start : start + RANGE_ENTRIES]))
        for start in range(0, len(positions), RANGE_ENTRIES)
    ]


def read_range(task: EntryRange) -> ChainFacts:
    store = task.address.store
    chain = Chain(store, Log(store, new_ulid), clock=time.time)
    facts = ChainFacts()
    before: Entry | None = None
    for position in task.positions:
        try:
            entry = chain.read(task.branch, position)
        except HistoryGap:
            before = None  # Swept meanwhile.
            continue
        except Damaged as damage:
            facts.damage.append(damage)
            before = None
            continue
        facts.entries += 1
        follows = before is not None and before.position + 1 == position and before.incarnation == entry.incarnation
        _note(facts, entry, follows)
        before = entry
    return facts


def _note(facts: ChainFacts, entry: Entry, follows: bool) -> None:
    shown = entry_snapshots(entry)
    for number, (snapshot, step) in enumerate(zip_longest(shown, entry.steps)):
        if step is None or (number == 0 and not follows):
            facts.commits.append(whole_commit(snapshot))
        else:
            facts.commits.append(RetainedCommit(step.commit.ref, step.tables))
    for name in history_objects(entry) - {GRAPH_KEY, key_of(entry.branch, entry.position)}:
        facts.name(name, entry.branch, entry.position)


def whole_commit(snapshot: Snapshot) -> RetainedCommit:
    return RetainedCommit(snapshot.commit.ref, dict(snapshot.tables), starts_run=True)
