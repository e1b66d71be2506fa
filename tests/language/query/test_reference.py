"""docs/grammar.md is made from the grammar files.

To write it again: python -m omnigraph.cli.reference docs
"""

from __future__ import annotations

from pathlib import Path

from omnigraph.language.grammar_reference import grammar_reference

DOCUMENT = Path(__file__).parents[3] / "docs" / "grammar.md"


def test_the_reference_is_what_the_grammars_say() -> None:
    assert DOCUMENT.read_text() == grammar_reference()


def test_comments_are_prose_and_rules_are_code() -> None:
    text = grammar_reference()
    assert "\n### Reads\n" in text
    assert "\npart: MATCH block" in text
    assert not any(line.startswith("//") for line in text.splitlines())
    assert text.count("```") % 2 == 0
