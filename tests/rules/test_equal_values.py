"""Two zeros are one value to @unique, however the rows are compared: looked up, in buckets, and by hashes in a rebase."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import MergeConflicts, UniqueViolation
from omnigraph.load import checks, keyed_rows
from omnigraph.tables.lookups import Lookup
from omnigraph.testing.failpoints import Failpoint, arm

SCHEMA = "node Point { name: String @key  x: F64?  y: F64?  @unique(x, y) }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", schema=SCHEMA, durability="process")


def put(graph: og.Graph, name: str, zero: float) -> None:
    with graph.transaction() as tx:
        tx.insert("Point", name=name, x=zero, y=1.0)


def load(graph: og.Graph, **zeros: float) -> None:
    frame = pa.table({"name": list(zeros), "x": list(zeros.values()), "y": [1.0] * len(zeros)})
    graph.load({"Point": frame}, mode="append", engine="local")


def refused(write: Callable[[], object]) -> None:
    with pytest.raises(UniqueViolation, match=r"@unique violation on Point\.x, y: value .* held by 'a' and 'b'"):
        write()


def test_in_transactions(graph: og.Graph) -> None:
    put(graph, "a", 0.0)
    refused(lambda: put(graph, "b", -0.0))


def test_in_one_load(graph: og.Graph) -> None:
    refused(lambda: load(graph, a=0.0, b=-0.0))


def test_in_a_load_beside_rows_that_are_there(graph: og.Graph) -> None:
    load(graph, a=-0.0)
    refused(lambda: load(graph, b=0.0))


def test_in_a_load_that_is_cut_into_buckets(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checks, "BUCKET_ROWS", 1)
    monkeypatch.setattr(keyed_rows, "MAX_LOOKUP", 0)
    refused(lambda: load(graph, a=0.0, b=-0.0, c=1.0, d=2.0))


def test_in_a_load_that_is_rebased(graph: og.Graph) -> None:
    other = og.open(graph.uri, durability="process")
    arm(Failpoint.LOAD_BEFORE_PUBLISH, lambda: put(other, "a", 0.0))
    refused(lambda: load(graph, b=-0.0, c=2.0))


def test_in_a_merge(graph: og.Graph) -> None:
    graph.branches.create("work")
    put(graph, "a", 0.0)
    with graph.transaction("work") as tx:
        tx.insert("Point", name="b", x=-0.0, y=1.0)
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work")
    assert [conflict.kind for conflict in caught.value.conflicts] == ["unique_violation"]


def test_in_a_column_of_a_large_table(graph: og.Graph) -> None:
    """Where the wanted values are many, the column is scanned."""
    load(graph, a=0.0)
    table = graph._repository.head()[1].table("node:Point")
    assert table is not None
    found = Lookup(table, "x", [-0.0], ["id"], with_address=False).by_scan(None)
    assert found.to_pylist() == [{"id": "a"}]
