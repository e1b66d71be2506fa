"""Each rule of the query language, broken on purpose: the whole rendered message, from files.

A file `fixtures/errors/<rule>.txt` holds cases separated by `====`; each is a text, `----`, and the message.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.errors import QueryError
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.lint import RULES
from omnigraph.language.query.mutations import compile_queries, compile_query

ERRORS = Path(__file__).parent / "fixtures" / "errors"
CASES = [
    pytest.param(file.stem, *case.split("\n----\n"), id=f"{file.stem}-{number}")
    for file in sorted(ERRORS.glob("*.txt"))
    for number, case in enumerate(file.read_text().removesuffix("\n").split("\n====\n"), 1)
]
TWO = "query a() { match { $p: Person } return { $p } }\nquery b() { match { $p: Person } return { $p.nope } }"


@pytest.mark.parametrize(("rule", "text", "expected"), CASES)
def test_message(rule: str, text: str, expected: str, library: Catalog) -> None:
    with pytest.raises(QueryError) as caught:
        compile_queries(text, library, "q.gq")
    assert caught.value.render() == expected
    assert caught.value.rule == rule


def test_every_rule_has_cases() -> None:
    chosen_by_name = {"Q001", "Q002"}
    assert {file.stem for file in ERRORS.glob("*.txt")} | chosen_by_name == {*RULES}


@pytest.mark.parametrize(
    ("text", "name", "expected"),
    [
        (TWO, None, "q.gq:1:1: [Q001] query file contains multiple queries; pass --name\n  = queries: a, b"),
        (TWO, "c", "q.gq:1:1: [Q002] query 'c' not found\n  = queries: a, b"),
        ("// nothing", None, "q.gq:1:1: [Q002] query file contains no query"),
        ("", "c", "q.gq:1:1: [Q002] query 'c' not found"),
    ],
)
def test_choice_of_a_query(text: str, name: str | None, expected: str, library: Catalog) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query(text, library, name, "q.gq")
    assert caught.value.render() == expected


def test_a_broken_query_does_not_stand_in_the_way_of_another(library: Catalog) -> None:
    assert compile_query(TWO, library, "a").name == "a"
    with pytest.raises(QueryError, match="no property 'nope'"):
        compile_query(TWO, library, "b")


def test_the_error_is_for_machines_too(library: Catalog) -> None:
    with pytest.raises(QueryError) as caught:
        compile_query("query q() {\n  match { $p: Persn }\n  return { $p }\n}", library, file="q.gq")
    assert caught.value.to_json() == {
        "code": "query_error",
        "message": "unknown node type Persn",
        "retry": False,
        "hint": "did you mean 'Person'?",
        "details": {"rule": "T1", "file": "q.gq", "line": 2, "column": 15},
    }
