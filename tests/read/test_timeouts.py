"""Reads that end before they are done: by their timeout, in every strategy and in the engine, or by Ctrl-C."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from read.graphs import commit, new_graph, query

import omnigraph as og
from omnigraph._internal.deadlines import Deadline
from omnigraph.errors import QueryTimeout, UsageError
from omnigraph.expressions.functions import Arguments
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.execution import instant, run_read
from omnigraph.read.strategies import answer, strategy
from omnigraph.read.strategies.arrays import ARRAYS
from omnigraph.read.strategies.dense import DENSE
from omnigraph.read.strategies.direct import DIRECT
from omnigraph.read.strategies.reduction import REDUCTION
from omnigraph.read.strategies.scan import SCAN
from omnigraph.read.strategies.strategy import Mode, Read
from omnigraph.snapshot import View

SCHEMA = "node P { name: String @key  age: I64  bio: String? @index }  edge Knows: P -> P"
PEOPLE = 300
ENDLESS = (
    "match { $a: P $b: P $c: P $d: P $e: P  $a.age + $b.age + $c.age + $d.age + $e.age = -1 } return { count($a) as n }"
)


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    people = [{"type": "P", "data": {"name": f"p{n}", "age": n, "bio": "likes graphs"}} for n in range(PEOPLE)]
    edges = [{"edge": "Knows", "from": f"p{n}", "to": f"p{(n + 1) % PEOPLE}", "id": f"e{n}"} for n in range(PEOPLE)]
    return commit(new_graph(str(tmp_path_factory.mktemp("timeouts") / "g"), SCHEMA), people + edges)


def compiled(view: View, text: str) -> ReadPlan:
    plan = compile_query(f"query q() {{ {text} }}", view.catalog)
    assert isinstance(plan, ReadPlan)
    return plan


class Ticks:
    """A clock that moves on by one whenever it is looked at."""

    def __init__(self) -> None:
        self.now = count()

    def __call__(self) -> float:
        return float(next(self.now))


STRATEGIES: list[tuple[strategy.Strategy, Mode, str, int]] = [
    (DIRECT, "auto", 'match { $p: P { name: "p1" } $p knows{1,3} $q } return { $q.age }', 4),
    (REDUCTION, "index", 'match { $p: P { name: "p1" } $p knows{1,3} $q } return { $q.age }', 4),
    (ARRAYS, "auto", "match { $p knows $q $q knows $r $r.age > 5 } return { $p.name as n, count($r) as c }", 5),
    (DENSE, "csr", "match { $p knows{1,3} $q $q.age > 1 } return { $p.age as a, $q.age as b }", 5),
    (SCAN, "scan", "match { $p knows $q } return { $p.age as a, $q.age as b }", 3),
    (SCAN, "scan", 'match { $p: P } return { bm25($p.bio, "graphs") as s }', 3),
]


@pytest.mark.parametrize(("one", "mode", "text", "least"), STRATEGIES, ids=[one[0].name for one in STRATEGIES])
def test_every_strategy_looks_at_the_clock_while_it_works(
    view: View, monkeypatch: pytest.MonkeyPatch, one: strategy.Strategy, mode: Mode, text: str, least: int
) -> None:
    monkeypatch.setattr("omnigraph.read.strategies.order", lambda: (one,))
    plan = compiled(view, text)

    def attempt(ticks: Ticks, timeout_s: float) -> None:
        view.repository.tables.runtime.cache.clear()
        answer(Read(view, plan, Arguments({}, instant(None), Deadline(timeout_s, ticks)), mode))

    ticks = Ticks()
    attempt(ticks, 1e9)
    looked = next(ticks.now) - 1
    assert looked >= least
    for timeout_s in range(1, looked + 1):
        with pytest.raises(QueryTimeout):
            attempt(Ticks(), timeout_s)


@pytest.mark.parametrize("mode", ["auto", "scan", "index", "csr"])
def test_the_engine_is_stopped_and_answers_the_next_query(view: View, mode: Mode) -> None:
    with pytest.raises(QueryTimeout) as error:
        run_read(view, compiled(view, ENDLESS), {}, mode=mode, deadline=Deadline(0.1))
    assert error.value.timeout_s == 0.1
    assert "0.1 seconds" in error.value.message
    assert query(view, "query q() { match { $p: P } return { max($p.age) as m } }", mode=mode).rows == [
        {"m": PEOPLE - 1}
    ]


def test_a_timeout_holds_in_any_thread(view: View) -> None:
    found: list[BaseException] = []

    def ask() -> None:
        try:
            run_read(view, compiled(view, ENDLESS), {}, deadline=Deadline(0.1))
        except BaseException as error:
            found.append(error)

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert [type(error) for error in found] == [QueryTimeout]


@pytest.mark.parametrize("timeout", [0, -1, math.nan, math.inf, "5", True])
def test_a_timeout_is_a_number_of_seconds_above_zero(tmp_path: Path, timeout: Any) -> None:
    graph = og.init(str(tmp_path / "g"), schema=SCHEMA)
    text = "query q() { match { $p: P } return { $p.age } }"
    with pytest.raises(UsageError, match=r"timeout.* number"):
        graph.query(text, timeout=timeout)
    with graph.transaction() as transaction, pytest.raises(UsageError, match=r"timeout.* number"):
        transaction.query(text, timeout=timeout)


def test_graphs_and_transactions_take_a_timeout(view: View) -> None:
    graph = og.open(view.repository.tables.root)
    text = f"query q() {{ {ENDLESS} }}"
    with pytest.raises(QueryTimeout):
        graph.query(text, timeout=0.1)
    with graph.transaction() as transaction, pytest.raises(QueryTimeout):
        transaction.query(text, timeout=0.1)


STOPPED = """
import os, signal, sys, threading
signal.signal(signal.SIGINT, signal.default_int_handler)
from omnigraph.relational import duck

run = duck.execute

def started(connection, **work):
    threading.Timer(0.1, os.kill, (os.getpid(), signal.SIGINT)).start()
    duck.execute = run
    return run(connection, **work)

duck.execute = started
"""
LIBRARY = """
import omnigraph as og
graph = og.open(sys.argv[1])
try:
    graph.query(sys.argv[2])
except KeyboardInterrupt:
    print(graph.query("query q() { match { $p: P } return { max($p.age) as m } }").rows)
"""
COMMAND = """
from omnigraph.cli.main import run as command
sys.exit(command(["query", "--store", sys.argv[1], "-e", sys.argv[2], *sys.argv[3:]]))
"""


def python(script: str, view: View, *arguments: str) -> tuple[str, str, int]:
    given = [view.repository.tables.root, f"query q() {{ {ENDLESS} }}", *arguments]
    done = subprocess.run(
        [sys.executable, "-c", script, *given], capture_output=True, text=True, timeout=300, check=False
    )
    return done.stdout, done.stderr, done.returncode


def test_ctrl_c_in_a_long_read_is_a_keyboard_interrupt(view: View) -> None:
    assert python(STOPPED + LIBRARY, view) == (f"[{{'m': {PEOPLE - 1}}}]\n", "", 0)


def test_a_command_that_is_stopped_says_so_in_one_line(view: View) -> None:
    assert python(STOPPED + COMMAND, view) == ("", "interrupted\n", 130)


def test_a_command_whose_time_is_over_says_so(view: View) -> None:
    out, said, code = python("import sys" + COMMAND, view, "--timeout", "0.1")
    assert (out, code) == ("", 1)
    assert said.splitlines()[0] == "error: the query did not end within 0.1 seconds"
    assert len(said.splitlines()) == 2
