"""Slips that other systems made with schemas, kept from coming back."""

from __future__ import annotations

import pytest

from omnigraph.errors import SchemaError
from omnigraph.language.catalog import Constraint
from omnigraph.language.schema.compiler import compile_schema

SQL_WORDS = (
    "select",
    "from",
    "where",
    "order",
    "group",
    "table",
    "user",
    "to",
    "end",
    "type",
    "case",
    "null",
    "default",
    "check",
    "limit",
    "primary",
)


@pytest.mark.parametrize("name", ["id", "src", "dst"])
@pytest.mark.parametrize("place", ["node A {{ {0}: String }}", "node A {{}}\nedge E: A -> A {{ {0}: String }}", "interface I {{ {0}: String }}"])  # fmt: skip
def test_a_property_with_the_name_of_a_physical_column_is_refused(name: str, place: str) -> None:
    with pytest.raises(SchemaError, match=f"property name '{name}' is taken") as caught:
        compile_schema(place.format(name))
    assert caught.value.rule == "S112"


@pytest.mark.parametrize("name", ["_row_id", "rowid", "_rowID", "ids", "source", "_id", "_tombstone", "from_", "_"])
def test_near_misses_of_reserved_names_are_legal(name: str) -> None:
    assert name in compile_schema(f"node A {{ {name}: String }}").nodes["A"].properties


@pytest.mark.parametrize("name", SQL_WORDS)
def test_a_property_named_like_an_sql_word_is_legal_everywhere(name: str) -> None:
    node = compile_schema(f"node A {{ {name}: String @unique x: I32 @index({name}, x) }}").nodes["A"]
    assert node.constraints == (Constraint("unique", (name,)), Constraint("index", (name, "x")))


def test_a_camel_case_property_keeps_its_case_in_every_constraint() -> None:
    node = compile_schema(
        'node A { emailAddress: String @unique ageInYears: I32 @key(emailAddress) @range(ageInYears, 0..) @check(emailAddress, "@") }'
    ).nodes["A"]
    assert {name for constraint in node.constraints for name in constraint.fields} == {"emailAddress", "ageInYears"}
    assert node.key == ("emailAddress",)


@pytest.mark.parametrize("form", ["p: {0} @{1}", "p: {0} @{1}(p)"], ids=["property", "body"])
@pytest.mark.parametrize(("type", "kind"), [("[String]", "unique"), ("[String]", "index"), ("Vector(3)", "unique"), ("Blob", "unique"), ("Blob", "index")])  # fmt: skip
def test_both_forms_of_a_constraint_refuse_the_same_types(form: str, type: str, kind: str) -> None:
    with pytest.raises(SchemaError) as caught:
        compile_schema(f"node A {{ {form.format(type, kind)} }}")
    assert caught.value.rule == "S409"


def test_a_required_unique_property_with_a_default_is_planned_with_a_check_of_the_rows() -> None:
    from omnigraph.language.schema.migration import plan_migration

    plan = plan_migration(compile_schema("node A {}"), 'node A { code: String @unique @default("x") }')
    assert [(step.kind, step.effect) for step in plan.steps] == [
        ("add_property", "metadata"),
        ("add_constraint", "validate"),
    ]
