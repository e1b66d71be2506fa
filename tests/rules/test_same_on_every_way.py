"""A broken rule is the same violation on every way in: transactions, loads, merges, and both rebases.

Each case is two writes that are fine by themselves and break one rule together. Each way brings the first to the graph,
then the second, and hears the same code, type, property, id and text.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from merge.test_schemas import apply_schema

import omnigraph as og
from omnigraph import errors
from omnigraph.merge.conflicts import KIND_OF_ERROR
from omnigraph.testing.failpoints import Failpoint, arm

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  tier: enum(free, pro)?
  code: String?
  nick: String? @unique
  shelf: String?
  place: I32?
  @unique(shelf, place)
  @range(age, 0..150)
  @check(code, "^[A-Z]+$")
}
node Note { text: String }
node Team { title: String @key }
node Chief { name: String @key  rank: I32? }
edge Knows: Person -> Person @card(0..2) { @unique(src, dst) }
edge Leads: Chief -> Team @card(1..2)
"""

EDGE_TYPES = ("Knows", "Leads")
Record = dict[str, Any]


def node(type_name: str, **data: Any) -> Record:
    return {"type": type_name, "data": data}


def person(name: str, **data: Any) -> Record:
    return node("Person", name=name, **data)


def edge(type_name: str, source: str, target: str, **data: Any) -> Record:
    return {"edge": type_name, "from": source, "to": target, "data": data}


SETUP = [
    *(person(name) for name in "abc"),
    node("Team", title="T"),
    node("Chief", name="Max"),
    edge("Leads", "Max", "T", id="l1"),
    edge("Knows", "a", "b", id="k1"),
]


@dataclass(frozen=True)
class Write:
    records: list[Record] = field(default_factory=list)
    deletes: tuple[tuple[str, str], ...] = ()
    mode: str = "append"
    image: list[Record] | None = None
    """The same write as a load in mode overwrite."""


@dataclass(frozen=True)
class Said:
    code: str
    type_name: str
    property: str | None
    entity_id: str | None
    text: str

    @classmethod
    def by(cls, error: errors.OmnigraphError) -> Said:
        assert isinstance(error, errors.InputError | errors.KeyConflict)
        return cls(error.code, str(error.type_name), getattr(error, "property", None), error.entity_id, error.message)


# ---------------------------------------------------------------- ways


def apply(tx: og.Transaction, write: Write) -> None:
    for type_name, id in write.deletes:
        tx.delete(type_name, id)
    for record in write.records:
        values = dict(record["data"])
        if "edge" in record:
            values |= {"from": record["from"], "to": record["to"]}
        (tx.insert if write.mode == "append" else tx.upsert)(record.get("type") or record["edge"], values)


def commit(graph: og.Graph, *writes: Write, branch: str = "main") -> None:
    with graph.transaction(branch) as tx:
        for write in writes:
            apply(tx, write)


def load(graph: og.Graph, write: Write, engine: Any = "local", branch: str = "main") -> None:
    path = Path(graph.uri).parent / "records.jsonl"
    records = write.records if write.image is None else write.image
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    mode: Any = write.mode if write.image is None else "overwrite"
    graph.load(path, mode=mode, engine=engine, branch=branch)


def both(first: Write, second: Write) -> Write:
    return Write([*first.records, *second.records], (), second.mode)


def in_one_transaction(graph: og.Graph, first: Write, second: Write, _: Any) -> None:
    commit(graph, first, second)


def in_a_transaction(graph: og.Graph, first: Write, second: Write, _: Any) -> None:
    commit(graph, first)
    commit(graph, second)


def in_a_transaction_that_is_rebased(graph: og.Graph, first: Write, second: Write, _: Any) -> None:
    other = og.open(graph.uri, durability="process")
    arm(Failpoint.TXN_AFTER_STAGE, lambda: commit(other, first))
    commit(graph, second)


def in_one_load(graph: og.Graph, first: Write, second: Write, _: Any) -> None:
    load(graph, both(first, second))


def in_one_load_on_spark(graph: og.Graph, first: Write, second: Write, spark: Any) -> None:
    load(graph, both(first, second), spark)


def in_a_load(graph: og.Graph, first: Write, second: Write, _: Any) -> None:
    commit(graph, first)
    load(graph, second)


def in_a_load_on_spark(graph: og.Graph, first: Write, second: Write, spark: Any) -> None:
    commit(graph, first)
    load(graph, second, spark)


def in_a_load_that_is_rebased(graph: og.Graph, first: Write, second: Write, _: Any) -> None:
    other = og.open(graph.uri, durability="process")
    arm(Failpoint.LOAD_BEFORE_PUBLISH, lambda: commit(other, first))
    load(graph, second)


def in_a_patch(graph: og.Graph, first: Write, second: Write, engine: Any) -> None:
    commit(graph, first)
    load(graph, replace(second, mode="patch"), engine or "local")


def in_a_patch_on_spark(graph: og.Graph, first: Write, second: Write, spark: Any) -> None:
    in_a_patch(graph, first, second, spark)


def in_a_load_that_deletes(graph: og.Graph, first: Write, second: Write, engine: Any) -> None:
    commit(graph, first)
    kinds = {True: "edge", False: "type"}
    named = [{kinds[type_name in EDGE_TYPES]: type_name, "data": {"id": id}} for type_name, id in second.deletes]
    load(graph, Write(named, mode="delete"), engine or "local")


def in_a_load_that_deletes_on_spark(graph: og.Graph, first: Write, second: Write, spark: Any) -> None:
    in_a_load_that_deletes(graph, first, second, spark)


def in_a_merge(graph: og.Graph, first: Write, second: Write, _: Any) -> None:
    graph.branches.create("work")
    commit(graph, first)
    commit(graph, second, branch="work")
    graph.branches.merge("work", strategy="theirs")


Way = Callable[[og.Graph, Write, Write, Any], None]
SECOND_ALONE: tuple[Way, ...] = (in_a_transaction, in_a_load, in_a_load_on_spark, in_a_patch, in_a_patch_on_spark)
IN_TURN: tuple[Way, ...] = (
    in_one_transaction,
    in_a_transaction,
    in_a_transaction_that_is_rebased,
    in_a_load,
    in_a_load_that_is_rebased,
    in_a_patch,
    in_a_merge,
)
AT_ONCE: tuple[Way, ...] = (in_one_load, in_one_load_on_spark)


@dataclass(frozen=True)
class Case:
    second: Write
    said: Said
    first: Write = Write()
    ways: tuple[Way, ...] = SECOND_ALONE


def value(record: Record, property: str, text: str) -> Case:
    said = Said(errors.ValueViolation.code, record["type"], property, record["data"].get("name", "n"), text)
    return Case(Write([record]), said)


NICK, PLACE = {"nick": "x"}, {"shelf": "s", "place": 1}
CASES: dict[str, Case] = {
    "required": value(node("Note", id="n"), "text", "required property Note.text is missing"),
    "enum": value(person("d", tier="vip"), "tier", "invalid enum value 'vip' for Person.tier (expected: free, pro)"),
    "below a range": value(person("d", age=-1), "age", "@range violation on Person.age: value -1 < min 0"),
    "above a range": value(person("d", age=151), "age", "@range violation on Person.age: value 151 > max 150"),
    "check": value(
        person("d", code="ab"), "code", "@check violation on Person.code: value 'ab' does not match pattern '^[A-Z]+$'"
    ),
    "a key that is taken": Case(
        first=Write([person("d")]),
        second=Write([person("d")]),
        said=Said("key_conflict", "Person", None, "d", "Person 'd' already exists"),
        ways=(in_one_transaction, in_a_transaction, in_a_transaction_that_is_rebased, in_a_load,
              in_a_load_that_is_rebased, in_a_load_on_spark),
    ),
    "a key twice": Case(
        first=Write([person("d")]),
        second=Write([person("d")]),
        said=Said("unique_violation", "Person", "id", "d", "duplicate id 'd' for Person in one batch"),
        ways=AT_ONCE,
    ),
    "a unique value": Case(
        first=Write([person("d", **NICK)]),
        second=Write([person("e", **NICK)]),
        said=Said("unique_violation", "Person", "nick", "d",
                  "@unique violation on Person.nick: value 'x' held by 'd' and 'e'"),
        ways=(*IN_TURN, *AT_ONCE),
    ),
    "a pair of unique values": Case(
        first=Write([person("d", **PLACE)]),
        second=Write([person("e", **PLACE)]),
        said=Said("unique_violation", "Person", "shelf, place", "d",
                  "@unique violation on Person.shelf, place: value 's, 1' held by 'd' and 'e'"),
        ways=(*IN_TURN, *AT_ONCE),
    ),
    "unique ends": Case(
        first=Write([edge("Knows", "b", "c", id="k2")]),
        second=Write([edge("Knows", "b", "c", id="k3")]),
        said=Said("unique_violation", "Knows", "src, dst", "k2",
                  "@unique violation on Knows.src, dst: value 'b, c' held by 'k2' and 'k3'"),
        ways=(*IN_TURN, *AT_ONCE),
    ),
    "a source that is no node": Case(
        Write([edge("Knows", "zoe", "a", id="k2")]),
        Said("endpoint_missing", "Knows", "src", "k2", "from 'zoe' not found in Person"),
    ),
    "a target that went": Case(
        first=Write(deletes=(("Person", "c"),)),
        second=Write([edge("Knows", "b", "c", id="k2")]),
        said=Said("endpoint_missing", "Knows", "dst", "k2", "to 'c' not found in Person"),
        ways=(*IN_TURN, in_a_load_on_spark),
    ),
    "a node that an edge still needs": Case(
        first=Write([edge("Knows", "b", "c", id="k2")]),
        second=Write(deletes=(("Person", "c"),), image=[person("a"), person("b")]),
        said=Said("endpoint_missing", "Knows", "dst", "k2",
                  "to 'c' not found in Person: edge Knows 'k2' still points to it"),
        ways=(in_a_load, in_a_load_that_is_rebased, in_a_load_on_spark, in_a_merge),
    ),
    "too many edges": Case(
        first=Write([edge("Knows", "a", "c", id="k2")]),
        second=Write([edge("Knows", "a", "a", id="k3")]),
        said=Said("cardinality_violation", "Knows", "src", "a",
                  "@card violation on edge Knows: source 'a' has 3 edges (max 2)"),
        ways=(*IN_TURN, *AT_ONCE),
    ),
    "a node without the edge it needs": Case(
        Write([node("Chief", name="Ned")]),
        Said("cardinality_violation", "Leads", "src", "Ned",
             "@card violation on edge Leads: source 'Ned' has 0 edges (min 1)"),
    ),
    "a node whose edges went with it": Case(
        first=Write(deletes=(("Chief", "Max"),)),
        second=Write([node("Chief", name="Max", rank=1)], mode="merge"),
        said=Said("cardinality_violation", "Leads", "src", "Max",
                  "@card violation on edge Leads: source 'Max' has 0 edges (min 1)"),
        ways=(*IN_TURN, in_a_load_on_spark),
    ),
    "the last edge of a node is taken away": Case(
        first=Write([node("Chief", name="Ned"), edge("Leads", "Ned", "T", id="l2")]),
        second=Write([edge("Leads", "Ned", "T", id="l1")], mode="merge"),
        said=Said("cardinality_violation", "Leads", "src", "Max",
                  "@card violation on edge Leads: source 'Max' has 0 edges (min 1)"),
        ways=(in_one_transaction, in_a_transaction, in_a_load, in_a_patch, in_one_load, in_one_load_on_spark),
    ),
    "the last edge of a node goes": Case(
        second=Write(deletes=(("Leads", "l1"),)),
        said=Said("cardinality_violation", "Leads", "src", "Max",
                  "@card violation on edge Leads: source 'Max' has 0 edges (min 1)"),
        ways=(in_a_transaction, in_a_load_that_deletes, in_a_load_that_deletes_on_spark),
    ),
    "the last edge of a node goes with its other end": Case(
        second=Write(deletes=(("Team", "T"),)),
        said=Said("cardinality_violation", "Leads", "src", "Max",
                  "@card violation on edge Leads: source 'Max' has 0 edges (min 1)"),
        ways=(in_a_transaction, in_a_load_that_deletes, in_a_load_that_deletes_on_spark),
    ),
    "an image of edges that leaves a node without": Case(
        first=Write([node("Chief", name="Ned"), edge("Leads", "Ned", "T", id="l2")]),
        second=Write(image=[edge("Leads", "Ned", "T", id="l2")]),
        said=Said("cardinality_violation", "Leads", "src", "Max",
                  "@card violation on edge Leads: source 'Max' has 0 edges (min 1)"),
        ways=(in_a_load, in_a_load_on_spark),
    ),
}  # fmt: skip

RUNS = [
    pytest.param(name, way, id=f"{name}-{way.__name__}", marks=[pytest.mark.spark] * ("spark" in way.__name__))
    for name, case in CASES.items()
    for way in case.ways
]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", schema=SCHEMA, durability="process")
    commit(graph, Write(SETUP))
    return graph


def heard(write: Callable[[], object]) -> Said:
    """What a refused write says. Refused records and conflicts name no property, or no type: what they name is taken."""
    with pytest.raises(errors.OmnigraphError) as caught:
        write()
    error = caught.value
    if isinstance(error, errors.RejectedRecords):
        (reject,) = error.rejects
        record = json.loads(reject["record"])
        property = reject["reason"].partition("Person.")[2].partition(":")[0].partition(" ")[0] or "text"
        id = record["data"].get("name") or record["data"]["id"]
        return Said(reject["code"], record["type"], property, id, reject["reason"])
    if isinstance(error, errors.MergeConflicts):
        (conflict,) = error.conflicts
        code = next(error.code for error, kind in KIND_OF_ERROR.items() if kind == conflict.kind)
        return Said(code, conflict.type_name, None, conflict.entity_id, conflict.message)
    return Said.by(error)


@pytest.mark.parametrize(("name", "way"), RUNS)
def test_a_broken_rule_is_the_same_violation(
    name: str, way: Way, graph: og.Graph, request: pytest.FixtureRequest
) -> None:
    case = CASES[name]
    spark = request.getfixturevalue("spark") if "spark" in way.__name__ else None
    found = heard(lambda: way(graph, case.first, case.second, spark))
    expected = case.said if found.property is not None else replace(case.said, property=None)
    assert found == expected
    assert graph.recovery.list() == []


@pytest.mark.parametrize("name", ["below a range", "above a range", "check"])
def test_a_merge_says_the_same_of_values_under_a_schema_that_has_the_rule(name: str, tmp_path: Path) -> None:
    """Rows of a branch whose schema does not have the rule."""
    without = SCHEMA.replace("  @range(age, 0..150)\n", "").replace('  @check(code, "^[A-Z]+$")\n', "")
    graph = og.init(tmp_path / "graph", schema=without, durability="process")
    graph.branches.create("work")
    apply_schema(graph, "main", SCHEMA)
    commit(graph, CASES[name].second, branch="work")
    found = heard(lambda: graph.branches.merge("work"))
    assert found == replace(CASES[name].said, property=None)


MANY = {
    "unique_violation Person z1": [person("z1", nick="n"), person("z2", nick="n")],
    "unique_violation Knows u1": [edge("Knows", "b", "a", id="u1"), edge("Knows", "b", "a", id="u2")],
    "endpoint_missing Knows e1": [edge("Knows", "c", "nobody", id="e1")],
    "endpoint_missing Knows e2": [edge("Knows", "c", "nowhere", id="e2")],
    "endpoint_missing Leads e0": [edge("Leads", "Max", "no team", id="e0")],
    "cardinality_violation Knows a": [edge("Knows", "a", "c", id="c1"), edge("Knows", "a", "a", id="c2")],
    "cardinality_violation Leads Ned": [node("Chief", name="Ned")],
}
"""Violations in the order of their report, each with the records that make it."""


def test_the_first_of_many_violations_is_the_same_whatever_the_order_of_the_records(graph: og.Graph) -> None:
    """By rule, nodes before edges, types by name, entities by id; from a transaction and from a load."""
    choose = random.Random(7)
    left = dict(MANY)
    while left:
        records = [record for group in left.values() for record in group]
        choose.shuffle(records)
        write = Write(records)
        for attempt in (lambda write=write: commit(graph, write), lambda write=write: load(graph, write)):
            said = heard(attempt)
            assert f"{said.code} {said.type_name} {said.entity_id}" == next(iter(left))
        del left[next(iter(left))]


def test_a_refused_load_names_the_other_violations_of_the_rule(graph: og.Graph) -> None:
    records = [edge("Knows", "c", f"nobody{number}", id=f"e{number}") for number in range(8)]
    with pytest.raises(errors.EndpointMissing) as caught:
        load(graph, Write(records))
    said = [f"records.jsonl:{line}: to 'nobody{line - 1}' not found in Person" for line in range(2, 7)]
    assert caught.value.line == 1
    hint = str(caught.value.hint).replace(str(Path(graph.uri).parent) + "/", "")
    advice = "missing='skip' sets such edges aside, missing='stub' creates the nodes"
    assert hint == f"{advice}; also: {'; '.join(said)}; ..."
