"""Transactions against a model: statements, commits, other writers and branches in any order, step by step."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from write.model import SCHEMA, TABLES, Branch, ModelTransaction, Refused

import omnigraph as og
from omnigraph.errors import OmnigraphError
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import MutationPlan
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.read.execution import matched_rows
from omnigraph.snapshot import Repository
from omnigraph.write.mutations import run_mutation
from omnigraph.write.transaction import WriteTransaction

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

IDS = {
    "node:Person": ("Ada", "Bob", "it's Cy", "d", "E"),
    "node:Note": ("n1", "n2", "n3"),
    "edge:Knows": ("k1", "k2", "k3", "k4"),
    "edge:WrittenBy": ("w1", "w2", "w3", "w4"),
}
choices = st.integers(0, 19)
"""Which id a rule means: usually one that is there, sometimes any of the table's."""
people = st.sampled_from(IDS["node:Person"])
notes = st.sampled_from(IDS["node:Note"])
knows = st.sampled_from(IDS["edge:Knows"])
written_by = st.sampled_from(IDS["edge:WrittenBy"])
ages = st.sampled_from([None, *range(10), 3, 7, 10])
nicks = st.sampled_from([None, None, None, "v", "w", "x", "y", "z"])
texts = st.sampled_from(["a", "b"])
weights = st.sampled_from([None, 0.5, -1e300])
branch_names = st.sampled_from(["main", "b1", "b2"])

FIRST_ROWS: list[tuple[str, str, dict[str, Any]]] = [
    ("node:Person", "Ada", {"name": "Ada", "age": 3, "nick": "x"}),
    ("node:Person", "Bob", {"name": "Bob", "age": 8, "nick": None}),
    ("node:Note", "n1", {"text": "a"}),
    ("edge:Knows", "k1", {"src": "Ada", "dst": "Bob", "weight": None}),
    ("edge:WrittenBy", "w1", {"src": "n1", "dst": "Bob"}),
]


def given(id: str, row: dict[str, Any]) -> dict[str, Any]:
    """A row as a caller writes it."""
    return {"id": id, **{{"src": "from", "dst": "to"}.get(name, name): value for name, value in row.items()}}


class Writers(RuleBasedStateMachine):
    """At most one open transaction, and another writer that comes between."""

    uri: Callable[[], str] = staticmethod(lambda: "memory://")

    def __init__(self) -> None:
        super().__init__()
        self.graph = og.Graph(Repository.create(self.uri(), CATALOG, durability="process"))
        self.branches = {"main": Branch()}
        self.current = "main"
        self.tx: WriteTransaction | None = None
        self.model: ModelTransaction | None = None
        self._fill()

    def _fill(self) -> None:
        tx, model = self._begin()
        for table, id, row in FIRST_ROWS:
            tx.insert(table.partition(":")[2], given(id, row))
            model.insert(table, id, row, upsert=False)
        self._commit(tx, model)

    def _pick(self, table: str, choice: int) -> str:
        rows = self.model.rows if self.model is not None else self.branches[self.current].rows
        there = sorted(rows[table])
        return there[choice % len(there)] if there and choice < 17 else IDS[table][choice % len(IDS[table])]

    # ------------------------------------------------------------ statements

    def _statement(
        self,
        real: Callable[[WriteTransaction], object],
        model: Callable[[ModelTransaction], object],
        *,
        learns: bool = True,
    ) -> None:
        """Both do it; both refuse it, or both give the same answer. After a refusal the transaction is given up."""
        if self.tx is None or self.model is None:
            self.tx, self.model = self._begin()
        try:
            expected: object = self.model.run(model, learns=learns)
        except Refused as refused:
            with pytest.raises(refused.error):
                real(self.tx)
            self.tx = self.model = None
            return
        found = real(self.tx)
        if expected is not None:
            assert found == expected

    def _begin(self) -> tuple[WriteTransaction, ModelTransaction]:
        graph = self.graph
        transaction = WriteTransaction(graph._repository, graph._committer, self.current)
        return transaction, ModelTransaction(self.branches[self.current])

    @rule(name=people, age=ages, nick=nicks, upsert=st.booleans())
    def put_person(self, name: str, age: int | None, nick: str | None, upsert: bool) -> None:
        row = {"name": name, "age": age, "nick": nick}
        self._put("node:Person", name, row, upsert)

    @rule(id=notes, text=texts, upsert=st.booleans())
    def put_note(self, id: str, text: str, upsert: bool) -> None:
        self._put("node:Note", id, {"text": text}, upsert)

    @rule(id=knows, source=choices, end=choices, weight=weights, upsert=st.booleans())
    def put_knows(self, id: str, source: int, end: int, weight: float | None, upsert: bool) -> None:
        ends = {"src": self._pick("node:Person", source), "dst": self._pick("node:Person", end)}
        self._put("edge:Knows", id, {**ends, "weight": weight}, upsert)

    @rule(id=written_by, source=choices, end=choices, upsert=st.booleans())
    def put_author(self, id: str, source: int, end: int, upsert: bool) -> None:
        ends = {"src": self._pick("node:Note", source), "dst": self._pick("node:Person", end)}
        self._put("edge:WrittenBy", id, ends, upsert)

    @rule(id=notes, text=texts, edge=written_by, end=choices)
    def put_note_with_author(self, id: str, text: str, edge: str, end: int) -> None:
        self._put("node:Note", id, {"text": text}, True)
        self._put("edge:WrittenBy", edge, {"src": id, "dst": self._pick("node:Person", end)}, True)

    def _put(self, table: str, id: str, row: dict[str, Any], upsert: bool) -> None:
        name = table.partition(":")[2]

        def real(tx: WriteTransaction) -> object:
            return (tx.upsert if upsert else tx.insert)(name, given(id, row))

        self._statement(real, lambda model: model.insert(table, id, row, upsert=upsert) or id)

    @rule(choice=choices, values=st.fixed_dictionaries({}, optional={"age": ages, "nick": nicks}))
    def update_person(self, choice: int, values: dict[str, Any]) -> None:
        name = self._pick("node:Person", choice)
        self._statement(lambda tx: tx.update("Person", name, values), lambda m: m.update("node:Person", name, values))

    @rule(table=st.sampled_from(TABLES), choice=choices)
    def delete(self, table: str, choice: int) -> None:
        name, id = table.partition(":")[2], self._pick(table, choice)
        self._statement(lambda tx: tx.delete(name, id), lambda model: model.delete(table, id))

    @rule(table=st.sampled_from(TABLES), choice=choices)
    def get(self, table: str, choice: int) -> None:
        if self.tx is not None and self.model is not None:
            id = self._pick(table, choice)

            def model(model: ModelTransaction) -> object:
                row = model.get(table, id)
                return [] if row is None else {"id": id, **row}

            self._statement(lambda tx: tx.get(table.partition(":")[2], id) or [], model)

    def _mutate(self, query: str, model: Callable[[ModelTransaction], int], /, **parameters: Any) -> None:
        def real(tx: WriteTransaction) -> None:
            tx.run(partial(run_mutation, plan=PLANS[query], parameters=parameters, reading=matched_rows))

        def modelled(transaction: ModelTransaction) -> None:
            model(transaction)

        self._statement(real, modelled, learns=False)

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

    @rule(limit=st.integers(7, 9))
    def forget(self, limit: int) -> None:
        self._mutate(
            "forget",
            lambda model: model.delete_where("node:Person", lambda r: r["age"] is not None and r["age"] >= limit),
            limit=limit,
        )

    @rule(choice=choices)
    def part(self, choice: int) -> None:
        edges = self.model.rows["edge:Knows"] if self.model is not None else {}
        row = edges.get(self._pick("edge:Knows", choice), {"src": "Ada", "dst": "Ada"})
        source, end = row["src"], row["dst"]
        self._mutate(
            "part",
            lambda model: model.delete_where("edge:Knows", lambda r: (r["src"], r["dst"]) == (source, end)),
            **{"from": source, "to": end},
        )

    @rule(text=texts)
    def tear(self, text: str) -> None:
        self._mutate("tear", lambda m: m.delete_where("node:Note", lambda row: row["text"] == text), text=text)

    # ------------------------------------------------------------ commits

    @precondition(lambda self: self.model is not None and self.model.changed)
    @rule()
    def commit(self) -> None:
        assert self.tx is not None
        assert self.model is not None
        self._commit(self.tx, self.model)
        self.tx = self.model = None

    @precondition(lambda self: self.model is not None and not self.model.changed)
    @rule(choice=choices)
    def commit_nothing(self, choice: int) -> None:
        if choice == 0:
            self.commit()

    @precondition(lambda self: self.tx is not None)
    @rule(choice=choices)
    def roll_back(self, choice: int) -> None:
        if choice == 0:
            self.tx = self.model = None

    def _commit(self, tx: WriteTransaction, model: ModelTransaction) -> None:
        refusal = model.commit()
        if refusal is not None:
            with pytest.raises(OmnigraphError) as caught:
                tx.commit()
            assert type(caught.value) is refusal
        else:
            receipt = tx.commit()
            assert (receipt.commit is None) == (not model.committed)
            if receipt.commit is not None:
                assert receipt.commit.id == self.graph._repository.head(tx.branch)[1].snapshot.commit.id
        self._compare(tx.branch, model.committed or model.changed)

    @precondition(lambda self: self.tx is not None)
    @rule(name=people, nick=nicks)
    def another_puts_a_person(self, name: str, nick: str | None) -> None:
        tx, model = self._begin()
        row = {"name": name, "age": None, "nick": nick}
        tx.upsert("Person", row)
        model.insert("node:Person", name, row, upsert=True)
        self._commit(tx, model)

    @precondition(lambda self: self.tx is not None)
    @rule(id=knows, source=choices, end=choices)
    def another_puts_an_edge(self, id: str, source: int, end: int) -> None:
        tx, model = self._begin()
        ends = {"src": self._pick("node:Person", source), "dst": self._pick("node:Person", end)}
        tx.upsert("Knows", given(id, ends))
        model.insert("edge:Knows", id, {**ends, "weight": None}, upsert=True)
        self._commit(tx, model)

    @precondition(lambda self: self.tx is not None)
    @rule(choice=choices)
    def another_deletes_a_person(self, choice: int) -> None:
        tx, model = self._begin()
        name = self._pick("node:Person", choice)
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
        self.graph.branches.delete(self.current, force=True)
        del self.branches[self.current]
        self.current = "main"

    # ------------------------------------------------------------ comparing

    def _compare(self, branch: str, tables: set[str]) -> None:
        view = self.graph._repository.resolve(branch)
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
    run(lambda: "memory://", 90, fixed=True)


def test_on_disk(tmp_path: Path) -> None:
    run(lambda: new_folder(tmp_path), 15, fixed=True)


@pytest.mark.soak
@pytest.mark.parametrize("backend", ["memory", "disk"])
def test_for_long(backend: str, tmp_path: Path) -> None:
    run((lambda: "memory://") if backend == "memory" else (lambda: new_folder(tmp_path)), 2_000, fixed=False)
