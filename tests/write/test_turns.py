"""Processes that lose races queue for their turns. Nothing relies on it."""

from __future__ import annotations

import fcntl
import itertools
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.history import turns
from omnigraph.history.chain import folder_of
from omnigraph.history.publish import Publisher
from omnigraph.history.turns import Turn
from omnigraph.storage.local import LocalStore
from omnigraph.storage.store import Lock

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
    monkeypatch.setattr(turns, "LOOK_S", 3_600.0)
    locks: list[str] = []
    monkeypatch.setattr(LocalStore, "lock", _recorded(locks))
    add(graph, "a")
    add(graph, "b")
    assert locks == [], "the fixture's write has looked whether anybody has one"
    monkeypatch.setattr(turns, "LOOK_S", 0.0)
    add(graph, "c")
    add(graph, "d")
    assert locks == [folder_of("main")] * 2
    monkeypatch.setattr(turns, "LOOK_S", 3_600.0)
    locks.clear()
    lose_a_race(graph, "e")
    add(graph, "f")
    assert locks == [folder_of("main")] * 3, "a look of the other process, the second try, and the next commit"
    assert people(graph) == 8


def _recorded(locks: list[str]) -> Callable[[LocalStore, str], Lock | None]:
    real = LocalStore.lock

    def lock(self: LocalStore, folder: str) -> Lock | None:
        locks.append(folder)
        return real(self, folder)

    return lock


def test_a_process_that_stands_still_holds_nobody_up_for_long(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STALLED_S", 0.01)
    handle = os.open(Path(graph.uri) / folder_of("main"), os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        lose_a_race(graph, "a")
    finally:
        os.close(handle)
    assert people(graph) == 3


def folder(graph: og.Graph) -> Path:
    return Path(graph.uri) / folder_of("main")


class Rival:
    """Another process that asks for the lock of a branch."""

    def __init__(self, graph: og.Graph) -> None:
        self.handle = os.open(folder(graph), os.O_RDONLY)

    def gets_it(self) -> bool:
        try:
            fcntl.flock(self.handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def waits_for_it(self) -> None:
        fcntl.flock(self.handle, fcntl.LOCK_EX)

    def leaves(self) -> None:
        fcntl.flock(self.handle, fcntl.LOCK_UN)


@pytest.fixture
def rival(graph: og.Graph) -> Iterator[Rival]:
    rival = Rival(graph)
    yield rival
    os.close(rival.handle)


def waiting_for(graph: og.Graph) -> int:
    """How many wait for the lock of the branch."""
    inode = str(folder(graph).stat().st_ino)
    return sum("->" in line and f":{inode} " in line for line in Path("/proc/locks").read_text().splitlines())


def test_a_turn_is_kept_for_writes_that_follow_at_once(
    graph: og.Graph, rival: Rival, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "IDLE_S", 3_600.0)
    monkeypatch.setattr(turns, "KEPT_S", 3_600.0)
    lose_a_race(graph, "a")
    assert rival.gets_it(), "nobody knows yet whether another write follows"
    rival.leaves()
    add(graph, "b")
    assert not rival.gets_it()
    add(graph, "c")
    assert not rival.gets_it()
    monkeypatch.setattr(turns, "KEPT_S", 0.0)
    add(graph, "d")
    assert rival.gets_it(), "it has lasted long enough"


def test_who_has_lost_nothing_queues_behind_others(
    graph: og.Graph, rival: Rival, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "LOOK_S", 0.0)
    assert rival.gets_it()
    writer = threading.Thread(target=add, args=(graph, "a"))
    writer.start()
    while not waiting_for(graph):
        pass
    assert people(og.open(graph.uri)) == 1
    rival.leaves()
    writer.join()
    assert people(graph) == 2


def test_who_waited_in_vain_does_not_look_again(graph: og.Graph, rival: Rival, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "LOOK_S", 0.0)
    monkeypatch.setattr(turns, "STALLED_S", 0.01)
    assert rival.gets_it()
    locks: list[str] = []
    monkeypatch.setattr(LocalStore, "lock", _recorded(locks))
    for number in range(3):
        add(graph, f"a {number}")
    assert len(locks) == 2, "the first write looked, and waited"
    lose_a_race(graph, "b")
    add(graph, "c")
    assert len(locks) > 3, "others write"


def test_turns_grow_from_one_to_the_next(graph: og.Graph, rival: Rival, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first is passed on before long, so that all others have one before this process has another."""
    monkeypatch.setattr(turns, "IDLE_S", 3_600.0)
    monkeypatch.setattr(turns, "KEPT_S", 3_600.0)
    monkeypatch.setattr(turns, "FIRST_SHARE", 2.0**-41)
    add(graph, "sets the share")
    lose_a_race(graph, "a")
    kept = []
    for number in range(42):
        assert rival.gets_it()
        writer = threading.Thread(target=add, args=(graph, f"b {number}"))
        writer.start()
        while not waiting_for(graph):
            pass
        rival.leaves()
        writer.join()
        add(graph, f"c {number}")
        kept.append(not rival.gets_it())
        if kept[-1]:
            break
        rival.leaves()
    assert kept[-1]
    assert len(kept) > 2, "after the first it was passed on"


def test_a_turn_that_is_kept_in_vain_is_given_up(
    graph: og.Graph, rival: Rival, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(turns, "KEPT_S", 3_600.0)
    monkeypatch.setattr(turns, "IDLE_S", 1.0)
    lose_a_race(graph, "a")
    add(graph, "b")
    rival.waits_for_it()
    add(graph, "c")
    assert people(graph) == 5


def test_a_process_that_ends_gives_up_its_turn(graph: og.Graph, rival: Rival, monkeypatch: pytest.MonkeyPatch) -> None:
    at_the_end: list[Callable[[], None]] = []
    monkeypatch.setattr(turns.atexit, "register", at_the_end.append)
    monkeypatch.setattr(turns, "KEPT_S", 3_600.0)
    monkeypatch.setattr(turns, "IDLE_S", 3_600.0)
    lose_a_race(graph, "a")
    add(graph, "b")
    assert not rival.gets_it()
    (end,) = at_the_end
    end()
    assert rival.gets_it()


def test_turns_come_in_the_order_in_which_they_were_asked_for(graph: og.Graph, rival: Rival) -> None:
    assert rival.gets_it()
    order: list[int] = []
    writers: list[threading.Thread] = []
    for number in range(5):
        queue = og.open(graph.uri)._repository.history.publisher
        queue.crowded("main")

        def take(queue: Publisher = queue, number: int = number) -> None:
            with queue.turn("main") as acquired:
                assert acquired
                order.append(number)

        writers.append(threading.Thread(target=take))
        writers[-1].start()
        while waiting_for(graph) <= number:
            pass
    rival.leaves()
    for writer in writers:
        writer.join()
    assert order == [0, 1, 2, 3, 4]


class Gate(Lock):
    """A lock that another process has until it is opened."""

    def __init__(self) -> None:
        self.is_open, self.released = threading.Event(), threading.Event()

    def acquire(self, *, waits: bool) -> bool:
        return waits and self.is_open.wait()

    def is_taken(self) -> bool:
        return not self.is_open.is_set()

    def release(self) -> None:
        self.released.set()


def test_a_process_waits_as_long_as_the_branch_moves(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STALLED_S", 0.001)
    gate, moves = Gate(), itertools.count()

    def goes_on() -> bool:
        if next(moves) == 20:
            gate.is_open.set()
        return True

    assert Turn(gate).take(goes_on)
    assert next(moves) > 20


def test_a_turn_that_comes_too_late_is_passed_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STALLED_S", 0.001)
    gate = Gate()
    turn = Turn(gate)
    assert not turn.take(lambda: False)
    assert not gate.released.is_set()
    gate.is_open.set()
    gate.released.wait()
    assert not turn.resume()


def test_a_wait_that_is_interrupted_leaves_no_lock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "STALLED_S", 0.001)
    gate = Gate()

    def interrupt() -> bool:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Turn(gate).take(interrupt)
    gate.is_open.set()
    gate.released.wait()


def test_a_turn_ends_also_when_a_child_was_forked_during_it(graph: og.Graph, rival: Rival) -> None:
    handles: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        real = os.open
        patch.setattr(os, "open", lambda *arguments: handles.append(real(*arguments)) or handles[-1])
        lock = LocalStore(graph.uri).lock(folder_of("main"))
    assert lock is not None
    assert lock.acquire(waits=False)
    copy = os.dup(handles[0])
    lock.release()
    assert rival.gets_it()
    os.close(copy)


def test_a_forked_process_has_no_turn_of_its_parent(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(turns, "KEPT_S", 3_600.0)
    monkeypatch.setattr(turns, "IDLE_S", 3_600.0)
    lose_a_race(graph, "a")
    add(graph, "b")
    publisher, parent = graph._repository.history.publisher, os.getpid()
    with publisher.turn("main") as acquired:
        assert acquired
    monkeypatch.setattr(os, "getpid", lambda: parent + 1)
    with publisher.turn("main") as acquired:
        assert not acquired


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
