"""Merges and diffs of many changed ids, which are cut into buckets: here a bucket has one id or a few, and everything is as without."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from merge import bulk, model
from merge.test_crossed_merges import run
from merge.test_random_histories import World, check_diffs, steps
from merge.test_truth_table import OPERATIONS

import omnigraph as og
from omnigraph.api.writes import MergeJson
from omnigraph.changes import table_diff
from omnigraph.errors import MergeConflicts
from omnigraph.tasks.runner import Exchange, InProcess

IDS = 3


@pytest.fixture(autouse=True)
def buckets(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """The stages of exchanges that had several buckets."""
    monkeypatch.setattr(table_diff, "IDS_PER_BUCKET", IDS)
    monkeypatch.setattr(table_diff, "IDS_PER_SAMPLE", 1)
    seen: list[str] = []
    real = InProcess.exchange_in_order

    def counted(self: Any, exchange: Exchange[Any, Any]) -> Any:
        seen.extend([exchange.stage] if exchange.buckets > 1 else [])
        return real(self, exchange)

    monkeypatch.setattr(InProcess, "exchange_in_order", counted)
    yield seen
    assert seen, "nothing was cut"


@settings(max_examples=8, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=8, max_size=20))
def histories(actions: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World.new(folder)
        for action in actions:
            world.step(action)
        check_diffs(world)


def test_histories_follow_the_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(table_diff, "IDS_PER_BUCKET", 1)
    histories()


@pytest.mark.parametrize("by", ["row", "property"])
def test_crossed_merges_never_conflict_where_each_branch_edits_its_own(
    monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    monkeypatch.setattr(table_diff, "IDS_PER_BUCKET", 1)
    run(by, seed=5, rounds=4)


def many(tmp_path: Path) -> og.Graph:
    """A graph and a branch `work` of it, with every pair of what the two can do to an entity."""
    graph = og.init(tmp_path / "g", schema=model.SCHEMA, durability="process")
    pairs = [(source, target) for source in OPERATIONS for target in OPERATIONS]
    with graph.transaction() as tx:
        for number in range(len(pairs)):
            tx.insert("Person", name=f"p{number}", age=1)
            tx.insert("Person", name=f"q{number}", age=1)
            tx.insert("Knows", {"id": f"e{number}"}, from_=f"p{number}", to=f"q{number}")
    graph.branches.create("work")
    for branch, age in (("work", 2), ("main", 3)):
        with graph.transaction(branch) as tx:
            for number in range(len(pairs)):
                match number % 5:
                    case 0:
                        tx.update("Person", f"p{number}", age=age)
                    case 1 if branch == "work":
                        tx.delete("Knows", f"e{number}")
                        tx.delete("Person", f"p{number}")
                    case 1:
                        tx.update("Person", f"p{number}", age=age)
                    case 2:
                        tx.insert("Person", name=f"{branch}{number}", age=age)
                    case 3 if branch == "work":
                        tx.update("Person", f"q{number}", nick="n")
                    case 3:
                        tx.update("Person", f"q{number}", age=age)
    return graph


@pytest.mark.parametrize("by", ["row", "property"])
def test_conflicts_of_several_buckets_are_in_the_order_of_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str
) -> None:
    graph = many(tmp_path)
    cut = graph.branches.merge("work", by=by, dry_run=True)  # type: ignore[call-overload]
    assert len(cut.conflicts) > 4 * IDS
    assert [each.order for each in cut.conflicts] == sorted(each.order for each in cut.conflicts)
    with monkeypatch.context() as uncut:
        uncut.setattr(table_diff, "IDS_PER_BUCKET", 10**6)
        assert MergeJson.to_json(graph.branches.merge("work", by=by, dry_run=True)) == MergeJson.to_json(cut)  # type: ignore[call-overload]
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work", by=by)  # type: ignore[call-overload]
    assert list(caught.value.conflicts) == list(cut.conflicts)


def test_resolutions_are_put_over_what_the_buckets_decided(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = many(tmp_path)
    graph.branches.create("uncut")
    conflicts = graph.branches.merge("work", dry_run=True).conflicts
    takes = ("ours", "theirs", "base", "delete")
    chosen = [each.resolve(takes[number % 4]) for number, each in enumerate(conflicts)]
    # What is left of edges whose node is deleted goes too.
    left = graph.branches.merge("work", resolutions=chosen, dry_run=True)
    chosen += [each.resolve("delete") for each in left.conflicts]
    assert graph.branches.merge("work", resolutions=chosen, dry_run=True).conflicts == ()
    cut = graph.branches.merge("work", resolutions=chosen)
    with monkeypatch.context() as context:
        context.setattr(table_diff, "IDS_PER_BUCKET", 10**6)
        uncut = graph.branches.merge("work", "uncut", resolutions=chosen)
    assert cut.types == uncut.types
    assert model.state_of(graph, "main") == model.state_of(graph, "uncut")
    assert graph.maintenance.verify().is_whole


def test_pages_of_a_commit_join_up(tmp_path: Path, buckets: list[str]) -> None:
    graph = og.init(tmp_path / "g", schema=bulk.SCHEMA, durability="process")
    bulk.publish(graph, "main", bulk.items(0, 40))
    rows = bulk.items(0, 40, a=-1)
    bulk.publish(graph, "main", rows.slice(0, 30), remove=range(40))
    bulk.publish(graph, "main", bulk.items(100, 9))
    changes = list(graph.diff("main~2", "main"))
    assert [change.id for change in changes] == sorted(change.id for change in changes)
    assert sum(change.op == "update" for change in changes) == 30
    assert (graph.diff_stat("main~2", "main")[0].inserts, graph.diff_stat("main~2", "main")[0].deletes) == (9, 10)
    seen, token = [], None
    while True:
        page = graph.commit_changes("main~1", limit=7, page_token=token)
        seen += page.changes
        if (token := page.next_page_token) is None:
            break
    assert seen == list(graph.diff("main~2", "main~1"))


def test_pages_join_up_at_very_long_ids(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema="node Item { key: String @key }", durability="process")
    long = "x" * 300
    names = [f"{long}{letter}" for letter in "abcdefghij"]
    graph.load({"Item": pa.table({"key": names})}, mode="append")
    seen, token = [], None
    while True:
        page = graph.commit_changes("main", limit=IDS, page_token=token)
        seen += [change.id for change in page.changes]
        if (token := page.next_page_token) is None:
            break
    assert seen == names
