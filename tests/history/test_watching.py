"""Waiting for a branch's head to move: at once for writes of the same graph, by looking for those of others."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound, Cancelled, UsageError
from omnigraph.history import history
from omnigraph.history.chain import Chain
from omnigraph.history.values import Entry

SCHEMA = "node P { name: String @key }"
NEVER_S = 3_600.0
PATIENCE_S = 60.0


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g", SCHEMA, durability="process")


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor() as threads:
        yield threads


def add(graph: og.Graph, name: str, branch: str = "main") -> og.types.Commit:
    with graph.transaction(branch) as tx:
        tx.insert("P", name=name)
    assert tx.receipt.commit is not None
    return tx.receipt.commit


class Looks:
    """Counts looks at the heads of branches, and says when there was a first one by each of several waiters."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, waiters: int) -> None:
        self.count = 0
        self.all_looked = threading.Event()
        head = Chain.head

        def counted(chain: Chain, branch: str) -> Entry:
            entry = head(chain, branch)
            self.count += 1
            if self.count == waiters:
                self.all_looked.set()
            return entry

        monkeypatch.setattr(Chain, "head", counted)


def test_a_head_that_has_moved_already_is_given_at_once(graph: og.Graph) -> None:
    first = graph.head()
    added = add(graph, "a")
    assert graph.wait_for_change(since=first.id) == added


def test_a_write_of_the_same_graph_wakes_every_waiter_at_once(
    graph: og.Graph, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "POLL_INTERVAL_S", NEVER_S)
    since = graph.head().id
    looks = Looks(monkeypatch, waiters=3)
    waiting: list[Future[og.types.Commit | None]] = [pool.submit(graph.wait_for_change, since=since) for _ in range(3)]
    assert looks.all_looked.wait(PATIENCE_S)
    added = add(graph, "a")
    assert [each.result(PATIENCE_S) for each in waiting] == [added] * 3


def test_a_write_of_another_process_is_found_by_looking(
    graph: og.Graph, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = og.open(graph.uri, durability="process")
    looks = Looks(monkeypatch, waiters=2)
    waiting = [pool.submit(graph.wait_for_change, since=graph.head().id) for _ in range(2)]
    assert looks.all_looked.wait(PATIENCE_S)
    added = add(other, "a")
    assert [each.result(PATIENCE_S) for each in waiting] == [added] * 2


def test_one_of_the_waiters_of_a_branch_looks_for_all(
    graph: og.Graph, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "POLL_INTERVAL_S", NEVER_S)
    moved = graph._repository.history.watch._moved
    wait, waits, all_wait = moved.wait, list[float | None](), threading.Event()

    def counted(timeout: float | None = None) -> bool:
        waits.append(timeout)
        if len(waits) == 4:
            all_wait.set()
        return wait(timeout)

    monkeypatch.setattr(moved, "wait", counted)
    waiting = [pool.submit(graph.wait_for_change) for _ in range(4)]
    assert all_wait.wait(PATIENCE_S)
    assert sorted(waits, key=str) == [NEVER_S, None, None, None]
    added = add(graph, "a")
    assert [each.result(PATIENCE_S) for each in waiting] == [added] * 4


def test_another_waiter_looks_when_the_one_that_did_is_gone(
    graph: og.Graph, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    since, other = graph.head().id, og.open(graph.uri, durability="process")
    looks = Looks(monkeypatch, waiters=1)
    stop = og.Cancellation()
    first = pool.submit(graph.wait_for_change, since=since, cancel=stop)
    assert looks.all_looked.wait(PATIENCE_S)
    second = pool.submit(graph.wait_for_change, since=since)
    stop.cancel()
    with pytest.raises(Cancelled):
        first.result(PATIENCE_S)
    added = add(other, "a")
    assert second.result(PATIENCE_S) == added


def test_the_time_of_a_wait_ends(graph: og.Graph) -> None:
    assert graph.wait_for_change(timeout=0.01) is None
    assert graph.wait_for_change(since=graph.head().id, timeout=0.01) is None


def test_other_branches_do_not_end_a_wait(graph: og.Graph) -> None:
    graph.branches.create("side")
    since = graph.head().id
    add(graph, "a", "side")
    assert graph.wait_for_change(since=since, timeout=0.01) is None


def test_a_deleted_branch_ends_a_wait(
    graph: og.Graph, pool: ThreadPoolExecutor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(history, "POLL_INTERVAL_S", NEVER_S)
    graph.branches.create("side")
    looks = Looks(monkeypatch, waiters=1)
    waiting = pool.submit(graph.wait_for_change, "side")
    assert looks.all_looked.wait(PATIENCE_S)
    graph.branches.delete("side")
    with pytest.raises(BranchNotFound):
        waiting.result(PATIENCE_S)


@pytest.mark.parametrize("since", ["main", "01J", ""])
def test_a_wait_is_since_a_commit_id(graph: og.Graph, since: str) -> None:
    with pytest.raises(UsageError, match="is not a commit id"):
        graph.wait_for_change(since=since)
