"""Habits of Cypher, SQL and GQL are answered with what to write, in the user's own names."""

from __future__ import annotations

import pytest

from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.compiler import compile_queries

PEOPLE = "query q() { match { $x: Person  % } return { $x.email } }"


def around(condition: str) -> str:
    return PEOPLE.replace("%", condition)


HABITS = [
    ("MATCH (a:Person)-[:KNOWS]->(b) RETURN b.name", "write match { $a: Person  $a knows $b }"),
    ("query q() { MATCH (a:Person)-[:LIVES_IN]->(c:City) RETURN c }", "write match { $a: Person  $c: City  $a livesIn $c }"),
    ("query q() { match (x:Person)<-[k:KNOWS]-(y) return { 1 } }", "write match { $x: Person  $y $k:knows $x }"),
    ("match (n:Note) return n", "write match { $n: Note }"),
    (
        "SELECT email, age FROM person WHERE age > 30",
        "write query q() { match { $p: Person  $p.age > 30 } return { $p.email, $p.age } }",
    ),
    (
        "select * from Person x where x.tier <> 'pro' limit 3",
        'write query q() { match { $x: Person  $x.tier != "pro" } return { $x } }',
    ),
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
    ("query q() { CREATE (p:Person {email: 'a'}) }", "write insert Type { property: value }"),
    ("-- all\nquery q() { match { $x: Person } return { 1 } }", "a comment starts with //"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "answer"), HABITS, ids=[answer for _, answer in HABITS])
def test_a_habit_is_answered(text: str, answer: str, library: Catalog) -> None:
    with pytest.raises(QueryError) as caught:
        compile_queries(text, library)
    assert answer in (caught.value.hint or ""), caught.value.render()
