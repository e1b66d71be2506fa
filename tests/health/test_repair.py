"""The command `repair`: what it would do, what it did, what remains."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from health.faults import PEOPLE, made_graph
from health.planting import put_stale_index

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.errors import BranchNotFound, UsageError
from omnigraph.graph import Lost
from omnigraph.tables import IndexSpec
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, disarm_all, raising


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return made_graph(tmp_path / "graph")


def test_nothing_is_done_without_yes(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    table = graph._repository.head()[1].table("node:Person")
    assert table is not None
    largest = max(table.fragments, key=lambda fragment: fragment.rows)
    (Path(graph.uri) / table.path / "data" / largest.files[0]).unlink()
    before = graph.commit().id
    assert run(["repair", graph.uri]) == 1
    assert "what remains:" in capsys.readouterr().out
    assert run(["repair", graph.uri, "--lost", "drop"]) == 0
    printed = capsys.readouterr().out
    assert "would: commit the head of main without the rows whose files are lost" in printed
    assert "nothing was changed; --yes does this" in printed
    assert graph.commit().id == before
    assert run(["repair", graph.uri, "--lost", "drop", "--yes", "--as", "ada", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert (value["done"], [step["kind"] for step in value["steps"]]) == (True, ["drop_rows"])
    assert value["steps"][0]["commit"]["kind"] == "repair"
    assert value["remaining"][0]["total_commits"] == 3, "the commits before it stay lost"
    assert graph.commit().message == f"dropped entities whose files are lost: 1 of Knows, {PEOPLE - 1} of Person"
    assert graph.verify("main~0", deep=True).is_whole


@pytest.mark.usefixtures("stores_every_commit")
def test_a_stale_index_is_built_again_when_depth_is_asked_for(graph: og.Graph) -> None:
    put_stale_index(graph, "node:Person", IndexSpec("age", "BTREE"))
    assert graph.repair(yes=True).steps == ()
    report = graph.repair(deep=True, yes=True)
    assert [(step.kind, step.object) for step in report.steps] == [("rebuild_indexes", "main")]
    assert graph.verify("main~0", deep=True).is_whole
    assert list(graph.diff("main~1", "main")) == []


def test_what_makes_no_sense_is_refused(graph: og.Graph) -> None:
    with pytest.raises(BranchNotFound):
        graph.repair("nobody")
    with pytest.raises(UsageError, match="not a way to treat what is lost"):
        graph.repair(lost="sell")  # type: ignore[arg-type]


def test_what_another_tool_made_is_never_adopted(graph: og.Graph) -> None:
    import lance
    import pyarrow as pa

    folder = Path(graph.uri) / graph._repository.head()[1].path("node:Team")
    lance.write_dataset(pa.table({"id": ["T9"], "title": ["T9"]}), folder, mode="append")
    report = graph.repair(lost="reset", deep=True, yes=True)
    assert report.steps == ()
    assert {finding.kind for finding in report.remaining} == {"foreign"}
    assert graph.entity("Team", "T9") is None


@pytest.mark.parametrize("point", ["table.staged_version", "publish.before_create", "publish.after_create"])
@pytest.mark.parametrize("lost", ["reset", "drop"])
def test_a_repair_that_dies_is_simply_done_again(lost: Lost, point: str, graph: og.Graph) -> None:
    table = graph._repository.head()[1].table("node:Person")
    assert table is not None
    (Path(graph.uri) / table.path / "data" / table.stored.fragments[-1].files[0]).unlink()
    arm(Failpoint(point), raising(FailpointReached()))
    try:
        graph.repair(lost=lost, yes=True)
    except FailpointReached:
        disarm_all()
    fresh = og.open(graph.uri, durability="process")
    fresh.repair(lost=lost, yes=True)
    assert [commit.kind for commit in fresh.commits(limit=5)].count("repair") == 1
    assert fresh.verify("main~0", deep=True).is_whole
