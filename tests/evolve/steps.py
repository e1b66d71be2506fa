"""Every step of a schema change, once: the tests apply it to graphs, and a page of the reference prints it.

PYTHONPATH=tests python tests/evolve/steps.py > docs/reference/schema-changes.md
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

BASE = """
interface Named { label: String? }
node Person implements Named {
  name: String @key
  age: I32?
  size: U32 @default(1)
  score: F32?
  big: I64?
  nick: String?
  tier: enum(free, pro)
  @range(age, 0..150)
}
node City { name: String @key }
edge Knows: Person -> Person { since: Date? }
edge Visited: Person -> City @card(0..2)
"""
DATA: list[tuple[str, dict[str, Any]]] = [
    ("Person", {"name": "Ada", "age": 36, "score": 0.5, "big": 7, "nick": "A", "tier": "free", "label": "a"}),
    ("Person", {"name": "Bo", "age": 40, "score": 1.5, "big": -7, "nick": "B", "tier": "free", "label": "b"}),
    ("City", {"name": "Rome"}),
    ("Knows", {"id": "ab", "from_": "Ada", "to": "Bo", "since": "2026-07-01"}),
    ("Visited", {"id": "ar", "from_": "Ada", "to": "Rome"}),
    ("Visited", {"id": "br", "from_": "Bo", "to": "Rome"}),
]
CY = {"name": "Cy", "tier": "free", "age": 1, "nick": "C", "big": 1}

Outcome = Literal["always", "if the data allows", "never"]


@dataclass(frozen=True)
class Step:
    """`edits` lead from BASE to the wanted schema. `breaking` are entities that are in its way, of which `broken` counts those
    that the error names. `reads` is what an entity of DATA has afterwards (None: its type is gone)."""

    title: str
    edits: tuple[tuple[str, str], ...]
    lines: tuple[str, ...]
    outcome: Outcome = "always"
    reads: tuple[str, str, Mapping[str, Any] | None] = ("Person", "Ada", {"age": 36})
    breaking: tuple[tuple[str, dict[str, Any]], ...] = ()
    broken: int = 0
    consent: Mapping[str, Any] = field(default_factory=dict)
    """What `allow_data_loss` allows: then the first entity in the way reads like this."""

    @property
    def schema(self) -> str:
        text = BASE
        for old, new in self.edits:
            assert old in text, (self.title, old)
            text = text.replace(old, new)
        return text


STEPS = [
    Step("a nullable property", (("nick: String?", "nick: String?  email: String?"),), ("add property 'Person.email' (String?) to node 'Person'",), reads=("Person", "Ada", {"email": None})),
    Step("a required property with `@default`", (("nick: String?", "nick: String?  rank: I32 @default(3)"),), ("add property 'Person.rank' (I32) to node 'Person', 3 in every row",), reads=("Person", "Ada", {"rank": 3})),
    Step("a required property", (("since: Date?", "since: Date?  how: String"),), ("add property 'Knows.how' (String) to edge 'Knows'",), "if the data allows", breaking=(), broken=1),
    Step("a property of an interface", (("label: String?", "label: String?  rank: I32?"),), ("add property 'Named.rank' (I32?) to interface 'Named'", "add property 'Person.rank' (I32?) to node 'Person'"), reads=("Person", "Ada", {"rank": None})),
    Step("rename a property", (("nick: String?", 'alias: String? @rename_from("nick")'),), ("rename property 'Person.nick' -> 'Person.alias' on node 'Person'",), reads=("Person", "Ada", {"alias": "A"})),
    Step("rename a key", (("name: String @key\n  age", 'handle: String @key @rename_from("name")\n  age'),), ("rename property 'Person.name' -> 'Person.handle' on node 'Person'",), reads=("Person", "Ada", {"handle": "Ada", "id": "Ada"})),
    Step("rename a node type", (("node City", 'node Town @rename_from("City")'), ("-> City", "-> Town")), ("rename node type 'City' -> 'Town'",), reads=("Town", "Rome", {"name": "Rome"})),
    Step("rename an edge type", (("edge Knows: Person -> Person", 'edge Met: Person -> Person @rename_from("Knows")'),), ("rename edge type 'Knows' -> 'Met'",), reads=("Met", "ab", {"from": "Ada"})),
    Step("drop a property", (("  nick: String?\n", ""),), ("drop property 'Person.nick' of node 'Person' (soft mode)",), reads=("Person", "Ada", {"tier": "free"})),
    Step("drop a required property", (("  tier: enum(free, pro)\n", ""),), ("drop property 'Person.tier' of node 'Person' (soft mode)",), reads=("Person", "Ada", {"nick": "A"})),
    Step("drop an edge type", (("edge Knows: Person -> Person { since: Date? }\n", ""),), ("drop edge type 'Knows' (soft mode)",), reads=("Knows", "ab", None)),
    Step("drop a node type and its edges", (("node City { name: String @key }\n", ""), ("edge Visited: Person -> City @card(0..2)\n", "")), ("drop edge type 'Visited' (soft mode)", "drop node type 'City' (soft mode)"), reads=("City", "Rome", None)),
    Step("a new type", (("node City", "node Team { name: String @key }\nnode City"),), ("add node type 'Team'",)),
    Step("a new edge type", (("edge Knows", "edge Likes: Person -> City\nedge Knows"),), ("add edge type 'Likes'",)),
    Step("`I32` to `I64`", (("age: I32?", "age: I64?"),), ("widen property 'Person.age' from I32? to I64? on node 'Person'",)),
    Step("`I32` to `F64`", (("age: I32?", "age: F64?"),), ("widen property 'Person.age' from I32? to F64? on node 'Person'",), reads=("Person", "Ada", {"age": 36.0})),
    Step("`U32` to `U64`", (("size: U32", "size: U64"),), ("widen property 'Person.size' from U32 to U64 on node 'Person'",), reads=("Person", "Ada", {"size": 1})),
    Step("`F32` to `F64`", (("score: F32?", "score: F64?"),), ("widen property 'Person.score' from F32? to F64? on node 'Person'",), reads=("Person", "Ada", {"score": 0.5})),
    Step("`I64` to `F64`", (("big: I64?", "big: F64?"),), ("widen property 'Person.big' from I64? to F64? on node 'Person'",), "if the data allows", ("Person", "Ada", {"big": 7.0}), (("Person", {**CY, "big": 2**53 + 1}),), 1, {"big": float(2**53)}),
    Step("a scalar to a list", (("nick: String?", "nick: [String]?"),), ("widen property 'Person.nick' from String? to [String]? on node 'Person'",), reads=("Person", "Ada", {"nick": ["A"]})),
    Step("a number to a list of wider ones", (("score: F32?", "score: [F64]?"),), ("widen property 'Person.score' from F32? to [F64]? on node 'Person'",), reads=("Person", "Ada", {"score": [0.5]})),
    Step("any other type", (("nick: String?", "nick: Date?"),), ("unsupported change on node:Person.nick [OG-MF-106, validated]: values of 'Person.nick' are String?, and not every one is a value of Date?; add a property of type Date?, fill it with --with, and drop this one",), "never"),
    Step("nullable to required", (("nick: String?", "nick: String"),), ("make property 'Person.nick' required on node 'Person'",), "if the data allows", ("Person", "Ada", {"nick": "A"}), (("Person", {**CY, "nick": None}),), 1),
    Step("required to nullable", (("tier: enum(free, pro)", "tier: enum(free, pro)?"),), ("make property 'Person.tier' nullable on node 'Person'",), reads=("Person", "Ada", {"tier": "free"})),
    Step("more words in an enum", (("free, pro", "free, pro, vip"),), ("extend enum 'Person.tier' (+vip) on node 'Person'",)),
    Step("fewer words in an enum", (("free, pro", "free"),), ("narrow enum 'Person.tier' (-pro) on node 'Person'",), "if the data allows", ("Person", "Ada", {"tier": "free"}), (("Person", {**CY, "tier": "pro"}),), 1),
    Step("an enum to `String`", (("enum(free, pro)", "String"),), ("allow every text in 'Person.tier' on node 'Person'",), reads=("Person", "Ada", {"tier": "free"})),
    Step("`String` to an enum", (("nick: String?", "nick: enum(A, B, C)?"),), ("allow only A, B, C in 'Person.nick' on node 'Person'",), "if the data allows", ("Person", "Ada", {"nick": "A"}), (("Person", {**CY, "nick": "D"}),), 1),
    Step("`@unique`", (("nick: String?", "nick: String? @unique"),), ("add constraint @unique(nick) to node 'Person'",), "if the data allows", breaking=(("Person", {**CY, "nick": "A"}),), broken=1),
    Step("`@range`", (("@range(age, 0..150)", "@range(age, 0..150)  @range(big, -10..10)"),), ("add constraint @range(big, -10..10) to node 'Person'",), "if the data allows", breaking=(("Person", {**CY, "big": 11}),), broken=1),
    Step("a narrower `@range`", (("0..150", "10..150"),), ("remove constraint @range(age, 0..150) from node 'Person'", "add constraint @range(age, 10..150) to node 'Person'"), "if the data allows", breaking=(("Person", CY),), broken=1),
    Step("a wider `@range`", (("0..150", "0..200"),), ("remove constraint @range(age, 0..150) from node 'Person'", "add constraint @range(age, 0..200) to node 'Person'")),
    Step("`@check`", (("@range(age", '@check(nick, "^[A-C]$")  @range(age'),), ("add constraint @check(nick, \"^[A-C]$\") to node 'Person'",), "if the data allows", breaking=(("Person", {**CY, "nick": "cy"}),), broken=1),
    Step("remove a `@range`", (("  @range(age, 0..150)\n", ""),), ("remove constraint @range(age, 0..150) from node 'Person'",)),
    Step("`@index`", (("nick: String?", "nick: String? @index"),), ("add constraint @index(nick) to node 'Person'",)),
    Step("fewer edges per node", (("0..2", "0..1"),), ("change cardinality of edge type 'Visited' from 0..2 to 0..1",), "if the data allows", breaking=(("City", {"name": "Oslo"}), ("Visited", {"from_": "Ada", "to": "Oslo"})), broken=1),
    Step("a higher minimum of edges per node", (("0..2", "1..2"),), ("change cardinality of edge type 'Visited' from 0..2 to 1..2",), "if the data allows", breaking=(("Person", CY),), broken=1),
    Step("more edges per node", (("@card(0..2)", ""),), ("change cardinality of edge type 'Visited' from 0..2 to 0..*",)),
    Step("other ends of an edge", (("edge Knows: Person -> Person", "edge Knows: Person -> City"),), ("unsupported change on edge:Knows [OG-ED-101, destructive]: the edges of 'Knows' join Person and Person, and cannot join other types; declare another edge type, which moves no edge; or replace this one, and move the edges with --with: insert New { from: $a.id, to: $b.id } match { $a $e:old $b }",), "never"),
    Step("another `@key`", (("name: String @key\n  age", "name: String\n  age"), ("nick: String?", "nick: String @key")), ("make property 'Person.nick' required on node 'Person'", "unsupported change on node:Person [OG-BC-101, destructive]: the key of 'Person' gives every node its id, and ids do not change; declare a new node type with the key you want, and load its nodes"), "never"),
    Step("`@key` of edges", (("edge Knows: Person -> Person {", "edge Knows: Person -> Person @key(src, dst) {"),), ("add constraint @key(src, dst) to edge 'Knows'",), "if the data allows", reads=("Knows", '["Ada","Bo"]', {"to": "Bo"}), breaking=(("Knows", {"from_": "Ada", "to": "Bo"}),), broken=1),
    Step("implement an interface", (("node City {", "node City implements Named {"),), ("add property 'City.label' (String?) to node 'City'", "change interfaces of node type 'City' (+Named)"), reads=("City", "Rome", {"label": None})),
    Step("stop implementing an interface", ((" implements Named {", " {\n  label: String?"),), ("change interfaces of node type 'Person' (-Named)",), reads=("Person", "Ada", {"label": "a"})),
    Step("drop an interface", (("interface Named { label: String? }\n", ""), (" implements Named {", " {\n  label: String?")), ("change interfaces of node type 'Person' (-Named)", "drop interface 'Named' (soft mode)"), reads=("Person", "Ada", {"label": "a"})),
    Step("another `@default`", (("@default(1)", "@default(2)"),), ("update default of property 'Person.size' on node 'Person'",), reads=("Person", "Ada", {"size": 1})),
    Step("`@description` and annotations", (("node City", 'node City @description("d") @odd'),), ("update description and annotations of node type 'City'",)),
]  # fmt: skip


HEAD = """# Changes of a schema

Every change that `omnigraph schema plan` can show, and when [`schema apply`](../schema.md#changing-a-schema) makes it: always, if the data
allows it, or never. Generated from the tests that make each of these changes.

| change | possible | in the plan |
|---|---|---|
"""


def as_markdown() -> str:
    """The page."""
    rows = [
        f"| {step.title} | {step.outcome} | {'<br>'.join(f'`{line}`' for line in step.lines)} |\n" for step in STEPS
    ]
    return HEAD + "".join(rows)


if __name__ == "__main__":
    print(as_markdown(), end="")
