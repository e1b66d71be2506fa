"""Migration plans: every kind of step, accepted and refused, with its effect, tier, code and line."""

from __future__ import annotations

import pytest

from omnigraph.api.writes import MigrationJson
from omnigraph.language.catalog_json import catalog_to_json
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.migration import plan_migration
from omnigraph.language.schema.migration_steps import MIGRATION_CODES, STEP_ORDER, step_json

BASE = """
interface Named { label: String }
interface Aged { age: I32? }
node Person implements Named {
  email: String @key
  n: I32
  u: U32
  f: F32
  big: I64?
  maybe: String?
  tier: enum(free, pro)
  tags: [I32]?
  v: Vector(3)? @embed("maybe", model="m1")
  score: F64 @odd(1) @even
  @range(score, 0..10)
  @unique(n, u)
  @check(label, "a")
}
node City { name: String }
interface Loud { decibel: F64? }
interface Furry { fur: String? }
node Cat implements Loud, Furry {}
edge LivesIn: Person -> City @card(0..2) { since: Date? @index }
edge Knows: Person -> Person
"""

Row = tuple[str, list[tuple[str, str]], list[tuple[str, str, str | None, str]]]

ACCEPTED: list[Row] = [
    ("nothing", [], []),
    ("comment", [("node City", "// c\nnode City")], []),
    ("reorder", [("n: I32\n  u: U32", "u: U32\n  n: I32")], []),
    ("bounds written as decimals", [("0..10", "0.0..10.0")], []),
    ("members in another order", [("@unique(n, u)", "@unique(u, n)")], []),
    ("enum in another order", [("free, pro", "pro, free")], []),
    ("annotations in another order", [("@odd(1) @even", "@even @odd(1)")], []),
    ("interfaces in another order", [("implements Loud, Furry {", "implements Furry, Loud {")], []),
    ("add interface", [("node City", "interface New { x: I32 }\nnode City")], [("add_type", "metadata", None, "add interface 'New'")]),
    ("add node", [("node City", "node New { x: I32 }\nnode City")], [("add_type", "metadata", None, "add node type 'New'")]),
    ("add edge", [("edge Knows", "edge New: City -> City\nedge Knows")], [("add_type", "metadata", None, "add edge type 'New'")]),
    ("rename node", [("node City", 'node Town @rename_from("City")'), ("-> City", "-> Town")], [("rename_type", "metadata", None, "rename node type 'City' -> 'Town'")]),
    ("rename edge", [("edge Knows: Person -> Person", 'edge Met: Person -> Person @rename_from("Knows")')], [("rename_type", "metadata", None, "rename edge type 'Knows' -> 'Met'")]),
    ("rename property", [("name: String", 'title: String @rename_from("name")')], [("rename_property", "metadata", None, "rename property 'City.name' -> 'City.title' on node 'City'")]),
    ("rename edge property", [("since: Date?", 'from_date: Date? @rename_from("since")')], [("rename_property", "metadata", None, "rename property 'LivesIn.since' -> 'LivesIn.from_date' on edge 'LivesIn'")]),
    ("rename constrained property", [("score: F64", 'points: F64 @rename_from("score")'), ("(score,", "(points,")], [("rename_property", "metadata", None, "rename property 'Person.score' -> 'Person.points' on node 'Person'")]),
    ("rename embedded source", [("maybe: String?", 'text: String? @rename_from("maybe")'), ('"maybe", model', '"text", model')], [("rename_property", "metadata", None, "rename property 'Person.maybe' -> 'Person.text' on node 'Person'")]),
    ("add nullable property", [("name: String", "name: String x: [String]?")], [("add_property", "metadata", None, "add property 'City.x' ([String]?) to node 'City'")]),
    ("add required property with default", [("name: String", "name: String x: I32 @default(3)")], [("add_property", "metadata", None, "add property 'City.x' (I32) to node 'City', 3 in every row")]),
    ("add property to interface without implementers", [("age: I32?", "age: I32? x: String")], [("add_property", "metadata", None, "add property 'Aged.x' (String) to interface 'Aged'")]),
    ("add nullable property to interface", [("label: String", "label: String x: I32?")], [
        ("add_property", "metadata", None, "add property 'Named.x' (I32?) to interface 'Named'"),
        ("add_property", "metadata", None, "add property 'Person.x' (I32?) to node 'Person'")]),
    ("add index", [("name: String", "name: String @index")], [("add_constraint", "metadata", None, "add constraint @index(name) to node 'City'")]),
    ("add unique", [("name: String", "name: String @unique")], [("add_constraint", "validate", "OG-MF-107", "add constraint @unique(name) to node 'City'")]),
    ("add key to edge", [("since: Date? @index", "since: Date? @index @key(src, dst)")], [("add_constraint", "validate", "OG-MF-112", "add constraint @key(src, dst) to edge 'LivesIn'")]),
    ("add unique to edge", [("since: Date? @index", "since: Date? @index @unique(src, dst)")], [("add_constraint", "validate", "OG-MF-107", "add constraint @unique(src, dst) to edge 'LivesIn'")]),
    ("add unique on new nullable property", [("name: String", "name: String x: String? @unique")], [
        ("add_property", "metadata", None, "add property 'City.x' (String?) to node 'City'"),
        ("add_constraint", "metadata", None, "add constraint @unique(x) to node 'City'")]),
    ("add range", [("  @unique(n, u)", "  @unique(n, u) @range(n, 1..)")], [("add_constraint", "validate", "OG-MF-108", "add constraint @range(n, 1..) to node 'Person'")]),
    ("narrow range", [("0..10", "0..9")], [
        ("remove_constraint", "metadata", "OG-CD-102", "remove constraint @range(score, 0..10) from node 'Person'"),
        ("add_constraint", "validate", "OG-MF-108", "add constraint @range(score, 0..9) to node 'Person'")]),
    ("widen range", [("0..10", "..11.5")], [
        ("remove_constraint", "metadata", "OG-CD-102", "remove constraint @range(score, 0..10) from node 'Person'"),
        ("add_constraint", "metadata", None, "add constraint @range(score, ..11.5) to node 'Person'")]),
    ("add check", [("name: String", 'name: String @check(name, "^x")')], [("add_constraint", "validate", "OG-MF-109", "add constraint @check(name, \"^x\") to node 'City'")]),
    ("remove unique", [("  @unique(n, u)\n", "")], [("remove_constraint", "metadata", "OG-CD-101", "remove constraint @unique(n, u) from node 'Person'")]),
    ("remove range", [("  @range(score, 0..10)\n", "")], [("remove_constraint", "metadata", "OG-CD-102", "remove constraint @range(score, 0..10) from node 'Person'")]),
    ("remove check", [("  @check(label, \"a\")\n", "")], [("remove_constraint", "metadata", "OG-CD-103", "remove constraint @check(label, \"a\") from node 'Person'")]),
    ("remove index", [("since: Date? @index", "since: Date?")], [("remove_constraint", "metadata", "OG-CD-104", "remove constraint @index(since) from edge 'LivesIn'")]),
    ("extend enum", [("free, pro", "vip, pro, alpha, free")], [("extend_enum", "metadata", None, "extend enum 'Person.tier' (+alpha, +vip) on node 'Person'")]),
    ("widen I32 to I64", [("n: I32", "n: I64")], [("widen_property", "metadata", None, "widen property 'Person.n' from I32 to I64 on node 'Person'")]),
    ("widen I32 to F64", [("n: I32", "n: F64")], [("widen_property", "metadata", None, "widen property 'Person.n' from I32 to F64 on node 'Person'")]),
    ("widen U32 to U64", [("u: U32", "u: U64")], [("widen_property", "metadata", None, "widen property 'Person.u' from U32 to U64 on node 'Person'")]),
    ("widen U32 to I64", [("u: U32", "u: I64")], [("widen_property", "metadata", None, "widen property 'Person.u' from U32 to I64 on node 'Person'")]),
    ("widen F32 to F64", [("f: F32", "f: F64")], [("widen_property", "metadata", None, "widen property 'Person.f' from F32 to F64 on node 'Person'")]),
    ("widen a list", [("tags: [I32]?", "tags: [I64]?")], [("widen_property", "metadata", None, "widen property 'Person.tags' from [I32]? to [I64]? on node 'Person'")]),
    ("nullable to required", [("maybe: String?", "maybe: String")], [("require_property", "validate", "OG-MF-104", "make property 'Person.maybe' required on node 'Person'")]),
    ("required to nullable", [("n: I32", "n: I32?")], [("relax_property", "metadata", None, "make property 'Person.n' nullable on node 'Person'")]),
    ("wider cardinality", [("@card(0..2)", "")], [("change_cardinality", "metadata", None, "change cardinality of edge type 'LivesIn' from 0..2 to 0..*")]),
    ("narrower cardinality", [("0..2", "0..1")], [("change_cardinality", "validate", "OG-ED-102", "change cardinality of edge type 'LivesIn' from 0..2 to 0..1")]),
    ("higher minimum", [("0..2", "1..2")], [("change_cardinality", "validate", "OG-ED-102", "change cardinality of edge type 'LivesIn' from 0..2 to 1..2")]),
    ("describe type", [("node City", 'node City @description("d") @instruction("i")')], [("update_type_metadata", "metadata", None, "update description and instruction of node type 'City'")]),
    ("describe property", [("name: String", 'name: String @description("d")')], [("update_property_metadata", "metadata", None, "update description of property 'City.name' on node 'City'")]),
    ("new metric", [("v: Vector(3)? ", 'v: Vector(3)? @metric("dot") ')], [("update_property_metadata", "metadata", None, "update metric of property 'Person.v' on node 'Person'")]),
    ("new default", [("name: String", 'name: String @default("x")')], [("update_property_metadata", "metadata", None, "update default of property 'City.name' on node 'City'")]),
    ("drop edge", [("edge Knows: Person -> Person\n", "")], [("drop_type", "metadata", "OG-DS-103", "drop edge type 'Knows' (soft mode)")]),
    ("drop node with its edge", [("node City { name: String }\n", ""), ("edge LivesIn: Person -> City @card(0..2) { since: Date? @index }\n", "")], [
        ("drop_type", "metadata", "OG-DS-103", "drop edge type 'LivesIn' (soft mode)"),
        ("drop_type", "metadata", "OG-DS-102", "drop node type 'City' (soft mode)")]),
    ("drop property with its constraint", [("since: Date? @index", "")], [("drop_property", "metadata", "OG-DS-104", "drop property 'LivesIn.since' of edge 'LivesIn' (soft mode)")]),
    ("drop vector", [('  v: Vector(3)? @embed("maybe", model="m1")\n', "")], [("drop_property", "metadata", "OG-DS-105", "drop property 'Person.v' of node 'Person' (soft mode)")]),
    ("required property", [("name: String", "name: String x: I32")], [("add_property", "validate", "OG-MF-103", "add property 'City.x' (I32) to node 'City'")]),
    ("required property through interface", [("label: String", "label: String x: I32")], [
        ("add_property", "metadata", None, "add property 'Named.x' (I32) to interface 'Named'"),
        ("add_property", "validate", "OG-MF-103", "add property 'Person.x' (I32) to node 'Person'")]),
    ("scalar to list", [("name: String", "name: [String]")], [("widen_property", "metadata", None, "widen property 'City.name' from String to [String] on node 'City'")]),
    ("scalar to list of wider", [("n: I32", "n: [I64]"), ("  @unique(n, u)\n", "")], [
        ("widen_property", "metadata", None, "widen property 'Person.n' from I32 to [I64] on node 'Person'"),
        ("remove_constraint", "metadata", "OG-CD-101", "remove constraint @unique(n, u) from node 'Person'")]),
    ("long integers to F64", [("big: I64?", "big: F64?")], [("widen_property", "validate", "OG-MF-105", "widen property 'Person.big' from I64? to F64? on node 'Person'")]),
    ("enum value removed", [("free, pro", "free")], [("narrow_enum", "validate", "OG-MF-106", "narrow enum 'Person.tier' (-pro) on node 'Person'")]),
    ("enum value renamed", [("free, pro", "free, paid")], [("narrow_enum", "validate", "OG-MF-106", "narrow enum 'Person.tier' (-pro, +paid) on node 'Person'")]),
    ("enum to String", [("enum(free, pro)", "String")], [("extend_enum", "metadata", None, "allow every text in 'Person.tier' on node 'Person'")]),
    ("String to enum", [("name: String", "name: enum(a, b)")], [("narrow_enum", "validate", "OG-MF-106", "allow only a, b in 'City.name' on node 'City'")]),
    ("remove interface", [("interface Aged { age: I32? }", "")], [("drop_type", "metadata", None, "drop interface 'Aged' (soft mode)")]),
    ("implement one more", [("implements Named", "implements Named, Aged")], [
        ("add_property", "metadata", None, "add property 'Person.age' (I32?) to node 'Person'"),
        ("change_interfaces", "metadata", None, "change interfaces of node type 'Person' (+Aged)")]),
    ("stop implementing", [("implements Named {", "{\n  label: String")], [("change_interfaces", "metadata", None, "change interfaces of node type 'Person' (-Named)")]),
    ("embed model", [("m1", "m2")], [("update_property_metadata", "metadata", None, "update embed of property 'Person.v' on node 'Person'")]),
    ("embed removed", [('@embed("maybe", model="m1")', "")], [("update_property_metadata", "metadata", None, "update embed of property 'Person.v' on node 'Person'")]),
    ("annotation of property", [("@odd(1)", "@odd(2)")], [("update_property_metadata", "metadata", None, "update annotations of property 'Person.score' on node 'Person'")]),
    ("annotation of type", [("node City", "node City @odd")], [("update_type_metadata", "metadata", None, "update annotations of node type 'City'")]),
    ("own instead of inherited", [("implements Named {", "implements Named {\n  label: String")], [("update_property_metadata", "metadata", None, "update declaration of property 'Person.label' on node 'Person'")]),
    ("satisfies one more interface", [("label: String }", "label: String n: I32 }")], [
        ("add_property", "metadata", None, "add property 'Named.n' (I32) to interface 'Named'"),
        ("update_property_metadata", "metadata", None, "update declaration of property 'Person.n' on node 'Person'")]),
]  # fmt: skip

REFUSED: list[tuple[str, list[tuple[str, str]], str, str, str]] = [
    ("F64 to F32", [("score: F64", "score: F32")], "node:Person.score", "OG-MF-106", "values of 'Person.score' are F64, and not every one is a value of F32"),
    ("I32 to F32", [("n: I32", "n: F32")], "node:Person.n", "OG-MF-106", "values of 'Person.n' are I32, and not every one is a value of F32"),
    ("I32 to U32", [("n: I32", "n: U32")], "node:Person.n", "OG-MF-106", "values of 'Person.n' are I32, and not every one is a value of U32"),
    ("String to Date", [("name: String", "name: Date")], "node:City.name", "OG-MF-106", "values of 'City.name' are String, and not every one is a value of Date"),
    ("list to scalar", [("tags: [I32]?", "tags: I32?")], "node:Person.tags", "OG-MF-106", "values of 'Person.tags' are [I32]?, and not every one is a value of I32?"),
    ("vector dimension", [("Vector(3)", "Vector(4)")], "node:Person.v", "OG-MF-106", "values of 'Person.v' are Vector(3)?, and not every one is a value of Vector(4)?"),
    ("edge endpoints", [("edge Knows: Person -> Person", "edge Knows: Person -> City")], "edge:Knows", "OG-ED-101", "the edges of 'Knows' join Person and Person, and cannot join other types"),
    ("add key", [("name: String", "name: String @key")], "node:City", "OG-BC-101", "the key of 'City' gives every node its id, and ids do not change"),
    ("change key", [("email: String @key", "email: String"), ("@unique(n, u)", "@unique(n, u) @key(email, n)")], "node:Person", "OG-BC-101", "the key of 'Person' gives every node its id, and ids do not change"),
    ("remove key", [("@key", "")], "node:Person", "OG-CD-105", "the key of 'Person' gives every node its id, and ids do not change"),
    ("drop key property", [("  email: String @key\n", "")], "node:Person", "OG-CD-105", "the key of 'Person' gives every node its id, and ids do not change"),
]  # fmt: skip


def edited(edits: list[tuple[str, str]]) -> str:
    text = BASE
    for old, new in edits:
        assert old in text
        text = text.replace(old, new, 1)
    return text


@pytest.mark.parametrize(("edits", "expected"), [row[1:] for row in ACCEPTED], ids=[row[0] for row in ACCEPTED])
def test_accepted(edits: list[tuple[str, str]], expected: list[tuple[str, str, str | None, str]]) -> None:
    plan = plan_migration(compile_schema(BASE), edited(edits))
    assert [(step.kind, step.effect, step.code, step.line()) for step in plan.steps] == expected
    assert plan.supported
    assert plan.is_empty is (not expected)
    for step in plan.steps:
        assert step.tier == ("safe" if step.code is None else MIGRATION_CODES[step.code].tier)
    assert plan_migration(plan.catalog, edited(edits)).is_empty


@pytest.mark.parametrize(
    ("edits", "entity", "code", "reason"), [row[1:] for row in REFUSED], ids=[row[0] for row in REFUSED]
)
def test_refused(edits: list[tuple[str, str]], entity: str, code: str, reason: str) -> None:
    plan = plan_migration(compile_schema(BASE), edited(edits))
    assert not plan.supported
    (refused,) = [step for step in plan.steps if step.effect == "refused"]
    found = step_json(refused)
    assert (found["kind"], found["entity"], found["code"], found["reason"]) == (
        "unsupported_change",
        entity,
        code,
        reason,
    )
    assert refused.line().startswith(f"unsupported change on {entity} [{code}, {MIGRATION_CODES[code].tier}]: {reason}")


def test_every_code_is_shown_by_a_row() -> None:
    shown = {code for row in ACCEPTED for _, _, code, _ in row[2]} | {row[3] for row in REFUSED}
    # No edge of these schemas has a key to remove: tests/write/test_edge_keys.py does it.
    assert shown - {None} == set(MIGRATION_CODES) - {"OG-CD-106"}


def test_every_kind_of_step_is_shown_by_a_row() -> None:
    shown = {kind for row in ACCEPTED for kind, *_ in row[2]} | {"unsupported_change"}
    assert shown == {step.kind for step in STEP_ORDER}


def test_a_property_that_becomes_nullable_keeps_its_value_in_older_rows() -> None:
    before = compile_schema("node A { k: I32 @key }")
    filled = plan_migration(before, "node A { k: I32 @key  n: I32 @default(3) }").catalog
    relaxed = plan_migration(filled, "node A { k: I32 @key  n: I32? }")
    assert [step.effect for step in relaxed.steps] == ["metadata", "metadata"]
    assert relaxed.catalog.nodes["A"].properties["n"].fill == 3
    assert "nullable-fills" in catalog_to_json(relaxed.catalog)["features"]
    assert "nullable-fills" not in catalog_to_json(filled)["features"]


def test_another_order_of_a_key_is_refused_because_ids_would_change() -> None:
    before = compile_schema("node A { a: I32  b: I32  @key(a, b) }")
    (step,) = plan_migration(before, "node A { a: I32  b: I32  @key(b, a) }").steps
    assert (step.code, step.effect) == ("OG-BC-101", "refused")
    assert plan_migration(before, "node A { b: I32  a: I32  @key(a, b) }").steps == ()


def test_widening_a_float_key_is_refused_because_ids_would_change() -> None:
    before = compile_schema("node A { k: F32 @key }")
    (step,) = plan_migration(before, "node A { k: F64 @key }").steps
    assert (step.code, step.effect) == ("OG-BC-101", "refused")
    assert plan_migration(compile_schema("node A { k: I32 @key }"), "node A { k: F64 @key }").supported


def test_data_loss_makes_every_drop_hard() -> None:
    text = edited(
        [("edge Knows: Person -> Person\n", ""), ("  maybe: String?\n", ""), ('@embed("maybe", model="m1")', "")]
    )
    plan = plan_migration(compile_schema(BASE), text, allow_data_loss=True)
    drops = [step_json(step) for step in plan.steps if step.kind.startswith("drop")]
    assert [drop["mode"] for drop in drops] == ["hard", "hard"]


def test_one_property_may_change_in_several_ways_at_once() -> None:
    text = edited([("tier: enum(free, pro)", 'level: enum(free, pro, vip)? @rename_from("tier") @index')])
    plan = plan_migration(compile_schema(BASE), text)
    assert plan.lines() == [
        "rename property 'Person.tier' -> 'Person.level' on node 'Person'",
        "extend enum 'Person.level' (+vip) on node 'Person'",
        "make property 'Person.level' nullable on node 'Person'",
        "add constraint @index(level) to node 'Person'",
    ]


def test_the_plan_as_text_is_its_lines() -> None:
    plan = plan_migration(compile_schema(BASE), edited([("n: I32", "n: I64"), ("0..2", "0..3")]), "new.pg")
    assert str(plan) == "\n".join(plan.lines())
    assert len(plan.lines()) == 2


def test_steps_come_in_the_order_in_which_they_apply() -> None:
    text = edited(
        [
            ("node City", 'node Town @rename_from("City")'),
            ("-> City", "-> Town"),
            ("name: String", "name: String extra: I32?"),
            ("n: I32", "n: I64"),
            ("edge Knows: Person -> Person", "edge New: Person -> Person"),
        ]
    )
    plan = plan_migration(compile_schema(BASE), text)
    assert [step.kind for step in plan.steps] == [
        "rename_type",
        "add_type",
        "add_property",
        "widen_property",
        "drop_type",
    ]


def test_the_plan_as_json() -> None:
    text = edited(
        [("name: String", "name: String x: I32 @default(3)"), ("free, pro", "free, pro, vip"), ("0..10", "0..9")]
    )
    assert MigrationJson.to_json(plan_migration(compile_schema(BASE), text)) == {
        "supported": True,
        "steps": [
            {"kind": "add_property", "type_kind": "node", "type_name": "City", "property_name": "x", "property_type": "I32", "default": 3, "effect": "metadata", "tier": "safe"},
            {"kind": "extend_enum", "type_kind": "node", "type_name": "Person", "property_name": "tier", "added_values": ["vip"], "effect": "metadata", "tier": "safe"},
            {"kind": "remove_constraint", "type_kind": "node", "type_name": "Person", "constraint": {"kind": "range", "fields": ["score"], "minimum": 0, "maximum": 10}, "effect": "metadata", "tier": "safe", "code": "OG-CD-102"},
            {"kind": "add_constraint", "type_kind": "node", "type_name": "Person", "constraint": {"kind": "range", "fields": ["score"], "minimum": 0, "maximum": 9}, "effect": "validate", "tier": "validated", "code": "OG-MF-108"},
        ],
    }  # fmt: skip
