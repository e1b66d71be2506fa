"""Findings in schemas that compile."""

from __future__ import annotations

import pytest

from omnigraph.errors import SchemaError
from omnigraph.language.schema.lint import LINT_CODES, SchemaFinding, lint_schema

ROWS = [
    ("OG-NM-102", "node A {\n  p: String @uniqe\n}", (2, 13), "@uniqe on A.p has no behaviour; did you mean @unique?"),
    ("OG-NM-102", 'node A @descripton("x") {}', (1, 8), "@descripton on A has no behaviour; did you mean @description?"),
    ("OG-NM-103", 'node A @rename_from("B") {}', (1, 8), "@rename_from on A has no effect: there is no earlier schema"),
    ("OG-MF-111", "node A { p: I32 @unique @default(1) }", (1, 10), "A.p is @unique and has a @default: only one row can take it"),
    ("OG-MF-111", "node A { p: I32 @default(1) @unique(p) }", (1, 10), "A.p is @unique and has a @default: only one row can take it"),
    ("OG-VE-102", "interface A { v: Vector(3) }", (1, 15), "A.v has no @index: nearest() reads every row"),
]  # fmt: skip


@pytest.mark.parametrize(("code", "text", "place", "message"), ROWS)
def test_finding(code: str, text: str, place: tuple[int, int], message: str) -> None:
    (finding,) = lint_schema(text, is_first=True)
    assert finding.render("x.pg") == f"x.pg:{place[0]}:{place[1]}: [{code}] {message}"
    assert finding == SchemaFinding(code, message, *place)


def test_every_code_has_a_row() -> None:
    assert {row[0] for row in ROWS} == set(LINT_CODES)


@pytest.mark.parametrize(
    "text", ["", "node A { p: String @pii v: Vector(3) @index(v) w: Vector(3) @index }", "edge E: A -> A"]
)
def test_a_clean_schema_has_no_findings(text: str) -> None:
    assert lint_schema(text) == ()


def test_a_rename_in_a_later_schema_is_no_finding() -> None:
    assert lint_schema('node A @rename_from("B") {}') == ()


def test_a_text_that_does_not_parse_is_an_error() -> None:
    with pytest.raises(SchemaError):
        lint_schema("node")
