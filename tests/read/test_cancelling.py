"""Reads that the caller cancels from another thread, in every strategy and in the engine."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph._internal.deadlines import Cancellation, Deadline
from omnigraph.errors import Cancelled, UsageError
from omnigraph.relational import duck

SCHEMA = "node P { name: String @key  age: I64 }  edge Knows: P -> P"
PEOPLE = 300
ENDLESS = """query q() {
    match { $a: P $b: P $c: P $d: P $e: P  $a.age + $b.age + $c.age + $d.age + $e.age = -1 }
    return { count($a) as n }
}"""
OLDEST = "query q() { match { $p: P } return { max($p.age) as m } }"


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> og.Graph:
    made = og.init(tmp_path_factory.mktemp("cancelling") / "g", SCHEMA, durability="process")
    with made.transaction() as tx:
        for n in range(PEOPLE):
            tx.insert("P", name=f"p{n}", age=n)
    return made


def test_a_query_that_runs_is_cancelled_and_the_engine_answers_the_next(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    running, run = threading.Event(), duck.execute

    def started(*arguments: Any, **options: Any) -> Any:
        running.set()
        return run(*arguments, **options)

    monkeypatch.setattr(duck, "execute", started)
    cancel = og.Cancellation()
    with ThreadPoolExecutor() as pool:
        asked = pool.submit(graph.query, ENDLESS, cancel=cancel)
        assert running.wait(60)
        cancel.cancel()
        with pytest.raises(Cancelled) as error:
            asked.result(60)
    assert (error.value.code, error.value.outcome) == ("cancelled", "not_committed")
    assert graph.query(OLDEST).rows == [{"m": PEOPLE - 1}]


@pytest.mark.parametrize("text", [ENDLESS, OLDEST, 'query q() { match { $p: P { name: "p1" } } return { $p.age } }'])
def test_what_is_cancelled_before_it_starts_does_not_start(graph: og.Graph, text: str) -> None:
    cancel = og.Cancellation()
    cancel.cancel()
    with pytest.raises(Cancelled):
        graph.query(text, cancel=cancel)


def test_a_cancellation_that_nobody_cancels_changes_nothing(graph: og.Graph) -> None:
    cancel = og.Cancellation()
    for _ in range(2):
        assert graph.query(OLDEST, cancel=cancel, timeout=60).rows == [{"m": PEOPLE - 1}]
    assert not cancel.is_cancelled
    assert repr(cancel) == "<Cancellation>"


def test_a_deadline_wakes_whoever_waits_in_its_block_only() -> None:
    cancellation, woken = Cancellation(), list[str]()
    deadline = Deadline(cancellation=cancellation)
    with deadline.waking(lambda: woken.append("left")):
        pass
    with deadline.waking(lambda: woken.append("waiting")):
        cancellation.cancel()
    with deadline.waking(lambda: woken.append("late")):
        assert woken == ["waiting", "late"]


def test_what_cancels_is_a_cancellation(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", SCHEMA, durability="process")
    wrong: Any = threading.Event()
    with pytest.raises(UsageError, match="'cancel' must be a Cancellation, got Event"):
        graph.query(OLDEST, cancel=wrong)
    with pytest.raises(UsageError, match="'cancel' must be a Cancellation, got Event"):
        graph.wait_for_change(cancel=wrong)
