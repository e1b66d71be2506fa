"""Graphs in memory: like any other, for one process."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.errors import GraphNotFound, UsageError
from omnigraph.storage.objects import open_memory
from omnigraph.tables.staging import Staged
from omnigraph.tables.store import Tables

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
NAMES = "query q() { match { $p: Person } return { $p.name as name } order { name } }"


def names(graph: og.Graph) -> list[str]:
    return [row["name"] for row in graph.query(NAMES).rows]


def test_a_named_graph_is_opened_again_loaded_branched_merged_and_exported(tmp_path: Path) -> None:
    first = og.init("memory://test-memory-graphs/one", schema=SCHEMA)
    with first.transaction() as tx:
        tx.insert("Person", name="Ada")
    second = og.open("memory://test-memory-graphs/one")
    assert names(second) == ["Ada"]
    (tmp_path / "more.jsonl").write_text('{"type": "Person", "data": {"name": "Bo"}}\n')
    second.branches.create("review")
    second.load(str(tmp_path / "more.jsonl"), mode="append", branch="review", engine="local")
    second.branches.merge("review")
    assert names(first) == names(og.open("memory://test-memory-graphs/one/")) == ["Ada", "Bo"]
    first.maintenance.optimize()
    assert first.export(tmp_path / "out.jsonl", engine="local") == 2
    with pytest.raises(GraphNotFound):
        og.open("memory://test-memory-graphs/two")


def test_an_unnamed_graph_is_its_own_and_goes_with_its_last_holder(tmp_path: Path) -> None:
    one, other = og.init("memory://", schema=SCHEMA), og.init("memory://", schema=SCHEMA)
    (tmp_path / "more.jsonl").write_text('{"type": "Person", "data": {"name": "Bo"}}\n')
    one.load(str(tmp_path / "more.jsonl"), mode="append", engine="local")
    assert (names(one), names(other)) == (["Bo"], [])
    assert names(og.open(one.uri)) == ["Bo"], "its address opens it while it is held"
    memory = weakref.ref(open_memory(other.uri).memory)
    del other
    gc.collect()
    assert memory() is None


@pytest.mark.parametrize("engine", ["spark", "local[2]"])
def test_spark_is_refused_before_it_starts(engine: str, tmp_path: Path) -> None:
    graph = og.init("memory://", schema=SCHEMA)
    (tmp_path / "more.jsonl").write_text('{"type": "Person", "data": {"name": "Bo"}}\n')
    with pytest.raises(UsageError, match="memory of one process"):
        graph.load(str(tmp_path), mode="append", engine=engine)
    with pytest.raises(UsageError, match="memory of one process"):
        graph.export(tmp_path / "x.jsonl", engine=engine)
    with pytest.raises(UsageError, match="memory of one process"):
        graph.query(NAMES, engine=engine)


ROWS = pa.table({"x": pa.array([1, 2], pa.int64())})


def test_tables_in_memory_outlive_whoever_made_them() -> None:
    """So there is a memory before the first two tables are made, at the same time perhaps: both are in it."""
    address = open_memory("memory://test-memory-graphs/outlive").uri
    staged = stored(Tables(address), "nodes/P")
    gc.collect()
    assert Tables(address).open(staged.path, staged.version).rows == 2


def stored(tables: Tables, path: str) -> Staged:
    return tables.stage(tables.create(path, ROWS.schema), rows=ROWS)
