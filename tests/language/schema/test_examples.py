"""The example schemas compile, are in canonical layout, and have the sizes they were written for."""

from __future__ import annotations

from pathlib import Path

import pytest

from omnigraph.language.projection import arrow_schema
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.language.schema.lint import lint_schema
from omnigraph.language.schema.migration import plan_migration
from omnigraph.language.schema.printer import format_schema

SCHEMAS = Path(__file__).parents[3] / "examples" / "schemas"
SIZES = {
    "hospital": 84,
    "logistics": 48,
    "software_supply_chain": 62,
    "anti_money_laundering": 67,
    "university_research": 69,
}


@pytest.mark.parametrize("name", SIZES)
def test_an_example_compiles_and_has_a_table_per_type(name: str) -> None:
    text = (SCHEMAS / f"{name}.pg").read_text("utf-8")
    catalog = compile_schema(text, f"{name}.pg")
    assert len(catalog.tables) == SIZES[name]
    assert 150 <= text.count("\n") <= 600
    for entity in catalog.tables.values():
        assert len(arrow_schema(entity)) >= len(entity.properties) + 1


@pytest.mark.parametrize("name", SIZES)
def test_an_example_is_formatted_and_clean(name: str) -> None:
    text = (SCHEMAS / f"{name}.pg").read_text("utf-8")
    assert format_schema(text) == text
    assert lint_schema(text, is_first=True) == ()


@pytest.mark.parametrize("name", SIZES)
def test_an_example_migrates_to_itself_without_steps_and_to_nothing_by_drops(name: str) -> None:
    text = (SCHEMAS / f"{name}.pg").read_text("utf-8")
    catalog = compile_schema(text)
    assert plan_migration(catalog, text).is_empty
    kinds = [step.kind for step in plan_migration(catalog, "").steps]
    assert kinds == ["drop_type"] * (len(catalog.tables) + len(catalog.interfaces))
