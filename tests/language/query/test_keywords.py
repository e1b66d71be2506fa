"""Keywords are read off the grammar: what checks and completes them follows it."""

from __future__ import annotations

from omnigraph.language.query.completion import _words
from omnigraph.language.query.keywords import keywords
from omnigraph.language.query.parser import _compiled


def test_every_keyword_of_the_grammar_is_known_and_completed() -> None:
    terminals = {each.name.lower() for each in _compiled().terminals if each.pattern.value == rf"{each.name.lower()}\b"}
    assert len(terminals) > 50
    assert set(keywords()) == terminals == {word.label for word in _words() if word.kind == "keyword"}
