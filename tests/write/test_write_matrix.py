"""The write matrix: every kind of write, valid and breaking each rule, as the graph's first write, on a branch, and inside
a larger transaction. Checked on content, receipt and chain."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from write.graphs import FILLED, SCHEMA, Content, changed, content, fill

import omnigraph as og
from omnigraph.errors import (
    CardinalityViolation,
    EndpointMissing,
    KeyConflict,
    OmnigraphError,
    RecordError,
    UniqueViolation,
    UsageError,
    ValueViolation,
)
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.snapshot import Repository

CATALOG = compile_schema(SCHEMA)
Action = Callable[[og.Transaction], object]


@dataclass(frozen=True)
class Case:
    """One write on the filled graph: what is there afterwards and how much was affected, or how it is refused."""

    name: str
    action: Action
    after: Content | None = None
    counts: dict[str, tuple[int, ...]] = field(default_factory=dict)
    """By table: inserted, updated, deleted and, if there are any, replaced."""
    error: type[OmnigraphError] | None = None
    says: str = ""
    names: dict[str, Any] = field(default_factory=dict)


def several(*actions: Action) -> Action:
    def run(tx: og.Transaction) -> None:
        for action in actions:
            action(tx)

    return run


def person(**values: Any) -> Action:
    return lambda tx: tx.insert("Person", values)


def put(**values: Any) -> Action:
    return lambda tx: tx.upsert("Person", values)


def knows(source: str, target: str, **values: Any) -> Action:
    return lambda tx: tx.insert("Knows", from_=source, to=target, **values)


def chief(name: str) -> Action:
    return lambda tx: tx.insert("Chief", name=name)


def leads(source: str, target: str, **values: Any) -> Action:
    return lambda tx: tx.insert("Leads", from_=source, to=target, **values)


def update(id: str, **values: Any) -> Action:
    return lambda tx: tx.update("Person", id, values)


def delete(type_name: str, id: str) -> Action:
    return lambda tx: tx.delete(type_name, id)


def gq(text: str, **parameters: Any) -> Action:
    head = ", ".join(f"${name}: {'I32' if isinstance(value, int) else 'String'}" for name, value in parameters.items())
    return lambda tx: tx.mutate(f"query q({head}) {{ {text} }}", parameters)


VALID = [
    Case(
        "insert node",
        person(name="Dee", age=150, tier="pro", code="AB", score=0.5),
        changed(FILLED, node_Person={"Dee": {"name": "Dee", "age": 150, "tier": "pro", "code": "AB", "score": 0.5}}),
        {"node:Person": (1, 0, 0)},
    ),
    Case(
        "insert unkeyed node with an id of its own",
        lambda tx: tx.insert("Note", id='it\'s "n2"', text="two"),
        changed(FILLED, node_Note={'it\'s "n2"': {"text": "two"}}),
        {"node:Note": (1, 0, 0)},
    ),
    Case(
        "insert edge",
        knows("Bob", "Ada", id="k3", since="2020-01-02"),
        changed(FILLED, edge_Knows={"k3": {"src": "Bob", "dst": "Ada", "since": dt.date(2020, 1, 2)}}),
        {"edge:Knows": (1, 0, 0)},
    ),
    Case(
        "insert with nulls where others are unique",
        several(
            lambda tx: tx.insert("Note", id="n2", text="x", shelf="s"),
            lambda tx: tx.insert("Note", id="n3", text="x", shelf="s"),
            person(name="Dee", nick=None),
        ),
        changed(
            FILLED,
            node_Note={"n2": {"text": "x", "shelf": "s"}, "n3": {"text": "x", "shelf": "s"}},
            node_Person={"Dee": {"name": "Dee"}},
        ),
        {"node:Note": (2, 0, 0), "node:Person": (1, 0, 0)},
    ),
    Case(
        "insert with one member of a composite unique equal",
        lambda tx: tx.insert("Note", id="n2", text="x", shelf="s", place=2),
        changed(FILLED, node_Note={"n2": {"text": "x", "shelf": "s", "place": 2}}),
        {"node:Note": (1, 0, 0)},
    ),
    Case(
        "upsert new", put(name="Dee"), changed(FILLED, node_Person={"Dee": {"name": "Dee"}}), {"node:Person": (1, 0, 0)}
    ),
    Case(
        "upsert replaces the whole row",
        put(name="Ada", tier="free"),
        changed(FILLED, node_Person={"Ada": {"name": "Ada", "tier": "free"}}),
        {"node:Person": (0, 0, 0, 1)},
    ),
    Case(
        "upsert of an edge moves it",
        lambda tx: tx.upsert("Knows", id="k1", from_="Bob", to="Cy"),
        changed(FILLED, edge_Knows={"k1": {"src": "Bob", "dst": "Cy"}}),
        {"edge:Knows": (0, 0, 0, 1)},
    ),
    Case(
        "upsert after update",
        several(update("Ada", age=1), put(name="Ada", age=2)),
        changed(FILLED, node_Person={"Ada": {"name": "Ada", "age": 2}}),
        {"node:Person": (0, 1, 0, 1)},
    ),
    Case(
        "insert of a keyed node in a mutation is an upsert",
        gq("insert Person { name: $n }", n="Ada"),
        changed(FILLED, node_Person={"Ada": {"name": "Ada"}}),
        {"node:Person": (0, 0, 0, 1)},
    ),
    Case(
        "update",
        update("Ada", age=37, nick=None),
        changed(FILLED, node_Person={"Ada": {"name": "Ada", "age": 37}}),
        {"node:Person": (0, 1, 0)},
    ),
    Case(
        "update where",
        gq("update Person set { age: 40 } where age < $a", a=36),
        changed(FILLED, node_Person={"Bob": {"name": "Bob", "age": 40}}),
        {"node:Person": (0, 1, 0)},
    ),
    Case(
        "update of a row inserted before",
        several(person(name="Dee", age=1), update("Dee", age=2)),
        changed(FILLED, node_Person={"Dee": {"name": "Dee", "age": 2}}),
        {"node:Person": (1, 1, 0)},
    ),
    Case("update of nobody", update("Zoe", age=1), FILLED),
    Case("update of nobody where", gq("update Person set { age: 1 } where name = $n", n="Zoe"), FILLED),
    Case("update to what it is", update("Ada", age=36), FILLED, {"node:Person": (0, 1, 0)}),
    Case(
        "swap of unique values",
        several(update("Ada", nick=None), update("Bob", nick="a"), update("Ada", nick="b")),
        changed(
            FILLED,
            node_Person={
                "Ada": {"name": "Ada", "age": 36, "nick": "b"},
                "Bob": {"name": "Bob", "age": 20, "nick": "a"},
            },
        ),
        {"node:Person": (0, 3, 0)},
    ),
    Case(
        "delete node without edges",
        delete("Team", "U"),
        changed(FILLED, node_Team={"U": None}),
        {"node:Team": (0, 0, 1)},
    ),
    Case("delete edge", delete("Knows", "k1"), changed(FILLED, edge_Knows={"k1": None}), {"edge:Knows": (0, 0, 1)}),
    Case(
        "delete edges where",
        gq("delete Knows where from = $a and to = $b", a="Ada", b="Cy"),
        changed(FILLED, edge_Knows={"k2": None}),
        {"edge:Knows": (0, 0, 1)},
    ),
    Case("delete of nobody", delete("Person", "Zoe"), FILLED),
    Case("delete of nobody where", gq("delete Person where age > $a", a=100), FILLED),
    Case(
        "delete all that has a text",
        gq("delete Note where text != $t", t=""),
        changed(FILLED, node_Note={"n1": None}),
        {"node:Note": (0, 0, 1)},
    ),
    Case(
        "cascade at the source",
        delete("Person", "Ada"),
        changed(FILLED, node_Person={"Ada": None}, edge_Knows={"k1": None, "k2": None}),
        {"node:Person": (0, 0, 1), "edge:Knows": (0, 0, 2)},
    ),
    Case(
        "cascade at the target",
        gq("delete Person where name = $n", n="Bob"),
        changed(FILLED, node_Person={"Bob": None}, edge_Knows={"k1": None}),
        {"node:Person": (0, 0, 1), "edge:Knows": (0, 0, 1)},
    ),
    Case(
        "cascade takes pending edges",
        several(knows("Bob", "Cy"), knows("Cy", "Bob"), delete("Person", "Bob")),
        changed(FILLED, node_Person={"Bob": None}, edge_Knows={"k1": None}),
        {"node:Person": (0, 0, 1), "edge:Knows": (2, 0, 3)},
    ),
    Case(
        "cascade takes a loop once",
        several(knows("Bob", "Bob"), delete("Person", "Bob")),
        changed(FILLED, node_Person={"Bob": None}, edge_Knows={"k1": None}),
        {"node:Person": (0, 0, 1), "edge:Knows": (1, 0, 2)},
    ),
    Case(
        "cascade leaves an edge that was moved away",
        several(lambda tx: tx.upsert("Knows", id="k1", from_="Bob", to="Cy"), delete("Person", "Ada")),
        changed(
            FILLED,
            node_Person={"Ada": None},
            edge_Knows={"k1": {"src": "Bob", "dst": "Cy"}, "k2": None},
        ),
        {"node:Person": (0, 0, 1), "edge:Knows": (0, 0, 1, 1)},
    ),
    Case(
        "mixed in one mutation",
        gq(
            "insert Person { name: $n } insert Knows { id: $k, from: $n, to: $b } update Person set { age: 7 } where name = $n"
            " delete Knows where from = $a and to = $b",
            n="Dee",
            a="Ada",
            b="Bob",
            k="k3",
        ),
        changed(
            FILLED,
            node_Person={"Dee": {"name": "Dee", "age": 7}},
            edge_Knows={"k1": None, "k3": {"src": "Dee", "dst": "Bob"}},
        ),
        {"node:Person": (1, 1, 0), "edge:Knows": (1, 0, 1)},
    ),
    Case(
        "delete, then insert anew: its edges are gone",
        several(delete("Person", "Bob"), person(name="Bob")),
        changed(FILLED, node_Person={"Bob": {"name": "Bob"}}, edge_Knows={"k1": None}),
        {"node:Person": (1, 0, 1), "edge:Knows": (0, 0, 1)},
    ),
    Case(
        "insert, then delete",
        several(person(name="Dee"), delete("Person", "Dee")),
        FILLED,
        {"node:Person": (1, 0, 1)},
    ),
    Case(
        "insert, delete, insert",
        several(person(name="Dee", age=1), delete("Person", "Dee"), person(name="Dee", age=2)),
        changed(FILLED, node_Person={"Dee": {"name": "Dee", "age": 2}}),
        {"node:Person": (2, 0, 1)},
    ),
    Case(
        "upsert over a row of the branch, then delete",
        several(put(name="Bob", age=1), delete("Person", "Bob")),
        changed(FILLED, node_Person={"Bob": None}, edge_Knows={"k1": None}),
        {"node:Person": (1, 0, 1), "edge:Knows": (0, 0, 1)},
    ),
    Case(
        "update, delete, upsert",
        several(update("Bob", age=1), delete("Person", "Bob"), put(name="Bob", age=3)),
        changed(FILLED, node_Person={"Bob": {"name": "Bob", "age": 3}}, edge_Knows={"k1": None}),
        {"node:Person": (1, 1, 1), "edge:Knows": (0, 0, 1)},
    ),
    Case(
        "a unique value passes from a deleted node to a new one",
        several(delete("Person", "Ada"), person(name="Dee", nick="a")),
        changed(
            FILLED,
            node_Person={"Ada": None, "Dee": {"name": "Dee", "nick": "a"}},
            edge_Knows={"k1": None, "k2": None},
        ),
        {"node:Person": (1, 0, 1), "edge:Knows": (0, 0, 2)},
    ),
    Case(
        "an edge makes room for another",
        several(delete("Knows", "k1"), knows("Ada", "Ada", id="k3")),
        changed(FILLED, edge_Knows={"k1": None, "k3": {"src": "Ada", "dst": "Ada"}}),
        {"edge:Knows": (1, 0, 1)},
    ),
    Case(
        "a chief changes teams",
        several(delete("Leads", "l1"), leads("Max", "U", id="l3")),
        changed(FILLED, edge_Leads={"l1": None, "l3": {"src": "Max", "dst": "U"}}),
        {"edge:Leads": (1, 0, 1)},
    ),
    Case(
        "a node comes with the edge it needs, in either order",
        several(chief("Ned"), leads("Ned", "T", id="l3"), leads("Pat", "U", id="l4"), chief("Pat")),
        changed(
            FILLED,
            node_Chief={"Ned": {"name": "Ned"}, "Pat": {"name": "Pat"}},
            edge_Leads={"l3": {"src": "Ned", "dst": "T"}, "l4": {"src": "Pat", "dst": "U"}},
        ),
        {"node:Chief": (2, 0, 0), "edge:Leads": (2, 0, 0)},
    ),
    Case(
        "a node that keeps its edges is written anew",
        several(lambda tx: tx.upsert("Chief", name="Max", rank=1), lambda tx: tx.update("Chief", "Moe", rank=2)),
        changed(FILLED, node_Chief={"Max": {"name": "Max", "rank": 1}, "Moe": {"name": "Moe", "rank": 2}}),
        {"node:Chief": (0, 1, 0, 1)},
    ),
    Case(
        "a node goes with the edge it needs",
        delete("Chief", "Max"),
        changed(FILLED, node_Chief={"Max": None}, edge_Leads={"l1": None}),
        {"node:Chief": (0, 0, 1), "edge:Leads": (0, 0, 1)},
    ),
    Case(
        "the edge that a node needs goes, and then the node",
        several(delete("Leads", "l1"), delete("Chief", "Max")),
        changed(FILLED, node_Chief={"Max": None}, edge_Leads={"l1": None}),
        {"node:Chief": (0, 0, 1), "edge:Leads": (0, 0, 1)},
    ),
    Case(
        "an edge before its nodes",
        several(knows("Dee", "Eve", id="k3"), person(name="Dee"), person(name="Eve")),
        changed(
            FILLED,
            node_Person={"Dee": {"name": "Dee"}, "Eve": {"name": "Eve"}},
            edge_Knows={"k3": {"src": "Dee", "dst": "Eve"}},
        ),
        {"node:Person": (2, 0, 0), "edge:Knows": (1, 0, 0)},
    ),
]

PATTERN = "@check violation on Person.code: value 'ab' does not match pattern '[A-Z]+'"
ENUM = "invalid enum value 'vip' for Person.tier (expected: free, pro)"
NICK = "@unique violation on Person.nick: value 'a' held by 'Ada' and '{}'"


def refused(name: str, action: Action, error: type[OmnigraphError], says: str, **names: Any) -> Case:
    return Case(name, action, error=error, says=says, names=names)


BROKEN = [
    # values
    refused(
        "insert: required",
        lambda tx: tx.insert("Note", id="n2"),
        ValueViolation,
        "required property Note.text is missing",
        type_name="Note",
        property="text",
        entity_id="n2",
    ),
    refused(
        "insert: key missing", person(age=1), ValueViolation, "key property Person.name is missing", property="name"
    ),
    refused(
        "insert: enum", person(name="Dee", tier="vip"), ValueViolation, ENUM, property="tier", entity_id="Dee", value="vip"
    ),
    refused(
        "insert: below range", person(name="Dee", age=-1), ValueViolation,
        "@range violation on Person.age: value -1 < min 0", property="age", entity_id="Dee", value="-1",
    ),
    refused(
        "insert: above range", person(name="Dee", age=151), ValueViolation,
        "@range violation on Person.age: value 151 > max 150",
    ),
    refused(
        "insert: NaN", person(name="Dee", score=math.nan), RecordError,
        "Person.score expects a finite number, got NaN",
    ),
    refused("insert: check", person(name="Dee", code="ab"), ValueViolation, PATTERN, property="code", entity_id="Dee"),
    refused(
        "insert: wrong type", person(name="Dee", age="old"), RecordError, "Person.age expects I32, got 'old'",
        type_name="Person", property="age", entity_id="Dee", value="old",
    ),
    refused(
        "insert: out of I32", person(name="Dee", age=2**31), RecordError,
        "Person.age expects I32 (-2147483648 to 2147483647), got 2147483648",
    ),
    refused("insert: unknown property", person(name="Dee", nme=1), RecordError, "unknown property 'nme' on Person"),
    refused("insert: unknown type", lambda tx: tx.insert("Dog", a=1), RecordError, "'Dog' is not a type of this graph"),
    refused(
        "insert: edge without an end", lambda tx: tx.insert("Knows", from_="Ada"), RecordError,
        "Knows needs 'to', the id of a node; got null",
    ),
    refused(
        "insert: id against its key", person(name="Dee", id="Eve"), RecordError,
        "id 'Eve' of Person does not match its key: expected 'Dee'",
    ),
    refused("upsert: enum", put(name="Ada", tier="vip"), ValueViolation, ENUM),
    refused(
        "upsert: range", put(name="Ada", age=500), ValueViolation, "@range violation on Person.age: value 500 > max 150"
    ),
    refused("upsert: check", put(name="Ada", code="ab"), ValueViolation, PATTERN),
    refused(
        "upsert: required", lambda tx: tx.upsert("Note", id="n1"), ValueViolation, "required property Note.text is missing"
    ),
    refused("update: enum", update("Ada", tier="vip"), ValueViolation, ENUM, entity_id="Ada"),
    refused(
        "update: range", gq("update Person set { age: $a } where age < $b", a=-5, b=30), ValueViolation,
        "@range violation on Person.age: value -5 < min 0", entity_id="Bob",
    ),
    refused("update: check", update("Ada", code="ab"), ValueViolation, PATTERN, entity_id="Ada"),
    refused(
        "update: wrong type", update("Ada", age=True), RecordError, "Person.age expects I32, got true", entity_id="Ada"
    ),
    refused("update: unknown property", update("Ada", nme=1), RecordError, "unknown property 'nme' on Person"),
    refused(
        "update: key", update("Ada", name="Zed"), UsageError, "Person.name is part of the key and cannot be changed"
    ),
    refused(
        "update: required to null", lambda tx: tx.update("Note", "n1", text=None), ValueViolation,
        "required property Note.text is missing",
    ),
    refused("update: edges are not", lambda tx: tx.update("Knows", "k1"), RecordError, "'Knows' is not a type of this graph"),
    refused("mixed: value", several(delete("Knows", "k1"), update("Cy", tier="vip")), ValueViolation, ENUM),
    # keys and uniqueness
    refused("insert: key", person(name="Ada"), KeyConflict, "Person 'Ada' already exists"),
    refused("insert: given id", lambda tx: tx.insert("Note", id="n1", text="x"), KeyConflict, "Note 'n1' already exists"),
    refused("insert: edge id", knows("Bob", "Cy", id="k1"), KeyConflict, "Knows 'k1' already exists"),
    refused("insert: twice", several(person(name="Dee"), person(name="Dee")), KeyConflict, "Person 'Dee' already exists"),
    refused("insert: over an update", several(update("Ada", age=1), person(name="Ada")), KeyConflict, "Person 'Ada' already exists"),
    refused(
        "insert: taken back, but it was there", several(person(name="Ada"), delete("Person", "Ada")), KeyConflict,
        "Person 'Ada' already exists",
    ),
    refused(
        "insert: unique", person(name="Dee", nick="a"), UniqueViolation, NICK.format("Dee"),
        type_name="Person", property="nick", value="a",
    ),
    refused(
        "insert: unique in the batch", several(person(name="Dee", nick="x"), person(name="Eve", nick="x")), UniqueViolation,
        "@unique violation on Person.nick: value 'x' held by 'Dee' and 'Eve'",
    ),
    refused(
        "insert: composite unique", lambda tx: tx.insert("Note", id="n2", text="x", shelf="s", place=1), UniqueViolation,
        "@unique violation on Note.shelf, place: value 's, 1' held by 'n1' and 'n2'",
    ),
    refused(
        "insert: unique ends", knows("Ada", "Bob", id="k3"), UniqueViolation,
        "@unique violation on Knows.src, dst: value 'Ada, Bob' held by 'k1' and 'k3'",
    ),
    refused("upsert: unique", put(name="Bob", nick="a"), UniqueViolation, NICK.format("Bob")),
    refused("update: unique", update("Bob", nick="a"), UniqueViolation, NICK.format("Bob")),
    refused(
        "update: unique, all at once", gq("update Person set { nick: $n } where name = $b or name = $c", n="q", b="Bob", c="Cy"),
        UniqueViolation, "@unique violation on Person.nick: value 'q' held by 'Bob' and 'Cy'",
    ),
    refused(
        "mixed: unique", several(update("Ada", nick="b"), person(name="Dee", nick="b")), UniqueViolation,
        "@unique violation on Person.nick: value 'b' held by 'Ada' and 'Dee'",
    ),
    # endpoints
    refused(
        "insert: source", knows("Zoe", "Ada", id="k3"), EndpointMissing, "from 'Zoe' not found in Person",
        type_name="Knows", property="src", entity_id="k3", value="Zoe",
    ),
    refused("insert: target", knows("Bob", "Zoe"), EndpointMissing, "to 'Zoe' not found in Person"),
    refused(
        "insert: target of another type", leads("Max", "Ada"), EndpointMissing,
        "to 'Ada' not found in Team",
    ),
    refused(
        "upsert: target", lambda tx: tx.upsert("Knows", id="k1", from_="Ada", to="Zoe"), EndpointMissing,
        "to 'Zoe' not found in Person",
    ),
    refused("mixed: to one that went", several(delete("Person", "Cy"), knows("Bob", "Cy")), EndpointMissing, "to 'Cy' not found in Person"),
    refused(
        "mixed: to one that came and went",
        several(person(name="Dee"), delete("Person", "Dee"), knows("Bob", "Dee")), EndpointMissing,
        "to 'Dee' not found in Person",
    ),
    # cardinality
    refused(
        "insert: too many", knows("Ada", "Ada"), CardinalityViolation,
        "@card violation on edge Knows: source 'Ada' has 3 edges (max 2)", type_name="Knows", entity_id="Ada",
    ),
    refused(
        "insert: too many in the batch", several(knows("Bob", "Ada"), knows("Bob", "Bob"), knows("Bob", "Cy")),
        CardinalityViolation, "@card violation on edge Knows: source 'Bob' has 3 edges (max 2)",
    ),
    refused(
        "upsert: moves one edge too many",
        several(knows("Bob", "Ada"), knows("Bob", "Bob"), lambda tx: tx.upsert("Knows", id="k1", from_="Bob", to="Cy")),
        CardinalityViolation, "@card violation on edge Knows: source 'Bob' has 3 edges (max 2)",
    ),
    refused(
        "upsert: takes the last edge away", lambda tx: tx.upsert("Leads", id="l1", from_="Moe", to="T"),
        CardinalityViolation, "@card violation on edge Leads: source 'Max' has 0 edges (min 1)",
    ),
    refused(
        "delete: too few", delete("Leads", "l1"), CardinalityViolation,
        "@card violation on edge Leads: source 'Max' has 0 edges (min 1)",
    ),
    refused(
        "cascade: too few on the other side", delete("Team", "T"), CardinalityViolation,
        "@card violation on edge Leads: source 'Max' has 0 edges (min 1)",
    ),
    refused(
        "mixed: too few after all",
        several(leads("Max", "U"), delete("Leads", "l1"), delete("Team", "U")),
        CardinalityViolation, "@card violation on edge Leads: source 'Max' has 0 edges (min 1)",
    ),
    refused(
        "insert: a node without the edge it needs", chief("Ned"), CardinalityViolation,
        "@card violation on edge Leads: source 'Ned' has 0 edges (min 1)",
        type_name="Leads", property="src", entity_id="Ned", value="0",
        hint="write the Leads edges of Chief 'Ned' in the same write, or delete the node",
    ),
    refused(
        "upsert: a node without the edge it needs", gq("insert Chief { name: $n }", n="Ned"), CardinalityViolation,
        "@card violation on edge Leads: source 'Ned' has 0 edges (min 1)",
    ),
    refused(
        "mixed: a node that goes and comes back without its edge",
        several(delete("Chief", "Max"), chief("Max")), CardinalityViolation,
        "@card violation on edge Leads: source 'Max' has 0 edges (min 1)",
    ),
    refused(
        "mixed: another node's edge does not help", several(chief("Ned"), leads("Max", "U")), CardinalityViolation,
        "@card violation on edge Leads: source 'Ned' has 0 edges (min 1)",
    ),
]  # fmt: skip


@pytest.fixture
def graph() -> og.Graph:
    return og.Graph(Repository.create("memory://", CATALOG))


def filled(graph: og.Graph) -> og.Graph:
    with graph.transaction() as tx:
        fill(tx)
    return graph


def more(tx: og.Transaction, id: str) -> None:
    """Statements of a larger transaction around the one that is looked at."""
    tx.insert("Person", name=id, nick=id)
    tx.insert("Team", title=id)
    tx.insert("Chief", name=id)
    tx.insert("Leads", id=id, from_=id, to=id)
    tx.update("Person", id, age=9)


def with_more(content: Content) -> Content:
    people = {id: {"name": id, "nick": id, "age": 9} for id in ("before", "after")}
    teams = {id: {"title": id} for id in ("before", "after")}
    chiefs = {id: {"name": id} for id in ("before", "after")}
    edges = {id: {"src": id, "dst": id} for id in ("before", "after")}
    return changed(content, node_Person=people, node_Team=teams, node_Chief=chiefs, edge_Leads=edges)


def counted(receipt: og.types.Receipt) -> dict[str, tuple[int, ...]]:
    return {
        key: (counts.inserted, counts.updated, counts.deleted, *([counts.replaced] if counts.replaced else []))
        for key, counts in receipt.types.items()
        if counts.total
    }


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.name)
def test_a_valid_write(graph: og.Graph, case: Case) -> None:
    """On the head of main: its content, its counts, one commit (none when nothing changed)."""
    filled(graph)
    before = graph.commits()
    with graph.transaction(actor="ada", message=case.name) as tx:
        case.action(tx)
    assert content(graph) == case.after
    assert counted(tx.receipt) == case.counts
    after = graph.commits()
    if case.after == FILLED:
        assert tx.receipt.commit is None
        assert after == before
    else:
        assert tx.receipt.commit == after[0]
        assert after[1:] == before
        assert (after[0].actor, after[0].message) == ("ada", case.name)


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.name)
def test_a_valid_write_as_the_first_one(graph: og.Graph, case: Case) -> None:
    """Everything in one transaction on an empty graph: what it works on is pending."""
    with graph.transaction() as tx:
        fill(tx)
        case.action(tx)
    assert content(graph) == case.after
    assert [commit.kind for commit in graph.commits()] == ["mutation", "init"]


@pytest.mark.parametrize("case", VALID, ids=lambda case: case.name)
def test_a_valid_write_on_a_branch(graph: og.Graph, case: Case) -> None:
    filled(graph).branches.create("side")
    with graph.transaction("side") as tx:
        case.action(tx)
    assert content(graph, "side") == case.after
    assert counted(tx.receipt) == case.counts
    assert content(graph) == FILLED
    assert len(graph.commits()) == 2
    assert len(graph.commits("side")) == (2 if case.after == FILLED else 3)


SEES_OTHER_STATEMENTS = ("update of nobody where", "delete of nobody where", "update where")
"""By its condition: among others it would do something else."""


@pytest.mark.parametrize(
    "case", [case for case in VALID if case.name not in SEES_OTHER_STATEMENTS], ids=lambda case: case.name
)
def test_a_valid_write_in_a_larger_transaction(graph: og.Graph, case: Case) -> None:
    filled(graph)
    with graph.transaction() as tx:
        more(tx, "before")
        case.action(tx)
        more(tx, "after")
    assert content(graph) == with_more(case.after or {})
    assert len(graph.commits()) == 3


def check_refusal(error: OmnigraphError, case: Case) -> None:
    assert type(error) is case.error
    assert error.message == case.says
    assert {name: getattr(error, name) for name in case.names} == case.names
    assert error.outcome == "not_committed"


@pytest.mark.parametrize("case", BROKEN, ids=lambda case: case.name)
@pytest.mark.parametrize("place", ["main", "branch", "first", "larger"])
def test_a_refused_write(graph: og.Graph, case: Case, place: str) -> None:
    """It says what is wrong, and leaves nothing: no content, no commit."""
    if place != "first":
        filled(graph)
    branch = "main"
    if place == "branch":
        graph.branches.create("side")
        branch = "side"
    commits, before = graph.commits(branch), content(graph, branch)

    def write() -> None:
        with graph.transaction(branch) as tx:
            if place == "first":
                fill(tx)
            if place == "larger":
                more(tx, "before")
            case.action(tx)
            if place == "larger":
                more(tx, "after")

    with pytest.raises(OmnigraphError) as caught:
        write()
    check_refusal(caught.value, case)
    assert content(graph, branch) == before
    assert graph.commits(branch) == commits
