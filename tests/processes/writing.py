"""A small writer over history and tables: what the processes of these tests do to a graph."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from omnigraph.history.history import History, new_ulid
from omnigraph.history.plan import PublishPlan, TableChange
from omnigraph.history.values import Commit, Snapshot, TableState
from omnigraph.storage.options import open_store
from omnigraph.write.publishing import publish

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.tables.staging import Staged
    from omnigraph.tables.store import Tables
    from omnigraph.tables.table import Table


def schema() -> pa.Schema:
    import pyarrow as pa

    return pa.schema([pa.field("id", pa.string(), nullable=False), ("n", pa.int64())])


def rows_of(numbers: Sequence[int], ids: Sequence[str] | None = None) -> pa.Table:
    import pyarrow as pa

    return pa.table({"id": ids or [f"e{number}" for number in numbers], "n": list(numbers)}, schema=schema())


class Writer:
    """One process's way into a graph."""

    def __init__(self, uri: str, options: Mapping[str, str] | None = None, *, max_tail: int = 64) -> None:
        self.store = open_store(uri, storage_options=options)
        opened = History.open(self.store)
        self.history = History(self.store, opened.identity, max_tail=max_tail)
        self._options = options
        self._tables: Tables | None = None

    @property
    def tables(self) -> Tables:
        """Loaded on demand: a process that only moves commits needs no tables."""
        if self._tables is None:
            from omnigraph.tables.store import Tables

            self._tables = Tables(self.store.uri, storage_options=self._options)
        return self._tables

    def append(self, key: str, numbers: Sequence[int], branch: str = "main") -> Commit:
        """Insert rows; when somebody else was first, the same data goes on the new version."""
        snapshot, incarnation = self._snapshot(branch)
        base = self._table(snapshot.table(key), key)
        staged = self.tables.stage(base, rows=rows_of(numbers))
        return self._publish(snapshot, incarnation, branch, self._change(key, "insert", snapshot, staged))

    def increment(self, key: str, entity: str, branch: str = "main") -> tuple[int, Commit]:
        """Read one row and write it back one higher, strictly: the value written and its commit, or a typed conflict."""
        snapshot, incarnation = self._snapshot(branch)
        base = self._table(snapshot.table(key), key)
        found = base.lookup("id", [entity], with_address=True)
        value = found["n"][0].as_py() + 1
        row = rows_of([value], [entity])
        staged = self.tables.stage(base, rows=row, remove=found["_rowaddr"].to_pylist())
        return value, self._publish(snapshot, incarnation, branch, self._change(key, "strict", snapshot, staged))

    def remove(self, key: str, numbers: Sequence[int]) -> Commit:
        snapshot, incarnation = self._snapshot("main")
        base = self._table(snapshot.table(key), key)
        found = base.lookup("n", list(numbers), ["n"], with_address=True)
        staged = self.tables.stage(base, remove=found["_rowaddr"].to_pylist())
        return self._publish(snapshot, incarnation, "main", self._change(key, "strict", snapshot, staged))

    def index(self, key: str, column: str) -> Commit:
        from omnigraph.tables.indexes import IndexSpec

        snapshot, incarnation = self._snapshot("main")
        staged = self.tables.stage_index(self._table(snapshot.table(key), key), [IndexSpec(column, "BTREE")])
        assert staged is not None
        return self._publish(snapshot, incarnation, "main", self._change(key, "strict", snapshot, staged))

    def plan(self, key: str, numbers: Sequence[int]) -> PublishPlan:
        """A staged append, not published."""
        snapshot, incarnation = self._snapshot("main")
        staged = self.tables.stage(self._table(snapshot.table(key), key), rows=rows_of(numbers))
        self.tables.sync([staged])
        return self._plan(snapshot, incarnation, "main", self._change(key, "insert", snapshot, staged))

    def opening_plan(self, key: str, numbers: Sequence[int], branch: str) -> PublishPlan:
        """A staged append that makes its branch, not published."""
        opening = self.history.branches.opening(branch, self.history.chain.head("main"), new_ulid())
        snapshot = opening.before
        staged = self.tables.stage(self._table(snapshot.table(key), key), rows=rows_of(numbers))
        self.tables.sync([staged])
        change = self._change(key, "insert", snapshot, staged)
        plan = self._plan(snapshot, opening.incarnation, branch, change)
        return replace(plan, commit_id=opening.id, opening=opening)

    def numbers(self, key: str, snapshot: Snapshot) -> list[int]:
        state = snapshot.table(key)
        return [] if state is None else sorted(self._table(state, key).read(["n"])["n"].to_pylist())

    # ------------------------------------------------------------

    def _snapshot(self, branch: str) -> tuple[Snapshot, str]:
        head = self.history.chain.head(branch)
        return head.head, head.incarnation

    def _table(self, state: TableState | None, key: str) -> Table:
        if state is None:
            return self.tables.create(path_of(key), schema())
        return self.tables.open(state.path, state.version)

    def _change(self, key: str, mode: str, snapshot: Snapshot, staged: Staged) -> TableChange:
        before = snapshot.table(key)
        after = TableState(staged.path, staged.version, (before.generation if before else 0) + 1, staged.rows)
        return TableChange(key, mode, before, after, asdict(staged))  # type: ignore[arg-type]

    def _plan(self, snapshot: Snapshot, incarnation: str, branch: str, change: TableChange) -> PublishPlan:
        return PublishPlan(new_ulid(), branch, incarnation, snapshot.commit.ref, snapshot.schema, (change,))

    def _publish(self, snapshot: Snapshot, incarnation: str, branch: str, change: TableChange) -> Commit:
        from omnigraph.tables.staging import Staged

        self.tables.sync([Staged(**change.staged)])
        return publish(self.history, self._plan(snapshot, incarnation, branch, change), self.rebase)

    def rebase(self, plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        changes = []
        for change in plan.changes:
            fragments = tuple(change.staged["fragments"])
            staged = self.tables.stage(self._table(snapshot.table(change.key), change.key), fragments=fragments)
            self.tables.sync([staged])
            changes.append(self._change(change.key, change.mode, snapshot, staged))
        return replace(plan, changes=tuple(changes))


def path_of(key: str) -> str:
    return f"nodes/{key.partition(':')[2]}-1"
