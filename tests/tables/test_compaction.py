"""Compaction keeps rows and index coverage, and makes few fragments of many."""

from __future__ import annotations

from pathlib import Path

import omnigraph as og
from omnigraph.tables.indexes import IndexSpec, coverage

SCHEMA = "node Person { name: String @key  age: I32? @index }"


def _graph(folder: Path) -> og.Graph:
    graph = og.init(str(folder / "g"), SCHEMA, durability="process")
    for start in range(0, 30, 3):
        with graph.transaction() as tx:
            for number in range(start, start + 3):
                tx.insert("Person", name=f"p{number}", age=number)
    with graph.transaction() as tx:
        tx.delete("Person", "p4")
    return graph


def test_optimize_makes_one_covered_fragment_of_many_and_keeps_every_row(tmp_path: Path) -> None:
    graph = _graph(tmp_path)
    before = graph._repository.resolve("main").table("node:Person")
    assert before is not None
    assert len(before.fragments) > 1
    rows = sorted(before.read().to_pylist(), key=lambda row: row["id"])

    commit = graph.maintenance.optimize(actor="janitor").commit

    assert commit is not None
    assert (commit.kind, commit.actor) == ("optimize", "janitor")
    after = graph._repository.resolve("main").table("node:Person")
    assert after is not None
    assert len(after.fragments) == 1
    assert sorted(after.read().to_pylist(), key=lambda row: row["id"]) == rows
    state = coverage(after, [IndexSpec("id", "BTREE"), IndexSpec("age", "BTREE")])
    assert [found.pending_rows for found in state.values()] == [0, 0]
    assert after.lookup("id", ["p7"], ["age"]).column("age").to_pylist() == [7]


def test_a_table_in_good_shape_is_left_alone(tmp_path: Path) -> None:
    graph = _graph(tmp_path)
    graph.maintenance.optimize()
    head = graph.commits(limit=1)[0]
    assert graph.maintenance.optimize().commit is None
    assert graph.maintenance.ensure_indexes() is None
    assert graph.commits(limit=1)[0].id == head.id


def test_compaction_after_an_index_covers_the_new_fragment(tmp_path: Path) -> None:
    graph = _graph(tmp_path)
    assert graph.maintenance.ensure_indexes() is not None
    for number in range(30, 33):
        with graph.transaction() as tx:
            tx.insert("Person", name=f"p{number}", age=number)
    assert graph.maintenance.optimize().commit is not None
    table = graph._repository.resolve("main").table("node:Person")
    assert table is not None
    found = coverage(table, [IndexSpec("id", "BTREE")])["id.btree"]
    assert (found.pending_rows, found.covered_rows) == (0, 32)
    assert table.lookup("id", ["p31", "p4"], ["id"]).column("id").to_pylist() == ["p31"]


def test_writers_go_on_after_compaction(tmp_path: Path) -> None:
    graph = _graph(tmp_path)
    graph.maintenance.optimize()
    graph.mutate('query older() { update Person set { age: 99 } where name = "p1" }')
    with graph.transaction() as tx:
        tx.insert("Person", name="new")
    table = graph._repository.resolve("main").table("node:Person")
    assert table is not None
    assert table.rows == 30
    assert table.lookup("id", ["p1"], ["age"]).column("age").to_pylist() == [99]
