"""Every production of the grammar and every lexical rule, as text -> tree."""

from __future__ import annotations

import pytest

from omnigraph.errors import SchemaError
from omnigraph.language.schema.parser import parse_schema
from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ArgumentSyntax,
    CardinalitySyntax,
    ConstraintSyntax,
    DeclarationSyntax,
    EdgeSyntax,
    InterfaceSyntax,
    MemberSyntax,
    NameSyntax,
    NodeSyntax,
    OptionSyntax,
    PropertySyntax,
    RangeSyntax,
    TypeSyntax,
)

BASES = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date")
STRING = TypeSyntax("String")
P = PropertySyntax("p", STRING)
A = NameSyntax("A")

DECLARATIONS: list[tuple[str, tuple[DeclarationSyntax, ...]]] = [
    ("", ()),
    (" \t\r\n // only a comment", ()),
    ("/* a */ /* b * / ** */", ()),
    ("/* not /* nested */", ()),
    ("interface I {}", (InterfaceSyntax("I"),)),
    ("interface I_2 { p: String }", (InterfaceSyntax("I_2", members=(P,)),)),
    ("node A {}", (NodeSyntax("A"),)),
    ("node A{p:String}", (NodeSyntax("A", members=(P,)),)),
    ("node/* c */A // d\n{}", (NodeSyntax("A"),)),
    ("node A @x {}", (NodeSyntax("A", annotations=(AnnotationSyntax("x"),)),)),
    ("node A implements I {}", (NodeSyntax("A", implements=(NameSyntax("I"),)),)),
    (
        "node A @x @y implements I, J {}",
        (
            NodeSyntax(
                "A",
                annotations=(AnnotationSyntax("x"), AnnotationSyntax("y")),
                implements=(NameSyntax("I"), NameSyntax("J")),
            ),
        ),
    ),
    ("edge E: A -> A", (EdgeSyntax("E", source=A, target=A),)),
    ("edge E:A->A{}", (EdgeSyntax("E", source=A, target=A),)),
    ("edge E: A -> A { p: String }", (EdgeSyntax("E", source=A, target=A, members=(P,)),)),
    ("edge E: A -> A @card(1..)", (EdgeSyntax("E", source=A, target=A, cardinality=CardinalitySyntax(1, None)),)),
    (
        "edge E: A -> A @card ( 0 .. 2 ) @x node B {}",
        (
            EdgeSyntax(
                "E", source=A, target=A, cardinality=CardinalitySyntax(0, 2), annotations=(AnnotationSyntax("x"),)
            ),
            NodeSyntax("B"),
        ),
    ),
    ("edge E: A -> A edge F: A -> A", (EdgeSyntax("E", source=A, target=A), EdgeSyntax("F", source=A, target=A))),
]


@pytest.mark.parametrize(("text", "expected"), DECLARATIONS, ids=[text for text, _ in DECLARATIONS])
def test_declarations(text: str, expected: tuple[DeclarationSyntax, ...]) -> None:
    assert parse_schema(text).declarations == expected


def word(value: str) -> ArgumentSyntax:
    return ArgumentSyntax(value, True)


def prop(type: TypeSyntax, *annotations: AnnotationSyntax, name: str = "p") -> PropertySyntax:
    return PropertySyntax(name, type, annotations)


MEMBERS: list[tuple[str, tuple[MemberSyntax, ...]]] = [
    *((f"p: {base}", (prop(TypeSyntax(base)),)) for base in BASES),
    ("p: String?", (prop(TypeSyntax("String", True)),)),
    ("p: [I64]", (prop(TypeSyntax("I64", is_list=True)),)),
    ("p: [ Date ] ?", (prop(TypeSyntax("Date", True, True)),)),
    ("p: Vector(384)", (prop(TypeSyntax("Vector", dimension=384)),)),
    ("p: Vector( 1 )?", (prop(TypeSyntax("Vector", True, dimension=1)),)),
    ("p: enum(a)", (prop(TypeSyntax("enum", values=("a",))),)),
    ("p: enum(B, a-1, 9_x, -, true, enum)?", (prop(TypeSyntax("enum", True, values=("B", "a-1", "9_x", "-", "true", "enum"))),)),
    ("p: enum()", (prop(TypeSyntax("enum")),)),
    ("p: String q: String", (P, prop(STRING, name="q"))),
    ("_p9Z: String", (prop(STRING, name="_p9Z"),)),
    ("p: String @x", (prop(STRING, AnnotationSyntax("x")),)),
    ("p: String @ x", (prop(STRING, AnnotationSyntax("x")),)),
    ("p: String @key @unique @index q: String", (prop(STRING, *map(AnnotationSyntax, ("key", "unique", "index"))), prop(STRING, name="q"))),
    ('p: String @x("a")', (prop(STRING, AnnotationSyntax("x", ArgumentSyntax("a"))),)),
    ("p: String @x(7)", (prop(STRING, AnnotationSyntax("x", ArgumentSyntax(7))),)),
    ("p: String @x(7.25)", (prop(STRING, AnnotationSyntax("x", ArgumentSyntax(7.25))),)),
    ("p: String @x(true)", (prop(STRING, AnnotationSyntax("x", ArgumentSyntax(True))),)),
    ("p: String @x(false)", (prop(STRING, AnnotationSyntax("x", ArgumentSyntax(False))),)),
    ("p: String @x(word)", (prop(STRING, AnnotationSyntax("x", word("word"))),)),
    ("p: String @x(truer)", (prop(STRING, AnnotationSyntax("x", word("truer"))),)),
    ('p: String @x(a, b=1, c="d")', (prop(STRING, AnnotationSyntax("x", word("a"), (OptionSyntax("b", 1), OptionSyntax("c", "d")))),)),
    ("p: I32 @default(-5)", (prop(TypeSyntax("I32"), AnnotationSyntax("default", ArgumentSyntax(-5))),)),
    (r'p: String @x("\" \\ \n \r \t é")', (prop(STRING, AnnotationSyntax("x", ArgumentSyntax('" \\ \n \r \t é'))),)),
    ('p: String @x("// no comment /* */")', (prop(STRING, AnnotationSyntax("x", ArgumentSyntax("// no comment /* */"))),)),
    ("@key(a)", (ConstraintSyntax("key", (word("a"),)),)),
    ("@unique(a, b)", (ConstraintSyntax("unique", (word("a"), word("b"))),)),
    ("@index /* c */ // d\n (a)", (ConstraintSyntax("index", (word("a"),)),)),
    ("p: String @key(p) q: String", (P, ConstraintSyntax("key", (word("p"),)), prop(STRING, name="q"))),
    ("@range(a, 0..10)", (ConstraintSyntax("range", (word("a"), RangeSyntax(0, 10))),)),
    ("@range(a, -1.5..2.5)", (ConstraintSyntax("range", (word("a"), RangeSyntax(-1.5, 2.5))),)),
    ("@range(a, 0..)", (ConstraintSyntax("range", (word("a"), RangeSyntax(0, None))),)),
    ("@range(a, ..-3)", (ConstraintSyntax("range", (word("a"), RangeSyntax(None, -3))),)),
    ('@check(a, "^x$")', (ConstraintSyntax("check", (word("a"), ArgumentSyntax("^x$"))),)),
]  # fmt: skip


@pytest.mark.parametrize(("text", "expected"), MEMBERS, ids=[text for text, _ in MEMBERS])
def test_members(text: str, expected: tuple[MemberSyntax, ...]) -> None:
    (node,) = parse_schema(f"node A {{ {text} }}").declarations
    assert node.members == expected


@pytest.mark.parametrize("name", ["node", "edge", "interface", "implements", "enum", "true", "false", "card", "key"])
def test_a_keyword_is_a_good_property_name_wherever_it_stands(name: str) -> None:
    text = f"node A {{ p: String @x {name}: I32 @index q: String {name} /* c */ : I32 @y({name}x) }}"
    (node,) = parse_schema(text).declarations
    assert [member.name for member in node.members if isinstance(member, PropertySyntax)] == ["p", name, "q", name]


@pytest.mark.parametrize(
    "text",
    [
        "node A",
        "interface I",
        "interface I implements J {}",
        "node a {}",
        "node 1A {}",
        "node A { p String }",
        "node A { p: String?? }",
        "node A { p: [String }",
        "node A { p: Vector }",
        "node A { p: Vector(1.5) }",
        "node A { p: enum(a,) }",
        "node A { p: enum(a b) }",
        'node A { p: enum("a") }',
        "node A { p: I32 @x(+1) }",
        "node A { p: I32 @x(.5) }",
        "node A { p: I32 @x(5.) }",
        "node A { p: I32 @x(a=1) }",
        "node A { p: I32 @x(1, 2) }",
        "node A { p: I32 @x(1, a=b) }",
        "node A { p: I32 @X }",
        "node A { @range(p, 0...1) }",
        "edge E: A -> A @card(..1)",
        "edge E: A -> A @card(1)",
        "edge E: A - > A",
        "edge E A -> A",
        "node A {} }",
        'node A @x("a\\u0041") {}',
    ],
)
def test_what_the_grammar_does_not_have(text: str) -> None:
    with pytest.raises(SchemaError):
        parse_schema(text)


def test_places_are_lines_and_columns_from_one() -> None:
    tree = parse_schema("// x\nnode A {\n  p: String @x\n\t@key(p)\n}")
    (node,) = tree.declarations
    member, constraint = node.members
    assert isinstance(member, PropertySyntax)
    places = (node.place, member.place, member.type.place, member.annotations[0].place, constraint.place, node.end)
    assert [(place.line, place.column) for place in places] == [(2, 6), (3, 3), (3, 6), (3, 13), (4, 2), (5, 1)]


def test_equal_trees_ignore_places() -> None:
    assert parse_schema("node A{p:I32}") == parse_schema("\n\nnode A {\n  p : I32\n}")
