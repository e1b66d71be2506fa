"""Values of parameters: what each declared type accepts, and what it becomes."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import pytest

from omnigraph.errors import ParameterError, QueryError
from omnigraph.language.catalog import Catalog
from omnigraph.language.query.mutations import bind_parameters, check_cuts, compile_query
from omnigraph.language.query.parser import MAX_TERMS
from omnigraph.language.query.plan import DeclaredParameter, ReadPlan


def declared(type_: str, catalog: Catalog) -> tuple[DeclaredParameter, ...]:
    return compile_query(f"query q($x: {type_}) {{ match {{ $p: Person }} return {{ $p }} }}", catalog).parameters


ACCEPTED: list[tuple[str, Any, Any]] = [
    ("String", "", ""),
    ("I64", "-9223372036854775808", -(2**63)),
    ("U64", 2**64 - 1, 2**64 - 1),
    ("U64", "18446744073709551615", 2**64 - 1),
    ("F32", -2, -2.0),
    ("Date", date(2024, 2, 29), date(2024, 2, 29)),
    ("DateTime", "2024-02-29T01:00:00+02:00", datetime(2024, 2, 28, 23)),
    ("DateTime", datetime(2024, 2, 29, 1, 0, 0, 999999), datetime(2024, 2, 29, 1, 0, 0, 999999)),
    ("[DateTime]", ["2024-02-29T01:00:00Z"], [datetime(2024, 2, 29, 1)]),
    ("[Date]", ("2024-01-01",), [date(2024, 1, 1)]),
    ("Vector(2)", [1, 2.5], [1.0, 2.5]),
    ("Blob", "base64:aGk=", b"hi"),
    ("String?", None, None),
    ("Vector(2)?", None, None),
]
"""What each type takes is in tests/values; here is what a parameter makes of it."""

REFUSED: list[tuple[str, Any, str]] = [
    ("String", None, "$x: null is not allowed"),
    ("String", {"a": 1}, "$x expects String, got an object"),
    ("String", "\ud800", r"$x expects valid Unicode, got '\ud800', which holds half of a surrogate pair"),
    ("I32", 2**31, "$x expects I32 (-2147483648 to 2147483647), got 2147483648"),
    ("U64", 2**64, f"$x expects U64 (0 to {2**64 - 1}), got {2**64}"),
    ("F64", float("nan"), "$x expects a finite number, got NaN"),
    ("Date", "2024-02-30", "$x: invalid Date literal '2024-02-30': there is no such day"),
    ("[String]", ["a", 1], "$x: item 1 expects String, got 1"),
    ("Vector(2)", [1], "$x expects Vector(2), got 1 numbers"),
    ("Blob", "s3://bucket/key", "$x expects Blob as 'base64:...'; external addresses are not allowed"),
]


@pytest.mark.parametrize(("type_", "value", "expected"), ACCEPTED)
def test_accepted(type_: str, value: Any, expected: Any, library: Catalog) -> None:
    bound = bind_parameters(declared(type_, library), {"x": value})["x"]
    assert bound == expected
    assert type(bound) is type(expected)


@pytest.mark.parametrize(("type_", "value", "message"), REFUSED)
def test_refused(type_: str, value: Any, message: str, library: Catalog) -> None:
    with pytest.raises(ParameterError) as caught:
        bind_parameters(declared(type_, library), {"x": value})
    assert caught.value.message == message
    assert caught.value.parameter == "x"
    assert caught.value.hint == f"declared as {type_}"


def test_values_arrive_from_json(library: Catalog) -> None:
    values = json.loads('{"x": [0.25, 1e2]}')
    assert bind_parameters(declared("Vector(2)", library), values) == {"x": [0.25, 100.0]}


def test_a_parameter_that_is_left_out_has_its_default_or_null(library: Catalog) -> None:
    with pytest.raises(ParameterError, match=r"\$x: a value is required") as caught:
        bind_parameters(declared("I32", library), {})
    assert caught.value.hint == "declared as I32"
    assert bind_parameters(declared("I32?", library), {}) == {"x": None}
    assert bind_parameters(declared("I32?", library), {"x": None}) == {"x": None}


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("I32? = null", None),
        ("I32 = -7", -7),
        ("U64 = 18446744073709551615", 2**64 - 1),
        ("F64 = 1", 1.0),
        ('String = ""', ""),
        ("Bool = true", True),
        ('Date = date("2024-02-29")', date(2024, 2, 29)),
        ('Date = "2024-02-29"', date(2024, 2, 29)),
        ('DateTime = datetime("2024-02-29T01:00:00+02:00")', datetime(2024, 2, 28, 23)),
        ("[I64] = []", []),
        ('[String] = ["a", "b"]', ["a", "b"]),
        ("Vector(2) = [1, -0.5]", [1.0, -0.5]),
    ],
)
def test_a_call_that_leaves_a_parameter_out_gets_its_default(written: str, expected: Any, library: Catalog) -> None:
    bound = bind_parameters(declared(written, library), {})["x"]
    assert bound == expected
    assert type(bound) is type(expected)


@pytest.mark.parametrize(
    ("written", "message"),
    [
        ("I32 = null", "the default of $x: null is not a value of I32"),
        (
            "I32 = 2147483648",
            "the default of $x: 2147483648 is not between -2147483648 and 2147483647, the range of I32",
        ),
        ('I32 = "x"', "the default of $x: 'x' is not a value of I32"),
        ("[I64] = [1, $p.age]", "the default of $x is not a literal"),
        ("[I64] = [1 + 1]", "the default of $x is not a literal"),
        ("[I64] = " + 100 * "[" + 100 * "]", "nested more than 64 levels deep"),
    ],
)
def test_a_default_that_does_not_fit_is_refused_where_it_is_declared(
    written: str, message: str, library: Catalog
) -> None:
    with pytest.raises(QueryError) as caught:
        declared(written, library)
    assert caught.value.message == message


def test_a_name_that_is_not_declared_is_refused_with_the_one_that_was_meant(library: Catalog) -> None:
    parameters = compile_query(
        "query q($age: I32, $name: String) { match { $p: Person } return { $p } }", library
    ).parameters
    wrong: list[tuple[dict[str, object], str]] = [
        ({"aeg": 6, "name": "a"}, "did you mean 'age'?"),
        ({"zzz": None}, "known: age, name"),
    ]
    for values, hint in wrong:
        with pytest.raises(ParameterError) as caught:
            bind_parameters(parameters, values)
        assert caught.value.parameter == next(iter(values))
        assert caught.value.hint == hint
    with pytest.raises(ParameterError, match=r"the query has no parameter \$x"):
        bind_parameters((), {"x": 1})


def test_arrays_of_numeric_libraries(library: Catalog) -> None:
    numpy = pytest.importorskip("numpy")
    assert bind_parameters(declared("Vector(2)", library), {"x": numpy.array([1, 2], dtype="f4")}) == {"x": [1.0, 2.0]}
    assert bind_parameters(declared("I64", library), {"x": numpy.int64(3)}) == {"x": 3}
    with pytest.raises(ParameterError):
        bind_parameters(declared("Vector(2)", library), {"x": numpy.float64(1)})


@pytest.mark.parametrize(("word", "value"), [("limit", -1), ("limit", 2**63), ("offset", -1), ("offset", 2**64 - 1)])
def test_a_number_of_rows_is_in_range(word: str, value: int, library: Catalog) -> None:
    type_ = "I64" if value < 0 else "U64"
    cut = "limit $x" if word == "limit" else "limit 1 offset $x"
    plan = compile_query(f"query q($x: {type_}) {{ match {{ $p: Person }} return {{ $p }} {cut} }}", library)
    assert isinstance(plan, ReadPlan)
    check_cuts(plan, bind_parameters(plan.parameters, {"x": 2**63 - 1}))
    with pytest.raises(ParameterError, match=rf"\$x: `{word}` is 0 to 9223372036854775807, got {value}"):
        check_cuts(plan, bind_parameters(plan.parameters, {"x": value}))


def test_one_place_has_so_many_conditions(library: Catalog) -> None:
    terms = " or ".join(f"$x = {number}" for number in range(MAX_TERMS + 1))
    text = f"query q($x: I32) {{ match {{ $b: Book {terms} }} return {{ $b.id as id }} }}"
    with pytest.raises(QueryError, match="more than 2,000 conditions"):
        compile_query(text, library)
