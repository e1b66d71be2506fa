"""The forms of `.gq`, each with an example: what the grammar page shows first, and what editors offer to complete."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Form:
    """How something is written. The example is a whole query over people, cities and who knows whom."""

    title: str
    shape: str
    example: str


def _clause(clause: str, returned: str = "$p.name") -> str:
    return f"query q() {{ match {{ $p: Person  {clause} }} return {{ {returned} }} }}"


def _column(column: str) -> str:
    return f"query q() {{ match {{ $p: Person }} return {{ {column} }} }}"


def _hop(column: str, rest: str = "") -> str:
    return f"query q() {{ match {{ $p: Person  $p $k:knows $q }} return {{ {column} }} {rest}}}"


FORMS: tuple[Form, ...] = (
    Form("read", "query name(parameters) { match { … } return { … } }", _column("$p.name, $p.age as age")),
    Form(
        "parameter",
        "$name: Type, $name: Type? = default",
        'query q($who: String, $least: I32? = null, $tags: [String] = ["a"]) '
        "{ match { $p: Person { name: $who }  $p.age > $least } return { $p.name, $tags as tags } }",
    ),
    Form("node", "$p: Type { property: value }", 'query q() { match { $p: Person { name: "Ada" } } return { $p } }'),
    Form("hop", "$a edge $b", _clause("$p knows $q", "$q.name")),
    Form("hop by any of several edges", "$a edge|other $b, $a $e:edge|other{1,3} $b where …", _clause("$p knows|follows $q", "$q.name")),
    Form("hop either way", "$a <edge> $b", _clause("$p <knows> $q", "$q.name")),
    Form("several hops", "$a edge{1,3} $b, $a edge{1,} $b", _clause("$p knows{1,3} $q", "$q.name")),
    Form(
        "condition on each hop",
        "$a $e:edge{1,5} $b via $node after $before where condition",
        _clause("$p $k:knows{1,5} $q where $k.weight > 0.5", "$q.name"),
    ),
    Form(
        "condition between hops",
        "via $node after $before where condition",
        _clause("$p $k:knows{1,5} $q via $n after $j where $k.since >= $j.since and $n.age > 18", "$q.name"),
    ),
    Form("edge", "$a $e:edge $b", _hop("$p.name as a, $q.name as b, $k.since")),
    Form(
        "shortest path",
        "shortest path $path from $a to $b along edge{1,6} by property",
        _clause("shortest path $way from $p to $q along knows{1,6} by weight", "$way.nodes, $way.length, $way.cost"),
    ),
    Form(
        "all shortest paths",
        "shortest paths $path from $a to $b along edge{1,6}",
        _clause("shortest paths $way from $p to $q along knows{1,6}", "$way.nodes"),
    ),
    Form("condition", "expression", _clause('$p.age >= 18 and ($p.name starts_with "A" or $p.email is null)')),
    Form("membership", "value in list, list contains value", _clause('$p.age in [1, 2, 3] or $p.tags contains "x"')),
    Form("block", "not { … }, exists { … }, count { … } > n", _clause("not { $p livesIn $c }  count { $p knows $q } > 1")),
    Form("optional", "optional { … }", _clause("optional { $p livesIn $c }", "$p.name as name, $c.name as city")),
    Form("items of a list", "unnest list as $item", _clause("unnest $p.tags as $t", "$t, count($p) as people")),
    Form("items that satisfy", "any($item in list where …), all(…)", _clause("any($t in $p.tags where length($t) > 3)")),
    Form("arithmetic", "+ - * / %", _column("$p.age * 2 + 1 as x")),
    Form("time", "time + 30 days, time - 1 month", _clause("$p.joined > now() - 30 days")),
    Form("function", "name(arguments)", _column('lower($p.name) as name, round($p.height, 1) as height')),
    Form("choice", "case when … then … else … end", _column('case when $p.age < 18 then "child" else "adult" end as kind')),
    Form("list", "[value, value]", _column("[$p.name, upper($p.name)] as names")),
    Form("record", "{name: value, name: value}", _column('{who: $p.name, age: $p.age} as person')),
    Form("records of a group", "collect({name: value, …})", _hop("$p.name, collect({who: $q.name, since: $k.since}) as friends ")),
    Form("each value once", "count(distinct …), sum(distinct …)", _hop("$p.name, sum(distinct $q.age) as ages")),
    Form("group", "columns beside aggregates", _hop("$p.name as who, count($k) as friends, collect($q.name) as names ")),
    Form("first and last", "first(value by order), last(value by order)", _hop("last($q.name by $k.since) as latest")),
    Form("a block as a value", "count { … }, exists { … }", _column("$p.name, count { $p knows $q } as friends")),
    Form("having", "having { conditions }", _hop("$p.name as who, count($k) as n", "having { n > 1 } ")),
    Form("distinct", "return distinct { … }", "query q() { match { $p: Person } return distinct { $p.age } }"),
    Form(
        "order and cut",
        "order { key desc, key } limit n offset n",
        "query q() { match { $p: Person } return { $p.name as name } order { name desc } limit 10 offset 20 }",
    ),
    Form(
        "union",
        "read union read, read union all read",
        "query q() { match { $p: Person } return { $p.name as name } union match { $c: City } return { $c.name as name } }",
    ),
    Form(
        "stage",
        "match { … } with { $p, count($q) as n } order … limit … match { … } return { … }",
        "query q() { match { $p knows $q } with { $p, count($q) as n } order { n desc } limit 3 "
        "match { $p livesIn $c } return { $p.name, $c.name as city, n } }",
    ),
    Form("text search", "search(property, words)", _clause('search($p.bio, "red fox")')),
    Form(
        "ranking",
        "order { bm25(property, words) }",
        'query q() { match { $p: Person } return { $p.name } order { bm25($p.bio, "red") } limit 3 }',
    ),
    Form("insert", "insert Type { property: value }", 'query q() { insert Person { name: "Ada", age: 36 } }'),
    Form("insert only what is new", "create Type { … }", 'query q() { create Person { name: "Ada", age: 36 } }'),
    Form("insert or replace", "upsert Type { … }", 'query q() { upsert Person { name: "Ada", age: 36 } }'),
    Form(
        "insert for each match",
        "insert Type { … } match { … }",
        "query q() { insert Knows { from: $b.id, to: $a.id } match { $a knows $b } }",
    ),
    Form("update", "update Type set { property: value } where …", "query q() { update Person set { age: age + 1 } where age < 9 }"),
    Form("delete", "delete Type where …", 'query q() { delete Knows where from = "Ada" }'),
)  # fmt: skip

SCHEMA = """node Person {
  name: String @key
  age: I32?
  height: F64?
  email: String?
  tags: [String]?
  bio: String? @index
  joined: DateTime?
}
node City { name: String @key }
edge Knows: Person -> Person { since: Date?  weight: F64? }
edge Follows: Person -> Person { since: Date? }
edge LivesIn: Person -> City
"""
"""The schema of the examples."""
