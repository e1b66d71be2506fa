"""The example queries: all of them compile, use the whole language, and survive printing."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.language.query.lint import lint_queries
from omnigraph.language.query.mutations import compile_queries
from omnigraph.language.query.parser import parse_queries
from omnigraph.language.query.plan import MutationPlan
from omnigraph.language.query.printer import format_queries
from omnigraph.language.schema.compiler import compile_schema

EXAMPLES = Path(__file__).parents[3] / "examples"
DOMAINS = sorted(file.stem for file in (EXAMPLES / "schemas").glob("*.pg"))


def text_of(domain: str) -> str:
    return (EXAMPLES / "queries" / f"{domain}.gq").read_text()


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_query_compiles(domain: str) -> None:
    catalog = compile_schema((EXAMPLES / "schemas" / f"{domain}.pg").read_text())
    plans = compile_queries(text_of(domain), catalog, f"{domain}.gq")
    assert len(plans) >= 10
    assert any(isinstance(plan, MutationPlan) for plan in plans.values())
    codes = {finding.code for finding in lint_queries(text_of(domain), catalog).findings}
    assert codes <= {"L201", "L204", "L209"}, "an example should not need advice"


@pytest.mark.parametrize("domain", DOMAINS)
def test_every_query_survives_printing(domain: str) -> None:
    tree = parse_queries(text_of(domain))
    assert parse_queries(format_queries(tree)) == tree


def test_there_are_a_hundred() -> None:
    assert len(DOMAINS) >= 10
    assert sum(len(parse_queries(text_of(domain)).queries) for domain in DOMAINS) >= 100
