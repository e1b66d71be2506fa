"""Habits of Cypher, SQL and GQL are answered with what to write, in the user's own names."""

from __future__ import annotations

import pytest

from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.completion import completions
from omnigraph.language.query.mutations import compile_queries

PEOPLE = "query q() { match { $x: Person  % } return { $x.email } }"


def around(condition: str) -> str:
    return PEOPLE.replace("%", condition)


HABITS = [
    ("query q() { match (x:Person)<-[k:KNOWS]-(y) return { 1 } }", "write match { $x: Person  $y $k:knows $x }"),
    ("query q() { MATCH (a:Person)-[:LIVES_IN]->(c:City) RETURN c }", "write match { $a: Person  $c: City  $a livesIn $c } return { $c }"),
    (around("$x.age == 3"), "equality is a single sign: $x.age = …"),
    (around("$x.age <> 3"), "inequality is !=: $x.age != …"),
    (around("$x.email = 'Ada'"), 'texts stand in double quotes: "Ada"'),
    ("query q() { match { $x: Person } return { count(*) as n } }", "name what is counted: count($x)"),
    ("query q() { match { $x: Person } return { $x.email } LIMIT 3 }", "keywords are written in lower case: limit"),
    ("query q() { match { $x: Person } return { COUNT($x) } }", "keywords are written in lower case: count"),
    (around("$x.age > 3 AND $x.age < 9"), "keywords are written in lower case: and"),
    (around("$x.age > 3 && $x.age < 9"), "write and"),
    (around("$x.email LIKE \"a%\""), "texts are compared with contains, starts_with and ends_with"),
    (around("age > 3"), "a property is written with its variable: $x.age"),
    (around("x.age > 3"), "a variable starts with $: $x.age"),
    (around("$x -[:knows]-> $y"), "write $x knows $y"),
    ("query q() { match { $x: Person } return $x.email }", "write return { $x.email }"),
    ("query q() { match { $x: Person } return { $x.email as e } order by e }", "write order { e }"),
    ("query q() { match { $x: Person } where $x.age > 3 return { 1 } }", "a condition stands among the clauses of match"),
    (around('toLower($x.email) = "a"'), "write lower(text)"),
    (around('substr($x.email, 1, 2) = "a"'), "write substring(text, start, count)"),
    ("query q() { CREATE (p:Person {email: 'a'}) }", 'write insert Person { email: "a" }'),
    ("query q() { CREATE (p) }", "write create Type { property: value }"),
    (around("$x KNOWS $y"), "an edge is written by its name, with a small first letter: $x knows $y"),
    (around("$x -> $y"), "an edge is written by its name, with a small first letter: $x knows $y"),
    ("query q() { match { x: Person } return { 1 } }", "a variable starts with $: $x: Person"),
    ("query q() { match { $x: Person } return { distinct $x.email } }", "write return distinct { … }"),
    (around("if($x.age > 3, 1, 2) = 1"), "write case when condition then a else b end"),
    ("query q() { match { $x: Person return { $x.email } }", "close match { … } before return"),
    ("-- all\nquery q() { match { $x: Person } return { 1 } }", "a comment starts with //"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), HABITS, ids=[answer for _, answer in HABITS])
def test_a_habit_is_answered(text: str, answer: str, library: Catalog) -> None:
    with pytest.raises(QueryError) as caught:
        compile_queries(text, library)
    assert answer in (caught.value.hint or ""), caught.value.render()


STATEMENTS = [
    ("MATCH (a:Person)-[:KNOWS]->(b) RETURN b.email", "match { $a: Person  $a knows $b } return { $b.email }"),
    (
        "MATCH (a:Person {email: 'a'})-[k:KNOWS*1..3]->(b:Person)-[:LIVES_IN]->(c) WHERE b.age >= 30 AND c.name <> 'x' "
        "RETURN DISTINCT b.email AS who, c.name ORDER BY who DESC SKIP 2 LIMIT 5",
        'match { $a: Person { email: "a" }  $b: Person  $a knows{1,3} $b  $b livesIn $c  $b.age >= 30 and $c.name != "x" } '
        "return distinct { $b.email as who, $c.name } order { who desc } limit 5 offset 2",
    ),
    ("match (n:Note) return n", "match { $n: Note } return { $n }"),
    ("MATCH (a:Person)-[e:LIVES_IN|:NOTE]->(b) RETURN a.email", "match { $a: Person  $a $e:livesIn|note $b } return { $a.email }"),
    ("MATCH (a:Person)-[:NOTE | LIVES_IN]->(b) RETURN a.email", "match { $a: Person  $a note|livesIn $b } return { $a.email }"),
    ("MATCH (a:Person)-[:KNOWS]-(b) RETURN a.email, count(*) AS n", "match { $a: Person  $a <knows> $b } return { $a.email, count($a) as n }"),
    (
        "MATCH (a:Person) OPTIONAL MATCH (a)-[:LIVES_IN]->(c) RETURN a.email, c.name;",
        "match { $a: Person  optional { $a livesIn $c } } return { $a.email, $c.name }",
    ),
    (
        "MATCH p = shortestPath((a:Person {email: 'a'})-[:KNOWS*..6]->(b:Person {email: 'b'})) RETURN p, length(p)",
        None,
    ),
    (
        "MATCH p = shortestPath((a:Person {email: 'a'})-[:KNOWS*..6]->(b:Person {email: 'b'})) RETURN p",
        'match { $a: Person { email: "a" }  $b: Person { email: "b" }  shortest path $p from $a to $b along knows{1,6} } '
        "return { $p.nodes }",
    ),
    ("SELECT email, age FROM person WHERE age > 30", "match { $p: Person  $p.age > 30 } return { $p.email, $p.age }"),
    (
        "select count(*) as n from Person where tier = 'pro' or age is null",
        'match { $p: Person  $p.tier = "pro" or $p.age is null } return { count($p) as n }',
    ),
    (
        "select * from Person x where x.tier <> 'pro' limit 3;",
        'match { $x: Person  $x.tier != "pro" } return { $x } limit 3',
    ),
    ("UPDATE Person SET age = 3 WHERE email = 'a'", 'update Person set { age: 3 } where email = "a"'),
    ("DELETE FROM Person WHERE age > 90;", "delete Person where age > 90"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), STATEMENTS, ids=[text[:50] for text, _ in STATEMENTS])
def test_a_whole_statement_is_proposed_in_this_language_and_the_proposal_compiles(
    text: str, answer: str | None, library: Catalog
) -> None:
    with pytest.raises(QueryError) as caught:
        compile_queries(text, library)
    hint = caught.value.hint or ""
    assert hint.startswith("write query q() { ")
    proposed = hint.removeprefix("write ")
    if answer is not None:
        assert proposed == f"query q() {{ {answer} }}"
        compile_queries(proposed, library)


@pytest.mark.parametrize(
    "text", ["MATCH (", "MATCH (a)-", "MATCH (a:P {x", "SELECT", "UPDATE x SET", "CREATE (", "MERGE (a:P {})"]
)
def test_half_a_statement_is_answered_too(text: str, library: Catalog) -> None:
    with pytest.raises(QueryError) as caught:
        compile_queries(text, library)
    assert caught.value.hint


LONG = 200_000
MISTAKES = [
    "query q() { match { $p" + " " * LONG + "- x",
    "query q() { match { $p: Person } return { " + "a" * LONG + " 'x'",
    "SELECT a" + " " * LONG,
    "SELECT a FROM b WHERE " + "c limit " * (LONG // 8),
    "MATCH (" + "(a" * (LONG // 2),
]


@pytest.mark.parametrize("text", MISTAKES, ids=[text[:30] for text in MISTAKES])
def test_a_mistake_in_a_long_text_is_found_as_soon_as_in_a_short_one(text: str, library: Catalog) -> None:
    """With patterns that look at all of it this would not end."""
    with pytest.raises(QueryError):
        compile_queries(text, library)


def test_a_long_text_is_completed_as_soon_as_a_short_one(library: Catalog) -> None:
    text = "a" * LONG + "("
    assert completions(text, 1, len(text) + 1, library)


def test_edges_after_another_one_and_their_properties_are_completed(library: Catalog) -> None:
    before, after = "query q() { match { $p: Person  $p livesIn|", "query q() { match { $p $e:livesIn|note $c  $e."
    labels = [{one.label for one in completions(text, 1, len(text) + 1, library)} for text in (before, after)]
    assert {"knows", "note"} <= labels[0]
    assert labels[1] == {"id", "from", "to"}
