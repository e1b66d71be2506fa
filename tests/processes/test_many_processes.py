"""Real processes on one branch: nothing is lost, nothing comes twice, one line of commits."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from children import Child
from processes.writing import Writer
from s3_server import S3Server

from omnigraph.history.history import History
from omnigraph.storage.options import open_store

MAX_PROCESSES = 12
Place = Callable[[], tuple[str, dict[str, str]]]


class Worker:
    def __init__(self) -> None:
        self.process = Child(Path(__file__).parent / "worker.py")

    def order(self, **order: Any) -> None:
        self.process.stdin.write(json.dumps(order) + "\n")
        self.process.stdin.flush()

    def answer(self) -> Any:
        return json.loads(self.process.stdout.readline())

    def stop(self) -> None:
        self.process.close()
        assert self.process.wait() == 0


@pytest.fixture(scope="module")
def workers() -> Iterator[list[Worker]]:
    started = [Worker() for _ in range(MAX_PROCESSES)]
    yield started
    for worker in started:
        worker.stop()


@pytest.fixture(params=["local", pytest.param("s3", marks=pytest.mark.s3)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, dict[str, str]]:
    if request.param == "local":
        return str(tmp_path / "graph"), {}
    server: S3Server = request.getfixturevalue("s3")
    return f"s3://{server.new_bucket()}/graph", server.options


def everyone(workers: list[Worker], orders: list[dict[str, Any]]) -> list[list[Any]]:
    """Send all orders, then wait for all answers: the processes are at it together."""
    for worker, order in zip(workers, orders, strict=True):
        worker.order(**order)
    return [worker.answer() for worker in workers]


def opened(workers: list[Worker], place: tuple[str, dict[str, str]]) -> Writer:
    uri, options = place
    History.create(open_store(uri, storage_options=options), b"{}")
    everyone(workers, [{"what": "open", "uri": uri, "options": options}] * len(workers))
    return Writer(uri, options)


def check_one_linear_chain(writer: Writer, commits: int) -> None:
    """Every position is there once, each entry starts where the one before it ended, each commit stands once in the log."""
    head = writer.history.chain.head("main")
    entries = [writer.history.chain.read("main", position) for position in range(head.position + 1)]
    for before, after in itertools.pairwise(entries):
        assert after.before == before.head
    ids = [commit.id for commit in writer.history.log.walk(head)]
    assert len(ids) == len(set(ids)) == commits + 1


@pytest.mark.parametrize("disjoint", [False, True], ids=["one table", "disjoint tables"])
@pytest.mark.parametrize("count", [2, 3, 5, 12])
def test_every_append_commits_and_every_row_is_there_once(
    workers: list[Worker], place: tuple[str, dict[str, str]], count: int, disjoint: bool
) -> None:
    team = workers[:count]
    times = 3 if count == MAX_PROCESSES else 5
    writer = opened(team, place)
    tables = [f"node:T{index if disjoint else 0}" for index in range(count)]
    orders = [
        {"what": "append", "uri": place[0], "table": table, "first": 100 * index, "times": times}
        for index, table in enumerate(tables)
    ]
    answers = everyone(team, orders)
    assert all("position" in outcome for outcomes in answers for outcome in outcomes), answers
    check_one_linear_chain(writer, count * times)
    snapshot = writer.history.chain.head("main").head
    expected: dict[str, list[int]] = {}
    for index, table in enumerate(tables):
        expected.setdefault(table, []).extend(range(100 * index, 100 * index + times))
    assert {table: writer.numbers(table, snapshot) for table in expected} == expected
    for key, state in snapshot.tables.items():
        assert state.generation == state.rows == len(expected[key])


@pytest.mark.parametrize("count", [2, 12])
def test_strict_updates_of_one_row_are_serial(
    workers: list[Worker], place: tuple[str, dict[str, str]], count: int
) -> None:
    team = workers[:count]
    writer = opened(team, place)
    writer.append("node:T", [0])
    order = {"what": "increment", "uri": place[0], "table": "node:T", "entity": "e0", "times": 4}
    outcomes = [outcome for answer in everyone(team, [order] * count) for outcome in answer]
    assert len(outcomes) == 4 * count
    committed = sorted((each for each in outcomes if "position" in each), key=lambda each: each["position"])
    refused = [each for each in outcomes if "error" in each]
    assert {each["error"] for each in refused} <= {"expected_version_mismatch"}
    assert committed
    # Each commit wrote one more than the commit before it: the final value is that of the serial order.
    assert [each["value"] for each in committed] == list(range(1, len(committed) + 1))
    check_one_linear_chain(writer, 1 + len(committed))
    for each in committed:
        snapshot = writer.history.revisions.resolve(each["commit"])
        assert writer.numbers("node:T", snapshot) == [each["value"]]
    assert writer.numbers("node:T", writer.history.chain.head("main").head) == [len(committed)]
