"""Verification beside a cleanup: what is swept while it is looked at is no damage."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import pytest
from health.adversary import TWO_HOURS

import omnigraph as og
from omnigraph.maintenance.verify.job import Verification
from omnigraph.tasks.runner import LocalRunner

COMMITS = 12
STAGES = ["commits of main", "objects", "versions", "contents"]


class InterruptedRunner(LocalRunner):
    """Somebody cleans up right before a stage."""

    def __init__(self, stage: str, graph: og.Graph) -> None:
        super().__init__()
        self.stage = stage
        self.graph = graph
        self.cleaned = False

    def map(self, stage: str, function: Any, tasks: Any) -> Any:
        if stage == self.stage and not self.cleaned:
            self.cleaned = True
            assert self.graph.maintenance.cleanup(keep=1).files
        return super().map(stage, function, tasks)


@pytest.mark.parametrize("stage", STAGES)
def test_what_a_cleanup_takes_away_meanwhile_is_no_damage(stage: str, tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", "node Person { name: String @key }", durability="process")
    graph._repository.history.log.max_tail = 4
    for number in range(COMMITS):
        with graph.transaction() as tx:
            tx.upsert("Person", name=f"p{number % 3}")
            tx.insert("Person", name=f"q{number}")
    for file in (tmp_path / "graph").rglob("*"):
        then = file.stat().st_mtime - TWO_HOURS
        os.utime(file, (then, then))
    runner = InterruptedRunner(stage, og.open(tmp_path / "graph", durability="process"))
    verification = Verification(og.open(tmp_path / "graph")._repository, runner)
    assert verification.run("main", all=True, deep=True).findings == ()
    assert runner.cleaned
    assert og.open(tmp_path / "graph").maintenance.verify(all=True, deep=True).is_whole
