"""One budget for what graphs hold in memory, and whose it is."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph._internal.runtime import ByteCache, size_in_bytes
from omnigraph.errors import UsageError
from omnigraph.tables.store import tables_at

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
DENSE = "query q() { match { $p: Person  $p knows $q } return { $p.name as name, count($q) as n } order { n desc } limit 1 }"


def graph_with_edges(uri: Path, runtime: og.Runtime | None = None, people: int = 40) -> og.Graph:
    graph = og.init(uri, schema=SCHEMA, durability="process", runtime=runtime)
    with graph.transaction() as tx:
        for number in range(people):
            tx.insert("Person", name=f"p{number}", age=number)
        for number in range(people - 1):
            tx.insert("Knows", from_=f"p{number}", to=f"p{number + 1}")
        tx.insert("Knows", from_="p0", to="p5")
    return graph


def test_many_graphs_stay_within_one_budget_and_answer_all_the_same(tmp_path: Path) -> None:
    runtime = og.Runtime(memory="4KiB")
    graphs = [graph_with_edges(tmp_path / str(number), runtime) for number in range(50)]
    held = 0
    for _ in range(2):
        for graph in graphs:
            assert graph.query(DENSE).rows == [{"name": "p0", "n": 2}]
            held = max(held, runtime.held_bytes)
    assert 0 < held <= runtime.memory_bytes == 4_096
    assert repr(runtime).startswith("<runtime: ")


def test_closing_a_graph_forgets_what_was_its_own_and_nothing_else(tmp_path: Path) -> None:
    runtime = og.Runtime(memory="1MiB")
    with graph_with_edges(tmp_path / "a", runtime) as first:
        first.query(DENSE)
        alone = runtime.held_bytes
        other = graph_with_edges(tmp_path / "ab", runtime)
        other.query(DENSE)
        both = runtime.held_bytes
    assert runtime.held_bytes == both - alone > 0
    assert first.query(DENSE).rows == other.query(DENSE).rows, "a closed graph still answers"


def test_a_graph_has_a_runtime_of_its_own_unless_it_is_given_one(tmp_path: Path) -> None:
    graph = graph_with_edges(tmp_path / "g")
    small = og.open(tmp_path / "g", runtime=og.Runtime(0))
    assert graph.query(DENSE).rows == small.query(DENSE).rows
    assert small._repository.tables.runtime.held_bytes == 0
    assert graph._repository.tables.runtime.held_bytes > 0


@pytest.mark.parametrize(
    ("size", "count"), [("1GiB", 2**30), ("512 MiB", 2**29), ("2gb", 2 * 10**9), ("17", 17), (17, 17), (0, 0)]
)
def test_sizes(size: str | int, count: int) -> None:
    assert size_in_bytes(size) == count


@pytest.mark.parametrize("size", ["", "much", "-1", -1, 1.5, True, None, "1 GiB extra", "\ud800"])
def test_what_is_not_a_size_is_refused(size: object, tmp_path: Path) -> None:
    with pytest.raises(UsageError):
        og.Runtime(memory=size)  # type: ignore[arg-type]  # the point of the test


def test_a_runtime_is_a_runtime(tmp_path: Path) -> None:
    graph_with_edges(tmp_path / "g")
    with pytest.raises(UsageError, match="expected a Runtime, got dict"):
        og.open(tmp_path / "g", runtime={})  # type: ignore[arg-type]  # the point of the test


def test_every_key_says_whose_it_is(tmp_path: Path) -> None:
    """`forget` finds what belongs to a graph by the second member of a key."""
    graph = graph_with_edges(tmp_path / "g")
    graph.query(DENSE)
    for _ in range(20):
        graph.query('query q() { match { $p: Person { name: "p1" } } return { $p.age as age } }')
    cache: ByteCache = graph._repository.tables.runtime.cache
    keys = list(cache._values)
    assert keys
    assert all(str(key[1]).startswith(str(tmp_path / "g")) for key in keys)  # type: ignore[index]  # all are tuples


def test_a_load_in_this_process_opens_no_tables_beside_the_graphs(tmp_path: Path) -> None:
    graph, data = graph_with_edges(tmp_path / "graph"), tmp_path / "more.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "Cy"}}\n')
    opened = tables_at.cache_info().misses
    graph.load(data, mode="append", engine="local")
    assert graph.maintenance.verify(all=True, deep=True).findings == ()
    assert tables_at.cache_info().misses == opened
