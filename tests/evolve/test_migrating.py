"""Mutations that run with a schema change: one commit or none, with old values at hand."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import QueryError, SchemaChangeRefused, UsageError, ValueViolation

BEFORE = """
node Person { name: String @key  first: String?  age: I32?  tier: String? }
edge Knows: Person -> Person
"""
AFTER = """
node Human @rename_from("Person") { name: String @key  called: String  years: I64? @rename_from("age") }
edge Knows: Human -> Human
"""
FILL = """
query known() { update Human set { called: first } where first is not null }
query unknown() { update Human set { called: name, years: 0 } where first is null }
"""


@pytest.fixture
def g(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=BEFORE)
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada", first="A.", age=36, tier="x")
        tx.insert("Person", name="Bo")
        tx.insert("Knows", from_="Ada", to="Bo")
    return graph


def test_what_is_new_is_filled_with_what_goes(g: og.Graph) -> None:
    head = g.head()
    receipt = g.schema.apply(AFTER, with_=FILL)
    assert receipt.commit == g.head()
    assert g.show("main~1") == head
    assert g.entity("Human", "Ada") == {"id": "Ada", "name": "Ada", "called": "A.", "years": 36}
    assert g.entity("Human", "Bo") == {"id": "Bo", "name": "Bo", "called": "Bo", "years": 0}
    assert g.query("query q() { match { $p: Human $p knows $q } return { $q.called as c } }").rows == [{"c": "Bo"}]
    assert g.entity("Person", "Ada", revision="main~1")["first"] == "A."
    og.open(g.uri, verify="full")


def test_rows_that_are_still_in_the_way_refuse_both(g: og.Graph) -> None:
    head = g.head()
    with pytest.raises(SchemaChangeRefused) as refused:
        g.schema.apply(AFTER, with_="query q() { update Human set { called: first } where first is not null }")
    ((_, count, first),) = refused.value.violations
    assert (count, first[0][0]) == (1, "Bo")
    assert g.head() == head


def test_what_a_migration_writes_obeys_the_new_rules(g: og.Graph) -> None:
    ranged = AFTER.replace('@rename_from("age") }', '@rename_from("age")  @range(years, 0..9) }').replace(
        "called: String", "called: String?"
    )
    with pytest.raises(ValueViolation, match="@range violation on Human"):
        g.schema.apply(ranged, with_='query q() { update Human set { years: 10 } where name = "Ada" }')
    g.schema.apply(ranged, with_="query q() { update Human set { years: years - 27 } where years > 9 }")
    assert g.entity("Human", "Ada")["years"] == 9


def test_a_dry_run_runs_the_migration_and_changes_nothing(g: og.Graph) -> None:
    head = g.head()
    assert g.schema.apply(AFTER, with_=FILL, dry_run=True).commit is None
    assert g.head() == head
    assert list(g.schema.catalog.nodes) == ["Person"]


def test_a_migration_inserts_and_deletes(g: og.Graph) -> None:
    text = BEFORE + "node Team { name: String @key }\nedge Within: Person -> Team"
    both = """
    query a() { insert Team { name: "Red" } insert Within { from: "Ada", to: "Red" } }
    query b() { delete Person where name = "Bo" }
    """
    g.schema.apply(text, with_=both)
    assert g.query("query q() { match { $p: Person $t: Team $p within $t } return { $t.name as n } }").rows == [
        {"n": "Red"}
    ]
    assert g.entity("Person", "Bo") is None


def test_a_migration_is_checked(g: og.Graph) -> None:
    with pytest.raises(QueryError, match="nickname"):
        g.schema.apply(AFTER, with_='query q() { update Human set { nickname: "x" } where name = "Ada" }')
    with pytest.raises(UsageError, match="is a read"):
        g.schema.apply(AFTER, with_="query q() { match { $p: Human } return { $p.name } }")
    with pytest.raises(UsageError, match="has parameters"):
        g.schema.apply(AFTER, with_="query q($n: String) { update Human set { called: $n } where name = $n }")


def test_a_plan_says_whether_the_mutations_fit(g: og.Graph) -> None:
    assert g.schema.plan(AFTER, with_=FILL).lines() == g.schema.plan(AFTER).lines()
    with pytest.raises(QueryError):
        g.schema.plan(AFTER, with_="query q() { update Human set { called: nick } where first is null }")


def test_an_update_may_look_at_the_row(g: og.Graph) -> None:
    g.mutate('query q() { update Person set { age: age + 1, tier: first } where name = "Ada" }')
    assert g.entity("Person", "Ada") == {"id": "Ada", "name": "Ada", "first": "A.", "age": 37, "tier": "A."}


def test_edges_move_to_another_type(g: og.Graph) -> None:
    text = """
    node Human @rename_from("Person") { name: String @key }
    edge Met: Human -> Human { note: String? }
    """
    move = """query move() {
      insert Met { from: $a.id, to: $b.id, note: $a.first } match { $a $k:knows $b }
    }"""
    g.schema.apply(text, with_=move)
    rows = g.query("query q() { match { $a $m:met $b } return { $a.name as a, $b.name as b, $m.note as n } }").rows
    assert rows == [{"a": "Ada", "b": "Bo", "n": "A."}]
    assert list(g.schema.catalog.edges) == ["Met"]
    with pytest.raises(QueryError, match="unknown edge 'knows'"):
        g.mutate(move)
    og.open(g.uri, verify="full")


def test_nodes_of_a_type_that_goes_become_others(g: og.Graph) -> None:
    move = """
    query people() { insert Member { code: $p.name, years: $p.age } match { $p: Person } }
    query ties() { insert Tie { from: $a.id, to: $b.id } match { $x knows $y $a: Member { } $b: Member { } $a.code = $x.name $b.code = $y.name } }
    """
    g.schema.apply("node Member { code: String @key  years: I64? }\nedge Tie: Member -> Member", with_=move)
    assert g.entity("Member", "Ada") == {"id": "Ada", "code": "Ada", "years": 36}
    rows = g.query("query q() { match { $a tie $b } return { $a.code as a, $b.code as b } }").rows
    assert rows == [{"a": "Ada", "b": "Bo"}]


def test_a_migration_does_not_write_what_goes(g: og.Graph) -> None:
    text = "node Person { name: String @key }"
    for write in ('insert Knows { from: "Ada", to: "Bo" }', 'delete Knows where from = "Ada"'):
        with pytest.raises(UsageError, match="writes Knows, which the change drops"):
            g.schema.apply(text, with_=f"query q() {{ {write} }}")
    g.schema.apply(text, with_='query q() { delete Person where name = "Bo" }')
    assert g.entity("Person", "Bo") is None


def test_a_migration_says_nothing_of_what_the_new_schema_allows(g: og.Graph) -> None:
    fill = "query fill() { update Person set { age: 1 } where first is not null }"
    g.schema.apply(BEFORE.replace("first: String?", ""), with_=fill)
    with pytest.raises(QueryError, match="no property 'first'"):
        g.mutate(fill)
