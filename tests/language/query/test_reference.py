"""docs/reference/grammar.md is made from the grammar files.

To write it again: python -m omnigraph.cli.reference docs
"""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.cli.reference import PAGES
from omnigraph.language.grammar_reference import grammar_reference
from omnigraph.language.query.forms import FORMS, SCHEMA, Form
from omnigraph.language.query.lint import lint_queries
from omnigraph.language.query.mutations import compile_queries
from omnigraph.language.schema.compiler import compile_schema

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "grammar.md"


def test_the_reference_is_what_the_grammars_say() -> None:
    assert DOCUMENT.read_text() == PAGES["reference/grammar.md"]()


@pytest.mark.parametrize("form", FORMS, ids=lambda form: form.title)
def test_each_example_of_a_form_compiles_and_has_nothing_wrong(form: Form) -> None:
    catalog = compile_schema(SCHEMA)
    assert list(compile_queries(form.example, catalog)) == ["q"]
    codes = {finding.code for finding in lint_queries(form.example, catalog).findings}
    assert codes <= {"L201", "L202", "L204", "L209"}, "advice that an example of one form cannot avoid"


def test_comments_are_prose_and_rules_are_code() -> None:
    text = grammar_reference()
    assert "\n#### Reads\n" in text
    assert "\npart: ('match' block)?" in text
    assert not any(line.startswith("//") for line in text.splitlines())
    assert text.count("```") % 2 == 0
