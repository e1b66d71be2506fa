"""Loads beside other writers: what is checked again, what is not, and that everybody gets in."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest
from pipeline.conftest import Write, content, knows, person

import omnigraph as og
from omnigraph import errors
from omnigraph.load.assembly import LoadStaging
from omnigraph.tables import staging
from omnigraph.testing.failpoints import Failpoint, arm


def many_writers(graph: og.Graph, write: Write, tmp_path: Path, turns: int) -> None:
    """Two loads and a stream of mutations on the same keys. All land, a load that gave up by being resumed; every key is
    there once, with the value of a writer."""
    landed: dict[str, set[int]] = {}
    gave_up: list[int] = []
    failed: list[BaseException] = []
    ended = threading.Event()
    lock = threading.Lock()

    def landing(keys: list[str], value: int) -> None:
        with lock:
            for key in keys:
                landed.setdefault(key, set()).add(value)

    def loads(number: int) -> None:
        mine = og.open(graph.uri, durability="process")
        for turn in range(turns):
            keys = [f"k{(number + turn + step) % 12}" for step in range(4)]
            age = 50 * number + turn
            source = write(f"l{number}-{turn}.jsonl", *(person(key, age=age) for key in keys))
            try:
                mine.load(source, mode="merge", engine="local")
            except errors.Contention:
                gave_up.append(age)
            except errors.OmnigraphError as error:
                failed.append(error)
                return
            landing(keys, age)

    def mutations() -> None:
        mine = og.open(graph.uri, durability="process")
        turn = 0
        while not ended.is_set() and turn < 200 * turns:
            turn += 1
            key, age = f"k{turn % 12}", turn % 40
            try:
                mine.mutate(f'query put() {{ insert Person {{ email: "{key}", age: {age} }} }}')
            except errors.Contention:  # a writer may give up; nothing of it is there then
                continue
            landing([key], age)

    loaders = [threading.Thread(target=loads, args=(number,)) for number in (1, 2)]
    stream = threading.Thread(target=mutations)
    for thread in [*loaders, stream]:
        thread.start()
    for thread in loaders:
        thread.join()
    ended.set()
    stream.join()
    assert failed == []
    prepared = graph.recovery.list()
    assert len(prepared) == len(gave_up)
    for one in prepared:
        graph.recovery.resume(one.commit_id)
    print(f"{2 * turns} loads beside a stream, {len(gave_up)} gave up and were resumed")
    rows = {record["data"]["id"]: record["data"]["age"] for record in content(graph, tmp_path)}
    assert rows.keys() == landed.keys()
    assert all(age in landed[key] for key, age in rows.items())
    assert graph.recovery.list() == []
    assert sum(commit.kind == "load" for commit in graph.commits(limit=100_000)) == 2 * turns


def test_two_loads_and_a_stream_of_mutations_at_once(graph: og.Graph, write: Write, tmp_path: Path) -> None:
    many_writers(graph, write, tmp_path, turns=2)


PUT = 'query put() {{ insert Person {{ email: "{}", age: {} }} }}'
DROP = 'query gone() {{ delete Person where email = "{}" }}'
TIE = 'query tie() {{ insert Knows {{ from: "{}", to: "{}" }} }}'

MOVES: dict[str, tuple[str, list[Any], list[str], int, str | None]] = {
    "rows of other keys": ("append", [person("x"), knows("a", "x")], [PUT.format("y", 1)], 0, None),
    "a row that was replaced meanwhile": ("merge", [person("a", age=1)], [PUT.format("a", 2), PUT.format("a", 3)], 0, None),
    "rows beside one that is replaced": (
        "merge", [person("a", age=1)], [PUT.format("x", 2), PUT.format("y", 3), PUT.format("z", 4)], 0, None,
    ),
    "a row that went meanwhile": ("merge", [person("c", age=1)], [DROP.format("c")], 0, None),
    "a row that went and came back": ("merge", [person("c", age=1)], [DROP.format("c"), PUT.format("c", 9)], 0, None),
    "an end that was stored anew": ("append", [knows("a", "c")], [PUT.format("c", 2)], 0, None),
    "an edge of another source": ("append", [knows("a", "c")], [TIE.format("b", "c")], 0, None),
    "an end that went": ("append", [knows("a", "c")], [DROP.format("c")], 1, "to 'c' not found in Person"),
    "an edge of the same source": ("append", [knows("a", "c")], [TIE.format("a", "b")], 1, None),
    "a key that came": ("append", [person("x")], [PUT.format("x", 1)], 1, "Person 'x' already exists"),
}  # fmt: skip


@pytest.mark.parametrize("many", [False, True], ids=["few rows", "staged as many rows are"])
@pytest.mark.parametrize("move", MOVES)
@pytest.mark.usefixtures("staged_loads")
def test_only_what_others_touched_is_checked_again(
    move: str, many: bool, graph: og.Graph, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Others commit before every attempt of the load; it is checked in full only when they touched its keys."""
    mode, records, mutations, in_full, said = MOVES[move]
    if many:
        monkeypatch.setattr(staging, "ADDED_APART", 0)
    graph.load(write("setup.jsonl", person("a"), person("b"), person("c")), mode="append", engine="local")
    in_full_so_far = 0
    find_replaced = LoadStaging.find_replaced

    def counted(self: LoadStaging) -> None:
        nonlocal in_full_so_far
        in_full_so_far += 1
        find_replaced(self)

    monkeypatch.setattr(LoadStaging, "find_replaced", counted)
    other = og.open(graph.uri, durability="process")
    left = list(mutations)

    def move_once() -> None:
        if left:
            other.mutate(left.pop(0))
            arm(Failpoint.PUBLISH_BEFORE_CREATE, move_once)

    arm(Failpoint.LOAD_BEFORE_PUBLISH, move_once)
    source = write("mine.jsonl", *records)
    if said is None:
        graph.load(source, mode=mode, engine="local")  # type: ignore[arg-type]
    else:
        with pytest.raises(errors.OmnigraphError) as caught:
            graph.load(source, mode=mode, engine="local")  # type: ignore[arg-type]
        assert caught.value.message == said
    assert left == []
    assert in_full_so_far == 1 + in_full, "once before it is published"
    assert graph.recovery.list() == []
    now = {record["data"]["id"]: record["data"].get("age") for record in content(graph, tmp_path) if "type" in record}
    if said is None:
        for record in records:
            if "type" in record:
                assert now[record["data"]["email"]] == record["data"].get("age")
        assert len(graph.commits()) == 3 + len(mutations)
    ids = [record["data"]["id"] for record in content(graph, tmp_path)]
    assert len(ids) == len(set(ids))


OVERWRITES: dict[str, tuple[str, str | None]] = {
    "a row of the type comes": (PUT.format("y", 1), "expected_version_mismatch"),
    "a row of the type goes": (DROP.format("c"), "expected_version_mismatch"),
    "an edge between nodes that stay": (TIE.format("b", "a"), None),
    "an edge at a node that goes": (TIE.format("a", "c"), "endpoint_missing"),
    "a row of another type": ('query q() { insert Note { text: "x" } }', None),
}


@pytest.mark.parametrize("case", OVERWRITES)
def test_an_overwrite_beside_another_writer(case: str, graph: og.Graph, write: Write, tmp_path: Path) -> None:
    """It is the image of what its caller saw: rows of the type that came or went meanwhile refuse it."""
    mutation, refusal = OVERWRITES[case]
    graph.load(write("setup.jsonl", person("a"), person("b"), person("c")), mode="append", engine="local")
    other = og.open(graph.uri, durability="process")
    arm(Failpoint.LOAD_BEFORE_PUBLISH, lambda: other.mutate(mutation))
    source = write("image.jsonl", person("a", age=1), person("b", age=1))
    if refusal is None:
        graph.load(source, mode="overwrite", engine="local")
    else:
        with pytest.raises(errors.OmnigraphError) as caught:
            graph.load(source, mode="overwrite", engine="local")
        assert caught.value.code == refusal
    ages = {record["data"].get("age") for record in content(graph, tmp_path) if record.get("type") == "Person"}
    assert (ages == {1}) == (refusal is None)
    assert graph.recovery.list() == []


@pytest.mark.parametrize("new_branch", [False, True])
def test_loads_that_make_the_same_branch_at_once_lose_nothing(new_branch: bool, graph: og.Graph, write: Write) -> None:
    """One of them makes it. The others load into it, or are refused if they want a new one."""
    outcomes: list[Any] = []
    ready = threading.Barrier(4)

    def load(number: int) -> None:
        mine = og.open(graph.uri, durability="process")
        source = write(f"{number}.jsonl", person(f"p{number}"))
        ready.wait()
        try:
            outcomes.append(
                mine.load(source, mode="append", branch="review", from_="main", new_branch=new_branch, engine="local")
            )
        except errors.OmnigraphError as error:
            outcomes.append(error)

    threads = [threading.Thread(target=load, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    receipts = [outcome for outcome in outcomes if not isinstance(outcome, errors.OmnigraphError)]
    refused = [outcome.code for outcome in outcomes if isinstance(outcome, errors.OmnigraphError)]
    assert refused == (["already_exists"] * 3 if new_branch else [])
    assert sum(receipt.branch_created for receipt in receipts) == 1
    assert len(graph.commits("review")) == 1 + len(receipts)
    assert graph._repository.head("review")[1].rows("node:Person") == len(receipts)
    assert graph._repository.head()[1].rows("node:Person") == 0
    assert graph.recovery.list() == []
