"""Heads, positions and what a writer meets at a position."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import pytest
from history.small_graph import SmallGraph, reapply
from history.sweeping import LATER_S, sweep

from omnigraph.errors import (
    BranchNotFound,
    HistoryGap,
    OutcomeUnknown,
    StagedTooLongAgo,
    StorageDenied,
    StoragePermanent,
    StorageTransient,
    UsageError,
)
from omnigraph.history.chain import PROBE_WINDOW_S, check_branch_name, encode_entry, key_of, position_of
from omnigraph.history.history import History
from omnigraph.storage.options import open_store
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all
from omnigraph.testing.stores import Fault, FaultyStore
from omnigraph.write.publishing import publish


@pytest.mark.parametrize("depth", [1, 10, 200])
def test_head_costs_two_requests_cold_and_one_warm_at_any_depth(depth: int) -> None:
    graph = SmallGraph()
    graph.commits(depth)
    cold = graph.again()
    graph.store.reset()
    assert cold.head().position == depth
    assert graph.store.snapshot().by_kind == {"list": 1, "get": 1}
    graph.store.reset()
    assert cold.head().position == depth
    assert graph.store.snapshot().by_kind == {"get": 1}


def test_a_warm_head_far_behind_is_found_with_one_listing() -> None:
    graph = SmallGraph()
    other = graph.again()
    other.head()
    graph.commits(50)
    graph.store.reset()
    assert other.head().position == 50
    assert graph.store.snapshot().by_kind == {"get": 4, "list": 1}


def test_a_head_cached_for_too_long_is_not_probed() -> None:
    graph = SmallGraph()
    graph.commits(3)
    graph.clock.now += PROBE_WINDOW_S
    graph.store.reset()
    graph.head()
    assert graph.store.snapshot().by_kind == {"list": 1, "get": 1}


def test_keys_sort_newest_first() -> None:
    keys = [key_of("a/b", position) for position in (0, 1, 9, 10, 99, 1000)]
    assert sorted(keys, reverse=True) == keys
    assert [position_of(key) for key in keys] == [0, 1, 9, 10, 99, 1000]
    assert keys[0].startswith("branches/a%2Fb/")


def test_an_unknown_branch_is_not_found() -> None:
    with pytest.raises(BranchNotFound):
        SmallGraph().head("nowhere")


@pytest.mark.parametrize("name", ["main", "review/2026-07", "a.b_c-d", "ünï", "a=b"])
def test_branch_names_that_are_fine(name: str) -> None:
    assert check_branch_name(name) == name


@pytest.mark.parametrize(
    "name", ["", "/a", "a/", "a//b", "-a", ".a", "a..b", "a~1", "a b", "a@b", "a:b", "x" * 201, "a\n"]
)
def test_branch_names_that_are_refused(name: str) -> None:
    with pytest.raises(UsageError):
        check_branch_name(name)


@pytest.mark.parametrize("kind", ["answer_lost", "refused"])
def test_a_lost_answer_is_looked_up_and_a_refused_create_repeated(kind: str) -> None:
    inner = open_store("memory://")
    graph = SmallGraph(inner)
    graph.commit()
    graph.store.inner = FaultyStore(inner, Fault(kind, "create", "branches/*", times=2))  # type: ignore[arg-type]
    commit = graph.commit()
    assert [each.id for each in graph.history.log.walk(graph.again().head())].count(commit.id) == 1
    assert graph.head().position == 2


def test_a_store_that_stays_silent_leaves_the_outcome_unknown() -> None:
    inner = open_store("memory://")
    graph = SmallGraph(inner)
    plan = graph.plan()
    graph.store.inner = FaultyStore(
        inner, Fault("refused", "create", "branches/*", times=99), Fault("refused", "get", "branches/*", times=99)
    )
    with pytest.raises(OutcomeUnknown) as caught:
        publish(graph.history, plan)
    assert caught.value.commit_id == plan.commit_id
    graph.store.inner = inner
    assert publish(graph.history, plan).id == plan.commit_id


def test_an_entry_reads_back_as_it_was_written() -> None:
    graph = SmallGraph(max_tail=2)
    graph.commits(5)
    graph.group(3)
    graph.branch("x")
    graph.merge("main", "x")
    for branch in ("main", "x"):
        for position in range(graph.head(branch).position + 1):
            entry = graph.history.chain.read(branch, position)
            assert graph.store.get(key_of(branch, position)) == encode_entry(entry)


# ---------------------------------------------------------------- sweeping


def swept_graph(commits: int, keep: int) -> SmallGraph:
    graph = SmallGraph()
    graph.commits(commits)
    assert sweep(graph.history, "main", keep=keep) == commits + 1 - keep
    return graph


def test_a_sweep_keeps_the_newest_and_the_log() -> None:
    graph = swept_graph(10, keep=3)
    assert graph.history.chain.floor("main") == 8
    assert [graph.history.chain.find("main", position) is None for position in range(11)] == [True] * 8 + [False] * 3
    assert graph.history.chain.find("main", 11) is None  # no file was to go, so nobody had to be fenced off
    assert len(list(graph.history.log.walk(graph.again().head()))) == 11
    with pytest.raises(HistoryGap, match="branch 'main' has entries from 8 on") as caught:
        graph.history.revisions.resolve("main~5")
    assert caught.value.details() == {"branch": "main", "watermark": 8}
    assert graph.history.revisions.resolve("main~2").table("node:P").rows == 8  # type: ignore[union-attr]
    graph.commit()


def test_a_sweep_leaves_young_entries_and_everything_after_them() -> None:
    graph = SmallGraph()
    graph.commits(10)
    assert sweep(graph.history, "main", later_s=0) == 0
    assert graph.history.chain.floor("main") == 0


def test_a_tagged_commit_survives_the_sweep_and_a_swept_one_cannot_be_tagged() -> None:
    graph = SmallGraph()
    commits = graph.commits(6)
    graph.history.tags.create("v1", commits[1].ref)
    sweep(graph.history, "main")
    assert graph.history.revisions.resolve("v1").commit == commits[1]
    with pytest.raises(HistoryGap):
        graph.history.tags.create("v0", commits[0].ref)
    assert list(graph.history.tags.list()) == ["v1"]
    graph.history.tags.create("v1", commits[1].ref)
    assert graph.history.tags.find("v1") == commits[1].ref


def test_a_failure_after_the_create_never_says_that_nothing_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The writer was away for long, and cannot look for the watermark; a cleanup came meanwhile, and took nothing of its."""
    graph = SmallGraph()
    chain, plan = graph.history.chain, graph.plan()
    graph.history.retention.raise_cutoff(time.time())

    def no_answer(_branch: str) -> int:
        raise StorageTransient("no answer", key="retention/main")

    def hours_pass() -> None:
        disarm_all()
        graph.clock.now += 10 * PROBE_WINDOW_S

    monkeypatch.setattr(chain, "floor", no_answer)
    arm(Failpoint.PUBLISH_AFTER_CREATE, hours_pass)
    with pytest.raises(OutcomeUnknown) as caught:
        publish(graph.history, plan)
    assert caught.value.commit_id == plan.commit_id == graph.again().head().head.commit.id


def test_only_what_certainly_failed_is_explained_with_a_cleanup() -> None:
    graph = SmallGraph()
    retention = graph.history.retention
    began = graph.clock()
    graph.clock.now += 10 * PROBE_WINDOW_S
    retention.raise_cutoff(time.time())
    for error, expected in (
        (StoragePermanent("it is not there", key="nodes/P"), StagedTooLongAgo),
        (StorageTransient("no answer", key="nodes/P"), StorageTransient),
    ):
        with pytest.raises(expected), retention.explaining("main", began):
            raise error


def test_a_refusal_after_a_lost_answer_never_says_that_nothing_was_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SmallGraph()
    plan, create = graph.plan(), graph.store.create
    answers = iter([StorageTransient("no answer", key="x"), StorageDenied("the token is too old", key="x")])

    def lost_then_refused(key: str, data: bytes, **options: Any) -> None:
        answer = next(answers)
        if isinstance(answer, StorageTransient):
            create(key, data, **options)
        raise answer

    def refused(_key: str) -> bytes:
        raise StorageDenied("the token is too old", key="x")

    with monkeypatch.context() as patch:
        patch.setattr(graph.store, "create", lost_then_refused)
        patch.setattr(graph.store, "get", refused)
        with pytest.raises(OutcomeUnknown) as caught:
            publish(graph.history, plan)
    assert caught.value.commit_id == graph.again().head().head.commit.id


def test_a_lower_watermark_never_replaces_a_higher_one() -> None:
    history = SmallGraph().history
    history.retention.raise_watermark("main", 20)
    history.retention.raise_watermark("main", 10)
    assert history.chain.floor("main") == 20


def test_a_lower_cutoff_never_replaces_a_higher_one() -> None:
    retention = SmallGraph().history.retention
    assert retention.cutoff() == 0.0
    retention.raise_cutoff(2e9)
    retention.raise_cutoff(1e9)
    assert retention.cutoff() == 2e9


def test_a_writer_that_was_away_during_a_sweep_does_not_reuse_a_position() -> None:
    graph = SmallGraph()
    away = graph.again()
    plan = away.plan()
    cached = away.history.chain.cached_head("main")
    assert cached is not None
    graph.commits(5)
    sweep(graph.history, "main")
    away.history.chain.cached_head = lambda branch: cached  # type: ignore[method-assign] # still believes in it
    away.clock.now += PROBE_WINDOW_S
    commit = publish(away.history, plan, reapply)
    assert commit.ref.position == 6
    assert graph.history.chain.find("main", 1) is None
    assert graph.again().head().head.table("node:P").rows == 6  # type: ignore[union-attr]


def test_a_commit_swept_before_it_was_acknowledged_is_not_published_twice() -> None:
    graph = SmallGraph()
    slow = graph.again()
    plan = slow.plan()
    create = slow.store.create

    def create_then_sleep(key: str, data: bytes, *, sync_first: Sequence[str] = ()) -> None:
        create(key, data, sync_first=sync_first)
        slow.store.create = create  # type: ignore[method-assign]
        graph.commits(3)
        slow.clock.now += PROBE_WINDOW_S
        assert sweep(graph.history, "main") > 1

    slow.store.create = create_then_sleep  # type: ignore[method-assign]
    commit = publish(slow.history, plan, reapply)
    assert commit.ref.position == 1
    log = [each.id for each in graph.history.log.walk(graph.again().head())]
    assert log.count(commit.id) == 1
    assert len(log) == 5


@pytest.mark.parametrize("stopped", ["wall clock", "uptime"])
def test_a_clock_that_stands_still_does_not_hide_a_cleanup(stopped: str) -> None:
    """The wall clock was set back by as much as has passed, or a paused machine's uptime stood still: the other one notices."""
    graph = SmallGraph()
    graph.commits(3)
    hidden = graph.clock.now
    clocks = {"wall_clock": graph.clock, "uptime": graph.clock, stopped.replace(" ", "_"): lambda: hidden}
    idle = History(graph.store, graph.history.identity, new_id=graph.ids, **clocks)
    assert idle.chain.head("main") == graph.head()
    others = graph.again()
    others.commits(6)
    graph.clock.now += LATER_S
    assert sweep(others.again().history, "main") > 6
    assert idle.chain.head("main") == graph.again().head()
