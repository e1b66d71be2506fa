"""Large merges and diffs on Spark: the same answers, with the rows compared by its workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from merge import bulk

import omnigraph as og
from omnigraph.api.writes import MergeJson
from omnigraph.changes import stored_rows, table_diff
from omnigraph.spark.runner import SparkRunner


@pytest.fixture
def stages(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """What Spark was given to do: small chunks here make several tasks of few rows."""
    monkeypatch.setattr(stored_rows, "MAX_CHUNK_ROWS", 256)
    monkeypatch.setattr(table_diff, "IDS_PER_TASK", 256)
    seen: list[tuple[str, int]] = []
    real = SparkRunner.map

    def counted(self: Any, stage: str, function: Any, tasks: Any) -> Any:
        seen.append((stage, len(tasks)))
        return real(self, stage, function, tasks)

    monkeypatch.setattr(SparkRunner, "map", counted)
    return seen


@pytest.mark.spark
def test_a_merge_and_a_diff_on_spark_are_the_same(
    tmp_path: Path, stages: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = og.init(tmp_path / "g", schema=bulk.SCHEMA, durability="process")
    bulk.publish(graph, "main", bulk.items(0, 3_000))
    graph.branches.create("work")
    # Both sides write the first thousand rows anew; every second of the source's is as it was.
    for branch, value in (("work", -1), ("main", -2)):
        rows = bulk.items(0, 1_000)
        values = [number if number % 2 and branch == "work" else value for number in range(1_000)]
        bulk.publish(graph, branch, rows.set_column(2, rows.schema.field("a"), [values]), remove=range(1_000))
    for first in (10_000, 20_000):
        bulk.publish(graph, "work", bulk.items(first, 400))
    graph.branches.create("local")

    here = list(graph.diff("main", "work"))
    there = list(graph.diff("main", "work", engine="spark"))
    assert len(here) == 1_000 + 800
    assert here == there
    rehearsal = MergeJson.to_json(graph.branches.merge("work", by="property", dry_run=True))
    assert len(rehearsal["conflicts"]) == 500
    with monkeypatch.context() as many:  # more ids than a bucket has
        many.setattr(table_diff, "IDS_PER_BUCKET", 300)
        many.setattr(table_diff, "IDS_PER_SAMPLE", 1)
        assert list(graph.diff("main", "work", engine="spark")) == here
        there = MergeJson.to_json(graph.branches.merge("work", by="property", dry_run=True, engine="spark"))
        assert there == rehearsal
        graph.branches.create("buckets")
        graph.branches.merge("work", "buckets", strategy="theirs", by="property", engine="spark")
    for target, engine in (("main", "spark"), ("local", "local")):
        result = graph.branches.merge("work", target, strategy="theirs", by="property", engine=engine)
        assert (result.types[bulk.KEY].inserted, result.types[bulk.KEY].updated) == (800, 500)
    assert list(graph.diff("main", "local")) == list(graph.diff("main", "buckets")) == []
    assert {stage for stage, tasks in stages if tasks > 1} == {"read ids", "compare rows", "decide", "sample ids"}
