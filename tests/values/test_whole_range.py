"""Every scalar takes its whole range: through every way in, wherever a value is used, and out again as it came.

`full` holds each value once per way in, as a property and in a list. The tests of ways out read all of it back; those of
places ask for every value by a condition, by a key, by an end of an edge, by a unique property and by a default.
"""

from __future__ import annotations

import datetime as dt
import io
import json
import operator
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow as pa
import pyarrow.csv as pv
import pyarrow.parquet as pq
import pytest
from values.extremes import EXTREMES, KEYABLE, as_cell, as_json, as_literal, from_json

import omnigraph as og
from omnigraph.api.changes import ChangeJson, FeedJson
from omnigraph.errors import UniqueViolation
from omnigraph.values.arrow import arrow_type
from omnigraph.values.types import PropertyType, Scalar

SCHEMA = "\n".join(
    f"""
node Held{scalar} {{ name: String @key  value: {scalar}?  items: [{scalar}]? }}
node Keyed{scalar} {{ value: {scalar} @key }}
node Unique{scalar} {{ name: String @key  value: {scalar} @unique }}
edge Joins{scalar}: Keyed{scalar} -> Keyed{scalar}
"""
    for scalar in EXTREMES
)

Rows = dict[Scalar, list[dict[str, Any]]]


def rows_of(way: str) -> Rows:
    """One row a value, and one with all of them in a list."""
    rows: Rows = {}
    for scalar, values in EXTREMES.items():
        rows[scalar] = [{"name": f"{way}-{n}", "value": value, "items": [value]} for n, value in enumerate(values)]
        rows[scalar].append({"name": f"{way}-all", "value": None, "items": values})
        rows[scalar].append({"name": f"{way}-none", "value": None, "items": None})
        rows[scalar].append({"name": f"{way}-empty", "value": None, "items": []})
    return rows


# ---------------------------------------------------------------- ways in


def by_literals(graph: og.Graph, rows: Rows, folder: Path) -> None:
    statements = []
    for scalar, held in rows.items():
        for row in held:
            given = ", ".join(f"{name}: {as_literal(value)}" for name, value in row.items() if value is not None)
            statements.append(f"insert Held{scalar} {{ {given} }}")
    graph.mutate("query q() { " + "\n".join(statements) + " }")


def by_parameters(graph: og.Graph, rows: Rows, folder: Path, form: Callable[[Any], Any] = lambda value: value) -> None:
    with graph.transaction() as tx:
        for scalar, held in rows.items():
            declared = f"$name: String, $value: {scalar}?, $items: [{scalar}]?"
            text = f"query q({declared}) {{ insert Held{scalar} {{ name: $name, value: $value, items: $items }} }}"
            for row in held:
                tx.mutate(text, {name: form(value) for name, value in row.items()})


def by_json_parameters(graph: og.Graph, rows: Rows, folder: Path) -> None:
    by_parameters(graph, rows, folder, lambda value: json.loads(json.dumps(as_json(value))))


def by_transaction(graph: og.Graph, rows: Rows, folder: Path) -> None:
    with graph.transaction() as tx:
        for scalar, held in rows.items():
            tx.insert_many(f"Held{scalar}", held)


def by_json_lines(graph: og.Graph, rows: Rows, folder: Path) -> None:
    path = folder / "rows.jsonl"
    with path.open("w") as out:
        for scalar, held in rows.items():
            for row in held:
                data = {name: as_json(value) for name, value in row.items()}
                out.write(json.dumps({"type": f"Held{scalar}", "data": data}) + "\n")
    graph.load(path, mode="append", engine="local")


def by_csv(graph: og.Graph, rows: Rows, folder: Path) -> None:
    for scalar, held in rows.items():
        lines = ["name,value,items"]
        lines += [",".join("" if value is None else as_cell(value) for value in row.values()) for row in held]
        (folder / f"Held{scalar}.csv").write_text("\n".join(lines) + "\n", encoding="utf-8", newline="")
    graph.load(folder, mode="append", format="csv", engine="local")


def tables(rows: Rows) -> dict[str, pa.Table]:
    found = {}
    for scalar, held in rows.items():
        fields = [("name", pa.string())]
        fields.append(("value", arrow_type(PropertyType(scalar))))
        fields.append(("items", arrow_type(PropertyType(scalar, is_list=True))))
        found[f"Held{scalar}"] = pa.Table.from_pylist(held, schema=pa.schema(fields))
    return found


def by_parquet(graph: og.Graph, rows: Rows, folder: Path) -> None:
    for name, table in tables(rows).items():
        pq.write_table(table, folder / f"{name}.parquet")
    graph.load(folder, mode="append", format="parquet", engine="local")


def by_arrow(graph: og.Graph, rows: Rows, folder: Path) -> None:
    graph.load(tables(rows), mode="append", engine="local")


def by_pandas(graph: og.Graph, rows: Rows, folder: Path) -> None:
    """As pandas has them: integers with gaps in its own nullable types, dates and instants as Python objects."""
    frames = {}
    for scalar, held in rows.items():
        frame = pd.DataFrame(held)
        if scalar.is_integer:
            frame["value"] = pd.array([row["value"] for row in held], dtype=str(scalar).replace("I", "Int").replace("U", "UInt"))  # fmt: skip
        frames[f"Held{scalar}"] = frame
    graph.load(frames, mode="append", engine="local")


WAYS_IN: dict[str, Callable[[og.Graph, Rows, Path], None]] = {
    "literals": by_literals,
    "parameters": by_parameters,
    "json parameters": by_json_parameters,
    "transaction": by_transaction,
    "json lines": by_json_lines,
    "csv": by_csv,
    "parquet": by_parquet,
    "arrow": by_arrow,
    "pandas": by_pandas,
}


@pytest.fixture(scope="module")
def full(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    graph = og.init(tmp_path_factory.mktemp("graph") / "g", schema=SCHEMA, durability="process")
    for way, enter in WAYS_IN.items():
        enter(graph, rows_of(way), tmp_path_factory.mktemp("in"))
    return graph


def expected() -> dict[tuple[Scalar, str], tuple[Any, Any]]:
    found = {}
    for way in WAYS_IN:
        for scalar, held in rows_of(way).items():
            for row in held:
                found[scalar, row["name"]] = (row["value"], row["items"])
    return found


def compare(found: dict[tuple[Scalar, str], tuple[Any, Any]]) -> None:
    wanted = expected()
    assert found.keys() == wanted.keys()
    assert {key: value for key, value in found.items() if value != wanted[key]} == {}


# ---------------------------------------------------------------- ways out

QUERY = (
    "query q() {{ match {{ $h: Held{scalar} }} return {{ $h.name as name, $h.value as value, $h.items as items }} }}"
)


def without_zone(value: Any) -> Any:
    if isinstance(value, list):
        return [without_zone(item) for item in value]
    if isinstance(value, dt.datetime):
        assert value.utcoffset() == dt.timedelta(0)
        return value.replace(tzinfo=None)
    return value


def test_out_as_rows_and_arrow(full: og.Graph) -> None:
    found, arrow = {}, {}
    for scalar in EXTREMES:
        result = full.query(QUERY.format(scalar=scalar))
        for row in result.rows:
            found[scalar, row["name"]] = (without_zone(row["value"]), without_zone(row["items"]))
        for row in result.to_arrow().to_pylist():
            arrow[scalar, row["name"]] = (without_zone(row["value"]), without_zone(row["items"]))
    compare(found)
    compare(arrow)


def test_out_as_json_rows(full: og.Graph) -> None:
    found = {}
    for scalar in EXTREMES:
        for row in json.loads(json.dumps(full.query(QUERY.format(scalar=scalar)).to_json(), allow_nan=False)):
            found[scalar, row["name"]] = json_pair(row, scalar)
    compare(found)


def json_pair(data: dict[str, Any], scalar: Scalar) -> tuple[Any, Any]:
    pair = (data.get("value"), data.get("items"))
    assert not [value for value in (pair[0], *(pair[1] or ())) if type(value) is int and abs(value) >= 2**53]
    value, items = (None if item is None else from_json(item, scalar) for item in pair)
    return value, items


def test_out_as_whole_entities(full: og.Graph) -> None:
    found = {}
    for scalar, name in expected():
        entity = full.entity(f"Held{scalar}", name)
        assert entity is not None
        found[scalar, name] = (without_zone(entity["value"]), without_zone(entity["items"]))
    compare(found)


def scalar_of(type_name: str) -> Scalar:
    return Scalar(type_name.removeprefix("Held"))


@pytest.mark.parametrize("way", ["export", "baseline"])
def test_out_as_json_lines(full: og.Graph, way: str) -> None:
    out = io.BytesIO()
    if way == "export":
        full.export(out, engine="local")
    else:
        full.baseline(out)
    records = [json.loads(line) for line in out.getvalue().splitlines()]
    held = [record for record in records if "type" in record]
    compare({(s, r["data"]["name"]): json_pair(r["data"], s) for r in held for s in [scalar_of(r["type"])]})


@pytest.mark.parametrize("way", ["diff", "feed"])
def test_out_as_changes(full: og.Graph, way: str) -> None:
    first, last = full.commits(limit=100)[-1], full.commits()[0]
    if way == "diff":
        changes = [ChangeJson.to_json(change) for change in full.diff(first.id, last.id)]
    else:
        page = FeedJson.to_json(full.changes(start="beginning", limit=8_192))
        assert "next_page_token" not in page or page["next_page_token"] is None
        changes = [change for block in page["blocks"] for change in block["changes"]]
    found = {}
    for change in changes:
        scalar, data = scalar_of(change["type"]["name"]), change["after"]["properties"]
        found[scalar, data["name"]] = json_pair(data, scalar)
    compare(found)


def test_out_as_parquet(full: og.Graph, tmp_path: Path) -> None:
    full.export(tmp_path, format="parquet", engine="local")
    found = {}
    for scalar in EXTREMES:
        for row in pq.read_table(tmp_path / f"Held{scalar}.parquet").to_pylist():
            found[scalar, row["name"]] = (row["value"], row["items"])
    compare(found)


def test_out_as_csv(full: og.Graph, tmp_path: Path) -> None:
    full.export(tmp_path, format="csv", engine="local")
    found = {}
    for scalar in EXTREMES:
        texts = {name: pa.string() for name in ("id", "name", "value", "items")}
        table = pv.read_csv(
            tmp_path / f"Held{scalar}.csv",
            parse_options=pv.ParseOptions(newlines_in_values=True),
            convert_options=pv.ConvertOptions(
                column_types=texts, strings_can_be_null=True, quoted_strings_can_be_null=False, null_values=[""]
            ),
        )
        for row in table.to_pylist():
            value = None if row["value"] is None else from_cell(row["value"], scalar)
            items = None if row["items"] is None else from_json(json.loads(row["items"]), scalar)
            found[scalar, row["name"]] = (value, items)
    compare(found)


def from_cell(cell: str, scalar: Scalar) -> Any:
    if scalar is Scalar.BOOL:
        return cell == "true"
    return float(cell) if scalar.is_float else from_json(cell, scalar)


# ---------------------------------------------------------------- places used

OPERATORS: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq,
    "!=": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


@pytest.mark.parametrize("scalar", EXTREMES)
def test_in_conditions(full: og.Graph, scalar: Scalar) -> None:
    values = EXTREMES[scalar]
    names = [f"transaction-{n}" for n in range(len(values))]
    inside = f'match {{ $h: Held{scalar}  $h.name starts_with "transaction-"  $h.value'
    for op, holds in OPERATORS.items():
        if scalar is Scalar.BOOL and op not in ("=", "!="):
            continue
        for value in values:
            wanted = [name for name, other in zip(names, values, strict=True) if holds(other, value)]
            by_parameter = f"query q($x: {scalar}) {{ {inside} {op} $x }} return {{ $h.name as name }} }}"
            by_literal = f"query q() {{ {inside} {op} {as_literal(value)} }} return {{ $h.name as name }} }}"
            asked = [full.query(by_parameter, {"x": value}), full.query(by_literal)]
            assert [sorted(row["name"] for row in result.rows) for result in asked] == [sorted(wanted)] * 2, (op, value)
    text = f"query q($x: [{scalar}]) {{ {inside} in $x }} return {{ $h.name as name }} }}"
    assert sorted(row["name"] for row in full.query(text, {"x": values}).rows) == sorted(names)


@pytest.mark.parametrize("scalar", KEYABLE)
def test_as_keys_and_ends_of_edges(scalar: Scalar, tmp_path: Path) -> None:
    values = KEYABLE[scalar]
    name, edge = f"Keyed{scalar}", f"Joins{scalar}"
    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    with graph.transaction() as tx:
        ids = [tx.insert(name, value=value) for value in values]
        for id in ids:
            tx.insert(edge, from_=id, to=ids[0])
    assert len(set(ids)) == len(values)
    for id, value in zip(ids, values, strict=True):
        entity = graph.entity(name, id)
        assert entity is not None
        assert without_zone(entity["value"]) == value
        text = f"query q($x: {scalar}) {{ match {{ $k: {name} {{ value: $x }}  $k {edge[0].lower()}{edge[1:]} $o }} return {{ $k.id as id, $o.value as other }} }}"
        (row,) = graph.query(text, {"x": value}).rows
        assert (row["id"], without_zone(row["other"])) == (id, values[0])
        graph.mutate(f"query q($x: {scalar}) {{ insert {name} {{ value: $x }} }}", {"x": value})
    assert count_of(graph, name) == len(values)
    again = og.init(tmp_path / "again", schema=SCHEMA, durability="process")
    graph.export(tmp_path / "out.jsonl", engine="local")
    again.load(tmp_path / "out.jsonl", mode="append", engine="local")
    assert [again.entity(name, id) for id in ids] == [graph.entity(name, id) for id in ids]


def count_of(graph: og.Graph, name: str) -> int:
    (row,) = graph.query(f"query q() {{ match {{ $k: {name} }} return {{ count($k) as n }} }}").rows
    return int(row["n"])


@pytest.mark.parametrize("scalar", EXTREMES)
def test_as_unique_values(scalar: Scalar, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    name, values = f"Unique{scalar}", EXTREMES[scalar]
    with graph.transaction() as tx:
        for number, value in enumerate(values):
            tx.insert(name, name=f"first-{number}", value=value)
    for number, value in enumerate(values):
        with pytest.raises(UniqueViolation, match=f"held by 'first-{number}' and 'second'"), graph.transaction() as tx:
            tx.insert(name, name="second", value=value)
        path = tmp_path / f"{number}.jsonl"
        path.write_text(json.dumps({"type": name, "data": {"name": "second", "value": as_json(value)}}) + "\n")
        with pytest.raises(UniqueViolation, match=f"held by 'first-{number}' and 'second'"):
            graph.load(path, mode="append", engine="local")


def as_default(value: Any) -> str:
    """A value as `.pg` writes it."""
    if isinstance(value, dt.datetime):
        return f'"{value.isoformat()}Z"'
    if isinstance(value, float):
        digits = format(Decimal(value), "f")
        return digits if "." in digits else f"{digits}.0"
    return f'"{value.isoformat()}"' if isinstance(value, dt.date) else as_literal(value)


def test_as_defaults(tmp_path: Path) -> None:
    properties = {
        f"{scalar.lower()}_{number}": (scalar, value)
        for scalar, values in EXTREMES.items()
        for number, value in enumerate(values)
    }
    lines = [f"  {name}: {scalar} @default({as_default(value)})" for name, (scalar, value) in properties.items()]
    graph = og.init(
        tmp_path / "g", schema="node D {\n  key: String @key\n" + "\n".join(lines) + "\n}", durability="process"
    )
    graph.mutate('query q() { insert D { key: "mutation" } }')
    (tmp_path / "lines.jsonl").write_text('{"type":"D","data":{"key":"lines"}}\n')
    (tmp_path / "D.csv").write_text("key," + ",".join(properties) + "\ncells" + "," * len(properties) + "\n")
    graph.load([tmp_path / "lines.jsonl", tmp_path / "D.csv"], mode="append", engine="local")
    graph.load({"D": pa.table({"key": ["frame"]})}, mode="append", engine="local")
    for key in ("mutation", "lines", "cells", "frame"):
        entity = graph.entity("D", key)
        assert entity is not None
        assert {name: without_zone(entity[name]) for name in properties} == {
            name: value for name, (_, value) in properties.items()
        }


# ---------------------------------------------------------------- Spark


@pytest.mark.spark
def test_through_spark(spark: Any, tmp_path: Path) -> None:
    """In as Spark's data frames, asked by Spark's SQL, out by Spark's tasks and as its data frames."""
    from omnigraph.spark.types import for_spark

    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    rows = rows_of("spark")
    frames = {name: spark.createDataFrame(for_spark(table)) for name, table in tables(rows).items()}
    graph.load(frames, mode="append", engine=spark)
    wanted = {(scalar, row["name"]): (row["value"], row["items"]) for scalar, held in rows.items() for row in held}
    graph.export(tmp_path / "out.jsonl", engine=spark)
    records = [json.loads(line) for line in (tmp_path / "out.jsonl").read_bytes().splitlines()]
    found = {(s, r["data"]["name"]): json_pair(r["data"], s) for r in records for s in [scalar_of(r["type"])]}
    assert found == wanted
    for scalar in (Scalar.U64, Scalar.F32, Scalar.DATE, Scalar.DATETIME):
        values = EXTREMES[scalar]
        asked = f"query q($x: [{scalar}]) {{ match {{ $h: Held{scalar}  $h.value in $x }} return {{ $h.value as v }} }}"
        result = graph.query(asked, {"x": values}, engine=spark)
        assert sorted(without_zone(row["v"]) for row in result.rows) == sorted(values)
