"""Stored adjacency of real graphs: who writes it, what cleanup keeps of it, and where it is counted."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from maintenance.aging import age

import omnigraph as og
from omnigraph.maintenance.adjacency import refresh_adjacency
from omnigraph.tables.adjacency import index

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""
MOST = "query q() { match { $f knows $p } return { $p.name as name, count($f) as n } order { n desc, name } limit 3 }"
PEOPLE = index.MIN_ROWS


def people(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"name": [f"p{n:06}" for n in numbers], "age": pa.array([n % 90 for n in numbers], pa.int32())})


def knows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"from": [f"p{n:06}" for n in numbers], "to": [f"p{n * n % (n + 1):06}" for n in numbers]})


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("stored") / "graph"


@pytest.fixture(scope="module")
def graph(folder: Path) -> og.Graph:
    graph = og.init(folder, SCHEMA, durability="process")
    graph.load({"Person": people(0, PEOPLE), "Knows": knows(0, PEOPLE)}, mode="append", engine="local")
    return graph


def stored(folder: Path) -> set[str]:
    return {file.relative_to(folder).as_posix() for file in folder.rglob("*.adj")}


def fresh(folder: Path) -> list[dict[str, object]]:
    return og.open(folder).query(MOST).rows


def test_segments_come_with_large_changes_and_go_when_nothing_needs_them(graph: og.Graph, folder: Path) -> None:
    first = stored(folder)
    assert len(first) == 2, "a load stores ids and edges"
    sizes = {each.type: each.adjacency_bytes for each in graph.storage().types}
    assert all(size > 0 for size in sizes.values())

    with graph.transaction() as tx:
        tx.insert("Person", name="new")
        tx.insert("Knows", from_="new", to="p000007")
    assert stored(folder) == first, "a small commit stores nothing"
    assert graph.query(MOST).rows == fresh(folder)

    graph.load(
        {"Person": people(PEOPLE, PEOPLE // 2), "Knows": knows(PEOPLE, PEOPLE // 2)}, mode="append", engine="local"
    )
    assert stored(folder) == first, "neither does a load of fewer rows than that"
    graph.optimize()
    second = stored(folder)
    assert len(second - first) == 2, "optimize stores what covers the new rows too"
    assert graph.query(MOST).rows == fresh(folder)

    age(folder)
    assert graph.cleanup(keep=1).removed["adjacency"].files == 2
    assert stored(folder) == second - first
    assert graph.query(MOST).rows == fresh(folder)
    assert graph.verify(all=True, deep=True).findings == ()


def test_what_is_held_in_memory_is_counted(folder: Path, graph: og.Graph) -> None:
    opened = og.open(folder)
    before = opened.storage().held_bytes
    opened.query(MOST)
    held = opened.storage().held_bytes
    assert held >= before + 4 * PEOPLE, "the edges are held as integers"
    opened.close()
    assert opened.storage().held_bytes < held


def test_a_damaged_segment_is_garbage(graph: og.Graph, folder: Path) -> None:
    name = sorted(stored(folder))[0]
    file = folder / name
    file.write_bytes(file.read_bytes()[:100])
    assert {finding.object for finding in graph.verify().findings} == {name}
    age(folder)
    graph.cleanup()
    assert name not in stored(folder)
    graph.optimize()
    assert name in stored(folder)
    assert graph.verify(all=True).findings == ()


def test_clones_leave_segments_out(graph: og.Graph, folder: Path, tmp_path: Path) -> None:
    og.clone(folder, tmp_path / "copy")
    assert stored(tmp_path / "copy") == set()
    assert og.open(tmp_path / "copy").query(MOST).rows == fresh(folder)


@pytest.mark.usefixtures("stores_every_commit")
def test_new_ids_come_with_new_edges(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nodes that came after the ids were stored have no number there: edges between them are stored with new ids."""
    monkeypatch.setattr(index, "MIN_ROWS", 0)
    graph = og.init(tmp_path / "graph", SCHEMA, durability="process")
    graph.load({"Person": people(0, 200)}, mode="append", engine="local")
    repository = graph._repository
    kinds = [key.split("/")[0] for key in refresh_adjacency(repository, repository.head()[1], min_rows=1)]
    assert kinds == ["nodes"]
    with graph.transaction() as tx:
        tx.insert("Person", name="late")
        tx.insert("Knows", from_="late", to="p000001")
        tx.insert("Knows", from_="p000002", to="p000001")
    kinds = [key.split("/")[0] for key in refresh_adjacency(repository, repository.head()[1], min_rows=1)]
    assert kinds == ["nodes", "edges"]
    assert fresh(tmp_path / "graph") == graph.query(MOST).rows == [{"name": "p000001", "n": 2}]
