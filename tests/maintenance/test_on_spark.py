"""Optimize, cleanup and clone as tasks of Spark's workers give what they give in one process."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
from maintenance.aging import age, files_of

import omnigraph as og
from omnigraph.maintenance import cleanup, optimize
from omnigraph.spark.runner import SparkRunner
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
    report = graph.maintenance.optimize(engine=spark)
    assert report.commit is not None
    assert {table.table_key: (table.after.fragments, table.after.pending) for table in report.tables} == {
        "node:P": (2, ()),
        "edge:Knows": (2, ()),
    }
    found = og.open(graph.uri).query(
        'query q() { match { $p: P  search($p.text, "word311") } return { $p.name as n } }'
    )
    assert found.rows == [{"n": "p311"}]
    assert og.open(graph.uri).maintenance.verify(deep=True).findings == ()


@pytest.mark.usefixtures("stores_every_commit")
def test_many_objects_are_copied_by_workers(tmp_path: Path, spark: Any) -> None:
    graph = og.init(tmp_path / "g", SCHEMA, durability="process")
    for number in range(50):
        with graph.transaction() as tx:
            tx.insert("P", name=f"p{number:03}")
    report = og.clone(tmp_path / "g", tmp_path / "copy", engine=spark)
    assert report.objects > 100
    copy = og.open(tmp_path / "copy")
    assert [commit.id for commit in copy.commits()] == [commit.id for commit in graph.commits()]
    assert copy.maintenance.verify(all=True, deep=True).findings == ()


@pytest.mark.usefixtures("stores_every_commit")
def test_a_cleanup_lists_and_deletes_by_workers_what_it_does_in_one_process(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: Any
) -> None:
    graph = og.init(tmp_path / "g", SCHEMA, durability="process")
    for number in range(12):
        with graph.transaction() as tx:
            tx.insert("P", name=f"p{number:03}")
            tx.insert("Knows", id=f"e{number}", from_=f"p{number:03}", to="p000")
    graph.branches.create("dropped")
    graph.mutate('query q() { insert P { name: "lost" } }', branch="dropped")
    graph.branches.delete("dropped", force=True)
    with graph.transaction() as tx:
        tx.delete("P", "p003")
    age(tmp_path / "g")
    shutil.copytree(tmp_path / "g", tmp_path / "copy")
    monkeypatch.setattr(cleanup, "DELETE_BATCH", 7)
    stages: dict[str, int] = {}
    run = SparkRunner.map

    def counted(self: SparkRunner, stage: str, function: Any, tasks: Any) -> Any:
        stages[stage] = stages.get(stage, 0) + len(tasks)
        return run(self, stage, function, tasks)

    monkeypatch.setattr(SparkRunner, "map", counted)
    promised = graph.maintenance.cleanup(older_than=0, dry_run=True, engine=spark)
    here, there = (
        og.open(tmp_path / "copy").maintenance.cleanup(keep=1),
        graph.maintenance.cleanup(keep=1, engine=spark),
    )
    assert there.removed == here.removed == promised.removed
    assert there.watermarks == here.watermarks
    assert rest(tmp_path / "g") == rest(tmp_path / "copy")
    assert stages["list"] == 2 * 5
    assert stages["delete commits"] > 1
    assert stages["delete files"] > 5
    assert og.open(graph.uri).maintenance.verify(all=True, deep=True).findings == ()


def rest(folder: Path) -> set[str]:
    """What is left after a cleanup; each names its own time."""
    return {name for name in files_of(folder) if not name.startswith("cutoffs/")}
