"""A graph for tests of history: tables that are only names and numbers, ids and time in the test's hand."""

from __future__ import annotations

import itertools
from dataclasses import replace

from omnigraph.history.history import History
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import Commit, CommitRef, Entry, Snapshot, TableState
from omnigraph.storage.options import open_store
from omnigraph.storage.store import Store
from omnigraph.testing.stores import CountingStore
from omnigraph.write.publishing import Write, publish, publish_group

_versions = itertools.count(1)


class Clock:
    def __init__(self) -> None:
        self.now = 2_000_000_000.0

    def __call__(self) -> float:
        self.now += 0.001
        return self.now


class Ids:
    """Ids that look like ULIDs and sort by age."""

    def __init__(self, prefix: str = "0") -> None:
        self.numbers = itertools.count(1)
        self.prefix = prefix

    def __call__(self) -> str:
        return f"{self.prefix}{next(self.numbers):025d}"


class SmallGraph:
    """One process's view of a graph. `again()` is another process."""

    def __init__(self, store: Store | None = None, *, max_tail: int = 64, clock: Clock | None = None) -> None:
        self.store = CountingStore(store or open_store("memory://"))
        self.clock = clock or Clock()
        self.max_tail = max_tail
        self.ids = Ids()
        made = History.create(self.store, b"{}", new_id=self.ids, wall_clock=self.clock)
        self.history = self._open(made.identity)

    def _open(self, identity: object) -> History:
        return History(
            self.store,
            identity,  # type: ignore[arg-type]
            new_id=self.ids,
            wall_clock=self.clock,
            uptime=self.clock,
            sleep=lambda _: None,
            jitter=lambda: 0.5,
            max_tail=self.max_tail,
        )

    def again(self) -> SmallGraph:
        other = object.__new__(SmallGraph)
        other.__dict__.update(self.__dict__)
        other.history = self._open(self.history.identity)
        return other

    def head(self, branch: str = "main") -> Entry:
        return self.history.chain.head(branch)

    def plan(self, branch: str = "main", table: str = "node:P", mode: str = "insert", **extra: object) -> PublishPlan:
        head = self.head(branch)
        before = head.head.table(table)
        return replace(
            PublishPlan(
                commit_id=self.ids(),
                branch=branch,
                incarnation=head.incarnation,
                base=head.head.commit.ref,
                schema=head.head.schema,
                changes=(TableChange(table, mode, before, following(before)),),  # type: ignore[arg-type]
            ),
            **extra,  # type: ignore[arg-type]
        )

    def opening_plan(self, branch: str, source: Entry | None = None, **extra: object) -> PublishPlan:
        """A plan that makes its branch."""
        opening = self.history.branches.opening(branch, source or self.head(), self.ids())
        before = opening.before.table("node:P")
        return replace(
            PublishPlan(
                commit_id=opening.id,
                branch=branch,
                incarnation=opening.incarnation,
                base=opening.before.commit.ref,
                schema=opening.before.schema,
                changes=(TableChange("node:P", "insert", before, following(before)),),
                opening=opening,
            ),
            **extra,  # type: ignore[arg-type]
        )

    def commit(self, branch: str = "main", table: str = "node:P", **extra: object) -> Commit:
        return publish(self.history, self.plan(branch, table, **extra))

    def commits(self, count: int, branch: str = "main") -> list[Commit]:
        return [self.commit(branch) for _ in range(count)]

    def group(self, count: int, branch: str = "main") -> list[Commit]:
        """Several commits in one entry, of tables of their own."""
        members = [Write(self.plan(branch, f"node:G{number}")) for number in range(count)]
        outcomes = publish_group(self.history, members)
        return [outcome for outcome in outcomes if isinstance(outcome, Commit)]

    def branch(self, name: str, source: str = "main", at: Snapshot | None = None) -> Entry:
        entry = self.head(source) if at is None else self.history.revisions.entry(at.commit.id)
        return self.history.branches.create(name, entry)

    def merge(self, source: str, target: str) -> Commit:
        merged: CommitRef = self.head(source).head.commit.ref
        return self.commit(target, kind="merge", merged=merged)


def following(before: TableState | None) -> TableState:
    generation, rows = (before.generation, before.rows) if before else (0, 0)
    return TableState("nodes/P", next(_versions), generation + 1, rows + 1)


def reapply(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
    """A rebase that puts the same changes on what is there now."""
    changes = []
    for change in plan.changes:
        now = snapshot.table(change.key)
        changes.append(replace(change, base=now, state=following(now)))
    return replace(plan, changes=tuple(changes))
