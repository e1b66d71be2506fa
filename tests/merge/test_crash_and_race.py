"""A merge killed at every point, and a merge that meets another commit on its target: every outcome stated and checked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from children import run_killed
from merge import model

import omnigraph as og
from omnigraph.errors import BranchNotFound, BranchReplaced, MergeConflicts, OmnigraphError
from omnigraph.merge.three_way import MergeResult
from omnigraph.testing import failpoints
from omnigraph.testing.failpoints import Failpoint, Park

# ---------------------------------------------------------------- crash

BEFORE = (
    Failpoint.MERGE_BEFORE_STAGE,
    Failpoint.TABLE_STAGED_DATA,
    Failpoint.TABLE_STAGED_VERSION,
    Failpoint.MERGE_BEFORE_PUBLISH,
    Failpoint.PUBLISH_BEFORE_CREATE,
)
"""Killed here, the merge did not happen."""
AFTER = (
    Failpoint.PUBLISH_AFTER_CREATE,
    Failpoint.PUBLISH_BEFORE_ACK,
    Failpoint.MERGE_AFTER_PUBLISH,
    Failpoint.MERGE_BEFORE_BRANCH_DELETE,
    Failpoint.BRANCH_BEFORE_DELETE,
)
"""Killed here, the merge is complete and the source is still there."""
LAST = Failpoint.BRANCH_AFTER_DELETE

STAGED = (Failpoint.TABLE_STAGED_DATA, Failpoint.TABLE_STAGED_VERSION)
"""Reached by merges of more rows than a commit holds."""

CHILD = """
import os, sys
import omnigraph as og
os.environ["OMNIGRAPH_INLINE_ROWS"] = sys.argv[4]
og.open(sys.argv[1]).branches.merge(sys.argv[2], sys.argv[3], by="property", delete_branch=True)
"""


@pytest.fixture(scope="module")
def crash_graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    """`source` and `target` both changed one person, so that a merge by property writes a row, and one other each."""
    graph = og.init(tmp_path_factory.mktemp("crash") / "g", schema=model.SCHEMA)
    with graph.transaction() as tx:
        for name in "abc":
            tx.insert("Person", name=name, age=1)
    graph.branches.create("source")
    graph.branches.create("target")
    with graph.transaction("source") as tx:
        tx.update("Person", "a", age=2)
        tx.insert("Person", name="d")
    with graph.transaction("target") as tx:
        tx.update("Person", "a", nick="n")
        tx.delete("Person", "c")
    return graph


@pytest.mark.parametrize("point", [*BEFORE, *AFTER, LAST])
def test_a_killed_merge_happened_or_did_not(crash_graph: og.Graph, point: Failpoint) -> None:
    source, target = f"source-{point.value}", f"target-{point.value}"
    crash_graph.branches.create(source, "source")
    crash_graph.branches.create(target, "target")
    before = model.state_of(crash_graph, target)
    merged = model.merge(
        model.Base.of(model.state_of(crash_graph, "main")),
        model.state_of(crash_graph, source),
        before,
        by="property",
        strategy="fail",
    ).state
    inline_rows = "0" if point in STAGED else "64"
    run_killed(CHILD, crash_graph.uri.removeprefix("file://"), source, target, inline_rows, point=point)
    graph = og.open(crash_graph.uri.removeprefix("file://"))
    assert model.state_of(graph, target) == (before if point in BEFORE else merged)
    if point == LAST:
        with pytest.raises(BranchNotFound):
            graph.branches.merge(source, target)
    else:
        again = graph.branches.merge(source, target, by="property", delete_branch=True)
        assert again.outcome == ("merged" if point in BEFORE else "already_up_to_date")
        assert again.branch_deleted
    assert model.state_of(graph, target) == merged
    with graph.transaction(target) as tx:
        tx.insert("Person", name="after the crash")
    assert len(model.state_of(graph, target)) == len(merged) + 1


# ---------------------------------------------------------------- race


@pytest.fixture
def graph(tmp_path: Path) -> Iterator[og.Graph]:
    """The branch `work` updated a, inserted d, and drew an edge from a to b; main is where they parted."""
    graph = og.init(tmp_path / "g", schema=model.SCHEMA, durability="process")
    with graph.transaction() as tx:
        for name in "abc":
            tx.insert("Person", name=name, age=1)
    graph.branches.create("work")
    with graph.transaction("work") as tx:
        tx.update("Person", "a", age=2)
        tx.insert("Person", name="d", age=2, mail="d@x.io")
        tx.insert("Knows", {"id": "e1"}, from_="a", to="b")
    with graph.transaction() as tx:
        tx.update("Person", "c", nick="moved")
    return graph


def merge_while(graph: og.Graph, meanwhile: Callable[[], object], point: Failpoint) -> MergeResult | OmnigraphError:
    """Merge `work` into main; when it reaches `point` for the first time, something else happens."""
    park = Park()
    failpoints.arm(point, park)
    outcome: list[Any] = []

    def merge() -> None:
        try:
            outcome.append(og.open(graph.uri.removeprefix("file://")).branches.merge("work"))
        except OmnigraphError as error:
            outcome.append(error)

    thread = threading.Thread(target=merge)
    thread.start()
    park.wait_until_reached()
    failpoints.disarm_all()
    meanwhile()
    park.release()
    thread.join()
    result: MergeResult | OmnigraphError = outcome[0]
    return result


def in_main(graph: og.Graph, act: Callable[[Any], object]) -> Callable[[], object]:
    def run() -> None:
        with graph.transaction() as tx:
            act(tx)

    return run


POINTS = pytest.mark.parametrize("point", [Failpoint.MERGE_BEFORE_STAGE, Failpoint.PUBLISH_BEFORE_CREATE])


@POINTS
@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("insert", lambda tx: tx.insert("Person", name="z")),
        ("update", lambda tx: tx.update("Person", "b", age=9)),
        ("delete", lambda tx: tx.delete("Person", "c")),
        ("the same change", lambda tx: tx.update("Person", "a", age=2)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_merge_that_lost_the_race_merges_with_what_won(
    graph: og.Graph, point: Failpoint, name: str, act: Callable[[Any], object]
) -> None:
    base = model.state_of(graph, "main~1")
    result = merge_while(graph, in_main(graph, act), point)
    assert isinstance(result, MergeResult), name
    won = model.state_of(graph, "main~1")
    expected = model.merge(model.Base.of(base), model.state_of(graph, "work"), won, by="row", strategy="fail")
    assert model.state_of(graph, "main") == expected.state
    assert result.commit is not None
    assert result.commit.parent == graph.commits(limit=2)[1].ref


@POINTS
@pytest.mark.parametrize(
    ("kind", "act"),
    [
        ("divergent_insert", lambda tx: tx.insert("Person", name="d", age=3)),
        ("divergent_update", lambda tx: tx.update("Person", "a", age=3)),
        ("delete_vs_update", lambda tx: tx.delete("Person", "a")),
        ("orphan_edge", lambda tx: tx.delete("Person", "b")),
        ("unique_violation", lambda tx: tx.insert("Person", name="z", mail="d@x.io")),
    ],
)
def test_a_merge_that_lost_the_race_may_conflict_with_what_won(
    graph: og.Graph, point: Failpoint, kind: str, act: Callable[[Any], object]
) -> None:
    result = merge_while(graph, in_main(graph, act), point)
    assert isinstance(result, MergeConflicts)
    assert kind in {conflict.kind for conflict in result.conflicts}
    assert [commit.kind for commit in graph.commits(limit=2)] == ["mutation", "mutation"]


def test_a_merge_is_carried_over_when_nothing_it_looked_at_moved(tmp_path: Path) -> None:
    """A commit to another type wins the race: the merge is published as it is, not done again."""
    graph = og.init(tmp_path / "g", schema=model.SCHEMA + "node City { name: String @key }", durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="a")
    graph.branches.create("work")
    with graph.transaction("work") as tx:
        tx.update("Person", "a", age=2)
    with graph.transaction() as tx:
        tx.insert("Person", name="b")

    def commit_and_forbid_another_merge() -> None:
        with graph.transaction() as tx:
            tx.insert("City", name="rome")
        failpoints.arm(Failpoint.MERGE_BEFORE_STAGE, failpoints.raising(AssertionError("merged again")))

    result = merge_while(graph, commit_and_forbid_another_merge, Failpoint.PUBLISH_BEFORE_CREATE)
    assert isinstance(result, MergeResult)
    state = model.state_of(graph, "main")
    assert {key[2] for key in state} == {"a", "b", "rome"}
    assert state["node", "Person", "a"]["age"] == 2
    assert result.commit is not None
    assert result.commit.parent == graph.commits(limit=2)[1].ref


def test_a_merge_is_done_again_when_its_target_merged_meanwhile(graph: og.Graph) -> None:
    """Another branch's merge, which moves no table, can still move the base."""
    graph.branches.create("other", "main")
    with graph.transaction("other") as tx:
        tx.update("Person", "c", age=5)
    with graph.transaction("other") as tx:
        tx.update("Person", "c", age=1)
    with graph.transaction() as tx:
        tx.update("Person", "b", age=1, nick="n")
    again: list[str] = []

    def merge_another() -> None:
        before = graph._repository.resolve("main").snapshot.tables
        graph.branches.merge("other")
        assert graph._repository.resolve("main").snapshot.tables == before
        failpoints.arm(Failpoint.MERGE_BEFORE_STAGE, lambda: again.append("merged again"))

    result = merge_while(graph, merge_another, Failpoint.PUBLISH_BEFORE_CREATE)
    assert again == ["merged again"]
    assert isinstance(result, MergeResult)
    assert [commit.kind for commit in graph.commits(limit=3)] == ["merge", "merge", "mutation"]


def test_a_source_merged_by_somebody_else_meanwhile_is_up_to_date(graph: og.Graph) -> None:
    result = merge_while(graph, lambda: graph.branches.merge("work"), Failpoint.MERGE_BEFORE_PUBLISH)
    assert isinstance(result, MergeResult)
    assert result.outcome == "already_up_to_date"
    assert [commit.kind for commit in graph.commits(limit=2)] == ["merge", "mutation"]


def test_a_source_that_moves_during_the_merge_is_merged_as_it_was(graph: og.Graph) -> None:
    def move() -> None:
        with graph.transaction("work") as tx:
            tx.insert("Person", name="late")

    result = merge_while(graph, move, Failpoint.MERGE_BEFORE_STAGE)
    assert isinstance(result, MergeResult)
    assert ("node", "Person", "late") not in model.state_of(graph, "main")
    assert graph.branches.merge("work").outcome == "merged"
    assert ("node", "Person", "late") in model.state_of(graph, "main")


def test_a_source_that_moved_is_not_deleted(graph: og.Graph) -> None:
    park = Park()
    failpoints.arm(Failpoint.MERGE_BEFORE_BRANCH_DELETE, park)
    results: list[MergeResult] = []
    thread = threading.Thread(target=lambda: results.append(graph.branches.merge("work", delete_branch=True)))
    thread.start()
    park.wait_until_reached()
    with graph.transaction("work") as tx:
        tx.insert("Person", name="late")
    park.release()
    thread.join()
    assert (results[0].outcome, results[0].branch_deleted) == ("merged", False)
    assert results[0].branch_delete_error is not None
    assert graph.branches.exists("work")


def test_a_target_made_anew_during_the_merge_is_not_touched(graph: og.Graph) -> None:
    graph.branches.create("into")
    with graph.transaction("into") as tx:
        tx.insert("Person", name="old incarnation")
    park = Park()
    failpoints.arm(Failpoint.MERGE_BEFORE_PUBLISH, park)
    errors: list[BaseException] = []

    def merge() -> None:
        try:
            graph.branches.merge("work", "into")
        except OmnigraphError as error:
            errors.append(error)

    thread = threading.Thread(target=merge)
    thread.start()
    park.wait_until_reached()
    graph.branches.delete("into", force=True)
    graph.branches.create("into")
    park.release()
    thread.join()
    assert [type(error) for error in errors] == [BranchReplaced]
    assert model.state_of(graph, "into") == model.state_of(graph, "main")
