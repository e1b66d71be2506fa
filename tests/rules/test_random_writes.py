"""Random writes: a transaction and loads, however they read, do the same or refuse the same with the same words."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from rules.test_same_on_every_way import SCHEMA, Record, Said, Write, commit, edge, load, node, person

import omnigraph as og
from omnigraph import errors
from omnigraph.load import checks, keyed_rows

Content = dict[str, dict[str, Any]]


def random_records(choose: random.Random, count: int) -> list[Record]:
    """Upserts of few entities, each at most once: what they say of each other may be wrong."""
    people, teams, chiefs = "abcdef", "TU", "MN"
    makers: list[Callable[[], Record]] = [
        lambda: person(choose.choice(people), nick=choose.choice([None, None, "x", "y"]), age=choose.choice([None, 1])),
        lambda: person(choose.choice(people), shelf=choose.choice([None, "s"]), place=choose.choice([None, 1, 2])),
        lambda: node("Team", title=choose.choice(teams)),
        lambda: node("Chief", name=choose.choice(chiefs), rank=choose.choice([None, 1])),
        lambda: edge("Knows", choose.choice(people), choose.choice(people), id=f"k{choose.randrange(6)}"),
        lambda: edge("Leads", choose.choice(chiefs), choose.choice(teams), id=f"l{choose.randrange(4)}"),
        lambda: edge("Leads", choose.choice(chiefs), choose.choice(teams), id=f"l{choose.randrange(4)}"),
    ]
    records: dict[tuple[str, str], Record] = {}
    for _ in range(count):
        record = choose.choice(makers)()
        type_name, data = record.get("type") or record["edge"], record["data"]
        records[type_name, data.get("id") or data.get("name") or data["title"]] = record
    return list(records.values())


FIRST = Write(
    [
        *(person(name) for name in "abcde"),
        *(node("Team", title=title) for title in "TU"),
        *(node("Chief", name=name) for name in "MN"),
        edge("Leads", "M", "T", id="l0"),
        edge("Leads", "N", "U", id="l1"),
    ]
)


def content(graph: og.Graph, branch: str) -> Content:
    view = graph._repository.head(branch)[1]
    return {
        key: {row["id"]: row for row in table.read().to_pylist()}
        for key in view.catalog.tables
        if (table := view.table(key)) is not None and table.rows
    }


def outcome(graph: og.Graph, branch: str, write: Callable[[], object]) -> Said | Content:
    try:
        write()
    except errors.OmnigraphError as error:
        return Said.by(error)
    return content(graph, branch)


def ways(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """Each way of a load to read what it checks."""
    yield "whole"
    with monkeypatch.context() as patch:
        patch.setattr(keyed_rows, "LOOKUP_FACTOR", 0)
        yield "lookups"
    with monkeypatch.context() as patch:
        patch.setattr(checks, "BUCKET_ROWS", 2)
        patch.setattr(keyed_rows, "MAX_LOOKUP", 0)
        yield "buckets"


@pytest.mark.parametrize("seed", range(4))
def test_a_transaction_and_loads_agree(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    choose = random.Random(seed)
    graph = og.init(tmp_path / "graph", schema=SCHEMA, durability="process")
    commit(graph, FIRST)
    landed = refused = 0
    for turn in range(10):
        write = Write(random_records(choose, choose.randrange(1, 6)), mode="merge")
        heads = {way: f"{way}{turn}" for way in ("whole", "lookups", "buckets")}
        for branch in heads.values():
            graph.branches.create(branch)
        expected = outcome(graph, "main", lambda write=write: commit(graph, write))
        for way in ways(monkeypatch):
            branch = heads[way]
            found = outcome(graph, branch, lambda branch=branch, write=write: load(graph, write, branch=branch))
            assert found == expected, (way, write.records)
        landed += isinstance(expected, dict)
        refused += isinstance(expected, Said)
    assert landed
    assert refused
