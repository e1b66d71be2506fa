"""Long lists and long conditions cost in proportion to their length. Counted in function calls, not in seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from work import calls

from omnigraph.language.catalog import Catalog
from omnigraph.language.query.lint import lint_queries
from omnigraph.language.query.mutations import check_query
from omnigraph.language.query.parser import parse_queries
from omnigraph.language.query.plan import Binary, Constant, ReadPlan
from omnigraph.language.query.printer import format_queries

SMALL, LARGE = 250, 2_000
SLACK = 1.3
"""What little is not proportional."""


def in_numbers(size: int) -> str:
    return f"$p.age in [{', '.join(str(number) for number in range(size))}]"


def in_texts(size: int) -> str:
    return f"$p.email in [{', '.join(chr(34) + str(number) + chr(34) for number in range(size))}]"


def in_dates(size: int) -> str:
    days = (f'date("{1000 + number}-01-01")' for number in range(size))
    return f"$p.joined in [{', '.join(days)}]"


def all_of(size: int) -> str:
    return " and ".join(f"$p.age != {number}" for number in range(size))


def any_of(size: int) -> str:
    return " or ".join(f"$p.age = {number}" for number in range(size))


def clauses(size: int) -> str:
    return " ".join(f"$p.age != {number}" for number in range(size))


def text_of(form: Callable[[int], str], size: int) -> str:
    return f"query q() {{ match {{ $p: Person {form(size)} }} return {{ $p.email as email, $p.age as age }} }}"


FORMS = [in_numbers, in_texts, in_dates, all_of, any_of, clauses]


@pytest.mark.parametrize("form", FORMS, ids=[form.__name__ for form in FORMS])
@pytest.mark.parametrize("phase", ["parse", "check", "print", "lint"])
def test_the_language_is_linear(library: Catalog, form: Callable[[int], str], phase: str) -> None:
    def work(size: int) -> Callable[[], Any]:
        text = text_of(form, size)
        parsed = parse_queries(text)
        return {
            "parse": lambda: parse_queries(text),
            "check": lambda: check_query(parsed.queries[0], text, library),
            "print": lambda: format_queries(parsed),
            "lint": lambda: lint_queries(text, library),
        }[phase]

    assert calls(work(LARGE)) < calls(work(SMALL)) * LARGE / SMALL * SLACK


def test_literals_of_a_list_are_one_value_each_at_its_place(library: Catalog) -> None:
    text = "query q() {\n  match { $p: Person $p.age in [1,\n   -2 , 3,] }\n  return { $p } }"
    (query,) = parse_queries(text).queries
    plan = check_query(query, text, library)
    assert isinstance(plan, ReadPlan)
    (condition,) = plan.pattern.filters
    assert isinstance(condition, Binary)
    assert isinstance(condition.right, Constant)
    assert condition.right.value == (1, -2, 3)
    body: Any = query.body
    places = [(item.at.line, item.at.column) for item in body.clauses[1].condition.right.items]
    assert places == [(2, 33), (3, 4), (3, 9)]
