"""The Spark data source after a schema change: what it gives, and what it says when the schema it was planned with is gone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import omnigraph as og

BEFORE = "node Person { name: String @key  age: I32?  nick: String? }"


@pytest.fixture
def g(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=BEFORE)
    with graph.transaction() as tx:
        tx.insert("Person", name="Ada", age=36, nick="A")
        tx.insert("Person", name="Bo", age=40)
    return graph


def source(g: og.Graph, **options: str) -> Any:
    from omnigraph.spark.source import OmnigraphSource

    return OmnigraphSource({"graph": g.uri, "type": "Person", **options})


def rows_of(data_source: Any, schema: Any) -> list[dict[str, Any]]:
    reader = data_source.reader(schema)
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return pa.Table.from_batches(batches).sort_by("id").to_pylist()


def test_rows_and_filters_are_those_of_the_new_schema(g: og.Graph) -> None:
    text = BEFORE.replace("age: I32?", 'years: I64? @rename_from("age")  rank: I32 @default(3)').replace(
        "  nick: String?", ""
    )
    g.schema.apply(text)
    everything = source(g)
    assert rows_of(everything, everything.schema()) == [
        {"id": "Ada", "name": "Ada", "years": 36, "rank": 3},
        {"id": "Bo", "name": "Bo", "years": 40, "rank": 3},
    ]
    some = source(g, filter="years > 36 AND rank = 3", columns="id,years")
    assert rows_of(some, some.schema()) == [{"id": "Bo", "years": 40}]
    dropped = source(g, filter="nick = 'A'")
    with pytest.raises(Exception, match="nick"):
        dropped.reader(dropped.schema())


@pytest.mark.parametrize(
    ("changed", "said"),
    [("age: I64?", "is bigint now, and was int"), ('years: I32? @rename_from("age")', "has no column 'age'")],
)
def test_a_schema_that_is_gone_is_named(g: og.Graph, changed: str, said: str) -> None:
    planned = source(g)
    schema = planned.schema()
    g.schema.apply(BEFORE.replace("age: I32?", changed))
    with pytest.raises(Exception, match=said):
        planned.reader(schema)
    again = source(g)
    assert len(rows_of(again, again.schema())) == 2
