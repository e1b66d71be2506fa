"""Node ids: canonical texts, composite keys, and what cannot be a key."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from omnigraph.errors import RecordError, UsageError, ValueViolation
from omnigraph.language.identity import canonical_text, node_id
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.values.types import PropertyType, Scalar

TEXTS: list[tuple[Scalar, object, str]] = [
    (Scalar.STRING, "Ada  é", "Ada  é"),
    (Scalar.STRING, "", ""),
    (Scalar.BOOL, True, "true"),
    (Scalar.BOOL, False, "false"),
    (Scalar.I32, -7, "-7"),
    (Scalar.U64, 2**64 - 1, "18446744073709551615"),
    (Scalar.DATE, date(1970, 1, 2), "1"),
    (Scalar.DATE, date(1969, 12, 31), "-1"),
    (Scalar.DATE, "2026-01-01", "20454"),
    (Scalar.DATE, 20454, "20454"),
    (Scalar.DATETIME, datetime(1970, 1, 1, 0, 0, 1, 250_900), "1250"),
    (Scalar.DATETIME, datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "0"),
    (Scalar.DATETIME, datetime(1969, 12, 31, 23, 59, 59, 999_500, UTC), "-1"),
    (Scalar.DATETIME, "1970-01-01T00:00:01Z", "1000"),
    (Scalar.DATETIME, -5, "-5"),
    (Scalar.F64, 0.1, "0.1"),
    (Scalar.F64, 1.0, "1"),
    (Scalar.F64, 7, "7"),
    (Scalar.F64, 0.0, "0"),
    (Scalar.F64, -0.0, "0"),
    (Scalar.F64, -1.5, "-1.5"),
    (Scalar.F64, 1e20, "100000000000000000000"),
    (Scalar.F64, 1e21, "1e+21"),
    (Scalar.F64, 1.25e-7, "1.25e-7"),
    (Scalar.F64, 0.000001, "0.000001"),
    (Scalar.F64, 5e-324, "5e-324"),
    (Scalar.F32, 0.1, "0.1"),
    (Scalar.F32, 0.10000000149011612, "0.1"),
    (Scalar.F32, 16777216.0, "16777216"),
    (Scalar.F32, 3.4028234663852886e38, "3.4028235e+38"),
    (Scalar.F32, -0.0, "0"),
]


@pytest.mark.parametrize(("scalar", "value", "text"), TEXTS, ids=[f"{s} {v}" for s, v, _ in TEXTS])
def test_canonical_text(scalar: Scalar, value: object, text: str) -> None:
    assert canonical_text(value, PropertyType(scalar)) == text


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
@settings(max_examples=200, deadline=None)
def test_the_text_of_an_f32_is_the_shortest_that_gives_it_back(value: float) -> None:
    text = canonical_text(value, PropertyType(Scalar.F32))
    assert np.float32(text) == np.float32(value)
    shortest = np.format_float_scientific(np.float32(value), unique=True, trim="-")
    assert len(_digits(text)) <= len(_digits(shortest))


def _digits(text: str) -> str:
    return text.lstrip("-").split("e")[0].replace(".", "").strip("0")


@given(st.floats(allow_nan=False, allow_infinity=False))
@settings(max_examples=200, deadline=None)
def test_the_text_of_an_f64_gives_it_back(value: float) -> None:
    text = canonical_text(value, PropertyType(Scalar.F64))
    assert float(text) == value
    assert not text.endswith(".0")


SCHEMA = """
node Person { email: String @key  age: I32? }
node City { name: String  country: String  population: I64  @key(name, country) }
node Reading { at: DateTime  value: F32  @key(at, value) }
node Loose { p: String }
"""


def test_a_key_of_one_property_is_its_text() -> None:
    person = compile_schema(SCHEMA).nodes["Person"]
    assert node_id(person, {"email": "a@x.io", "age": 3}) == "a@x.io"
    assert node_id(person, {"email": '["a"]'}) == '["a"]'


def test_a_key_of_several_is_a_compact_json_array_in_the_order_of_property_ids() -> None:
    city = compile_schema(SCHEMA).nodes["City"]
    assert city.key == ("country", "name")
    assert node_id(city, {"name": 'Pa"ris', "country": "Fränce"}) == '["Fränce","Pa\\"ris"]'
    reading = compile_schema(SCHEMA).nodes["Reading"]
    assert node_id(reading, {"value": 0.5, "at": datetime(1970, 1, 1)}) == '["0","0.5"]'


def test_renaming_a_member_or_reordering_the_key_changes_no_id() -> None:
    before = compile_schema(SCHEMA)
    text = SCHEMA.replace("country: String", 'zz_country: String @rename_from("country")')
    after = compile_schema(text.replace("@key(name, country)", "@key(zz_country, name)"), previous=before)
    old = node_id(before.nodes["City"], {"name": "Rome", "country": "IT"})
    renamed = compile_schema(
        SCHEMA.replace("name: String", 'aa_name: String @rename_from("name")').replace("@key(name,", "@key(aa_name,"),
        previous=before,
    )
    assert node_id(after.nodes["City"], {"name": "Rome", "zz_country": "IT"}) == old
    assert node_id(renamed.nodes["City"], {"aa_name": "Rome", "country": "IT"}) == old


def test_a_missing_member_is_refused() -> None:
    with pytest.raises(ValueViolation, match=r"key property City\.country is missing"):
        node_id(compile_schema(SCHEMA).nodes["City"], {"name": "Rome", "country": None})


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf"), 1e39])
def test_a_float_without_text_is_refused(value: float) -> None:
    with pytest.raises(ValueViolation):
        node_id(compile_schema(SCHEMA).nodes["Reading"], {"at": 0, "value": value})


@pytest.mark.parametrize(
    ("scalar", "value"),
    [(Scalar.STRING, 1), (Scalar.I32, "1"), (Scalar.I32, True), (Scalar.I32, 1.0), (Scalar.BOOL, 1), (Scalar.F64, "1"), (Scalar.DATE, 1.5), (Scalar.DATE, datetime(2026, 1, 1)), (Scalar.DATETIME, date(2026, 1, 1)), (Scalar.F64, True)],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(scalar: Scalar, value: object) -> None:
    person = compile_schema(f"node P {{ k: {scalar.value} @key }}").nodes["P"]
    with pytest.raises(RecordError, match=r"key property P\.k"):
        node_id(person, {"k": value})


def test_a_type_without_key_has_no_derived_id() -> None:
    with pytest.raises(UsageError):
        node_id(compile_schema(SCHEMA).nodes["Loose"], {"p": "x"})
