"""Optimize and clone as tasks of Spark's workers give what they give in one process."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.maintenance import optimize
from omnigraph.tables import compaction

pytestmark = pytest.mark.spark
SCHEMA = "node P { name: String @key  text: String? @index }  edge Knows: P -> P"


def test_groups_and_indexes_are_made_by_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any) -> None:
    graph = og.init(tmp_path / "g", SCHEMA, durability="process")
    for start in range(0, 600, 100):
        with graph.transaction() as tx:
            for number in range(start, start + 100):
                tx.insert("P", name=f"p{number:03}", text=f"word{number}")
                tx.insert("Knows", id=f"e{number}", from_=f"p{number:03}", to="p000")
    monkeypatch.setattr(optimize, "IN_PROCESS_ROWS", 0)
    monkeypatch.setattr(compaction, "ROWS_PER_FRAGMENT", 300)
    report = graph.optimize(engine=spark)
    assert report.commit is not None
    assert {table.table_key: (table.after.fragments, table.after.pending) for table in report.tables} == {
        "node:P": (2, ()),
        "edge:Knows": (2, ()),
    }
    found = og.open(graph.uri).query(
        'query q() { match { $p: P  search($p.text, "word311") } return { $p.name as n } }'
    )
    assert found.rows == [{"n": "p311"}]
    assert og.open(graph.uri).verify(deep=True).findings == ()


def test_many_objects_are_copied_by_workers(tmp_path: Path, spark: Any) -> None:
    graph = og.init(tmp_path / "g", SCHEMA, durability="process")
    for number in range(50):
        with graph.transaction() as tx:
            tx.insert("P", name=f"p{number:03}")
    report = og.clone(tmp_path / "g", tmp_path / "copy", engine=spark)
    assert report.objects > 100
    copy = og.open(tmp_path / "copy")
    assert [commit.id for commit in copy.commits()] == [commit.id for commit in graph.commits()]
    assert copy.verify(all=True, deep=True).findings == ()
