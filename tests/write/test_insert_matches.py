"""An insert with a `match`: once for each row, on what the statements before it left, and only while that stands."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import ExpectedVersionMismatch, KeyConflict, ResourceExhausted, ValueViolation
from omnigraph.read import execution

SCHEMA = """
node Person { name: String @key  nick: String?  age: I32?  born: DateTime?  tags: [String]?  taste: Vector(2)? }
node Note { text: String  n: I32?  at: DateTime?  tags: [String]?  taste: Vector(2)? }
edge Knows: Person -> Person { since: Date? }
edge Met: Person -> Person { since: Date? }
"""
NOTES = "query q() { match { $n: Note } return { $n.text as text, $n.n as n } order { text, n } }"
COPY = "insert Met { from: $e.from, to: $e.to, since: $e.since } match { $a $e:knows $b }"


@pytest.fixture
def g(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada", age=36, born="1815-12-10T06:30:00Z", tags=["x"], taste=[0.5, 1])
        tx.insert("Person", name="Bo")
        for since in ("2020-01-01", None):
            tx.insert("Knows", from_="Ada", to="Bo", since=since)
    return graph


def mutate(graph: og.Graph, statements: str) -> og.types.Receipt:
    return graph.mutate(f"query q() {{ {statements} }}")


def test_every_type_of_value_is_taken_over_as_it_is(g: og.Graph) -> None:
    values = "text: $p.name, n: $p.age, at: $p.born, tags: $p.tags, taste: $p.taste"
    receipt = mutate(g, f"insert Note {{ {values} }} match {{ $p: Person }}")
    assert receipt.types["node:Note"].inserted == 2
    whole = "query q() { match { $n: Note } return { $n } order { $n.text } }"
    copied = [{**row["n"], "id": None} for row in g.query(whole).rows]
    ada, bo = g.entity("Person", "Ada"), g.entity("Person", "Bo")
    names = {"text": "name", "n": "age", "at": "born", "tags": "tags", "taste": "taste"}
    assert copied == [{"id": None} | {name: one[old] for name, old in names.items()} for one in (ada, bo)]


def test_there_is_one_for_each_row_of_the_match(g: og.Graph) -> None:
    assert mutate(g, COPY).types["edge:Met"].inserted == 2
    since = g.query("query q() { match { $a $m:met $b } return { $m.since as s } order { s } }").to_json()
    assert since == [{"s": None}, {"s": "2020-01-01"}]
    # Without a name for the edge a pair of nodes is one row.
    assert mutate(g, "insert Met { from: $b.id, to: $a.id } match { $a knows $b }").types["edge:Met"].inserted == 1
    assert mutate(g, 'insert Note { text: "same" } match { $p: Person }').types["node:Note"].inserted == 2
    assert mutate(g, 'insert Note { text: "none" } match { $p: Person { name: "Cy" } }').commit is None


def test_whatever_a_pattern_binds_can_be_inserted(g: og.Graph) -> None:
    mutate(g, "insert Note { text: upper($x) } match { $p: Person unnest $p.tags as $x }")
    mutate(g, 'insert Note { text: coalesce($b.name, "nobody") } match { $p: Person optional { $p knows $b } }')
    assert [row["text"] for row in g.query(NOTES).rows] == ["Bo", "X", "nobody"]


def test_statements_see_what_was_done_before_them_and_not_themselves(g: og.Graph) -> None:
    mutate(
        g,
        """
        insert Person { name: "Cy", age: 6 * 7 }
        update Person set { age: 37 } where name = "Ada"
        delete Person where name = "Bo"
        insert Note { text: $p.name, n: $p.age + 1 } match { $p: Person }
        insert Note { text: "again", n: $n.n } match { $n: Note }
        """,
    )
    assert g.query(NOTES).rows == [
        {"text": "Ada", "n": 38},
        {"text": "Cy", "n": 43},
        {"text": "again", "n": 38},
        {"text": "again", "n": 43},
    ]


def test_rules_hold_for_what_is_inserted(g: og.Graph) -> None:
    head = g.head()
    with pytest.raises(ValueViolation, match=r"Note\.text"):
        mutate(g, 'insert Person { name: "Cy" } insert Note { text: $p.nick } match { $p: Person }')
    with pytest.raises(KeyConflict):
        mutate(g, 'insert Note { id: "one", text: $p.name } match { $p: Person }')
    assert g.head() == head


def test_keyed_nodes_replace_those_that_are_there(g: og.Graph) -> None:
    mutate(g, "insert Person { name: $p.name, age: 1 } match { $p: Person }")
    ada = g.entity("Person", "Ada")
    assert (ada["age"], ada["born"], ada["tags"]) == (1, None, None)


def test_it_matches_again_when_a_table_that_was_matched_moved(g: og.Graph) -> None:
    tx = g.transaction()
    tx.mutate(f"query q() {{ {COPY} }}")
    g.mutate('query q() { insert Knows { from: "Bo", to: "Ada" } }')
    tx.commit()
    assert tx.receipt.types["edge:Met"].inserted == 3
    met = "query q() { match { $a $m:met $b } return { $a.name as a, $b.name as b } order { a, b } }"
    assert g.query(met).rows == g.query(met.replace("$m:met", "$m:knows")).rows


def test_it_goes_on_when_something_else_moved(g: og.Graph) -> None:
    tx = g.transaction()
    tx.mutate(f"query q() {{ {COPY} }}")
    g.mutate('query q() { insert Note { text: "elsewhere" } }')
    renamed = 'edge Knew: Person -> Person @rename_from("Knows")'
    g.schema.apply(SCHEMA.replace("edge Knows: Person -> Person", renamed))
    tx.commit()
    assert len(g.query("query q() { match { $a $m:met $b } return { $m.id as id } }").rows) == 2


def test_a_schema_that_drops_what_was_matched_is_a_conflict(g: og.Graph) -> None:
    tx = g.transaction()
    tx.mutate(f"query q() {{ {COPY} }}")
    g.schema.apply(SCHEMA.replace("edge Knows: Person -> Person { since: Date? }", ""))
    with pytest.raises(ExpectedVersionMismatch, match="schema"):
        tx.commit()


def test_more_rows_than_fit_are_refused(g: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(execution, "MAX_MATCHED_ROWS", 1)
    with pytest.raises(ResourceExhausted, match="more than 1 rows") as refused:
        mutate(g, COPY)
    assert "omnigraph load" in str(refused.value.hint)
    monkeypatch.setattr(execution, "MAX_MATCHED_ROWS", 2)
    mutate(g, COPY)
    monkeypatch.setattr(execution, "MAX_MATCHED_BYTES", 1)
    with pytest.raises(ResourceExhausted):
        mutate(g, COPY)
