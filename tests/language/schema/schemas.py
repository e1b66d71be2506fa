"""Hypothesis strategies for syntax trees and for schema texts that compile."""

from __future__ import annotations

from hypothesis import strategies as st

from omnigraph.language.schema.syntax import (
    AnnotationSyntax,
    ArgumentSyntax,
    CardinalitySyntax,
    ConstraintSyntax,
    EdgeSyntax,
    InterfaceSyntax,
    NameSyntax,
    NodeSyntax,
    OptionSyntax,
    PropertySyntax,
    RangeSyntax,
    SchemaSyntax,
    TypeSyntax,
)

BASES = ("String", "Blob", "Bool", "I32", "I64", "U32", "U64", "F32", "F64", "DateTime", "Date")
KEYWORDS = ("node", "edge", "interface", "implements", "enum", "true", "false", "null", "select", "order", "group")

names = st.one_of(st.from_regex(r"[a-z_][A-Za-z0-9_]{0,8}", fullmatch=True), st.sampled_from(KEYWORDS))
words = names.filter(lambda name: name not in ("true", "false"))
type_names = st.from_regex(r"[A-Z][A-Za-z0-9_]{0,8}", fullmatch=True)
enum_values = st.from_regex(r"[A-Za-z0-9_-]{1,6}", fullmatch=True)
strings = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
floats = st.floats(allow_nan=False, allow_infinity=False)
unsigned_floats = floats.map(abs)
unsigned_literals = st.one_of(strings, st.integers(0, 2**64 - 1), unsigned_floats, st.booleans())
numbers = st.one_of(st.integers(-(2**63), 2**64 - 1), floats)

arguments = st.one_of(
    st.builds(ArgumentSyntax, unsigned_literals), st.builds(lambda word: ArgumentSyntax(word, True), words)
)
options = st.builds(OptionSyntax, words, unsigned_literals)
types = st.one_of(
    st.builds(TypeSyntax, st.sampled_from(BASES), st.booleans(), st.booleans()),
    st.builds(
        lambda values, nullable: TypeSyntax("enum", nullable, values=tuple(values)),
        st.lists(enum_values, min_size=1, max_size=4),
        st.booleans(),
    ),
    st.builds(
        lambda dimension, nullable: TypeSyntax("Vector", nullable, dimension=dimension),
        st.integers(0, 2**40),
        st.booleans(),
    ),
)


@st.composite
def annotations(draw: st.DrawFn) -> AnnotationSyntax:
    """Any annotation the grammar has, with or without behaviour; a constraint's word only without an argument."""
    name = draw(st.one_of(words, st.sampled_from(["key", "unique", "index", "description", "embed", "default"])))
    if name in ("key", "unique", "index", "range", "check", "card") or draw(st.booleans()):
        return AnnotationSyntax(name)
    return AnnotationSyntax(name, draw(arguments), tuple(draw(st.lists(options, max_size=2))))


@st.composite
def ranges(draw: st.DrawFn) -> RangeSyntax:
    low, high = draw(st.one_of(st.none(), numbers)), draw(st.one_of(st.none(), numbers))
    return RangeSyntax(0 if low is None and high is None else low, high)


properties = st.builds(PropertySyntax, names, types, st.lists(annotations(), max_size=3).map(tuple))
constraints = st.builds(
    ConstraintSyntax,
    st.sampled_from(["key", "unique", "index", "range", "check"]),
    st.lists(st.one_of(arguments, ranges()), max_size=3).map(tuple),
)
members = st.lists(st.one_of(properties, constraints), max_size=4).map(tuple)
used_names = st.builds(NameSyntax, type_names)
cardinalities = st.builds(CardinalitySyntax, st.integers(0, 2**32 - 1), st.one_of(st.none(), st.integers(0, 2**32 - 1)))
interfaces = st.builds(InterfaceSyntax, type_names, members=st.lists(properties, max_size=3).map(tuple))
nodes = st.builds(
    NodeSyntax,
    type_names,
    annotations=st.lists(annotations(), max_size=2).map(tuple),
    implements=st.lists(used_names, max_size=2).map(tuple),
    members=members,
)
edges = st.builds(
    EdgeSyntax,
    type_names,
    source=used_names,
    target=used_names,
    cardinality=st.one_of(st.none(), cardinalities),
    annotations=st.lists(annotations(), max_size=2).map(tuple),
    members=members,
)
trees = st.builds(SchemaSyntax, st.lists(st.one_of(interfaces, nodes, edges), max_size=4).map(tuple))
