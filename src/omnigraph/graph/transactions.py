"""Transactions: statements that see each other and are published together, or not at all."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal

from omnigraph._internal.deadlines import Deadline
from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.graph.access import TRANSACTION, Caller, public_api, touched
from omnigraph.graph.texts import SourceText, compiled_mutation, compiled_read, read_source
from omnigraph.history.write_keys import KeyName, Once
from omnigraph.policy.ask import AccessRequest
from omnigraph.snapshot import Repository, View
from omnigraph.values.arrow import Entity, Value, entity_value

if TYPE_CHECKING:
    from omnigraph.expressions.functions import Arguments
    from omnigraph.language.query.plan import MutationPlan, ReadPlan
    from omnigraph.read.result import Result
    from omnigraph.write.group import GroupCommitter
    from omnigraph.write.receipt import Receipt
    from omnigraph.write.transaction import WriteTransaction

State = Literal["open", "committed", "rolled back", "failed"]


@public_api
class Transaction:
    """Statements that see the branch as it was when the transaction began or, if another process has written since this one last
    looked, when it first read.

    As a block (`with g.transaction() as tx`) it commits at the end, or rolls back when the block raises; without a block,
    `commit()` or `rollback()` ends it. Not for sharing between threads.

    >>> tx = g.transaction(actor="ada")
    >>> assert (tx.branch, repr(tx)) == ("main", "<Transaction on main, open>")
    """

    _asks = TRANSACTION

    def __init__(
        self,
        repository: Repository,
        committer: GroupCommitter,
        branch: str,
        *,
        actor: str | None,
        message: str | None,
        if_commit: str | None,
        once: Once | None,
        caller: Caller | None = None,
    ) -> None:
        from omnigraph.write.transaction import WriteTransaction

        self._repository = repository
        self._caller = caller
        self._key = None if once is None else KeyName.of(once)
        self._requests: list[object] = []
        """Every statement as it was called, if there is a write key: tells a repeated transaction from a different one."""
        self._writes = WriteTransaction(
            repository, committer, branch, actor=actor, message=message, if_commit=if_commit
        )
        if (
            self._key is None and if_commit is not None
        ):  # A repeated write names the head that its first attempt expected.
            self._writes.check_precondition()
        self._state: State = "open"
        self._receipt: Receipt | None = None

    def __repr__(self) -> str:
        return f"<Transaction on {self.branch}, {self._state}>"

    @property
    def branch(self) -> str:
        """The branch that it will be published to."""
        return self._writes.branch

    @property
    def receipt(self) -> Receipt:
        """What was published; only after the commit."""
        if self._receipt is None:
            raise UsageError(f"this transaction is not committed: it is {self._state}")
        return self._receipt

    # ------------------------------------------------------------ statements

    def insert(self, type_name: str, values: Mapping[str, object] | None = None, /, **more: object) -> str:
        """Insert a node or edge; returns its id. KeyConflict at commit if the id exists. Edges take `from_` and `to` (node ids).

        >>> assert tx.insert("Person", name="Dee", age=51) == "Dee"
        >>> tx.insert("Knows", {"id": "dee-ada"}, from_="Dee", to="Ada")
        """
        return self._asking("insert", type_name, values, more).insert(type_name, values, **more)

    def upsert(self, type_name: str, values: Mapping[str, object] | None = None, /, **more: object) -> str:
        """Insert, or replace the whole entity with the same id.

        >>> tx.upsert("Person", name="Dee", age=52)
        """
        return self._asking("upsert", type_name, values, more).upsert(type_name, values, **more)

    def insert_many(
        self,
        type_name: str,
        rows: Iterable[Mapping[str, object]] | pa.Table | pa.RecordBatchReader,
        *,
        upsert: bool = False,
    ) -> int:
        """Insert many entities of one type, from dicts or Arrow; returns how many.

        >>> assert tx.insert_many("City", [{"name": "Bonn"}, {"name": "Cologne"}]) == 2
        """
        from omnigraph.write.transaction import records

        kept = rows if self._key is None else list(records(rows))
        return self._asking("insert_many", type_name, kept, upsert).insert_many(type_name, kept, upsert=upsert)

    def update(self, type_name: str, id: str, values: Mapping[str, object] | None = None, /, **more: object) -> bool:
        """Set properties of one node; False if there is no such node.

        >>> assert tx.update("Person", "Dee", age=53)
        """
        return self._asking("update", type_name, id, values, more).update(type_name, id, values, **more)

    def delete(self, type_name: str, id: str) -> bool:
        """Delete one node with its edges, or one edge; False if there is none.

        >>> assert tx.delete("City", "Cologne")
        """
        return self._asking("delete", type_name, id).delete(type_name, id)

    def mutate(self, gq: str | Path, params: Mapping[str, object] | None = None, *, name: str | None = None) -> str:
        """Run a mutation's statements, which see what this transaction did before. Returns the name of the mutation.

        >>> tx.mutate(Path("people.gq"), {"name": "Dee", "age": 54}, name="grow")
        """
        from omnigraph.write.mutations import adds_only

        source = read_source(gq, ".gq")
        writes = self._asking("mutate", source.text, params, name)
        mutation = _Mutation(source, dict(params or {}), name, self._caller)
        plan: MutationPlan | None = None
        refusal: OmnigraphError | None = None
        try:
            plan, _ = mutation.compile(writes.view)
        except OmnigraphError as error:
            refusal = error
        if (plan is None or not adds_only(plan)) and writes.confirm():
            plan, _ = mutation.compile(writes.view)
        if plan is None:
            assert refusal is not None, "what does not compile is refused"
            raise refusal
        if adds_only(plan):
            mutation(writes)
        else:
            writes.run(mutation)
        return plan.name

    # ------------------------------------------------------------ reading

    def get(self, type_name: str, id: str) -> Entity | None:
        """One entity as this transaction sees it, in the shape of `Graph.entity`; None if there is no such entity.

        >>> assert tx.get("Person", "Dee")["age"] == 54
        """
        row = self._opened().get(type_name, id)
        return None if row is None else entity_value(row)

    def query(
        self,
        gq: str | Path,
        params: Mapping[str, object] | None = None,
        *,
        name: str | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a read that sees this transaction's own changes; after `timeout` seconds it ends with QueryTimeout.

        >>> assert tx.query(Path("people.gq"), {"of": "Dee"}, name="friends").rows == [{"name": "Ada"}]
        """
        from omnigraph.read.execution import run_read

        deadline = Deadline(timeout)
        writes = self._opened()
        writes.confirm()
        source, bound_to = read_source(gq, ".gq"), dict(params or {})

        def run(writes: WriteTransaction) -> Result:
            plan, bound = compiled_read(source, writes.view, bound_to, name)
            return run_read(writes.preview(plan.reads), plan, bound, now=writes.now, deadline=deadline)

        return writes.run(run, compare=lambda result: result.rows)

    # ------------------------------------------------------------ ending

    def commit(self) -> Receipt:
        """Check everything and publish it as one commit; no commit if nothing changed.

        >>> receipt = tx.commit()
        >>> assert receipt.types["node:City"].inserted == 2
        """
        writes = self._opened()
        self._state = "failed"
        key = self._key
        if key is None:
            self._receipt = writes.commit()
        else:
            self._receipt = writes.commit(key.asking(self._requests), commits_empty=key.commits_empty)
        self._state = "committed"
        return self._receipt

    def rollback(self) -> None:
        """Discard everything. Does nothing if the transaction has ended already.

        >>> tx = g.transaction()
        >>> tx.delete("Person", "Ada")
        >>> tx.rollback()
        >>> assert g.entity("Person", "Ada") is not None
        """
        if self._state == "open":
            self._state = "rolled back"

    def __enter__(self) -> Transaction:
        self._opened()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is not None:
            self.rollback()
        elif self._state == "open":
            self.commit()

    def _asking(self, *statement: object) -> WriteTransaction:
        """The open transaction; records the statement if there is a write key."""
        writes = self._opened()
        if self._key is not None:
            self._requests.append(statement)
        return writes

    def _opened(self) -> WriteTransaction:
        if self._state != "open":
            raise UsageError(f"this transaction has ended: it is {self._state}", hint="begin another one")
        return self._writes


@dataclass(frozen=True)
class _Mutation:
    """A mutation as a statement: it is compiled under the schema of the state that it runs on."""

    source: SourceText
    params: Mapping[str, object]
    name: str | None
    caller: Caller | None

    def compile(self, view: View) -> tuple[MutationPlan, dict[str, object]]:
        return compiled_mutation(self.source, view, self.params, self.name)

    def __call__(self, writes: WriteTransaction) -> None:
        from omnigraph.write.mutations import run_mutation

        plan, bound = self.compile(writes.view)
        if self.caller is not None:
            self.caller.ask(AccessRequest("change", branch=writes.branch, types=touched(plan)))
        run_mutation(writes, plan, bound, _matched_rows)


def _matched_rows(view: View, plan: ReadPlan, arguments: Arguments) -> list[dict[str, Value]]:
    """The rows that the `match` of an insert finds. The reading engine is loaded only here: most mutations do not need it."""
    from omnigraph.read.execution import matched_rows

    return matched_rows(view, plan, arguments)
