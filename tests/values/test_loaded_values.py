"""Values at the door of a load: numbers that are none, decimals, nanoseconds, empty cells, ends of edges by date."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import omnigraph as og
from omnigraph.errors import InputError, OmnigraphError, ParameterError, RecordError, RejectedRecords
from omnigraph.records.tabular import TabularReader

SCHEMA = """
node Item {
  name: String @key
  small: F32?
  real: F64?
  reals: [F64]?
  vector: Vector(2)?
  count: I32?
  wide: U64?
  at: DateTime?
  ats: [DateTime]?
  day: Date?
  stars: I32 @default(3)
  mood: String? @default("calm")
}
node Day { day: Date @key }
node Moment { at: DateTime @key }
node Visit { place: String  day: Date  @key(place, day) }
edge Follows: Day -> Day
edge Starts: Moment -> Visit
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", schema=SCHEMA, durability="process")


def item(graph: og.Graph, name: str) -> dict[str, Any]:
    found = graph.entity("Item", name)
    assert found is not None
    return found


def load_text(graph: og.Graph, path: Path, text: str) -> None:
    path.write_text(text, encoding="utf-8")
    graph.load(path, mode="append", engine="local")


# ---------------------------------------------------------------- numbers are finite

Enter = Callable[[og.Graph, str, Any, Path], None]


def by_transaction(graph: og.Graph, name: str, value: Any, folder: Path) -> None:
    with graph.transaction() as tx:
        tx.insert("Item", {"name": "x", name: value})


def by_update(graph: og.Graph, name: str, value: Any, folder: Path) -> None:
    with graph.transaction() as tx:
        tx.insert("Item", name="x")
        tx.update("Item", "x", {name: value})


def by_parameter(graph: og.Graph, name: str, value: Any, folder: Path) -> None:
    type = {"small": "F32", "real": "F64", "reals": "[F64]", "vector": "Vector(2)"}[name]
    graph.mutate(f'query q($v: {type}) {{ insert Item {{ name: "x", {name}: $v }} }}', {"v": value})


def by_json_lines(graph: og.Graph, name: str, value: Any, folder: Path) -> None:
    text = str(value).replace("nan", "NaN").replace("inf", "Infinity")
    load_text(graph, folder / "x.jsonl", f'{{"type":"Item","data":{{"name":"x","{name}":{text}}}}}\n')


def by_csv(graph: og.Graph, name: str, value: Any, folder: Path) -> None:
    text = str(value).replace("nan", "NaN").replace("inf", "Infinity") if isinstance(value, list) else str(value)
    load_text(graph, folder / "Item.csv", f'name,{name}\nx,"{text}"\n')


def table(name: str, value: Any) -> pa.Table:
    type = {"small": pa.float32(), "real": pa.float64()}.get(name, pa.list_(pa.float64()))
    return pa.table({"name": ["x"], name: pa.array([value], type)})


def by_parquet(graph: og.Graph, name: str, value: Any, folder: Path) -> None:
    pq.write_table(table(name, value), folder / "Item.parquet")
    graph.load(folder / "Item.parquet", mode="append", engine="local")


def by_arrow(graph: og.Graph, name: str, value: Any, folder: Path) -> None:
    graph.load({"Item": table(name, value)}, mode="append", engine="local")


WAYS: list[Enter] = [by_transaction, by_update, by_parameter, by_json_lines, by_csv, by_parquet, by_arrow]


@pytest.mark.parametrize("enter", WAYS)
@pytest.mark.parametrize("number", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("name", ["small", "real", "reals", "vector"])
def test_a_number_that_is_not_finite_is_refused(
    enter: Enter, number: float, name: str, graph: og.Graph, tmp_path: Path
) -> None:
    value = [0.5, number] if name in ("reals", "vector") else number
    with pytest.raises((InputError, ParameterError)) as caught:
        enter(graph, name, value, tmp_path)
    assert "number" in caught.value.message
    assert len(graph.commits()) == 1


@pytest.mark.parametrize("enter", [by_transaction, by_json_lines, by_csv, by_arrow, by_parquet])
def test_a_number_beyond_its_type_is_refused(enter: Enter, graph: og.Graph, tmp_path: Path) -> None:
    given = pa.table({"name": ["x"], "small": [1e39]})
    if enter is by_arrow:
        with pytest.raises(RejectedRecords, match=r"Item\.small expects F32, got 1e\+39"):
            graph.load({"Item": given}, mode="append", engine="local")
        return
    if enter is by_parquet:
        pq.write_table(given, tmp_path / "Item.parquet")
        with pytest.raises(RejectedRecords, match=r"Item\.small expects F32, got 1e\+39"):
            graph.load(tmp_path / "Item.parquet", mode="append", engine="local")
        return
    with pytest.raises((RejectedRecords, RecordError), match=r"Item\.small expects F32, got 1e\+39"):
        enter(graph, "small", 1e39, tmp_path)


def test_text_of_a_number_that_overflows_is_refused(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(RejectedRecords, match="number 1e999 is out of range"):
        load_text(graph, tmp_path / "x.jsonl", '{"type":"Item","data":{"name":"x","real":1e999}}\n')
    with pytest.raises(RejectedRecords, match=r"Item\.real expects a finite number, got Infinity"):
        load_text(graph, tmp_path / "Item.csv", "name,real\nx,1e999\n")


def test_a_computed_number_that_is_not_finite_is_refused(graph: og.Graph) -> None:
    with pytest.raises(OmnigraphError):
        graph.mutate('query q() { insert Item { name: "x", real: 1e308 * 10.0 } }')
    with pytest.raises(OmnigraphError):
        graph.mutate('query q() { insert Item { name: "x", small: 3e38 * 10.0 } }')
    assert len(graph.commits()) == 1


def test_a_parameter_of_a_condition_is_finite(graph: og.Graph) -> None:
    text = "query q($x: F64) { match { $i: Item  $i.real < $x } return { $i.name as n } }"
    with pytest.raises(ParameterError, match=r"\$x expects a finite number, got Infinity"):
        graph.query(text, {"x": math.inf})


def test_a_gap_of_pandas_is_a_null(graph: og.Graph) -> None:
    frame = pd.DataFrame({"name": ["a", "b"], "real": [1.5, math.nan], "count": [7.0, math.nan]})
    graph.load({"Item": frame}, mode="append", engine="local")
    assert [(item(graph, name)["real"], item(graph, name)["count"]) for name in "ab"] == [(1.5, 7), (None, None)]


# ---------------------------------------------------------------- instants

NANOSECOND = np.datetime64("2024-01-01T00:00:00.000000001", "ns")
FINE: list[tuple[str, Any, str]] = [
    ("at", pa.array([NANOSECOND]), "Item.at expects DateTime, got the instant 2024-01-01T00:00:00.000000001: an instant has microseconds at most"),
    ("at", pa.array([1], pa.timestamp("ns", tz="Europe/Paris")), "Item.at expects DateTime, got the instant 1970-01-01T00:00:00.000000001: an instant has microseconds at most"),
    ("ats", pa.array([[NANOSECOND]], pa.list_(pa.timestamp("ns"))), "Item.ats: item 0 expects DateTime, got the instant 2024-01-01T00:00:00.000000001: an instant has microseconds at most"),
    ("mood", pa.array([NANOSECOND]), "Item.mood expects String, got the instant 2024-01-01T00:00:00.000000001: an instant has microseconds at most"),
    ("at", pa.array([2**62], pa.timestamp("s")), f"Item.at expects DateTime, got an instant outside the years 1 to 9999 ({2**62} seconds after 1970)"),
    ("at", pa.array([-(2**62)], pa.timestamp("us")), f"Item.at expects DateTime, got an instant outside the years 1 to 9999 ({-(2**62) // 10**6} seconds after 1970)"),
    ("wide", pa.array([2**62], pa.timestamp("s")), f"Item.wide expects U64, got an instant outside the years 1 to 9999 ({2**62} seconds after 1970)"),
    ("day", pa.array([2**31 - 1], pa.date32()), f"Item.day expects Date, got a day outside the years 1 to 9999 ({2**31 - 1} days after 1970-01-01)"),
    ("at", pa.array([1], pa.time64("ns")), "Item.at expects DateTime, got time"),
    ("at", pa.array([1], pa.duration("ns")), "Item.at expects DateTime, got timedelta"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "column", "said"), FINE, ids=range(len(FINE)))
def test_what_an_instant_cannot_hold_is_refused(name: str, column: pa.Array, said: str, graph: og.Graph) -> None:
    with pytest.raises(RejectedRecords) as caught:
        graph.load({"Item": pa.table({"name": ["x"], name: column})}, mode="append", engine="local")
    assert [reject["reason"] for reject in caught.value.rejects] == [said]


@pytest.mark.parametrize("type", [pa.timestamp("s"), pa.timestamp("ms"), pa.timestamp("us"), pa.timestamp("ns"), pa.timestamp("us", tz="UTC"), pa.timestamp("ns", tz="+02:00")], ids=str)  # fmt: skip
def test_instants_of_every_unit_and_zone_are_kept(type: pa.DataType, graph: og.Graph, tmp_path: Path) -> None:
    fraction = 0 if type.unit == "s" else 1000 if type.unit == "ms" else 1
    moment = dt.datetime(2024, 1, 1, 12, 0, 0, fraction, tzinfo=dt.UTC)
    column = pa.array([moment if type.tz else moment.replace(tzinfo=None)], type)
    graph.load({"Item": pa.table({"name": ["frame"], "at": column, "ats": pa.array([[column[0].as_py()]], pa.list_(type))})}, mode="append", engine="local")  # fmt: skip
    pq.write_table(pa.table({"name": ["file"], "at": column}), tmp_path / "Item.parquet")
    graph.load(tmp_path / "Item.parquet", mode="append", engine="local")
    assert item(graph, "frame")["at"] == item(graph, "file")["at"] == moment
    assert item(graph, "frame")["ats"] == [moment]


def test_numbers_and_text_stand_for_dates_and_instants(graph: og.Graph, tmp_path: Path) -> None:
    load_text(
        graph,
        tmp_path / "x.jsonl",
        '{"type":"Item","data":{"name":"numbers","day":19723,"at":1704067200001}}\n'
        '{"type":"Item","data":{"name":"text","day":"2024-01-01","at":"2024-01-01T00:00:00.001Z"}}\n'
        '{"type":"Item","data":{"name":"fine","at":"2024-01-01T02:00:00.000001+02:00"}}\n',
    )
    numbers, text = item(graph, "numbers"), item(graph, "text")
    assert (numbers["day"], numbers["at"]) == (text["day"], text["at"])
    assert text["at"] == dt.datetime(2024, 1, 1, 0, 0, 0, 1000, tzinfo=dt.UTC)
    assert item(graph, "fine")["at"] == dt.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)


# ---------------------------------------------------------------- decimals


def test_decimals_that_fit_exactly_are_taken(graph: og.Graph, tmp_path: Path) -> None:
    columns = {
        "name": ["x"],
        "count": pa.array([Decimal("7.00")], pa.decimal128(10, 2)),
        "wide": pa.array([Decimal(2**64 - 1)], pa.decimal128(20, 0)),
        "real": pa.array([Decimal("19.99")], pa.decimal128(38, 2)),
        "small": pa.array([Decimal("0.1")], pa.decimal256(60, 1)),
        "reals": pa.array([[Decimal("0.25"), Decimal("0.10")]], pa.list_(pa.decimal128(5, 2))),
    }
    pq.write_table(pa.table(columns), tmp_path / "Item.parquet")
    graph.load(tmp_path / "Item.parquet", mode="append", engine="local")
    found = item(graph, "x")
    assert {name: found[name] for name in ("count", "wide", "real", "small", "reals")} == {
        "count": 7,
        "wide": 2**64 - 1,
        "real": 19.99,
        "small": float(np.float32(0.1)),
        "reals": [0.25, 0.1],
    }


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("count", "7.01", "Item.count expects I32, got 7.01"),
        ("count", "2147483648.00", "Item.count expects I32 (-2147483648 to 2147483647), got 2147483648"),
        ("real", "0.12345678901234567890", "Item.real expects F64, which has no value 0.12345678901234567890"),
        ("small", "16777217", "Item.small expects F32, which has no value 16777217"),
    ],
)
def test_decimals_that_do_not_fit_are_refused_by_column(name: str, value: str, said: str, graph: og.Graph) -> None:
    with pytest.raises(RejectedRecords) as caught:
        graph.load({"Item": pa.table({"name": ["x"], name: [Decimal(value)]})}, mode="append", engine="local")
    assert [reject["reason"] for reject in caught.value.rejects] == [said]


# ---------------------------------------------------------------- frames of other libraries


def test_frames_of_polars_are_read_by_columns(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its texts and lists have layouts of their own, which are no reason to look at every row."""
    monkeypatch.setattr(TabularReader, "_by_rows", None)
    frame = pl.DataFrame(
        {"name": ["a", "b"], "real": [0.5, None], "reals": [[0.25], []], "mood": pl.Series(["x", "x"], dtype=pl.Categorical),
         "at": [dt.datetime(2024, 1, 1, 0, 0, 0, 1), None], "wide": pl.Series([2**64 - 1, 0], dtype=pl.UInt64)}
    )  # fmt: skip
    graph.load({"Item": frame}, mode="append", engine="local")
    found = item(graph, "a")
    assert (found["real"], found["reals"], found["mood"], found["wide"]) == (0.5, [0.25], "x", 2**64 - 1)
    assert found["at"] == dt.datetime(2024, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC)


# ---------------------------------------------------------------- empty cells and ends of edges


def test_an_empty_cell_takes_the_default_where_null_is_not_allowed(graph: og.Graph, tmp_path: Path) -> None:
    load_text(graph, tmp_path / "Item.csv", 'name,stars,mood,real\na,,,\nb,5,"",x\n'.replace("x\n", "0.5\n"))
    frame = pd.DataFrame({"name": ["c", "d"], "stars": [None, 4], "mood": [None, "glad"]})
    graph.load({"Item": frame}, mode="append", engine="local")
    table = pa.table({"name": ["e"], "stars": pa.array([None], pa.int32())})
    graph.load({"Item": table}, mode="append", engine="local")
    found = {name: (item(graph, name)["stars"], item(graph, name)["mood"]) for name in "abcde"}
    assert found == {"a": (3, None), "b": (5, ""), "c": (3, None), "d": (4, "glad"), "e": (3, "calm")}


def test_a_refused_row_beside_an_empty_cell_is_refused_for_its_own_fault(graph: og.Graph, tmp_path: Path) -> None:
    with pytest.raises(RejectedRecords) as caught:
        load_text(graph, tmp_path / "Item.csv", "name,stars,count\na,,1\nb,,x\n")
    assert [(reject["line"], reject["reason"]) for reject in caught.value.rejects] == [
        (3, "Item.count expects I32, got 'x'")
    ]


def test_ends_of_edges_may_be_iso_text_where_the_key_is_a_date(graph: og.Graph, tmp_path: Path) -> None:
    load_text(
        graph,
        tmp_path / "x.jsonl",
        '{"type":"Day","data":{"day":"2024-01-01"}}\n'
        '{"type":"Day","data":{"day":"2024-01-02"}}\n'
        '{"type":"Moment","data":{"at":"2024-01-01T00:00:00.0005Z"}}\n'
        '{"type":"Visit","data":{"place":"2024-01-01","day":"2024-01-02"}}\n'
        '{"edge":"Follows","from":"2024-01-01","to":"19724","data":{"id":"lines"}}\n'
        '{"edge":"Starts","from":"2024-01-01T01:00:00.0005+01:00","to":"[\\"2024-01-01\\", \\"2024-01-02\\"]","data":{"id":"composite"}}\n',
    )
    load_text(graph, tmp_path / "Follows.csv", "id,from,to\ncells,2024-01-01,2024-01-02\n")
    days = pa.array([dt.date(2024, 1, 1)], pa.date32())
    graph.load(
        {"Follows": pa.table({"id": ["frame"], "from": days, "to": ["2024-01-02"]})}, mode="append", engine="local"
    )
    with graph.transaction() as tx:
        tx.insert("Follows", id="call", from_=dt.date(2024, 1, 1), to="2024-01-02")
    graph.mutate('query q() { insert Follows { id: "query", from: "2024-01-01", to: "2024-01-02" } }')
    for id in ("lines", "cells", "frame", "call", "query"):
        assert graph.entity("Follows", id) == {"id": id, "from": "19723", "to": "19724"}
    starts = graph.entity("Starts", "composite")
    assert starts == {"id": "composite", "from": "1704067200000.5", "to": '["2024-01-01","19724"]'}


def test_an_empty_key_is_refused_on_every_way_in(graph: og.Graph, tmp_path: Path) -> None:
    tries: list[Callable[[], object]] = [
        lambda: graph.mutate('query q() { insert Item { name: "" } }'),
        lambda: graph.load({"Item": pa.table({"name": [""]})}, mode="append", engine="local"),
        lambda: load_text(graph, tmp_path / "Item.csv", 'name\n""\n'),
        lambda: load_text(graph, tmp_path / "x.jsonl", '{"type":"Item","data":{"name":""}}\n'),
    ]
    for attempt in tries:
        with pytest.raises(InputError, match=r"key property Item\.name is empty"):
            attempt()


@pytest.mark.spark
def test_spark_frames_follow_the_same_rules(graph: og.Graph, spark: Any) -> None:
    frame = spark.createDataFrame(
        [("x", math.nan, Decimal("1.50"), None), ("y", 1.5, Decimal("2.00"), 7)],
        "name string, real double, count decimal(10,2), stars int",
    )
    with pytest.raises(RejectedRecords) as caught:
        graph.load({"Item": frame}, mode="append", engine=spark)
    assert {reject["reason"] for reject in caught.value.rejects} <= {
        "Item.real expects a finite number, got NaN",
        "Item.count expects I32, got 1.50",
    }
    graph.load({"Item": frame.where("name = 'y'").drop("stars")}, mode="append", engine=spark)
    found = item(graph, "y")
    assert (found["real"], found["count"], found["stars"]) == (1.5, 2, 3)
