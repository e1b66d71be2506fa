"""The tables that texts are parsed by, beside the parser of the grammar's compiler."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lark import Token as LarkToken
from lark import Tree, UnexpectedInput

from omnigraph.language import lalr
from omnigraph.language.lalr import NoParseError, Parser, ParserTables, Token, kept_tables
from omnigraph.language.query.keywords import grammar
from omnigraph.language.query.parser import _compiled

TESTS = Path(__file__).parents[2]


def _texts() -> list[str]:
    """Every query of the examples and of the logic files."""
    texts = [file.read_text() for file in sorted(TESTS.rglob("*.gq"))]
    for file in sorted((TESTS / "logic").glob("*.logic")):
        for section in ("\n" + file.read_text()).split("\n== case ")[1:]:
            body = re.split(r"\n(?:--|==) ", section.partition("\n")[2])[0].strip()
            texts.append(body if body.startswith("query ") else f"query q() {{ {body} }}")
    return texts


TEXTS = _texts()
PIECES = sorted({piece for text in TEXTS for piece in re.findall(r"\w+|\$\w+|[^\w\s]+|\s+", text)})


class Shape:
    """Builds nothing: a rule is its name and its children."""

    def __getattr__(self, rule: str) -> Callable[..., Any]:
        if rule.startswith("_"):
            raise AttributeError(rule)
        return lambda *children: (rule, *children)


def shape(value: Any) -> Any:
    """Of either parser, with what its tokens are and where."""
    if isinstance(value, Tree):
        return (str(value.data), *map(shape, value.children))
    if isinstance(value, tuple):
        return (value[0], *map(shape, value[1:]))
    assert isinstance(value, Token | LarkToken)
    return value.type, str(value), value.line, value.column


def parsed(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return shape(parse(text))
    except (NoParseError, UnexpectedInput):
        return None


@pytest.fixture(scope="module")
def ours() -> Parser:
    return Parser(ParserTables.of(_compiled()), Shape())


def test_every_text_has_the_same_tree(ours: Parser) -> None:
    assert len(TEXTS) > 400
    for text in TEXTS:
        tree = parsed(_compiled().parse, text)
        assert tree is not None, text
        assert parsed(ours.parse, text) == tree


@given(data=st.data())
def test_a_changed_text_has_the_same_tree_or_none(ours: Parser, data: st.DataObject) -> None:
    pieces = re.findall(r"\w+|\s+|.", data.draw(st.sampled_from(TEXTS)), re.DOTALL)
    for _ in range(data.draw(st.integers(1, 3))):
        place = data.draw(st.integers(0, len(pieces)))
        pieces[place : place + data.draw(st.integers(0, 2))] = data.draw(st.lists(st.sampled_from(PIECES), max_size=2))
    text = "".join(pieces)
    assert parsed(ours.parse, text) == parsed(_compiled().parse, text)


def test_tables_are_kept_and_made_again_when_they_are_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lalr, "user_cache", lambda: tmp_path)
    made = kept_tables("query", grammar(), _compiled)

    def refuse() -> Any:
        raise AssertionError("compiled again")

    assert kept_tables("query", grammar(), refuse) == made
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    for damaged in (b"", whole[: len(whole) // 2], b"\xff" * 100, b"N"):
        file.write_bytes(damaged)
        assert kept_tables("query", grammar(), _compiled) == made
        assert file.read_bytes() == whole
    kept_tables("query", grammar() + "\n", _compiled)
    assert len(list(tmp_path.iterdir())) == 2


def test_without_a_folder_tables_are_made_each_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lalr, "user_cache", lambda: None)
    assert kept_tables("query", grammar(), _compiled) == ParserTables.of(_compiled())
