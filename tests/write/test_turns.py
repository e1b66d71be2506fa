"""Processes that lose races queue for their turns. Nothing relies on it."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.history import History, publish
from omnigraph.history.chain import folder_of
from omnigraph.storage import LocalStore

SCHEMA = "node Person { name: String @key }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", schema=SCHEMA, durability="process")
    add(graph, "first")
    return graph


def add(graph: og.Graph, name: str) -> None:
    with graph.transaction() as tx:
        tx.insert("Person", name=name)


def lose_a_race(graph: og.Graph, name: str) -> None:
    """A commit on a head that another process has moved."""
    add(og.open(graph.uri), f"before {name}")
    add(graph, name)


def people(graph: og.Graph) -> int:
    return len(graph.query("query q() { match { $p: Person } return { $p.name } }"))


def test_who_has_lost_nothing_takes_no_turn(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    turns: list[str] = []
    monkeypatch.setattr(LocalStore, "turn", _recorded(turns))
    add(graph, "a")
    assert turns == []
    lose_a_race(graph, "b")
    add(graph, "c")
    assert turns == [folder_of("main")] * 2, "the second try, and the next commit"
    assert people(graph) == 5


def _recorded(turns: list[str]):  # type: ignore[no-untyped-def]
    real = LocalStore.turn

    def turn(self: LocalStore, folder: str, wait):  # type: ignore[no-untyped-def]
        turns.append(folder)
        return real(self, folder, wait)

    return turn


def test_a_process_that_stands_still_holds_nobody_up_for_long(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(publish, "MAX_TURN_WAIT_S", 0.01)
    handle = os.open(Path(graph.uri) / folder_of("main"), os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        lose_a_race(graph, "a")
    finally:
        os.close(handle)
    assert people(graph) == 3


class Queue:
    """A process that asks for turns, by a clock that only its own pauses move. Somebody else has the turn until `freed_at`."""

    def __init__(self, graph: og.Graph, freed_at: float) -> None:
        self.now, self.freed_at = 0.0, freed_at
        self.pauses: list[float] = []
        history = graph._repository.history
        self.publisher = History(
            history.store,
            history.identity,
            wall_clock=lambda: self.now,
            uptime=lambda: self.now,
            sleep=self._pause,
            jitter=lambda: 0.5,
        ).publisher
        self.other = os.open(Path(graph.uri) / folder_of("main"), os.O_RDONLY)
        fcntl.flock(self.other, fcntl.LOCK_EX)

    def _pause(self, seconds: float) -> None:
        self.pauses.append(round(1_000 * seconds))
        self.now += seconds
        if self.now >= self.freed_at:
            fcntl.flock(self.other, fcntl.LOCK_UN)

    def acquired(self) -> bool:
        with self.publisher.turn("main") as acquired:
            return acquired


@pytest.fixture
def queue(graph: og.Graph) -> Callable[[float], Queue]:
    return lambda freed_at: Queue(graph, freed_at)


def test_pauses_grow_until_one_has_waited_for_long(queue: Callable[[float], Queue]) -> None:
    waiting = queue(0.3)
    waiting.publisher.crowded("main")
    assert waiting.acquired()
    first = [2, 4, 8, 16, *[32] * 7]
    assert waiting.pauses[: len(first)] == first
    assert {*waiting.pauses[len(first) :]} == {2}


def test_who_waited_for_a_turn_and_got_it_asks_again(queue: Callable[[float], Queue]) -> None:
    waiting = queue(0.9)
    waiting.publisher.crowded("main")
    assert waiting.acquired()
    waiting.now = 1.5
    assert waiting.acquired(), "for a second from then on"
    waiting.now = 3.0
    assert not waiting.acquired(), "nobody else was there"


def test_who_waited_in_vain_does_not_wait_again(queue: Callable[[float], Queue]) -> None:
    waiting = queue(99.0)
    waiting.publisher.crowded("main")
    assert not waiting.acquired()
    pauses = len(waiting.pauses)
    assert not waiting.acquired()
    assert len(waiting.pauses) == pauses


def test_a_turn_ends_also_when_a_child_was_forked_during_it(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    handles: list[int] = []
    real = os.open
    monkeypatch.setattr(os, "open", lambda *arguments: handles.append(real(*arguments)) or handles[-1])
    store = LocalStore(graph.uri)
    with store.turn(folder_of("main"), lambda: False) as first:
        copy = os.dup(handles[0])
    with store.turn(folder_of("main"), lambda: False) as second:
        pass
    os.close(copy)
    assert first
    assert second


@pytest.mark.parametrize("missed", [1, 2, 3, 4, 7, 8, 20])
def test_the_newest_head_is_found_however_far_it_has_moved(graph: og.Graph, missed: int) -> None:
    other = og.open(graph.uri)
    for number in range(missed):
        add(other, f"other {number}")
    assert graph._repository.head()[0].id == other._repository.head()[0].id
    add(graph, "own")
    assert people(other) == missed + 2


def test_a_store_without_queues_lets_everybody_try_at_once(monkeypatch: pytest.MonkeyPatch, graph: og.Graph) -> None:
    def refused(*_: object) -> None:
        raise OSError("no locks here")

    monkeypatch.setattr(fcntl, "flock", refused)
    lose_a_race(graph, "a")
    add(graph, "b")
    assert people(graph) == 4
