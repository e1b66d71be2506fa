"""`create`, `upsert` and `insert` in mutations, and receipts that tell what was inserted from what was replaced."""

from __future__ import annotations

import threading

import pytest

import omnigraph as og
from omnigraph.errors import KeyConflict, QueryError

SCHEMA = """
node Person { name: String @key  age: I32? }
node Note { text: String? }
edge Knows: Person -> Person @key(src, dst)
edge Likes: Person -> Person
"""


@pytest.fixture
def graph() -> og.Graph:
    graph = og.init("memory://", schema=SCHEMA)
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada", age=36)
        tx.insert("Person", name="Bo")
        tx.insert("Note", id="n", text="old")
        tx.insert("Knows", from_="Ada", to="Bo")
    return graph


def counts(graph: og.Graph, statements: str) -> dict[str, tuple[int, int]]:
    types = graph.mutate(f"query q() {{ {statements} }}").types
    return {key.partition(":")[2]: (each.inserted, each.replaced) for key, each in types.items()}


@pytest.mark.parametrize(
    ("statements", "expected"),
    [
        ('insert Person { name: "Ada" }', {"Person": (0, 1)}),
        ('insert Person { name: "Cy" }', {"Person": (1, 0)}),
        ('create Person { name: "Cy" }', {"Person": (1, 0)}),
        ('upsert Person { name: "Ada" }  upsert Person { name: "Cy" }', {"Person": (1, 1)}),
        ('upsert Person { name: "Cy" }  upsert Person { name: "Cy", age: 1 }', {"Person": (1, 1)}),
        ('upsert Note { id: "n" }  create Note { id: "m" }  insert Note { text: "x" }', {"Note": (2, 1)}),
        ('insert Knows { from: "Ada", to: "Bo" }  create Knows { from: "Bo", to: "Ada" }', {"Knows": (1, 1)}),
        ('upsert Person { name: "Ada", age: 1 }  delete Person where name = "Bo"', {"Person": (0, 1), "Knows": (0, 0)}),
        ("upsert Knows { from: $p.id, to: $p.id } match { $p: Person }", {"Knows": (2, 0)}),
    ],
)
def test_what_was_inserted_and_what_was_replaced(
    graph: og.Graph, statements: str, expected: dict[str, tuple[int, int]]
) -> None:
    assert counts(graph, statements) == expected


@pytest.mark.parametrize(
    "statement",
    [
        'create Person { name: "Ada" }',
        'create Note { id: "n" }',
        'create Knows { from: "Ada", to: "Bo" }',
        'insert Note { id: "n" }',
        'create Person { name: "Cy" }  create Person { name: "Cy" }',
    ],
)
def test_a_create_refuses_what_exists(graph: og.Graph, statement: str) -> None:
    with pytest.raises(KeyConflict):
        graph.mutate(f"query q() {{ {statement} }}")


@pytest.mark.parametrize("statement", ['upsert Note { text: "x" }', 'upsert Likes { from: "Ada", to: "Bo" }'])
def test_an_upsert_needs_something_that_identifies(graph: og.Graph, statement: str) -> None:
    with pytest.raises(QueryError, match="has no @key, so nothing says which one to replace"):
        graph.mutate(f"query q() {{ {statement} }}")


def test_writers_that_share_an_entry_count_their_own_replacements(graph: og.Graph) -> None:
    found: dict[str, tuple[int, int]] = {}

    def upsert(name: str) -> None:
        total = graph.mutate("query q($n: String) { upsert Person { name: $n } }", {"n": name}).total
        found[name] = (total.inserted, total.replaced)

    names = ["Ada", "Bo", *(f"p{number}" for number in range(14))]
    threads = [threading.Thread(target=upsert, args=(name,)) for name in names]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == {name: (0, 1) if name in ("Ada", "Bo") else (1, 0) for name in names}


def test_an_edge_names_its_ends_by_whole_numbers_if_these_are_the_key() -> None:
    large = 2**53 + 1
    g = og.init("memory://", schema="node P { n: I64 @key }\nedge Knows: P -> P")
    g.mutate("query q($n: I64) { insert P { n: 1 }  insert P { n: $n } }", {"n": large})
    g.mutate("query q($a: I64, $b: I64) { insert Knows { from: $a, to: $b } }", {"a": 1, "b": large})
    g.mutate(f"query q() {{ insert Knows {{ from: {large}, to: 1 }} }}")
    g.mutate('query q($a: String) { insert Knows { from: $a, to: "1" } }', {"a": "1"})
    g.mutate("query q($a: I64) { insert Knows { from: $a, to: $p.n } match { $p: P  $p.n > 1 } }", {"a": large})
    found = g.query("query q() { match { $p $k:knows $q } return { $p.n as a, $q.n as b } order { a, b } }")
    assert [tuple(row.values()) for row in found] == [(1, 1), (1, large), (large, 1), (large, large)]
    with pytest.raises(og.errors.EndpointMissing):
        g.mutate("query q($a: I64) { insert Knows { from: $a, to: 5 } }", {"a": 1})
    with pytest.raises(og.errors.QueryError, match=r"1\.5 is not a value of String"):
        g.mutate("query q() { insert Knows { from: 1.5, to: 1 } }")
