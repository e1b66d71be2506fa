"""A graph that is written in single rows stays healthy without optimize; `bench/bench_single_rows.py` prints the curve."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import omnigraph as og
from omnigraph.maintenance import optimize
from omnigraph.tables.staging import FOLD_WIDTH, level_of


def test_fragments_grow_with_the_logarithm_of_the_commits(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", "node P { name: String @key  x: I32? @index }", durability="process")
    for number in range(1, 301):
        with graph.transaction() as tx:
            tx.insert("P", name=f"p{number}", x=number)
        if number in (10, 100, 300):
            (table,) = graph.maintenance.optimize(dry_run=True).tables
            assert table.before.fragments <= (FOLD_WIDTH - 1) * (level_of(number) + 1)
            assert table.before.rows == number


def test_optimize_says_why_and_then_has_nothing_left_to_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimize, "MIN_WORTHWHILE_ROWS", 4_096)
    graph = og.init(tmp_path / "g", "node P { name: String @key }  edge Knows: P -> P", durability="process")
    with graph.transaction() as tx:
        for number in range(5_000):
            tx.insert("P", name=f"p{number:04}")
        for number in range(5_000):
            tx.insert("Knows", id=f"e{number}", from_=f"p{number * 7 % 5_000:04}", to="p0000")
    with graph.transaction() as tx:
        for number in range(0, 5_000, 2):
            tx.delete("Knows", f"e{number}")
    planned = {table.table_key: table for table in graph.maintenance.optimize(dry_run=True).tables}
    (rewrite, *builds) = planned["edge:Knows"].actions
    assert rewrite == "write 1 of 1 fragments again (1 small, 1 with deleted rows)"
    assert [key for key, table in planned.items() if table.is_worthwhile] == ["node:P"], "2,500 rows are read at once"
    assert builds == [f"build index {column}.btree for 2,500 rows" for column in ("dst", "id", "src")]
    assert {each.reason for each in planned["edge:Knows"].before.pending} == {"never built"}
    before = graph.head()

    report = graph.maintenance.optimize()

    assert report.commit is not None
    assert list(graph.diff(before.id, report.commit.id)) == []
    shape = {table.table_key: table.after for table in report.tables}["edge:Knows"]
    assert (shape.fragments, shape.deleted_rows, shape.pending) == (1, 0, ())
    table = graph._repository.resolve("main").table("edge:Knows")
    assert table is not None
    sources = table.read(["src"]).column("src").to_pylist()
    assert sources == sorted(sources)
    assert not any(table.actions for table in graph.maintenance.optimize(dry_run=True).tables)
    assert graph.maintenance.optimize().commit is None


def test_nothing_is_worth_optimizing_after_a_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a load leaves unbuilt or unsorted makes no read slower, whatever the number of rows."""
    graph = og.init(tmp_path / "g", "node P { name: String @key }  edge Knows: P -> P  node Q { name: String @key }")
    people = pa.table({"name": [f"p{number:05}" for number in range(60_000)]})
    knows = pa.table({"from": people.column("name"), "to": people.column("name").take(pa.array(range(59_999, -1, -1)))})
    graph.load({"P": people, "Knows": knows, "Q": people.slice(0, 40_000)}, mode="append", engine="local")
    tables = {table.table_key: table for table in graph.maintenance.optimize(dry_run=True).tables}
    assert tables["edge:Knows"].actions == ("write 1 of 1 fragments again (1 small, 1 not sorted by src)",)
    assert tables["node:Q"].before.pending
    assert not any(table.is_worthwhile for table in tables.values())
    monkeypatch.setattr(optimize, "MIN_WORTHWHILE_ROWS", 40_000)
    tables = {table.table_key: table for table in graph.maintenance.optimize(dry_run=True).tables}
    assert [key for key, table in tables.items() if table.is_worthwhile] == ["node:Q"]
