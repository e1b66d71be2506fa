"""Actor and message: whatever a commit cannot hold is refused where it enters, by every method that takes them."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import UsageError
from omnigraph.history.plan import MAX_ACTOR_LENGTH, MAX_MESSAGE_BYTES, check_attribution

SCHEMA = "node Person { name: String @key }"


def ways_in(graph: og.Graph, folder: Path) -> dict[str, Callable[..., object]]:
    """Every public method that takes an actor or a message, called with everything else that it needs."""
    data = folder / "people.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    graph.branches.create("work")
    return {
        "init": lambda **given: og.init(folder / "other", SCHEMA, **given),
        "transaction": graph.transaction,
        "mutate": lambda **given: graph.mutate('query q() { insert Person { name: "Bo" } }', **given),
        "load": lambda **given: graph.load(data, mode="append", engine="local", **given),
        "load to a new branch": lambda **given: graph.load(
            data, mode="append", engine="local", branch="fresh", from_="main", **given
        ),
        "ensure_indexes": graph.maintenance.ensure_indexes,
        "optimize": graph.maintenance.optimize,
        "merge": lambda **given: graph.branches.merge("work", **given),
        "stream_into": lambda **given: graph.stream_into("Person", mode="append", **given),
        "apply": lambda **given: graph.schema.apply(SCHEMA + "node City { name: String @key }", **given),
        "repair": graph.maintenance.repair,
        "revert": lambda **given: graph.revert("main", **given),
        "reset": lambda **given: graph.reset("work", "main", **given),
        "embed": graph.embed,
        "import_data": lambda **given: og.import_data(data, folder / "other", engine="local", **given),
        "resume": lambda **given: graph.recovery.resume("0" * 26, **given),
        "push": lambda **given: graph.push(folder / "copy", to="theirs", **given),
    }


def takers(graph: og.Graph) -> Iterator[str]:
    """What has to be among them."""
    members = [(name, getattr(og, name)) for name in og.__all__]
    for owner in (graph, graph.branches, graph.tags, graph.recovery, graph.schema, graph.maintenance):
        members += inspect.getmembers(owner, callable)
    for name, member in members:
        if name.startswith("_") or not inspect.isroutine(member) or name in ("commits", "as_"):
            continue
        if {"actor", "message"} & inspect.signature(member).parameters.keys():
            yield name


REFUSED = {
    "a number as actor": {"actor": 5},
    "no actor": {"actor": ""},
    "a long actor": {"actor": "a" * (MAX_ACTOR_LENGTH + 1)},
    "half a pair in the actor": {"actor": "a\ud800"},
    "a number as message": {"message": 7},
    "bytes as message": {"message": b"why"},
    "half a pair in the message": {"message": "\udfff"},
    "a long message": {"message": "é" * (MAX_MESSAGE_BYTES // 2 + 1)},
}


@pytest.mark.parametrize("given", REFUSED.values(), ids=REFUSED.keys())
def test_what_a_commit_cannot_hold_is_refused_at_every_door(given: dict[str, Any], tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA)
    before = graph.commits()
    doors = ways_in(graph, tmp_path)
    assert {name.split()[0] for name in doors} == set(takers(graph))
    for name, door in doors.items():
        if "message" in given and name in ("init", "ensure_indexes", "optimize", "repair", "resume", "push"):
            continue
        with pytest.raises(UsageError):
            door(**given)
    assert graph.commits() == before
    assert [branch.name for branch in graph.branches.list()] == ["main", "work"]
    assert not (tmp_path / "other").exists()


def test_the_longest_of_each_is_kept_as_it_is(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA, actor="é" * MAX_ACTOR_LENGTH)
    message = "é" * (MAX_MESSAGE_BYTES // 2)
    with graph.transaction(actor="\n\t ☃", message=message) as transaction:
        transaction.insert("Person", name="Ada")
    newest, first = og.open(tmp_path / "graph").commits()
    assert (newest.actor, newest.message) == ("\n\t ☃", message)
    assert first.actor == "é" * MAX_ACTOR_LENGTH


def test_nothing_is_fine() -> None:
    check_attribution(None, None)
    check_attribution("a", "")
