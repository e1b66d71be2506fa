"""Every type of value goes in through a transaction and comes out as it was; odd names are ordinary names."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import RecordError, UniqueViolation, ValueViolation

SCHEMA = """
node Thing {
  label: String @key
  flag: Bool?
  small: I32?
  big: I64?
  count: U32?
  huge: U64? @unique
  ratio: F32?
  exact: F64? @unique
  day: Date? @unique
  moment: DateTime? @unique
  words: [String]?
  numbers: [I64]?
  days: [Date]?
  vector: Vector(3)?
  blob: Blob?
  stage: String? @default("new")
}
node Odd {
  select: String @key
  camelCase: String? @unique
  order: I32?
  from: String?
  @range(order, 0..10)
}
edge Linked: Odd -> Odd {
  where: String?
  groupBy: I32?
  @unique(where, groupBy)
}
"""

VALUES: dict[str, Any] = {
    "flag": False,
    "small": -(2**31),
    "big": 2**63 - 1,
    "count": 2**32 - 1,
    "huge": 2**64 - 1,
    "ratio": 0.5,
    "exact": -1.7976931348623157e308,
    "day": dt.date(1969, 12, 31),
    "moment": dt.datetime(2026, 1, 2, 3, 4, 5, 678_901),
    "words": ["a", "", "it's", "ü"],
    "numbers": [],
    "days": [dt.date(2020, 2, 29)],
    "vector": [1.0, -0.5, 0.0],
    "blob": b"\x00\xff",
    "stage": "x",
}

SHOWN = {"id": "all", "label": "all", **VALUES, "moment": VALUES["moment"].replace(tzinfo=dt.UTC)}
"""What callers get back: instants say that they are UTC."""


@pytest.fixture(params=["memory", "local"])
def graph(request: pytest.FixtureRequest, tmp_path: Path) -> og.Graph:
    uri = "memory://" if request.param == "memory" else str(tmp_path / "graph")
    return og.init(uri, schema=SCHEMA)


def rows(graph: og.Graph, key: str) -> dict[str, dict[str, Any]]:
    table = graph._repository.resolve("main").table(key)
    return {} if table is None else {row["id"]: row for row in table.read().to_pylist()}


def test_values_come_out_as_they_went_in(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.insert("Thing", VALUES, label="all")
        tx.insert("Thing", label="none", stage=None)
        tx.insert("Thing", label="default")
        assert tx.get("Thing", "all") == SHOWN
    assert graph.entity("Thing", "all") == SHOWN
    nothing = dict.fromkeys(VALUES)
    assert rows(graph, "node:Thing") == {
        "all": {"id": "all", "label": "all", **VALUES},
        "none": {"id": "none", "label": "none", **nothing},
        "default": {"id": "default", "label": "default", **nothing, "stage": "new"},
    }


def test_an_update_keeps_every_other_value(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.insert("Thing", VALUES, label="all")
    with graph.transaction() as tx:
        tx.mutate('query q() { update Thing set { small: 1 } where big > 0 and day < date("2000-01-01") }')
    assert rows(graph, "node:Thing")["all"] == {"id": "all", "label": "all", **VALUES, "small": 1}


@pytest.mark.parametrize("name", ["huge", "exact", "day", "moment"])
def test_unique_values_of_every_type_are_found(graph: og.Graph, name: str) -> None:
    with graph.transaction() as tx:
        tx.insert("Thing", {name: VALUES[name]}, label="one")

    def again() -> None:
        with graph.transaction() as tx:
            tx.insert("Thing", {name: VALUES[name]}, label="two")

    with pytest.raises(UniqueViolation, match=f"@unique violation on Thing.{name}: .* held by 'one' and 'two'"):
        again()


TEXTS = [
    ("day", "2026-07-01", dt.date(2026, 7, 1)),
    ("day", 0, dt.date(1970, 1, 1)),
    ("moment", "2026-07-01T12:00:00+02:00", dt.datetime(2026, 7, 1, 10)),
    ("moment", 1500, dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)),
    ("moment", dt.datetime(2026, 7, 1, 12, tzinfo=dt.timezone(dt.timedelta(hours=2))), dt.datetime(2026, 7, 1, 10)),
    ("huge", "18446744073709551615", 2**64 - 1),
    ("blob", "base64:AP8=", b"\x00\xff"),
    ("vector", [1, 2, 3], [1.0, 2.0, 3.0]),
]


@pytest.mark.parametrize(("name", "given", "kept"), TEXTS)
def test_other_spellings_of_a_value(graph: og.Graph, name: str, given: object, kept: object) -> None:
    with graph.transaction() as tx:
        tx.insert("Thing", {name: given}, label="one")
    assert rows(graph, "node:Thing")["one"][name] == kept


WRONG = [
    ("day", "yesterday", "Thing.day: invalid Date literal 'yesterday': a date is written YYYY-MM-DD"),
    (
        "moment",
        "2026-13-01T00:00Z",
        "Thing.moment: invalid DateTime literal '2026-13-01T00:00Z': there is no such day or time",
    ),
    ("exact", float("nan"), "Thing.exact expects a finite number, got NaN"),
    ("ratio", float("-inf"), "Thing.ratio expects a finite number, got -Infinity"),
    ("words", ["a", None], "Thing.words expects a list without nulls"),
    ("words", "a", "Thing.words expects a list, got 'a'"),
    ("vector", [1.0], "Thing.vector expects Vector(3), got 1 numbers"),
    ("vector", [1.0, 2.0, float("inf")], "Thing.vector: item 2 expects a finite number, got Infinity"),
    ("count", -1, "Thing.count expects U32 (0 to 4294967295), got -1"),
    ("flag", 1, "Thing.flag expects Bool, got 1"),
    ("small", True, "Thing.small expects I32, got true"),
    ("blob", "file:///etc/passwd", "Thing.blob expects Blob as 'base64:...'; external addresses are not allowed"),
    ("label", 5, "Thing.label expects String, got 5"),
]


@pytest.mark.parametrize(("name", "value", "says"), WRONG)
def test_a_value_that_does_not_fit(graph: og.Graph, name: str, value: object, says: str) -> None:
    with pytest.raises(RecordError) as caught, graph.transaction() as tx:
        tx.insert("Thing", {"label": "one", name: value})
    assert caught.value.message == says
    assert (caught.value.type_name, caught.value.property, caught.value.value) == ("Thing", name, value)
    assert caught.value.entity_id == (None if name == "label" else "one")
    assert rows(graph, "node:Thing") == {}


def test_sql_words_and_camel_case_are_ordinary_names(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.insert("Odd", {"select": "a'b\"c", "camelCase": "x", "order": 1, "from": "here"})
        tx.insert("Odd", {"select": "`d`"})
        tx.insert("Linked", {"id": "l", "from": "a'b\"c", "to": "`d`", "where": "w", "groupBy": 1})
        tx.mutate('query q() { update Odd set { camelCase: "y" } where order = 1 and camelCase = "x" }')
    assert rows(graph, "node:Odd")["a'b\"c"]["camelCase"] == "y"
    broken = [
        ({"select": "e", "camelCase": "y"}, "@unique violation on Odd.camelCase: value 'y' held by 'a'b\"c' and 'e'"),
        ({"select": "e", "order": 11}, "@range violation on Odd.order: value 11 > max 10"),
    ]
    for values, says in broken:
        with pytest.raises((UniqueViolation, ValueViolation)) as caught, graph.transaction() as tx:
            tx.insert("Odd", values)
        assert caught.value.message == says
    with graph.transaction() as tx:
        assert tx.delete("Odd", "a'b\"c")
    assert rows(graph, "edge:Linked") == {}


@pytest.mark.parametrize("form", ["dicts", "arrow", "batches"])
def test_many_rows_at_once(graph: og.Graph, form: str) -> None:
    records = [{"label": f"t{number}", "small": number, "words": ["w"] * (number % 3)} for number in range(500)]
    table = pa.Table.from_pylist(records)
    given: Any = {"dicts": iter(records), "arrow": table, "batches": table.to_reader()}[form]
    with graph.transaction() as tx:
        assert tx.insert_many("Thing", given) == 500
    found = rows(graph, "node:Thing")
    assert len(found) == 500
    assert all(found[record["label"]]["words"] == record["words"] for record in records)
    assert tx.receipt.types["node:Thing"].inserted == 500
    with graph.transaction() as tx:
        assert tx.insert_many("Thing", records[:10], upsert=True) == 10
    assert len(rows(graph, "node:Thing")) == 500


def test_many_rows_are_refused_together(graph: og.Graph) -> None:
    with pytest.raises(RecordError, match=r"Thing\.small expects I32, got 'x'"), graph.transaction() as tx:
        tx.insert_many("Thing", [{"label": "a"}, {"label": "b", "small": "x"}])
    assert rows(graph, "node:Thing") == {}
