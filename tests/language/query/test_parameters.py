"""Values of parameters: what each declared type accepts, and what it becomes."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, timedelta, timezone
from typing import Any

import pytest

from omnigraph.errors import ParameterError
from omnigraph.language.catalog import Catalog
from omnigraph.language.parameters import bind_parameters
from omnigraph.language.query.compiler import compile_query
from omnigraph.language.query.plan import DeclaredParameter


def declared(type_: str, catalog: Catalog) -> tuple[DeclaredParameter, ...]:
    return compile_query(f"query q($x: {type_}) {{ match {{ $p: Person }} return {{ $p }} }}", catalog).parameters


ACCEPTED: list[tuple[str, Any, Any]] = [
    ("String", "text", "text"),
    ("String", "", ""),
    ("Bool", True, True),
    ("I32", -(2**31), -(2**31)),
    ("U32", 2**32 - 1, 2**32 - 1),
    ("I64", 2**63 - 1, 2**63 - 1),
    ("I64", "9007199254740993", 9007199254740993),
    ("I64", "-9223372036854775808", -(2**63)),
    ("U64", "9223372036854775807", 2**63 - 1),
    ("F64", 1, 1.0),
    ("F64", 1.5, 1.5),
    ("F32", -2, -2.0),
    ("Date", "2024-02-29", date(2024, 2, 29)),
    ("Date", date(2024, 2, 29), date(2024, 2, 29)),
    ("DateTime", "2024-02-29T01:00:00+02:00", datetime(2024, 2, 28, 23, tzinfo=UTC)),
    ("DateTime", "2024-02-29T01:00:00", datetime(2024, 2, 29, 1, tzinfo=UTC)),
    ("DateTime", "2024-02-29T01:00:00.123456Z", datetime(2024, 2, 29, 1, 0, 0, 123000, tzinfo=UTC)),
    ("DateTime", datetime(2024, 2, 29, 1, 0, 0, 999999), datetime(2024, 2, 29, 1, 0, 0, 999000, tzinfo=UTC)),
    (
        "DateTime",
        datetime(2024, 2, 29, 1, tzinfo=timezone(timedelta(hours=2))),
        datetime(2024, 2, 28, 23, tzinfo=UTC),
    ),
    ("[String]", ["a", "b"], ["a", "b"]),
    ("[I64]", ["1", 2], [1, 2]),
    ("[Date]", ("2024-01-01",), [date(2024, 1, 1)]),
    ("[Bool]", [], []),
    ("Vector(2)", [1, 2.5], [1.0, 2.5]),
    ("Blob", "base64:aGk=", b"hi"),
    ("Blob", "base64:", b""),
    ("Blob", b"raw", b"raw"),
    ("Blob", "s3://bucket/key", "s3://bucket/key"),
    ("String?", None, None),
    ("[String]?", None, None),
    ("Vector(2)?", None, None),
]

REFUSED: list[tuple[str, Any, str]] = [
    ("String", 1, "$x: expected a string, got 1"),
    ("String", None, "$x: null is not allowed"),
    ("String", "\ud800", "$x: the text is not valid Unicode"),
    ("Bool", 1, "$x: expected true or false, got 1"),
    ("I32", True, "$x: expected a whole number, got true"),
    ("I32", "1", "$x: expected a whole number, got '1'"),
    ("I32", 1.0, "$x: expected a whole number, got 1.0"),
    ("I32", 2**31, "$x: 2147483648 is not between -2147483648 and 2147483647"),
    ("U32", -1, "$x: -1 is not between 0 and 4294967295"),
    ("I64", "1.0", "$x: expected a whole number or its digits as a string, got '1.0'"),
    ("I64", "9223372036854775808", "$x: 9223372036854775808 is not between -9223372036854775808 and 9223372036854775807"),
    ("I64", 10**50, f"$x: {10**50} is not between -9223372036854775808 and 9223372036854775807"),
    ("U64", 2**63, "$x: 9223372036854775808 is not between 0 and 9223372036854775807"),
    ("F64", "1", "$x: expected a number, got '1'"),
    ("F64", 10**400, "$x: the number is beyond the range of F64"),
    ("F32", 1e39, "$x: the number is beyond the range of F32"),
    ("Date", "2024-02-30", "$x: '2024-02-30' is not a date: there is no such day"),
    ("Date", "2024-02-29T23:00:00-05:00", "$x: '2024-02-29T23:00:00-05:00' is not a date: a date is written YYYY-MM-DD"),
    ("Date", datetime(2024, 2, 29), "$x: expected a date, got datetime"),
    ("Date", "20240229", "$x: '20240229' is not a date: a date is written YYYY-MM-DD"),
    ("DateTime", "2024-02-29", "$x: '2024-02-29' is not an instant: an instant is written YYYY-MM-DDTHH:MM:SS with Z or an offset"),
    ("DateTime", "2024-02-29T25:00:00Z", "$x: '2024-02-29T25:00:00Z' is not an instant: there is no such day or time"),
    ("DateTime", "0001-01-01T00:00:00+14:00", "$x: '0001-01-01T00:00:00+14:00' is not an instant: there is no such day or time"),
    ("DateTime", 0, "$x: expected an instant, got 0"),
    ("[String]", "a", "$x: expected an array, got 'a'"),
    ("[String]", ["a", 1], "$x: item 1: expected a string, got 1"),
    ("[I32]", [None], "$x: item 0: null is not allowed in a list"),
    ("Vector(2)", [1], "$x: expected 2 numbers, got 1"),
    ("Vector(2)", [1, float("nan")], "$x: a vector holds finite numbers only"),
    ("Vector(2)", [1, "2"], "$x: expected a number, got '2'"),
    ("Blob", "hello", "$x: expected base64:… or a URI, got 'hello'"),
    ("Blob", "base64:?", "$x: the text after base64: is not base64"),
    ("String", {"a": 1}, "$x: expected a string, got an object"),
]  # fmt: skip


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


def test_only_a_nullable_parameter_may_be_left_out(library: Catalog) -> None:
    assert bind_parameters(declared("I32?", library), {}) == {"x": None}
    with pytest.raises(ParameterError, match="a value is required"):
        bind_parameters(declared("I32", library), {})


def test_undeclared_values_are_ignored_unless_they_are_objects(library: Catalog) -> None:
    assert bind_parameters(declared("I32", library), {"x": 1, "y": [2], "z": None}) == {"x": 1}
    with pytest.raises(ParameterError) as caught:
        bind_parameters(declared("I32", library), {"x": 1, "y": {}})
    assert caught.value.parameter == "y"


def test_arrays_of_numeric_libraries(library: Catalog) -> None:
    numpy = pytest.importorskip("numpy")
    assert bind_parameters(declared("Vector(2)", library), {"x": numpy.array([1, 2], dtype="f4")}) == {"x": [1.0, 2.0]}
    assert bind_parameters(declared("I64", library), {"x": numpy.int64(3)}) == {"x": 3}
    with pytest.raises(ParameterError):
        bind_parameters(declared("Vector(2)", library), {"x": numpy.float64(1)})
