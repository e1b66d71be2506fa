"""Queries and schema changes: which would break, how schemas differ, and old states asked through newer names."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import UsageError

BEFORE = "node Person { name: String @key  age: I32?  nick: String? }\nedge Knows: Person -> Person"
AFTER = """
node Human @rename_from("Person") { name: String @key  years: I64? @rename_from("age")  lang: String @default("en") }
node Team { name: String @key }
edge Knows: Human -> Human
"""


@pytest.fixture
def g(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", schema=BEFORE, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada", age=36)
        tx.insert("Person", name="Bo")
        tx.insert("Knows", from_="Ada", to="Bo")
    return graph


def test_queries_that_a_change_breaks_are_named(g: og.Graph, tmp_path: Path) -> None:
    (tmp_path / "q" / "more").mkdir(parents=True)
    (tmp_path / "q" / "a.gq").write_text(
        "query names() { match { $p: Person } return { $p.name } }\n"
        "query wrong() { match { $p: Nobody } return { $p.name } }\n"
    )
    (tmp_path / "q" / "more" / "b.gq").write_text(
        "query nicks() { match { $p: Person } return { $p.nick } }\n"
        "query pairs() { match { $p: Person $p knows $q } return { $p.name, $q.name } }\n"
    )
    dropped = BEFORE.replace("  nick: String?", "")
    (broken,) = g.schema.broken_queries(dropped, tmp_path / "q")
    assert (broken.file, broken.query) == ("more/b.gq", "nicks")
    assert "nick" in broken.error
    renamed = [(each.file, each.query) for each in g.schema.broken_queries(AFTER, tmp_path / "q")]
    assert renamed == [("a.gq", "names"), ("more/b.gq", "nicks"), ("more/b.gq", "pairs")]
    with pytest.raises(UsageError, match="does not exist"):
        g.schema.broken_queries(AFTER, tmp_path / "missing")


def test_schemas_of_two_revisions_are_compared(g: og.Graph, tmp_path: Path) -> None:
    g.schema.apply(BEFORE.replace("age: I32?", "age: I64?"))
    (tmp_path / "after.pg").write_text(BEFORE.replace("age: I32?", "age: I64?").replace("  nick: String?", ""))
    assert g.schema.diff("main~1", "main").lines() == ["widen property 'Person.age' from I32? to I64? on node 'Person'"]
    assert g.schema.diff("main", "main~1").supported is False
    assert g.schema.diff("main", "main").is_empty
    lines = g.schema.diff("main", tmp_path / "after.pg").lines()
    assert lines == ["drop property 'Person.nick' of node 'Person' (soft mode)"]


def test_an_old_state_is_asked_through_newer_names(g: og.Graph) -> None:
    g.schema.apply(AFTER)
    with g.transaction() as tx:
        tx.update("Human", "Ada", years=37)
    everybody = "query q() { match { $p: Human } return { $p.name, $p.years, $p.lang } order { $p.name } }"
    rows = g.query(everybody, revision="main~2", schema_of="main").rows
    assert [tuple(row.values()) for row in rows] == [("Ada", 36, "en"), ("Bo", None, "en")]
    teams = "query q() { match { $t: Team } return { count($t) as n } }"
    assert g.query(teams, revision="main~2", schema_of="main").rows == [{"n": 0}]
    hops = "query q() { match { $p: Human $p knows $q } return { $q.name as name } }"
    assert g.query(hops, revision="main~2", schema_of="main").rows == [{"name": "Bo"}]


def test_an_old_state_that_may_lack_what_is_required_now_is_refused(g: og.Graph) -> None:
    with g.transaction() as tx:
        tx.update("Person", "Bo", age=1)
    g.schema.apply(BEFORE.replace("age: I32?", "age: I32"))
    with pytest.raises(UsageError, match=r"Person\.age is required now"):
        g.query("query q() { match { $p: Person } return { $p.age } }", revision="main~2", schema_of="main")


def test_a_handle_that_was_opened_before_notices(g: og.Graph, tmp_path: Path) -> None:
    og.init(tmp_path / "g", schema=BEFORE)
    reader, writer = og.open(tmp_path / "g"), og.open(tmp_path / "g")
    with reader.transaction() as tx:
        tx.insert("Person", name="Ada", age=36)
    writer.schema.apply(AFTER)
    assert list(reader.schema.catalog.nodes) == ["Human", "Team"]
    with reader.transaction() as tx:
        tx.update("Human", "Ada", lang="fr")
    assert writer.entity("Human", "Ada") == {"id": "Ada", "name": "Ada", "years": 36, "lang": "fr"}
