"""A long list or a long condition costs a read in proportion to its length. Counted in function calls, not in seconds."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from read.graphs import commit, new_graph, query
from work import calls

from omnigraph.expressions.functions import Arguments
from omnigraph.expressions.predicates import Predicate
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.read.sql.compiler import compile_read, prepare
from omnigraph.read.sql.key_columns import keys_as_ids
from omnigraph.relational.sql import to_sql

SCHEMA = "node Person { name: String @key  age: I64? }  edge Knows: Person -> Person"
SMALL, LARGE = 250, 1_000
SLACK = 1.3
"""What little is not proportional."""
FORMS: dict[str, Callable[[int], str]] = {
    "in": lambda size: f"$p.age in [{', '.join(str(number) for number in range(size))}]",
    "and": lambda size: " and ".join(f"$p.age != {number}" for number in range(size)),
    "or": lambda size: " or ".join(f"$p.age = {number}" for number in range(size)),
    "clauses": lambda size: " ".join(f"$p.age != {number}" for number in range(size)),
    "before a hop": lambda size: "$p knows{1,3} $q " + " ".join(f"$p.age != {number}" for number in range(size)),
}


@pytest.fixture(scope="module")
def catalog() -> Catalog:
    return compile_schema(SCHEMA)


def plan_of(form: str, size: int, catalog: Catalog) -> ReadPlan:
    plan = compile_query(
        f"query q() {{ match {{ $p: Person {FORMS[form](size)} }} return {{ $p.age as a }} }}", catalog
    )
    assert isinstance(plan, ReadPlan)
    return plan


def _to_sql(plan: ReadPlan, catalog: Catalog) -> str:
    return to_sql(compile_read(keys_as_ids(plan, catalog), catalog).whole(), "duckdb")


def _to_filter(plan: ReadPlan, _: Catalog) -> Any:
    predicate = Predicate(plan.pattern.filters, Arguments({}, dt.datetime.now(dt.UTC)))
    return predicate.filter, predicate.remaining, predicate.fixed


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("work", [_to_sql, _to_filter])
def test_compiling_is_linear(catalog: Catalog, form: str, work: Callable[[ReadPlan, Catalog], Any]) -> None:
    small, large = plan_of(form, SMALL, catalog), plan_of(form, LARGE, catalog)
    assert calls(lambda: work(large, catalog)) < calls(lambda: work(small, catalog)) * LARGE / SMALL * SLACK


def test_a_long_list_is_one_value_of_the_tree(catalog: Catalog) -> None:
    assert len(_to_sql(plan_of("in", 20_000, catalog), catalog)) == len(_to_sql(plan_of("in", 200, catalog), catalog))


def test_twenty_thousand_values_are_found(tmp_path: Path) -> None:
    records = [{"type": "Person", "data": {"name": f"p{age}", "age": age}} for age in range(-5, 5)]
    view = commit(new_graph(str(tmp_path / "g"), SCHEMA), records)
    for mode in ("auto", "scan", "index", "csr"):
        found = query(
            view, f"query q() {{ match {{ $p: Person {FORMS['in'](20_000)} }} return {{ $p.age as a }} }}", mode=mode
        )  # type: ignore[arg-type]  # the names are modes
        assert sorted(row["a"] for row in found.rows) == [0, 1, 2, 3, 4]


def test_a_plan_is_prepared_once_and_a_changed_plan_by_itself(catalog: Catalog) -> None:
    plan = plan_of("in", 3, catalog)
    tree = prepare(plan, catalog, "id")
    assert prepare(plan_of("in", 3, catalog), catalog, "id") is tree
    assert prepare(plan, catalog, "ordinal") is not tree
    changed = prepare(replace(plan, distinct=True), catalog, "id")
    assert changed is not tree
    assert changed.plan.distinct
