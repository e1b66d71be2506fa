"""Whatever the text, the compiler gives a catalog or a SchemaError."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

sys.path.insert(0, str(Path(__file__).parent))

from schemas import trees

from omnigraph.errors import SchemaError
from omnigraph.language.catalog import Catalog
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.printer import format_schema, print_schema
from omnigraph.language.schema.rules import RULES

PIECES = (
    'node A {', '}', 'edge E: A -> A', 'interface I {', ' implements I', '@key', '@key(', '@unique(p)', '@index', '@range(p, 0..1)',
    '@check(p, "', '(?=', '[[', '"', '\\', '@card(0..', ')', '(', ',', '..', '-', '?', ':', 'p: String', 'q: Vector(3)', 'p: enum(a, b)',
    '@default(', '@embed("p")', '@rename_from("B")', '@description("x")', '1', '0.5', 'true', '//', '/*', '*/', '\n', ' ', '\x00', 'é', '\ud800',
    '9' * 5000, '0.' + '9' * 400, '{1001}', '(' * 300,
)  # fmt: skip
soup = st.lists(st.one_of(st.sampled_from(PIECES), st.text(max_size=3)), max_size=25).map("".join)
CASES = sorted((Path(__file__).parent / "errors").glob("*.pg"))


@st.composite
def damaged(draw: st.DrawFn) -> str:
    """A text that was written by hand, with a few pieces cut out, repeated or put in."""
    text = draw(st.sampled_from(CASES)).read_text("utf-8")
    for _ in range(draw(st.integers(0, 3))):
        start = draw(st.integers(0, len(text)))
        end = draw(st.integers(start, min(len(text), start + 12)))
        text = (
            text[:start]
            + draw(st.one_of(st.just(""), st.sampled_from(PIECES)))
            + text[draw(st.sampled_from([start, end])) :]
        )
    return text


texts = st.one_of(soup, damaged(), trees.map(print_schema), st.text(max_size=80))


def compile_or_refuse(text: str, previous: Catalog | None = None) -> None:
    refused: SchemaError | None = None
    try:
        catalog = compile_schema(text, previous=previous)
    except SchemaError as error:
        refused = error
    if refused is not None:
        assert refused.rule in RULES
        assert refused.line >= 1
        assert refused.column >= 1
        assert refused.hint
        assert refused.render().encode()
    else:
        assert compile_schema(format_schema(text), previous=catalog).hash == catalog.hash
        assert compile_schema(format_schema(catalog), previous=catalog).hash == catalog.hash


@given(texts)
@settings(max_examples=300, deadline=None)
def test_arbitrary_text_compiles_or_is_refused(text: str) -> None:
    compile_or_refuse(text)


@pytest.mark.soak
@given(texts)
@settings(max_examples=20_000, deadline=None)
def test_much_arbitrary_text_compiles_or_is_refused(text: str) -> None:
    compile_or_refuse(text, compile_schema("node A { p: String }\nedge E: A -> A"))


@pytest.mark.parametrize("text", [*PIECES, 'node A { p: String @check(p, "' + "(" * 5000 + ")" * 5000 + '") }'])
def test_hard_pieces_alone(text: str) -> None:
    compile_or_refuse(text)
