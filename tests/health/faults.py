"""A small graph with every kind of rule and index, and faults to plant in it, each with what verification says of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

from health.planting import put_rows, put_stale_index, remove_rows

import omnigraph as og
from omnigraph.tables.indexes import IndexSpec

SCHEMA = """
node Person {
  name: String @key
  age: I32? @index
  nick: String? @unique
  bio: String? @index
  place: Vector(4)? @index
  @range(age, 0..150)
}
node Chief { name: String @key }
node Team { title: String @key }
edge Knows: Person -> Person @card(0..2)
edge Leads: Chief -> Team @card(1..2)
"""
PEOPLE = 60


def person(number: int) -> dict[str, object]:
    vector = [math.sin(number), math.cos(number), number / 20, 1.0]
    return {"name": f"p{number}", "age": number, "bio": f"word{number} of many", "place": vector}


def made_graph(folder: Path) -> og.Graph:
    graph = og.init(folder, SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert_many("Person", [person(number) for number in range(PEOPLE)])
        tx.insert("Team", title="T")
        tx.insert("Chief", name="Max")
        tx.insert("Leads", id="l", from_="Max", to="T")
        tx.insert("Knows", id="k", from_="p1", to="p2")
    graph.maintenance.optimize()
    with graph.transaction() as tx:
        tx.insert_many("Person", [person(number) for number in range(PEOPLE, PEOPLE + 5)])
        tx.delete("Person", "p7")
    return graph


Fault = tuple[Callable[[og.Graph], object], str, str, str, tuple[str, ...]]
FAULTS: dict[str, Fault] = {
    "duplicate id": (
        lambda graph: put_rows(graph, "node:Person", [{"id": "p3", "name": "p3"}]),
        "duplicate_id",
        "Person",
        "'p3'",
        ("p3",),
    ),
    "missing end": (
        lambda graph: put_rows(graph, "edge:Knows", [{"id": "x", "src": "p1", "dst": "nobody"}]),
        "missing_end",
        "Knows",
        "to 'nobody' not found in Person",
        ("x",),
    ),
    "node removed under its edge": (
        lambda graph: remove_rows(graph, "node:Person", ["p2"]),
        "missing_end",
        "Knows",
        "to 'p2' not found in Person",
        ("k",),
    ),
    "value out of range": (
        lambda graph: put_rows(graph, "node:Person", [{"id": "old", "name": "old", "age": 151}]),
        "broken_rule",
        "Person",
        "value 151 > max 150",
        ("old",),
    ),
    "unique value twice": (
        lambda graph: put_rows(graph, "node:Person", [{"id": n, "name": n, "nick": "x"} for n in ("q1", "q2")]),
        "broken_rule",
        "Person",
        "value 'x' held by 'q1' and 'q2'",
        ("q1",),
    ),
    "too many edges": (
        lambda graph: put_rows(graph, "edge:Knows", [{"id": f"k{n}", "src": "p1", "dst": "p3"} for n in range(3)]),
        "broken_rule",
        "Knows",
        "source 'p1' has 4 edges (max 2)",
        ("p1",),
    ),
    "too few edges": (
        lambda graph: put_rows(graph, "node:Chief", [{"id": "Moe", "name": "Moe"}]),
        "broken_rule",
        "Leads",
        "source 'Moe' has 0 edges (min 1)",
        ("Moe",),
    ),
    "stale lookup index": (
        lambda graph: put_stale_index(graph, "node:Person", IndexSpec("age", "BTREE")),
        "stale_index",
        "Person",
        "age.btree",
        (),
    ),
    "stale index of ids": (
        lambda graph: put_stale_index(graph, "node:Person", IndexSpec("id", "BTREE")),
        "stale_index",
        "Person",
        "id.btree",
        (),
    ),
    "stale text index": (
        lambda graph: put_stale_index(graph, "node:Person", IndexSpec("bio", "INVERTED", "english")),
        "stale_index",
        "Person",
        "bio.inverted.english",
        (),
    ),
    "stale vector index": (
        lambda graph: put_stale_index(graph, "node:Person", IndexSpec("place", "IVF_FLAT", "cosine")),
        "stale_index",
        "Person",
        "place.ivf_flat.cosine",
        (),
    ),
}
"""How to plant it; the kind, the type, the words and the ids of the finding."""
