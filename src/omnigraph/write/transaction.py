"""A transaction: statements against one pinned snapshot, seeing their own effects, published once or not at all."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from omnigraph.cached import cached_property
from omnigraph.errors import (
    BranchReplaced,
    ExpectedVersionMismatch,
    KeyConflict,
    OmnigraphError,
    PreconditionFailed,
    RecordError,
    UsageError,
)
from omnigraph.history import SCHEMA, Commit, Entry, WriteKey, check_attribution
from omnigraph.language.catalog import EdgeType, EntityType, NodeType
from omnigraph.language.projection import kind_of
from omnigraph.language.query.plan import Expression
from omnigraph.records import edge_row, node_row, property_value
from omnigraph.views import Repository, View
from omnigraph.write.constraints import superseded_addresses
from omnigraph.write.delta import Delta
from omnigraph.write.group import GroupCommitter
from omnigraph.write.matching import Matcher, Row
from omnigraph.write.pending import Pending
from omnigraph.write.proposal import Proposal, propose
from omnigraph.write.receipt import Receipt
from omnigraph.write.staging import stage_versions, write_rows

if TYPE_CHECKING:
    import pyarrow as pa


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
    ) -> None:
        check_attribution(actor, message)
        self.repository = repository
        self.committer = committer
        self.branch = branch
        self.actor = actor
        self.message = message
        self.if_commit = if_commit
        assumed = None if at is not None else repository.assumed_head(branch)
        self._is_confirmed = assumed is None
        self.entry, self.view = at or assumed or repository.head(branch)
        self.catalog = self.view.catalog
        self._pending: dict[str, Pending] = {}
        self._relied_on: set[str] = set()
        self._finished = False
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
        node = self._entity(type_name, NodeType)
        row, is_pending = self._find(node, id)
        if row is None:
            return False
        self.apply_update(node, row, {**(values or {}), **more}, is_pending=is_pending)
        return True

    def delete(self, type_name: str, id: str) -> bool:
        """Delete one node with its edges, or one edge; False if there is none."""
        entity = self._entity(type_name, NodeType, EdgeType)
        row, is_pending = self._find(entity, id)
        if row is None:
            return False
        self.apply_delete(entity, [] if is_pending else [row], [row] if is_pending else [])
        return True

    def get(self, type_name: str, id: str) -> Row | None:
        """One entity as this transaction sees it."""
        row, _ = self._find(self._entity(type_name, NodeType, EdgeType), id)
        return None if row is None else dict(row)

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
        self.confirm()
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
        row = edge_row(self.catalog, edge, source, target, values, self.repository.history.new_id)
        return self._add(edge, row, fresh="id" not in values, strict=strict)

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
        if type_name in catalog.edges and (word in data or type_name not in catalog.nodes):
            values = {name: value for name, value in data.items() if name not in (word, "to")}
            return self.insert_edge(type_name, data.get(word), data.get("to"), values, strict=strict)
        node: NodeType = self._entity(type_name, NodeType)
        row = node_row(node, data, self.repository.history.new_id)
        return self._add(node, row, fresh="id" not in data and not node.key, strict=strict)

    def _add(self, entity: EntityType, row: Row, *, fresh: bool, strict: bool) -> str:
        pending = self.pending(entity)
        if strict and row["id"] in pending.rows:
            hint = "this transaction has written it before; use an upsert"
            raise KeyConflict(entity.name, row["id"], entity_kind=kind_of(entity), hint=hint)
        pending.insert(row, fresh=fresh, strict=strict)
        return str(row["id"])

    def _find(self, entity: EntityType, id: str) -> tuple[Row | None, bool]:
        self.confirm()
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

    def relies_on(self, tables: Iterable[str]) -> None:
        """Declare that the write depends on all rows of these tables: it is valid only as long as they do not change."""
        self._relied_on.update(tables)

    def matcher(self, parameters: Mapping[str, object]) -> Matcher:
        return Matcher(self.view, parameters, self.now)

    def matches(self, entity: EntityType, where: Expression, matcher: Matcher) -> tuple[list[Row], list[Row]]:
        self.confirm()
        return matcher.matches(entity.table_key, where, self.pending(entity))

    # ------------------------------------------------------------ reading and publishing

    def preview(self) -> View:
        """The graph as this transaction sees it: its changes are in states of tables that no commit names."""
        self.confirm()
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

    def commit(self, once: WriteKey | None = None, *, keeps_nothing: bool = True) -> Receipt:
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
        deltas = self.deltas(self.view.schema)
        commit = None
        if deltas or (once is not None and keeps_nothing):
            try:
                proposal = self._proposed(deltas, once)
            except OmnigraphError:
                if not self.confirm():
                    raise
                proposal = self._proposed(deltas, once)
            try:
                commit = self.committer.publish(proposal)
            except (ExpectedVersionMismatch, PreconditionFailed, BranchReplaced):
                proposal.check()  # A write that is wrong in itself would be refused again: that error is more useful.
                raise
            if commit.id != proposal.plan.commit_id:
                return self._repeated(commit)
        types = {key: pending.counts() for key, pending in self._pending.items()}
        self._receipt = Receipt(self.branch, commit, types, self.actor)
        return self._receipt

    def _proposed(self, deltas: Mapping[str, Delta], once: WriteKey | None) -> Proposal:
        return propose(
            self.view,
            self.entry,
            deltas,
            actor=self.actor,
            message=self.message,
            if_commit=self.if_commit,
            once=once,
            relied_on=frozenset(self._relied_on),
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
