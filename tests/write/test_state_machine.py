"""Transactions against a model: statements, commits, other writers and branches in any order, step by step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from write.model import SCHEMA, TABLES, Branch, ModelTransaction, Refused

import omnigraph as og
from omnigraph.errors import OmnigraphError
from omnigraph.language.plan import MutationPlan
from omnigraph.language.query_compiler import compile_query
from omnigraph.language.schema_compiler import compile_schema
from omnigraph.views import Stores
from omnigraph.write import run_mutation

CATALOG = compile_schema(SCHEMA)
MUTATIONS = """
query older($limit: I32, $age: I32) { update Person set { age: $age } where age > $limit }
query named($name: String, $nick: String) { update Person set { nick: $nick } where name = $name }
query forget($limit: I32) { delete Person where age >= $limit }
query part($from: String, $to: String) { delete Knows where from = $from and to = $to }
query tear($text: String) { delete Note where text = $text or text is null }
"""
PLANS: dict[str, MutationPlan] = {
    name: compile_query(MUTATIONS, CATALOG, name)  # type: ignore[misc]  # all of them are mutations
    for name in ("older", "named", "forget", "part", "tear")
}

people = st.sampled_from(["Ada", "Bob", "it's Cy", "d"])
notes = st.sampled_from(["n1", "n2", "n3"])
edges = st.sampled_from(["e1", "e2", "e3"])
ages = st.one_of(st.none(), st.integers(0, 9), st.sampled_from([3, 7, 10]))
nicks = st.sampled_from([None, None, "x", "y"])
texts = st.sampled_from(["a", "b"])
weights = st.sampled_from([None, 0.5, -1e300])
branch_names = st.sampled_from(["main", "b1", "b2"])


class Writers(RuleBasedStateMachine):
    """At most one open transaction, and another writer that comes between."""

    uri: Callable[[], str] = staticmethod(lambda: "memory://")

    def __init__(self) -> None:
        super().__init__()
        self.graph = og.Graph(Stores.create(self.uri(), CATALOG, durability="process"))
        self.branches = {"main": Branch()}
        self.current = "main"
        self.tx: og.Transaction | None = None
        self.model: ModelTransaction | None = None

    # ------------------------------------------------------------ statements

    def _statement(self, real: Callable[[og.Transaction], object], model: Callable[[ModelTransaction], object]) -> None:
        """Both do it; both refuse it, or both give the same answer. After a refusal the transaction is given up."""
        if self.tx is None or self.model is None:
            self.tx, self.model = self._begin()
        try:
            expected: object = model(self.model)
        except Refused as refused:
            with pytest.raises(refused.error):
                real(self.tx)
            self.tx = self.model = None
            return
        found = real(self.tx)
        if expected is not None:
            assert found == expected

    def _begin(self) -> tuple[og.Transaction, ModelTransaction]:
        graph = self.graph
        transaction = og.Transaction(graph.stores, graph._committer, self.current)
        return transaction, ModelTransaction(self.branches[self.current])

    @rule(name=people, age=ages, nick=nicks, upsert=st.booleans())
    def put_person(self, name: str, age: int | None, nick: str | None, upsert: bool) -> None:
        row = {"name": name, "age": age, "nick": nick}
        self._put("node:Person", name, row, upsert)

    @rule(id=notes, text=texts, upsert=st.booleans())
    def put_note(self, id: str, text: str, upsert: bool) -> None:
        self._put("node:Note", id, {"text": text}, upsert)

    @rule(id=edges, source=people, end=people, weight=weights, upsert=st.booleans())
    def put_knows(self, id: str, source: str, end: str, weight: float | None, upsert: bool) -> None:
        self._put("edge:Knows", id, {"src": source, "dst": end, "weight": weight}, upsert)

    @rule(id=edges, source=people, end=notes, upsert=st.booleans())
    def put_owns(self, id: str, source: str, end: str, upsert: bool) -> None:
        self._put("edge:Owns", id, {"src": source, "dst": end}, upsert)

    def _put(self, table: str, id: str, row: dict[str, Any], upsert: bool) -> None:
        values = {{"src": "from", "dst": "to"}.get(name, name): value for name, value in row.items()}
        name = table.partition(":")[2]

        def real(tx: og.Transaction) -> object:
            return (tx.upsert if upsert else tx.insert)(name, {"id": id, **values})

        self._statement(real, lambda model: model.insert(table, id, row, upsert=upsert) or id)

    @rule(name=people, values=st.fixed_dictionaries({}, optional={"age": ages, "nick": nicks}))
    def update_person(self, name: str, values: dict[str, Any]) -> None:
        self._statement(lambda tx: tx.update("Person", name, values), lambda m: m.update("node:Person", name, values))

    @rule(table=st.sampled_from(TABLES), id=st.one_of(people, notes, edges))
    def delete(self, table: str, id: str) -> None:
        name = table.partition(":")[2]
        self._statement(lambda tx: tx.delete(name, id), lambda model: model.delete(table, id))

    @rule(table=st.sampled_from(TABLES), id=st.one_of(people, notes, edges))
    def get(self, table: str, id: str) -> None:
        if self.tx is not None and self.model is not None:
            row = self.model.rows[table].get(id)
            assert self.tx.get(table.partition(":")[2], id) == (None if row is None else {"id": id, **row})

    def _mutate(self, query: str, model: Callable[[ModelTransaction], int], /, **parameters: Any) -> None:
        def real(tx: og.Transaction) -> None:
            run_mutation(tx, PLANS[query], parameters)

        def modelled(transaction: ModelTransaction) -> None:
            model(transaction)

        self._statement(real, modelled)

    @rule(limit=st.integers(0, 9), age=ages)
    def update_older(self, limit: int, age: int | None) -> None:
        self._mutate(
            "older",
            lambda model: model.update_where(
                "node:Person", lambda row: row["age"] is not None and row["age"] > limit, {"age": age}
            ),
            limit=limit,
            age=age,
        )

    @rule(name=people, nick=nicks)
    def update_named(self, name: str, nick: str | None) -> None:
        self._mutate(
            "named",
            lambda model: model.update_where("node:Person", lambda row: row["name"] == name, {"nick": nick}),
            name=name,
            nick=nick,
        )

    @rule(limit=st.integers(5, 9))
    def forget(self, limit: int) -> None:
        self._mutate(
            "forget",
            lambda model: model.delete_where("node:Person", lambda r: r["age"] is not None and r["age"] >= limit),
            limit=limit,
        )

    @rule(source=people, end=people)
    def part(self, source: str, end: str) -> None:
        self._mutate(
            "part",
            lambda model: model.delete_where("edge:Knows", lambda r: (r["src"], r["dst"]) == (source, end)),
            **{"from": source, "to": end},
        )

    @rule(text=texts)
    def tear(self, text: str) -> None:
        self._mutate("tear", lambda m: m.delete_where("node:Note", lambda row: row["text"] == text), text=text)

    # ------------------------------------------------------------ commits

    @precondition(lambda self: self.tx is not None)
    @rule()
    def commit(self) -> None:
        assert self.tx is not None
        assert self.model is not None
        self._commit(self.tx, self.model)
        self.tx = self.model = None

    @precondition(lambda self: self.tx is not None)
    @rule()
    def roll_back(self) -> None:
        self.tx = self.model = None

    def _commit(self, tx: og.Transaction, model: ModelTransaction) -> None:
        changed = model.changed
        refusal = model.commit()
        if refusal is not None:
            with pytest.raises(OmnigraphError) as caught:
                tx.commit()
            assert type(caught.value) is refusal
        else:
            receipt = tx.commit()
            assert (receipt.commit is None) == (not changed)
            if receipt.commit is not None:
                assert receipt.commit.id == self.graph.stores.head(tx.branch)[1].snapshot.commit.id
        self._compare(tx.branch, changed)

    @precondition(lambda self: self.tx is not None)
    @rule(name=people, nick=nicks)
    def another_puts_a_person(self, name: str, nick: str | None) -> None:
        tx, model = self._begin()
        row = {"name": name, "age": None, "nick": nick}
        tx.upsert("Person", row)
        model.insert("node:Person", name, row, upsert=True)
        self._commit(tx, model)

    @precondition(lambda self: self.tx is not None)
    @rule(id=edges, source=people, end=people)
    def another_puts_an_edge(self, id: str, source: str, end: str) -> None:
        tx, model = self._begin()
        tx.upsert("Knows", {"id": id, "from": source, "to": end})
        model.insert("edge:Knows", id, {"src": source, "dst": end, "weight": None}, upsert=True)
        self._commit(tx, model)

    @precondition(lambda self: self.tx is not None)
    @rule(name=people)
    def another_deletes_a_person(self, name: str) -> None:
        tx, model = self._begin()
        tx.delete("Person", name)
        model.delete("node:Person", name)
        self._commit(tx, model)

    # ------------------------------------------------------------ branches

    @precondition(lambda self: self.tx is None)
    @rule(name=branch_names)
    def go_to_branch(self, name: str) -> None:
        if name not in self.branches:
            self.graph.branches.create(name, self.current)
            self.branches[name] = self.branches[self.current].fork()
        self.current = name

    @precondition(lambda self: self.tx is None and self.current != "main")
    @rule()
    def delete_branch(self) -> None:
        self.graph.branches.delete(self.current)
        del self.branches[self.current]
        self.current = "main"

    # ------------------------------------------------------------ comparing

    def _compare(self, branch: str, tables: set[str]) -> None:
        view = self.graph.view(branch)
        for key in tables:
            table = view.table(key)
            rows = [] if table is None else table.read().to_pylist()
            assert len(rows) == view.rows(key)
            assert {row.pop("id"): row for row in rows} == self.branches[branch].rows[key]

    def teardown(self) -> None:
        for branch, model in self.branches.items():
            self._compare(branch, set(TABLES))
            assert len(self.graph.commits(branch, limit=1000)) == model.commits


def run(uri: Callable[[], str], runs: int, *, fixed: bool) -> None:
    machine = type("Writers", (Writers,), {"uri": staticmethod(uri)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=runs,
            stateful_step_count=50,
            deadline=None,
            database=None,
            derandomize=fixed,
            suppress_health_check=list(HealthCheck),
        ),
    )


def new_folder(tmp_path: Path) -> str:
    return tempfile.mkdtemp(dir=tmp_path) + "/graph"


def test_in_memory() -> None:
    run(lambda: "memory://", 300, fixed=True)


def test_on_disk(tmp_path: Path) -> None:
    run(lambda: new_folder(tmp_path), 25, fixed=True)


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["memory", "disk"])
def test_for_long(backend: str, tmp_path: Path) -> None:
    run((lambda: "memory://") if backend == "memory" else (lambda: new_folder(tmp_path)), 2_000, fixed=False)
