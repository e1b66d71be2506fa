"""What the grammar accepts, production by production, and that printing loses nothing."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.mutations import compile_queries, compile_query
from omnigraph.language.query.parser import parse_queries
from omnigraph.language.query.printer import format_queries
from omnigraph.language.query.syntax import KEYWORDS, RESERVED, MutationBody, ReadBody, Word, walk

SOFT_KEYWORDS = [word for word in KEYWORDS if word not in RESERVED]


@pytest.mark.parametrize("name", ["accepted.gq", "programs.gq"])
def test_printing_keeps_the_tree(name: str, fixtures: Path) -> None:
    text = (fixtures / name).read_text()
    tree = parse_queries(text)
    printed = format_queries(tree)
    assert parse_queries(printed) == tree
    assert format_queries(parse_queries(printed)) == printed


def test_everything_accepted_compiles(fixtures: Path, library: Catalog) -> None:
    text = (fixtures / "accepted.gq").read_text()
    plans = compile_queries(text, library)
    assert list(plans) == [query.name for query in parse_queries(text).queries]


def test_the_canonical_text(fixtures: Path) -> None:
    assert (
        format_queries(parse_queries((fixtures / "accepted.gq").read_text()))
        == (fixtures / "accepted.formatted.gq").read_text()
    )


@pytest.mark.parametrize("word", [*SOFT_KEYWORDS, *RESERVED])
def test_any_word_is_a_property_name(word: str) -> None:
    text = f"""
    query a() {{ match {{ $p: T {{ {word}: 1 }} $p.{word} > 2 }} return {{ $p.{word} as {word} }} }}
    query b() {{ insert T {{ {word}: 1 {word}: 2, {word}: 3 }} update T set {{ {word}: 1 }} where x = 1 }}
    """
    read, mutation = parse_queries(text).queries
    assert isinstance(read.body, ReadBody)
    assert isinstance(mutation.body, MutationBody)
    assert read.body.items[0].alias == word
    assert [one.name for one in mutation.body.statements[0].assignments] == [word] * 3  # type: ignore[union-attr]


@pytest.mark.parametrize("word", SOFT_KEYWORDS)
def test_a_soft_keyword_is_a_bare_name(word: str) -> None:
    text = f"query a() {{ delete T where {word} = 1 and not {word} is null or ({word} in [1]) insert U {{ a: 1 }} }}"
    (query,) = parse_queries(text).queries
    words = [node.name for node, _ in walk(query.body) if isinstance(node, Word)]
    assert words == [word] * 3


@pytest.mark.parametrize("word", RESERVED)
def test_a_reserved_word_is_no_edge_and_no_bare_name(word: str) -> None:
    try:
        (query,) = parse_queries(f"query a() {{ match {{ $a {word} $b $a: T }} return {{ 1 }} }}").queries
    except QueryError:
        return
    assert isinstance(query.body, ReadBody)
    assert not any(getattr(clause, "edge", None) == word for clause in query.body.clauses)


def test_keywords_end_at_a_word_boundary(library: Catalog) -> None:
    with pytest.raises(QueryError, match="unexpected 'android'"):
        compile_query("query q() { delete Person where age = 1 android = 2 }", library)


def test_layout_and_comments_do_not_matter() -> None:
    tight = "query q(){match{$p:Person{age:1}$p knows{1,2}$q}return{$p.email}limit 3}"
    loose = """
      query q ( ) { // comment }
        match { $p : Person { age : 1 , } /* ) */ $p knows { 1 , 2 } $q }
        return { $p . email , }
        limit 3
      }"""
    assert parse_queries(tight) == parse_queries(loose)


def test_the_smallest_integer_and_signs() -> None:
    (query,) = parse_queries("query q() { match { $p: T $p.x - 1 > -9223372036854775808 - -1 } return { 1 } }").queries
    printed = format_queries(parse_queries("query q() { match { $p: T $p.x -1 > --1 } return { 1 -1 } }"))
    assert "$p.x - 1 > --1" in printed
    assert "1 - 1" in printed
    assert isinstance(query.body, ReadBody)


@pytest.mark.parametrize(
    "expression",
    [
        "$p.a - $p.b - $p.c",
        "$p.a - ($p.b - $p.c)",
        "$p.a / ($p.b * $p.c)",
        "($p.a + 1) * 2 - 3",
        "$p.a * (2 + 1)",
        "-($p.a + 1) * --1",
        "$p.a or $p.b and not $p.c",
        "($p.a or $p.b) and $p.c",
        "($p.a and $p.b) and $p.c",
        "not ($p.a and $p.b)",
        "not not $p.a = 1",
        "(not $p.a) = true",
        "($p.a = 1) = ($p.b < 2)",
        "($p.a in [1, -2]) is null",
        "($p.a is null) is not null",
        "($list) contains $p.a + 1",
    ],
)
def test_parentheses_only_where_they_are_needed(expression: str) -> None:
    printed = format_queries(parse_queries(f"query q() {{ match {{ $p: T }} return {{ {expression} as x }} }}"))
    assert f"    {expression} as x,\n" in printed
