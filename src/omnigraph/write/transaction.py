"""A transaction: statements against one pinned snapshot, seeing their own effects, published once or not at all.

A transaction that has read the branch is a function of the state it is published on. It remembers its statements and what each
returned to its caller. If a table that they read has changed by then, they are run again on the newest state: the write is as if
it had begun after the one that came first. Only if a statement would now return something else, so that the caller might have
decided differently, does it end with ExpectedVersionMismatch.
"""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from omnigraph._internal.caches import cached_property
from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import (
    BranchReplaced,
    ExpectedVersionMismatch,
    KeyConflict,
    OmnigraphError,
    PreconditionFailed,
    RecordError,
    UsageError,
)
from omnigraph.history.plan import check_attribution
from omnigraph.history.publish import SCHEMA
from omnigraph.history.values import Commit, CommitKind, Entry, WriteKey
from omnigraph.language.catalog import EdgeType, EntityType, NodeType
from omnigraph.language.projection import kind_of
from omnigraph.language.query.plan import Expression
from omnigraph.records.rows import edge_row, node_row, property_value
from omnigraph.snapshot import Repository, View
from omnigraph.write.constraints import stage_versions, superseded_addresses, write_rows
from omnigraph.write.group import GroupCommitter
from omnigraph.write.inlining import Delta, bounds
from omnigraph.write.pending import Matcher, Pending, Row
from omnigraph.write.receipt import Receipt
from omnigraph.write.row_write import Rerun, RowWrite, prepare_write

Result = TypeVar("Result")


class _Added(NamedTuple):
    """A row that was inserted. It depends on no row of the branch."""

    entity: EntityType
    row: Row
    fresh: bool
    strict: bool


class _Statement(NamedTuple):
    """A statement that has read the branch."""

    run: Callable[[WriteTransaction], Any]
    compare: Callable[[Any], object] | None
    digest: bytes | None
    """Of what the caller learned; None if it learned nothing."""
    table_key: str
    entity_id: str | None
    ids: tuple[str, ...]
    """The ids that were generated for its rows: they are the same when it runs again."""


class WriteTransaction:
    """Pins the branch's head when it begins, or the state `at`. Must not be shared between threads.

    A head that this process has seen recently is used without a request: for a write that only adds rows, creating the next entry
    shows whether it was the newest. The first read of the branch makes sure of it (`confirm`), and so does every refusal. It was
    the newest if this process has created the next entry, or if there is none.

    Errors before the publish leave nothing behind but staged files that no commit names.
    """

    def __init__(
        self,
        repository: Repository,
        committer: GroupCommitter,
        branch: str = "main",
        *,
        actor: str | None = None,
        message: str | None = None,
        if_commit: str | None = None,
        at: tuple[Entry, View] | None = None,
        kind: CommitKind = "mutation",
    ) -> None:
        check_attribution(actor, message)
        self.repository = repository
        self.committer = committer
        self.branch = branch
        self.actor = actor
        self.message = message
        self.if_commit = if_commit
        self.kind = kind
        assumed = None if at is not None else repository.assumed_head(branch)
        self._is_confirmed = assumed is None
        self.entry, self.view = at or assumed or repository.head(branch)
        self.catalog = self.view.catalog
        self._pending: dict[str, Pending] = {}
        self._statements: list[_Added | _Statement] = []
        self._deltas: tuple[tuple[int, str], dict[str, Delta]] | None = None
        """Made of so many statements, under this schema."""
        self._reads: set[str] = set()
        """The tables that its statements have read."""
        self._runs_statement = False
        self._reused_ids: list[str] = []
        self._finished = False
        self._published = self
        """This transaction, or the last rerun of it."""
        self._new_ids: list[str] = []
        """Of the statement that is running."""
        self._receipt: Receipt | None = None

    @cached_property
    def now(self) -> dt.datetime:
        """What `now()` is in all its statements."""
        return dt.datetime.now(dt.UTC).replace(tzinfo=None)

    def confirm(self) -> bool:
        """Make sure that the pinned head is the branch's newest, or pin the newest; returns whether the pinned head has changed.

        ExpectedVersionMismatch if the schema has changed and there are pending rows of the old one.
        """
        if self._is_confirmed or self.repository.history.chain.has_created(self.branch, self.entry.position + 1):
            return False
        entry, view = self.repository.head(self.branch)
        self._is_confirmed = True
        if entry.id == self.entry.id:
            return False
        if view.snapshot.schema != self.view.snapshot.schema:
            if self._pending:
                versions = (side.snapshot.commit.ref.seq for side in (self.view, view))
                raise ExpectedVersionMismatch(SCHEMA, *versions)
            self.catalog = view.catalog
        self.entry, self.view = entry, view
        return True

    # ------------------------------------------------------------ statements

    def insert(self, type_name: str, values: Mapping[str, object] | None = None, /, **more: object) -> str:
        """Insert a node or edge; returns its id. KeyConflict at commit if the id exists. Edges take `from_` and `to` (node ids)."""
        return self._insert(type_name, {**(values or {}), **more}, strict=True)

    def upsert(self, type_name: str, values: Mapping[str, object] | None = None, /, **more: object) -> str:
        """Insert, or replace the whole row with the same id."""
        return self._insert(type_name, {**(values or {}), **more}, strict=False)

    def insert_many(
        self,
        type_name: str,
        rows: Iterable[Mapping[str, object]] | pa.Table | pa.RecordBatchReader,
        *,
        upsert: bool = False,
    ) -> int:
        """Insert many rows of one type, from dicts or Arrow; returns how many."""
        count = 0
        for count, record in enumerate(records(rows), 1):  # noqa: B007  # the last count is the result
            self._insert(type_name, record, strict=not upsert)
        return count

    def update(self, type_name: str, id: str, values: Mapping[str, object] | None = None, /, **more: object) -> bool:
        """Set properties of one node; False if there is no such node."""
        self.confirm()  # the type may have changed
        update = partial(WriteTransaction._update, type_name=type_name, id=id, values={**(values or {}), **more})
        return self.run(update, self._entity(type_name, NodeType).table_key, id)

    def _update(self, type_name: str, id: str, values: Mapping[str, object]) -> bool:
        node = self._entity(type_name, NodeType)
        row, is_pending = self._find(node, id)
        if row is None:
            return False
        self.apply_update(node, row, values, is_pending=is_pending)
        return True

    def delete(self, type_name: str, id: str) -> bool:
        """Delete one node with its edges, or one edge; False if there is none."""
        self.confirm()  # the type may have changed
        delete = partial(WriteTransaction._delete, type_name=type_name, id=id)
        return self.run(delete, self._entity(type_name, NodeType, EdgeType).table_key, id)

    def _delete(self, type_name: str, id: str) -> bool:
        entity = self._entity(type_name, NodeType, EdgeType)
        row, is_pending = self._find(entity, id)
        if row is None:
            return False
        self.apply_delete(entity, [] if is_pending else [row], [row] if is_pending else [])
        return True

    def get(self, type_name: str, id: str) -> Row | None:
        """One entity as this transaction sees it."""
        self.confirm()  # the type may have changed
        get = partial(WriteTransaction._get, type_name=type_name, id=id)
        return self.run(get, self._entity(type_name, NodeType, EdgeType).table_key, id)

    def _get(self, type_name: str, id: str) -> Row | None:
        row, _ = self._find(self._entity(type_name, NodeType, EdgeType), id)
        return None if row is None else dict(row)

    # ------------------------------------------------------------ statements that can be run again

    def run(
        self,
        statement: Callable[[WriteTransaction], Result],
        table_key: str = "",
        entity_id: str | None = None,
        *,
        compare: Callable[[Result], object] | None = None,
    ) -> Result:
        """Run a statement that reads the branch, and remember it with what its caller learns: the result, or what `compare` makes
        of it."""
        result, digest = self._run(statement, compare)
        ids = tuple(self._new_ids)
        self._statements.append(_Statement(statement, compare, digest, table_key, entity_id, ids))
        return result

    def _run(
        self, statement: Callable[[WriteTransaction], Result], compare: Callable[[Result], object] | None
    ) -> tuple[Result, bytes | None]:
        first = len(self._statements)
        self._runs_statement, self._new_ids = True, []
        try:
            result = statement(self)
        finally:
            self._runs_statement = False
            del self._statements[first:]
        learned = result if compare is None else compare(result)
        return result, None if learned is None else hashlib.sha256(repr(learned).encode()).digest()

    def rerun(self, view: View) -> WriteTransaction:
        """The same statements on a newer state. ExpectedVersionMismatch if one of them would return something else, or if rows
        were inserted under another schema."""
        again = WriteTransaction(
            self.repository, self.committer, self.branch, actor=self.actor, message=self.message, at=(self.entry, view)
        )
        again.now = self.now
        for statement in self._statements:
            if isinstance(statement, _Added):
                if again.catalog.tables.get(statement.entity.table_key) != statement.entity:
                    raise self._overtaken(SCHEMA, view)
                again.add(statement.entity, statement.row, fresh=statement.fresh, strict=statement.strict)
                continue
            again._reused_ids = [*reversed(statement.ids)]
            if again._run(statement.run, statement.compare)[1] != statement.digest:
                raise self._overtaken(statement.table_key, view, statement.entity_id)
        return again

    def _overtaken(self, key: str, view: View, entity_id: str | None = None) -> ExpectedVersionMismatch:
        before, now = self.view.snapshot, view.snapshot
        if key == SCHEMA or not key:
            return ExpectedVersionMismatch(key or "branch", before.commit.ref.seq, now.commit.ref.seq)
        versions = (state.generation if state else 0 for state in (before.table(key), now.table(key)))
        return ExpectedVersionMismatch(key, *versions, entity_id=entity_id)

    def new_id(self) -> str:
        """An id for a new row."""
        if not self._runs_statement:
            return self.repository.history.new_id()
        id = self._reused_ids.pop() if self._reused_ids else self.repository.history.new_id()
        self._new_ids.append(id)
        return id

    # ------------------------------------------------------------ pieces that mutations share

    def pending(self, entity: EntityType) -> Pending:
        if self._finished:
            raise UsageError("this transaction has ended", hint="begin another one")
        pending = self._pending.get(entity.table_key)
        if pending is None:
            pending = self._pending[entity.table_key] = Pending(entity)
        return pending

    def apply_update(self, node: NodeType, row: Row, values: Mapping[str, object], *, is_pending: bool) -> None:
        new = dict(row)
        for name, value in values.items():
            if name not in node.properties:
                raise RecordError(
                    f"unknown property '{name}' on {node.name}",
                    type_name=node.name,
                    property=name,
                    entity_id=row["id"],
                    value=value,
                )
            if name in node.key:
                raise UsageError(
                    f"{node.name}.{name} is part of the key and cannot be changed",
                    hint="delete the node and insert it again",
                )
            new[name] = property_value(node, node.properties[name], value, row["id"])
        self.pending(node).update(row, new, assigned=values.keys(), is_pending=is_pending)

    def apply_delete(self, entity: EntityType, committed: list[Row], own: list[Row]) -> None:
        """Delete rows of the branch and rows of this transaction; a node is deleted with its edges."""
        self.reads(entity.table_key)
        pending = self.pending(entity)
        beneath = self._beneath(entity, [row["id"] for row in own])
        for row in own:
            pending.delete(row["id"], beneath.get(row["id"]))
        for row in committed:
            pending.delete(row["id"], row)
        if isinstance(entity, NodeType):
            self._cascade(entity, [row["id"] for row in (*committed, *own)])

    def _beneath(self, entity: EntityType, ids: list[str]) -> dict[str, Row]:
        """The branch's rows with the ids of pending rows that are about to be deleted and were written without reading the
        branch.

        KeyConflict if one of these was a strict insert, even though it is deleted again.
        """
        pending = self.pending(entity)
        table = self.view.table(entity.table_key)
        uncertain = pending.uncertain(ids)
        if table is None or not uncertain:
            return {}
        committed = {row["id"]: row for row in table.lookup("id", uncertain).to_pylist()}
        for id in sorted(pending.strict & committed.keys()):
            raise KeyConflict(entity.name, id, entity_kind=kind_of(entity))
        return committed

    def _cascade(self, node: NodeType, ids: list[str]) -> None:
        """Delete every edge at these nodes, committed and pending."""
        gone = set(ids)
        for edge in self.view.catalog.edges_of(node.name) if ids else ():
            self.reads(edge.table_key)
            ends = [end for end, type in (("src", edge.source), ("dst", edge.target)) if type == node.name]
            pending = self._pending.get(edge.table_key) or Pending(edge)
            own = [row for row in pending.rows.values() if any(row[end] in gone for end in ends)]
            committed: dict[str, Row] = {}
            table = self.view.table(edge.table_key)
            for end in ends if table is not None else ():
                assert table is not None
                edges = table.lookup(end, ids).to_pylist()
                committed.update({row["id"]: row for row in edges if row["id"] not in pending.hides()})
            if own or committed:
                self.apply_delete(edge, list(committed.values()), own)

    def insert_edge(
        self, type_name: str, source: object, target: object, values: Mapping[str, object], *, strict: bool = True
    ) -> str:
        edge: EdgeType = self._entity(type_name, EdgeType)
        row = edge_row(self.catalog, edge, source, target, values, self.new_id)
        return self.add(edge, row, fresh="id" not in values and not edge.key, strict=strict)

    def _insert(self, type_name: str, values: Mapping[str, object], *, strict: bool) -> str:
        try:
            return self._inserted(type_name, values, strict)
        except OmnigraphError:
            if not self.confirm():
                raise
            return self._inserted(type_name, values, strict)

    def _inserted(self, type_name: str, data: Mapping[str, object], strict: bool) -> str:
        catalog = self.catalog
        word = "from_" if "from_" in data else "from"
        if type_name in catalog.families and (word in data or type_name not in catalog.nodes):
            type_name = catalog.member(type_name, data.get("from_type"), data.get("to_type")).name
            data = {name: value for name, value in data.items() if name not in ("from_type", "to_type")}
        if type_name in catalog.edges and (word in data or type_name not in catalog.nodes):
            values = {name: value for name, value in data.items() if name not in (word, "to")}
            return self.insert_edge(type_name, data.get(word), data.get("to"), values, strict=strict)
        node: NodeType = self._entity(type_name, NodeType)
        row = node_row(node, data, self.new_id)
        return self.add(node, row, fresh="id" not in data and not node.key, strict=strict)

    def add(self, entity: EntityType, row: Row, *, fresh: bool, strict: bool) -> str:
        """Add a typed row. `fresh`: its id is new; `strict`: its id must be free."""
        pending = self.pending(entity)
        if (fresh or strict) and row["id"] in pending.rows:
            hint = "this transaction has written it before; use an upsert"
            raise KeyConflict(entity.name, row["id"], entity_kind=kind_of(entity), hint=hint)
        pending.insert(row, fresh=fresh, strict=strict)
        self._statements.append(_Added(entity, row, fresh, strict))
        return str(row["id"])

    def _find(self, entity: EntityType, id: str) -> tuple[Row | None, bool]:
        self.reads(entity.table_key)
        pending = self.pending(entity)
        if id in pending.rows:
            return pending.rows[id], True
        table = self.view.table(entity.table_key)
        if id in pending.removed or table is None:
            return None, False
        rows = table.lookup("id", [id]).to_pylist()
        return (rows[0] if rows else None), False

    def _entity(self, name: str, *kinds: type[NodeType] | type[EdgeType]) -> Any:
        catalog = self.catalog
        entity: EntityType | None = None
        if NodeType in kinds:
            entity = catalog.nodes.get(name)
        if entity is None and EdgeType in kinds:
            entity = catalog.edges.get(name)
        if entity is None:
            raise RecordError(
                f"'{name}' is not a type of this graph", type_name=name, hint=f"types: {_names(self.view)}"
            )
        return entity

    def reads(self, *tables: str) -> None:
        """Note that a statement depends on rows of these tables. The first read makes sure of the pinned head."""
        assert self._runs_statement, "only a statement that can be run again may read the branch"
        self._reads.update(tables)
        self.confirm()

    def matcher(self, parameters: Mapping[str, object]) -> Matcher:
        return Matcher(self.view, parameters, self.now)

    def matches(self, entity: EntityType, where: Expression, matcher: Matcher) -> tuple[list[Row], list[Row]]:
        self.reads(entity.table_key)
        return matcher.matches(entity.table_key, where, self.pending(entity))

    # ------------------------------------------------------------ reading and publishing

    def preview(self, tables: Iterable[str]) -> View:
        """The graph as this transaction sees it, for a read of these tables: its changes are in states of tables that no commit
        names."""
        self.reads(*tables)
        deltas = self.deltas(self.view.schema)
        if not deltas:
            return self.view
        addresses = superseded_addresses(self.view, deltas)
        fragments = write_rows(self.view, deltas)
        # These versions need not be durable: only this transaction reads them.
        staged = stage_versions(self.view, deltas, addresses, fragments)
        tables = dict(self.view.snapshot.tables)
        tables.update({change.key: change.state for change, _ in staged if change.state is not None})
        return self.repository.view(replace(self.view.snapshot, tables=tables))

    def deltas(self, schema_of: Callable[[str], pa.Schema]) -> dict[str, Delta]:
        """The changes to each table, as rows of these schemas, with the vectors of their texts."""
        for pending in self._pending.values():
            pending.fill(self.repository.filling)
        deltas = {key: pending.delta(schema_of(key)) for key, pending in self._pending.items()}
        return {key: delta for key, delta in deltas.items() if not delta.is_empty}

    @property
    def is_small(self) -> bool:
        """Whether all its rows would be inline."""
        return not bounds().too_large(self._own_deltas(), self.view)

    def removed_counts(self) -> dict[str, int]:
        """How many rows of the branch it removes, by table."""
        return {key: len(pending.removed) for key, pending in self._pending.items() if pending.removed}

    def commit(self, once: WriteKey | None = None, *, commits_empty: bool = True) -> Receipt:
        """Check everything, stage and publish. Called once; a transaction that changed nothing publishes nothing.

        Under a write key it publishes a commit unless the branch has one under that key; with `keeps_nothing`, even if nothing
        changed.
        """
        if self._finished:
            raise UsageError("this transaction has ended", hint="begin another one")
        self._finished = True
        if once is not None:
            commit = self.repository.history.keys.committed(once, self.entry)
            if commit is not None:
                return self._repeated(commit)
            self.check_precondition()
        deltas = self._own_deltas()
        commit, commits_empty = None, once is not None and commits_empty
        superseded: Mapping[int, Collection[str]] = {}
        if deltas or commits_empty:
            try:
                write = self._prepared(deltas, once, commits_empty)
            except OmnigraphError:
                if not self.confirm():
                    raise
                write = self._prepared(deltas, once, commits_empty)
            try:
                commit = self.committer.publish(write)
            except (ExpectedVersionMismatch, PreconditionFailed, BranchReplaced):
                write.check()  # A write that is wrong in itself would be refused again: that error is more useful.
                raise
            if commit is not None and commit.id != write.plan.commit_id:
                return self._repeated(commit)
            superseded = write.superseded
        types = {
            key: pending.counts(superseded.get(pending.entity.id, ()))
            for key, pending in self._published._pending.items()
        }
        self._receipt = Receipt(self.branch, commit, types, self.actor)
        return self._receipt

    def _own_deltas(self) -> dict[str, Delta]:
        """What it changes. Changes of rows that were read are made again on a newer state, by running the statements again."""
        made_for = (len(self._statements), self.view.snapshot.schema)
        if self._deltas is None or self._deltas[0] != made_for:
            deltas = self.deltas(self.view.schema)
            rerun = {key: replace(delta, mode="rerun") for key, delta in deltas.items() if delta.mode == "strict"}
            self._deltas = made_for, {**deltas, **rerun}
        return self._deltas[1]

    def _rerun_deltas(self, view: View) -> dict[str, Delta]:
        self._published = self.rerun(view)
        return self._published._own_deltas()

    def _prepared(self, deltas: Mapping[str, Delta], once: WriteKey | None, commits_empty: bool) -> RowWrite:
        return prepare_write(
            self.view,
            self.entry,
            deltas,
            actor=self.actor,
            message=self.message,
            if_commit=self.if_commit,
            once=once,
            rerun=Rerun(self._rerun_deltas, frozenset(self._reads), commits_empty) if self._reads else None,
            kind=self.kind,
        )

    def _repeated(self, commit: Commit) -> Receipt:
        self._receipt = Receipt(self.branch, commit, {}, commit.actor, repeated=True)
        return self._receipt

    def check_precondition(self) -> None:
        """PreconditionFailed if the branch was not at the expected commit when the transaction began."""
        if self.if_commit is not None and self.view.snapshot.commit.id != self.if_commit:
            self.confirm()
        head = self.view.snapshot.commit.id
        if self.if_commit is not None and head != self.if_commit:
            raise PreconditionFailed(self.branch, self.if_commit, head)


def records(rows: Any) -> Iterator[Mapping[str, object]]:
    """Rows from dicts or Arrow; UsageError for anything else."""
    if hasattr(rows, "to_pylist"):
        yield from rows.to_pylist()
        return
    if not isinstance(rows, Iterable) or isinstance(rows, str | bytes | Mapping):
        raise UsageError(f"'rows' must be a list of mappings or Arrow, got {type(rows).__name__}")
    for item in rows:
        if hasattr(item, "to_pylist"):
            yield from item.to_pylist()
        elif isinstance(item, Mapping):
            yield item
        else:
            raise UsageError(f"'rows' must be a list of mappings or Arrow, got {type(item).__name__} in it")


def _names(view: View) -> str:
    names = sorted([*view.catalog.nodes, *view.catalog.edges])
    return ", ".join(names[:20]) + (" ..." if len(names) > 20 else "")
