"""Data from outside as typed rows: what is taken, what is refused, and with which words."""

from __future__ import annotations

import datetime as dt
import itertools
import math
from typing import Any

import pytest

from omnigraph.errors import InputError, RecordError, ValueViolation
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.records import Unfit, edge_row, node_row, property_value, typed_value
from omnigraph.values.types import PropertyType, Scalar

CATALOG = compile_schema("""
node Person { name: String @key  age: I32?  tier: String? @default("free") }
node City { country: String  title: String  @key(country, title) }
node Note { text: String }
edge Knows: Person -> Person { weight: F32? }
""")
PERSON, CITY, NOTE, KNOWS = (*(CATALOG.nodes[name] for name in ("Person", "City", "Note")), CATALOG.edges["Knows"])


def new_ids() -> Any:
    numbers = itertools.count(1)
    return lambda: f"new {next(numbers)}"


FITS = [
    (Scalar.STRING, "", ""),
    (Scalar.BOOL, True, True),
    (Scalar.I32, -(2**31), -(2**31)),
    (Scalar.I64, "-9223372036854775808", -(2**63)),
    (Scalar.U32, 2**32 - 1, 2**32 - 1),
    (Scalar.U64, "18446744073709551615", 2**64 - 1),
    (Scalar.F64, 3, 3.0),
    (Scalar.F64, math.inf, math.inf),
    (Scalar.F32, 0.1, 0.10000000149011612),
    (Scalar.DATE, "2024-02-29", dt.date(2024, 2, 29)),
    (Scalar.DATE, -1, dt.date(1969, 12, 31)),
    (Scalar.DATETIME, "2026-01-01T00:00:00.5Z", dt.datetime(2026, 1, 1, 0, 0, 0, 500_000)),
    (Scalar.DATETIME, -1, dt.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
    (Scalar.DATETIME, dt.datetime(2026, 1, 1, 0, 0, 0, 999_999), dt.datetime(2026, 1, 1, 0, 0, 0, 999_000)),
    (Scalar.BLOB, b"x", b"x"),
    (Scalar.BLOB, "base64:", b""),
]

UNFIT = [
    (Scalar.STRING, 1, "expects String, got 1"),
    (Scalar.BOOL, "true", "expects Bool, got 'true'"),
    (Scalar.I32, 1.0, "expects I32, got 1.0"),
    (Scalar.I32, "1", "expects I32, got '1'"),
    (Scalar.I64, "1.5", "expects I64, got '1.5'"),
    (Scalar.I64, 2**63, f"expects I64 ({-(2**63)} to {2**63 - 1}), got {2**63}"),
    (Scalar.F64, True, "expects a number, got true"),
    (Scalar.F32, 1e39, "expects F32, got 1e+39"),
    (Scalar.DATE, dt.datetime(2026, 1, 1), "expects Date, got an instant 2026-01-01T00:00:00"),
    (Scalar.DATE, 10**10, "Date value out of range: 10000000000"),
    (Scalar.DATE, "2023-02-29", "invalid Date literal '2023-02-29'"),
    (Scalar.DATETIME, 10**18, "DateTime value out of range: 1000000000000000000"),
    (Scalar.DATETIME, "noon", "invalid DateTime literal 'noon'"),
    (Scalar.DATETIME, [1], "expects DateTime, got [1]"),
    (Scalar.BLOB, "base64:?", "expects Blob as valid base64"),
]


@pytest.mark.parametrize(("scalar", "given", "kept"), FITS)
def test_a_value_that_fits(scalar: Scalar, given: object, kept: object) -> None:
    found = typed_value(given, PropertyType(scalar))
    assert found == kept
    assert type(found) is type(kept)


@pytest.mark.parametrize(("scalar", "given", "says"), UNFIT)
def test_a_value_that_does_not_fit(scalar: Scalar, given: object, says: str) -> None:
    with pytest.raises(Unfit) as caught:
        typed_value(given, PropertyType(scalar))
    assert str(caught.value) == says


def test_nothing_is_nothing_in_every_type() -> None:
    for scalar in Scalar:
        assert typed_value(None, PropertyType(scalar)) is None


def test_a_long_value_is_cut_in_the_message() -> None:
    with pytest.raises(Unfit) as caught:
        typed_value("x" * 1000, PropertyType(Scalar.I32))
    assert len(str(caught.value)) < 120


def test_a_keyed_node_has_the_id_of_its_key() -> None:
    assert node_row(PERSON, {"name": "Ada"}, new_ids()) == {"id": "Ada", "name": "Ada", "age": None, "tier": "free"}
    assert node_row(CITY, {"title": "Paris", "country": "FR", "id": '["FR","Paris"]'}, new_ids()) == {
        "id": '["FR","Paris"]',
        "country": "FR",
        "title": "Paris",
    }


def test_a_null_that_is_given_is_not_the_default() -> None:
    assert node_row(PERSON, {"name": "Ada", "tier": None}, new_ids())["tier"] is None


def test_an_unkeyed_node_has_a_given_or_a_new_id() -> None:
    new_id = new_ids()
    assert node_row(NOTE, {"text": "t", "id": "mine"}, new_id)["id"] == "mine"
    assert [node_row(NOTE, {"text": "t"}, new_id)["id"] for _ in range(2)] == ["new 1", "new 2"]


def test_an_edge_has_its_ends() -> None:
    assert edge_row(KNOWS, "a", "b", {"weight": 1}, new_ids()) == {"id": "new 1", "src": "a", "dst": "b", "weight": 1.0}


REFUSED = [
    (lambda: node_row(PERSON, {}, new_ids()), ValueViolation, "key property Person.name is missing"),
    (lambda: node_row(PERSON, {"name": "A", "_rowid": 1}, new_ids()), RecordError, "'_rowid' is reserved and cannot be given"),
    (lambda: node_row(NOTE, {"id": 5}, new_ids()), RecordError, "id of Note expects String, got 5"),
    (lambda: node_row(NOTE, {"id": ""}, new_ids()), RecordError, "id of Note expects String, got ''"),
    (lambda: edge_row(KNOWS, "a", "b", {"src": "c"}, new_ids()), RecordError, "'src' is reserved and cannot be given"),
    (lambda: edge_row(KNOWS, "", "b", {}, new_ids()), RecordError, "Knows needs 'from', the id of a node; got ''"),
    (lambda: edge_row(KNOWS, "a", 7, {}, new_ids()), RecordError, "Knows needs 'to', the id of a node; got 7"),
]  # fmt: skip


@pytest.mark.parametrize(("make", "error", "says"), REFUSED)
def test_a_row_that_is_refused(make: Any, error: type[InputError], says: str) -> None:
    with pytest.raises(error) as caught:
        make()
    assert caught.value.message == says


def test_a_refused_value_names_everything() -> None:
    with pytest.raises(RecordError) as caught:
        node_row(CITY, {"country": "FR", "title": "Paris", "size": 1}, new_ids())
    assert caught.value.hint == "City has: country, title"
    with pytest.raises(RecordError) as caught:
        node_row(PERSON, {"name": "Ada", "age": "x"}, new_ids())
    error = caught.value
    assert (error.type_name, error.property, error.entity_id, error.value) == ("Person", "age", "Ada", "x")
    with pytest.raises(RecordError) as caught:
        property_value(PERSON, PERSON.properties["age"], 1.5, "Bob")
    assert (caught.value.entity_id, caught.value.value) == ("Bob", 1.5)
