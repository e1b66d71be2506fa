"""A look at a few rows never passes what a check would find; and where all is well it is all that is needed."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import KeyConflict
from omnigraph.rules.check import Check
from omnigraph.write.constraints import MAX_FEW_ROWS, DeltaRows, check_plan
from omnigraph.write.inlining import Delta
from omnigraph.write.transaction import WriteTransaction

SCHEMA = """
node Person { name: String @key  nick: String? @unique  tier: enum(gold, tin)?  age: I32? @range(age, 0..150) }
node Note { text: String }
edge Knows: Person -> Person @card(0..2) { since: Date? }
edge About: Note -> Person
"""
NAMES = [f"p{number}" for number in range(6)]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", schema=SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": name, "nick": f"n{name}"} for name in NAMES[:3]])
        tx.insert("Note", id="stored", text="a")
        tx.insert("About", {"id": "stored"}, from_="stored", to="p0")
    with graph.transaction() as tx:
        tx.insert("Person", name="p3")
        tx.update("Person", "p1", age=4)
    return graph


def deltas_of(graph: og.Graph, chance: random.Random) -> tuple[WriteTransaction, dict[str, Delta]]:
    """Random changes of a few rows, many of which break something. Several transactions are joined, as in a group."""
    members: dict[str, list[Delta]] = {}
    for _ in range(chance.choice([1, 1, 3])):
        tx = WriteTransaction(graph._repository, graph._committer)
        for _ in range(chance.randrange(1, 4)):
            add(tx, chance)
        for key, delta in tx.deltas(tx.view.schema).items():
            members.setdefault(key, []).append(delta)
    return tx, {key: Delta.joined(each) for key, each in members.items()}


def add(tx: WriteTransaction, chance: random.Random) -> None:
    one_of, strict = chance.choice, chance.random() < 0.5
    match one_of(["Person", "Note", "Knows", "About"]):
        case "Person":
            values = {
                "name": one_of(NAMES),
                "nick": one_of([None, "np0", "new"]),
                "tier": one_of([None, "gold", "lead"]),
            }
            values["age"] = one_of([None, 3, 200])
            tx.upsert("Person", values)
        case "Note":
            values = {"text": one_of([None, "b", "b"])} | one_of([{}, {"id": "stored"}, {"id": "own"}])
            tx.upsert("Note", values) if strict else _inserted(tx, "Note", values)
        case "Knows":
            tx.insert("Knows", from_=one_of(NAMES), to=one_of(NAMES))
        case "About":
            values = {"from_": one_of(["stored", "own"]), "to": one_of(NAMES)} | one_of([{}, {"id": "stored"}])
            tx.upsert("About", values) if strict else _inserted(tx, "About", values)


def _inserted(tx: WriteTransaction, type_name: str, values: dict[str, object]) -> None:
    try:
        tx.insert(type_name, values)
    except KeyConflict:
        tx.upsert(type_name, values)  # This transaction has it already.


def test_what_a_look_passes_has_nothing_to_find(graph: og.Graph) -> None:
    passed: dict[type[Check], set[bool]] = {}
    for seed in range(400):
        tx, deltas = deltas_of(graph, random.Random(seed))
        for check in check_plan(tx.view, deltas).checks:
            is_kept = check.is_kept(DeltaRows(tx.view, deltas))
            found = check.find(DeltaRows(tx.view, deltas))
            assert not (is_kept and found), (seed, check, found)
            passed.setdefault(type(check), set()).add(is_kept)
    names = {each.__name__ for each, seen in passed.items() if seen == {True, False}}
    assert names == {"ValueCheck", "KeyCheck", "EndpointCheck"}, "each of these says both, and no other says anything"


def test_an_insert_that_keeps_the_rules_is_not_made_into_arrow(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("rows were made into Arrow")

    monkeypatch.setattr("omnigraph.write.inlining.NewRows.table", property(refuse))
    with graph.transaction() as tx:
        tx.insert("Note", text="b")
        tx.insert("About", from_="stored", to="p3")
    assert tx.receipt.affected_edges == 1


def test_many_rows_are_not_looked_at_one_by_one(graph: og.Graph) -> None:
    tx = WriteTransaction(graph._repository, graph._committer)
    tx.insert_many("Note", [{"text": "x"}] * (MAX_FEW_ROWS + 1))
    deltas = tx.deltas(tx.view.schema)
    assert not any(check.is_kept(DeltaRows(tx.view, deltas)) for check in check_plan(tx.view, deltas).checks)
