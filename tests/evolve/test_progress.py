"""Rows that are checked before a schema change, and written again after it, are seen to be worked on from the start."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

import omnigraph as og
from omnigraph.errors import SchemaChangeRefused
from omnigraph.maintenance import optimize
from omnigraph.tasks import progress, runner
from omnigraph.tasks.progress import Status
from omnigraph.tasks.runner import LocalRunner

SCHEMA = "node Person { name: String @key  age: I32? }"


class Seen:
    def __init__(self, on_update: Callable[[Status], None] = lambda _: None) -> None:
        self.statuses: list[tuple[str, int, int]] = []
        self.on_update = on_update
        self.is_closed = False

    def update(self, status: Status) -> None:
        self.statuses.append((status.stage, status.done, status.tasks))
        self.on_update(status)

    def close(self) -> None:
        self.is_closed = True


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> Seen:
    seen = Seen()
    monkeypatch.setattr(progress, "progress_for", lambda _: seen)
    return seen


@pytest.fixture
def g() -> og.Graph:
    graph = og.init("memory://", schema=SCHEMA)
    for name in ("Ada", "Bo"):
        with graph.transaction() as tx:
            tx.insert("Person", name=name, age=1)
    return graph


def test_rows_are_seen_to_be_checked(g: og.Graph, seen: Seen) -> None:
    g.schema.apply(SCHEMA.replace("age: I32?", "age: I32"), progress=True)
    tasks = seen.statuses[0][2]
    assert seen.statuses[0] == ("check rows", 0, tasks)
    assert seen.statuses[-1] == ("check rows", tasks, tasks)
    assert seen.is_closed


def test_a_change_that_is_refused_leaves_no_bar_behind(g: og.Graph, seen: Seen) -> None:
    with pytest.raises(SchemaChangeRefused):
        g.schema.apply(SCHEMA.replace("age: I32?", "age: I32?  @range(age, 5..)"), progress=True)
    assert seen.is_closed


def test_a_change_that_reads_no_row_shows_nothing(g: og.Graph, seen: Seen) -> None:
    g.schema.apply(SCHEMA.replace("age: I32?", "age: I64?"), progress=True)
    assert seen.statuses == []


def test_rows_are_seen_to_be_written_again(g: og.Graph, seen: Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(optimize, "IN_PROCESS_ROWS", 0)
    g.schema.apply(SCHEMA.replace("age: I32?", "age: I64?"))
    g.maintenance.optimize(progress=True)
    assert seen.statuses == [("compact", 0, 1), ("compact", 1, 1)]


def test_a_task_that_takes_long_is_seen_to_be_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(runner, "_SHOWN_EVERY_S", 0.001)
    is_shown = threading.Event()
    seen = Seen(lambda _: is_shown.set() if len(seen.statuses) == 3 else None)
    assert LocalRunner(seen).map("slow", lambda _: is_shown.wait(60), [1]) == [True]
    assert seen.statuses[:3] == [("slow", 0, 1)] * 3
    assert seen.statuses[-1] == ("slow", 1, 1)
