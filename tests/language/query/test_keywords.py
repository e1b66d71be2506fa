"""The keywords are those of the rules: what checks and completes them follows the parser."""

from __future__ import annotations

import re

from omnigraph.language.grammar_reference import rules
from omnigraph.language.query.completion import _words
from omnigraph.language.query.parser import QueryParser
from omnigraph.language.query.syntax import KEYWORDS
from omnigraph.language.schema.parser import KEYWORDS as SCHEMA_KEYWORDS, SchemaParser


def test_every_keyword_of_the_rules_is_known_and_completed() -> None:
    words = {word for rule in rules(QueryParser) for word in re.findall(r"'([a-z_0-9]+)'", rule)}
    assert len(words) > 50
    assert set(KEYWORDS) == words == {word.label for word in _words() if word.kind == "keyword"}
    assert len(KEYWORDS) == len(words)


def test_every_keyword_of_schemas_is_known() -> None:
    words = {word for rule in rules(SchemaParser) for word in re.findall(r"'([a-z]+)'", rule)}
    assert set(SCHEMA_KEYWORDS) == words - {"true", "false"}
