"""Annotations and constraints that are accepted, and what the catalog says of them."""

from __future__ import annotations

import pytest

from omnigraph.language.catalog import Annotation, Catalog, Constraint, Embed, NodeType
from omnigraph.language.catalog_json import catalog_from_json, catalog_to_json
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.printer import format_schema


def node(members: str, header: str = "node A") -> NodeType:
    return compile_schema(f"{header} {{ {members} }}").nodes["A"]


ROWS = [
    ("p: String @key", [Constraint("key", ("p",))]),
    ("p: String @key(p)", [Constraint("key", ("p",))]),
    ("p: String q: I64 @key(q, p)", [Constraint("key", ("q", "p"))]),
    ("p: Bool q: Date r: DateTime s: F32 t: enum(a) @key(p, q, r, s, t)", [Constraint("key", ("p", "q", "r", "s", "t"))]),
    ("p: String? @unique", [Constraint("unique", ("p",))]),
    ("p: String q: I32? @unique(p, q)", [Constraint("unique", ("p", "q"))]),
    ("p: String @unique @unique(p)", [Constraint("unique", ("p",))]),
    ("p: String @index", [Constraint("index", ("p",))]),
    ("p: Vector(3)? @index", [Constraint("index", ("p",))]),
    ("p: Vector(3) @index(p)", [Constraint("index", ("p",))]),
    ("p: String q: I32 @index(p, q)", [Constraint("index", ("p", "q"))]),
    ("p: I32? @range(p, 0..150)", [Constraint("range", ("p",), 0, 150)]),
    ("p: F64 @range(p, 0.5..)", [Constraint("range", ("p",), 0.5, None)]),
    ("p: U64 @range(p, ..10)", [Constraint("range", ("p",), None, 10)]),
    ("p: I64 @range(p, -5..-5)", [Constraint("range", ("p",), -5, -5)]),
    ('p: String? @check(p, "^[a-z]+$")', [Constraint("check", ("p",), pattern="^[a-z]+$")]),
    ('p: enum(a, b) @check(p, "a")', [Constraint("check", ("p",), pattern="a")]),
    ("p: String @key @unique @index", [Constraint("key", ("p",)), Constraint("unique", ("p",)), Constraint("index", ("p",))]),
]  # fmt: skip


@pytest.mark.parametrize(("members", "expected"), ROWS, ids=[row[0] for row in ROWS])
def test_constraints_of_a_node(members: str, expected: list[Constraint]) -> None:
    assert list(node(members).constraints) == expected


@pytest.mark.parametrize(
    ("members", "expected"),
    [
        ("@unique(src, dst)", Constraint("unique", ("src", "dst"))),
        ("p: String @unique(src, p)", Constraint("unique", ("src", "p"))),
        ("p: String @unique", Constraint("unique", ("p",))),
        ("p: String @index", Constraint("index", ("p",))),
        ("p: String @index(p, dst)", Constraint("index", ("p", "dst"))),
    ],
)
def test_constraints_of_an_edge(members: str, expected: Constraint) -> None:
    catalog = compile_schema(f"node A {{}}\nedge E: A -> A {{ {members} }}")
    assert catalog.edges["E"].constraints == (expected,)


@pytest.mark.parametrize(
    ("card", "expected"),
    [("", (0, None)), ("@card(0..1)", (0, 1)), ("@card(1..)", (1, None)), ("@card(2..2)", (2, 2)), ("@card(0..4294967295)", (0, 2**32 - 1))],
)  # fmt: skip
def test_cardinality(card: str, expected: tuple[int, int | None]) -> None:
    edge = compile_schema(f"node A {{}}\nedge E: A -> A {card}").edges["E"]
    assert (edge.min_out, edge.max_out) == expected


def test_descriptions_instructions_and_annotations_without_behaviour() -> None:
    catalog = compile_schema(
        'node A @description("d") @instruction("i") @team("x", level=2) { p: String @description("dp") @pii @owner(bob) }\n'
        'edge E: A -> A @description("de") @hidden'
    )
    a, e = catalog.nodes["A"], catalog.edges["E"]
    assert (a.description, a.instruction) == ("d", "i")
    assert a.annotations == (Annotation("team", "x", (("level", 2),)),)
    assert a.properties["p"].description == "dp"
    assert a.properties["p"].annotations == (Annotation("pii"), Annotation("owner", "bob"))
    assert (e.description, e.instruction, e.annotations) == ("de", None, (Annotation("hidden"),))


@pytest.mark.parametrize(
    ("annotation", "expected"),
    [
        ('@embed("p")', Embed("p")),
        ("@embed(p)", Embed("p")),
        ('@embed("p", model="openai/x")', Embed("p", "openai/x")),
    ],
)
def test_embed(annotation: str, expected: Embed) -> None:
    assert node(f"p: String? v: Vector(3)? {annotation}").properties["v"].embed == expected


@pytest.mark.parametrize(("annotation", "expected"), [("", "cosine"), ('@metric("l2")', "l2"), ("@metric(dot)", "dot")])
def test_metric(annotation: str, expected: str) -> None:
    made = compile_schema(f"node A {{ v: Vector(3)? {annotation} }}")
    assert made.nodes["A"].properties["v"].metric == expected
    assert compile_schema(format_schema(made)).nodes == made.nodes
    assert catalog_from_json(catalog_to_json(made)) == made


@pytest.mark.parametrize(
    ("type", "literal", "expected"),
    [
        ("String", '"x"', "x"),
        ("String?", '""', ""),
        ("Bool", "true", True),
        ("Bool", "false", False),
        ("I32", "-2147483648", -(2**31)),
        ("I64", "9223372036854775807", 2**63 - 1),
        ("U32", "0", 0),
        ("U64", "18446744073709551615", 2**64 - 1),
        ("F64", "1", 1.0),
        ("F64", "-2.5", -2.5),
        ("F32", "0.1", 0.10000000149011612),
        ("Date", '"2026-01-31"', "2026-01-31"),
        ("DateTime", '"2026-01-31T10:00:00Z"', "2026-01-31T10:00:00Z"),
        ("DateTime", '"2026-01-31 10:00:00.125+02:00"', "2026-01-31 10:00:00.125+02:00"),
        ("enum(a, b)", "a", "a"),
        ("enum(x-1, b)", '"x-1"', "x-1"),
    ],
)
def test_default(type: str, literal: str, expected: object) -> None:
    default = node(f"p: {type} @default({literal})").properties["p"].default
    assert default == expected
    assert default.__class__ is expected.__class__


def test_a_key_may_have_a_default_and_a_default_may_touch_the_bounds() -> None:
    assert node("p: I32 @key @default(5) @range(p, 0..5)").properties["p"].default == 5


# ---------------------------------------------------------------- interfaces

INTERFACES = """
interface Named { label: String @index @description("shown") }
interface Dated { at: DateTime? label: String @unique }
node Own implements Named { label: String p: I32 }
node Taken implements Dated, Named { p: I32 }
node Plain { label: String }
"""


@pytest.fixture(scope="module")
def interfaces() -> Catalog:
    return compile_schema(INTERFACES)


def test_a_node_takes_over_what_it_does_not_declare_with_its_constraints(interfaces: Catalog) -> None:
    taken = interfaces.nodes["Taken"]
    assert list(taken.properties) == ["p", "at", "label"]
    assert taken.implements == ("Dated", "Named")
    assert set(taken.constraints) == {Constraint("unique", ("label",)), Constraint("index", ("label",))}
    assert not taken.properties["label"].declared_directly
    assert taken.properties["label"].interfaces == ("Dated", "Named")
    assert taken.properties["p"].declared_directly
    assert taken.properties["p"].interfaces == ()


def test_a_node_that_declares_the_property_keeps_its_own(interfaces: Catalog) -> None:
    own = interfaces.nodes["Own"]
    assert list(own.properties) == ["label", "p"]
    assert own.constraints == ()
    assert own.properties["label"].declared_directly
    assert own.properties["label"].interfaces == ("Named",)
    assert own.properties["label"].description is None


def test_interfaces_keep_their_own_properties_and_constraints(interfaces: Catalog) -> None:
    named = interfaces.interfaces["Named"]
    assert named.constraints == (Constraint("index", ("label",)),)
    assert named.properties["label"].description == "shown"
    assert interfaces.implementers("Named") == (interfaces.nodes["Own"], interfaces.nodes["Taken"])


def test_a_body_constraint_may_name_a_property_of_an_interface() -> None:
    catalog = compile_schema("interface I { a: I32 }\nnode A implements I { b: String @key(a, b) @range(a, 0..) }")
    assert catalog.nodes["A"].constraints == (Constraint("key", ("a", "b")), Constraint("range", ("a",), 0))


def test_a_vector_of_an_interface_may_embed_a_property_of_the_node() -> None:
    catalog = compile_schema('interface I { v: Vector(3) @embed("text") }\nnode A implements I { text: String }')
    assert catalog.nodes["A"].properties["v"].embed == Embed("text")


def test_a_node_type_and_an_edge_type_may_share_a_name() -> None:
    catalog = compile_schema("node Visit {}\nedge Visit: Visit -> Visit")
    assert set(catalog.tables) == {"node:Visit", "edge:Visit"}


def test_an_edge_is_found_whatever_the_case() -> None:
    catalog = compile_schema("node A {}\nedge WorksAt: A -> A")
    assert catalog.edge_by_word("worksat") is catalog.edge_by_word("WORKSAT") is catalog.edges["WorksAt"]
