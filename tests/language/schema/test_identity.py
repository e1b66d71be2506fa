"""Node ids: canonical texts, composite keys, and what cannot be a key."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from omnigraph.errors import RecordError, UsageError, ValueViolation
from omnigraph.language.catalog import derived_id, referenced_id
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.values.literals import canonical_text
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
    (Scalar.DATE, date(2026, 1, 1), "20454"),
    (Scalar.DATETIME, datetime(1970, 1, 1, 0, 0, 1, 250_000), "1250"),
    (Scalar.DATETIME, datetime(1970, 1, 1, 0, 0, 1, 250_900), "1250.9"),
    (Scalar.DATETIME, datetime(1970, 1, 1, 0, 0, 0, 1), "0.001"),
    (Scalar.DATETIME, datetime(1970, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))), "0"),
    (Scalar.DATETIME, datetime(1969, 12, 31, 23, 59, 59, 999_500, UTC), "-0.5"),
    (Scalar.DATETIME, datetime(1969, 12, 31, 23, 59, 58, 999_000, UTC), "-1001"),
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
    assert derived_id(person, {"email": "a@x.io", "age": 3}) == "a@x.io"
    assert derived_id(person, {"email": '["a"]'}) == '["a"]'


def test_a_key_of_several_is_a_compact_json_array_in_the_order_of_the_schema() -> None:
    city = compile_schema(SCHEMA).nodes["City"]
    assert city.key == ("name", "country")
    assert derived_id(city, {"name": 'Pa"ris', "country": "Fränce"}) == '["Pa\\"ris","Fränce"]'
    reading = compile_schema(SCHEMA).nodes["Reading"]
    assert derived_id(reading, {"value": 0.5, "at": datetime(1970, 1, 1)}) == '["0","0.5"]'


def test_renaming_a_member_changes_no_id() -> None:
    before = compile_schema(SCHEMA)
    old = derived_id(before.nodes["City"], {"name": "Rome", "country": "IT"})
    for name, renamed in (("name", "zz_name"), ("country", "aa_country")):
        text = SCHEMA.replace(f"{name}: String", f'{renamed}: String @rename_from("{name}")')
        key = ", ".join(renamed if member == name else member for member in ("name", "country"))
        after = compile_schema(text.replace("@key(name, country)", f"@key({key})"), previous=before)
        values = {"name": "Rome", "country": "IT", "zz_name": "Rome", "aa_country": "IT"}
        assert derived_id(after.nodes["City"], values) == old


def test_an_id_is_never_empty() -> None:
    catalog = compile_schema(SCHEMA)
    with pytest.raises(ValueViolation, match=r"key property Person\.email is empty"):
        derived_id(catalog.nodes["Person"], {"email": ""})
    assert derived_id(catalog.nodes["City"], {"name": "", "country": ""}) == '["",""]'


REFERENCES: list[tuple[str, object, object]] = [
    ("day: Date @key", "2024-01-01", "19723"),
    ("day: Date @key", "19723", "19723"),
    ("day: Date @key", date(2024, 1, 1), "19723"),
    ("day: Date @key", "tomorrow", "tomorrow"),
    ("at: DateTime @key", "2024-01-01T01:00:00.0005+01:00", "1704067200000.5"),
    ("at: DateTime @key", datetime(2024, 1, 1), "1704067200000"),
    ("at: DateTime @key", date(2024, 1, 1), date(2024, 1, 1)),
    ("name: String @key", "2024-01-01", "2024-01-01"),
    ("name: String  day: Date  @key(name, day)", '["2024-01-01","2024-01-01"]', '["2024-01-01","19723"]'),
    ("name: String  day: Date  @key(name, day)", '["a","19723"]', '["a","19723"]'),
    ("name: String  day: Date  @key(name, day)", '["a"', '["a"'),
    ("name: String", "2024-01-01", "2024-01-01"),
]


@pytest.mark.parametrize(("members", "reference", "id"), REFERENCES)
def test_a_reference_may_hold_iso_text_where_the_key_has_dates(members: str, reference: object, id: object) -> None:
    assert referenced_id(compile_schema(f"node P {{ {members} }}").nodes["P"], reference) == id


def test_a_missing_member_is_refused() -> None:
    with pytest.raises(ValueViolation, match=r"key property City\.country is missing"):
        derived_id(compile_schema(SCHEMA).nodes["City"], {"name": "Rome", "country": None})


@pytest.mark.parametrize(
    ("scalar", "value"),
    [(Scalar.STRING, 1), (Scalar.I32, "1"), (Scalar.I32, True), (Scalar.I32, 1.0), (Scalar.BOOL, 1), (Scalar.F64, "1"), (Scalar.DATE, 1.5), (Scalar.DATE, datetime(2026, 1, 1)), (Scalar.DATETIME, date(2026, 1, 1)), (Scalar.F64, True), (Scalar.F32, 1e39), (Scalar.F64, float("nan")), (Scalar.F64, float("inf"))],
)  # fmt: skip
def test_a_value_of_another_type_is_refused(scalar: Scalar, value: object) -> None:
    person = compile_schema(f"node P {{ k: {scalar.value} @key }}").nodes["P"]
    with pytest.raises(RecordError, match=r"key property P\.k"):
        derived_id(person, {"k": value})


def test_a_type_without_key_has_no_derived_id() -> None:
    with pytest.raises(UsageError):
        derived_id(compile_schema(SCHEMA).nodes["Loose"], {"p": "x"})
