"""Stored adjacency of real graphs: who writes it, what cleanup keeps of it, and where it is counted."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from maintenance.aging import age
from read.graphs import query

import omnigraph as og
from omnigraph.api.writes import LoadJson
from omnigraph.indexing import adjacency, adjacency as building
from omnigraph.indexing.adjacency import refresh_adjacency
from omnigraph.maintenance import optimize
from omnigraph.read.inputs.adjacency import GraphArrays
from omnigraph.tables.adjacency import index
from omnigraph.tables.adjacency.edges import JoinedEdges
from omnigraph.tasks.runner import InProcess

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
    sizes = {each.type: each.adjacency_bytes for each in graph.maintenance.storage().types}
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
    graph.maintenance.optimize()
    second = stored(folder)
    assert len(second - first) == 2, "optimize stores what covers the new rows too"
    assert graph.query(MOST).rows == fresh(folder)

    age(folder)
    assert graph.maintenance.cleanup(keep=1).removed["adjacency"].files == 2
    assert stored(folder) == second - first
    assert graph.query(MOST).rows == fresh(folder)
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


def test_what_is_held_in_memory_is_counted(folder: Path, graph: og.Graph) -> None:
    opened = og.open(folder)
    before = opened.maintenance.storage().held_bytes
    opened.query(MOST)
    held = opened.maintenance.storage().held_bytes
    assert held >= before + 4 * PEOPLE, "the edges are held as integers"
    opened.close()
    assert opened.maintenance.storage().held_bytes < held


def test_a_damaged_segment_is_garbage(graph: og.Graph, folder: Path) -> None:
    name = sorted(stored(folder))[0]
    file = folder / name
    file.write_bytes(file.read_bytes()[:100])
    assert {finding.object for finding in graph.maintenance.verify().findings} == {name}
    age(folder)
    graph.maintenance.cleanup()
    assert name not in stored(folder)
    graph.maintenance.optimize()
    assert name in stored(folder)
    assert graph.maintenance.verify(all=True).findings == ()


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
    kinds = [key.split("/")[0] for key in refresh_adjacency(repository, repository.head()[1], min_rows=1).written]
    assert kinds == ["nodes"]
    with graph.transaction() as tx:
        tx.insert("Person", name="late")
        tx.insert("Knows", from_="late", to="p000001")
        tx.insert("Knows", from_="p000002", to="p000001")
    kinds = [key.split("/")[0] for key in refresh_adjacency(repository, repository.head()[1], min_rows=1).written]
    assert kinds == ["nodes", "edges"]
    assert fresh(tmp_path / "graph") == graph.query(MOST).rows == [{"name": "p000001", "n": 2}]


@pytest.mark.usefixtures("stores_every_commit")
def test_many_edges_are_stored_in_many_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by a task of its own, which numbers no more edges than a task may."""
    monkeypatch.setattr(index, "MIN_ROWS", 0)
    monkeypatch.setattr(building, "PART_EDGES", 50)
    graph = og.init(tmp_path / "graph", SCHEMA, durability="process")
    graph.load({"Person": people(0, 160), "Knows": knows(0, 40)}, mode="append", engine="local")
    for first in (40, 80, 120):
        graph.load({"Knows": knows(first, 40)}, mode="append", engine="local")
    graph.mutate('query d() { delete Knows where from = "p000050" }')
    repository, workers = graph._repository, CountingWorkers()
    written = refresh_adjacency(repository, repository.head()[1], min_rows=1, workers=workers)
    assert (written.left_out, workers.tasks) == ({}, [("IdsTask", 1), ("EdgesTask", 4)])
    files = [Path(key).name.split(".") for key in written.written if key.startswith("edges/")]
    assert [part for _, part, _ in files] == ["0of4", "1of4", "2of4", "3of4"]
    assert refresh_adjacency(repository, repository.head()[1], min_rows=1) == building.StoredAdjacency()
    asked = "query q() { match { $p: Person  $p knows $q } return { $p.name as p, $q.name as q } order { p, q } }"
    opened = og.open(tmp_path / "graph")
    view = opened._repository.head()[1]
    table, compact = view.table("edge:Knows"), GraphArrays(view)
    nodes = compact.nodes("Person")
    base = opened._repository.tables.adjacency.edges(table, nodes, nodes, None).base
    assert isinstance(base, JoinedEdges)
    assert [len(part.header.covers) for part in base.parts] == [1, 1, 1, 1]
    assert query(view, asked, mode="csr").to_json() == query(view, asked, mode="scan").to_json()
    age(tmp_path / "graph")
    graph.maintenance.cleanup()
    assert len(stored(tmp_path / "graph")) == 5, "cleanup keeps all files of a segment that is needed"
    next((tmp_path / "graph").rglob("*.1of4.adj")).unlink()
    again = og.open(tmp_path / "graph")._repository
    assert not list(again.tables.adjacency.segment_groups(again.head()[1].table("edge:Knows"), "edges"))
    assert [Path(key).name.split(".")[1] for key in refresh_adjacency(again, again.head()[1], min_rows=1).written] == [
        "0of4",
        "1of4",
        "2of4",
        "3of4",
    ]


class CountingWorkers(InProcess):
    def __init__(self) -> None:
        super().__init__()
        self.tasks: list[tuple[str, int]] = []

    def map(self, stage: str, function: Any, tasks: Any) -> list[Any]:
        self.tasks.append((type(tasks[0]).__name__, len(tasks)))
        return super().map(stage, function, tasks)


class FailingWorkers(InProcess):
    def map(self, stage: str, function: Any, tasks: Any) -> list[Any]:
        raise og.errors.PipelineFailed("a worker was killed")


def test_adjacency_that_was_left_out_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.init(tmp_path / "graph", SCHEMA, durability="process")
    real = adjacency.refresh_adjacency
    monkeypatch.setattr(adjacency, "refresh_adjacency", lambda *args, **_: real(*args, workers=FailingWorkers()))
    monkeypatch.setattr(optimize, "refresh_adjacency", lambda *args, **_: real(*args, workers=FailingWorkers()))
    rows = {"Person": people(0, PEOPLE), "Knows": knows(0, PEOPLE)}
    receipt = graph.load(rows, mode="append", engine="local")
    assert receipt.without_adjacency == {"edge:Knows": "a worker was killed"}
    assert LoadJson.to_json(receipt, uri="")["edges"][0]["without_adjacency"] == "a worker was killed"
    state = next(index for index in graph.indexes() if index.kind == "ADJACENCY")
    assert (state.table_key, state.covered_rows, state.pending_rows) == ("edge:Knows", 0, PEOPLE)
    assert "not stored" in str(state.reason)
    assert "counted, not stored" in str(graph.explain(MOST))
    knows_report = next(each for each in graph.maintenance.optimize().tables if each.table_key == "edge:Knows")
    assert [(each.kind, each.reason) for each in knows_report.after.pending] == [("ADJACENCY", "a worker was killed")]
    monkeypatch.undo()
    graph.maintenance.optimize()
    state = next(index for index in graph.indexes() if index.kind == "ADJACENCY")
    assert (state.covered_rows, state.pending_rows, state.reason) == (PEOPLE, 0, None)
    assert "not stored" not in str(graph.explain(MOST))


def test_a_branch_with_fewer_nodes_is_read_after_one_with_more(tmp_path: Path) -> None:
    """Both have their edges in commits, on the same stored table: what is known of it has room for the nodes of the larger one."""
    graph = og.init(tmp_path / "graph", SCHEMA, durability="process")
    text = "query q() { match { $a $e:knows $b } return { $e.id as id, $a.name as a, $b.name as b } }"
    with graph.transaction() as tx:
        for name in "ab":
            tx.insert("Person", name=name)
    graph.branches.create("larger")
    with graph.transaction("larger") as tx:
        for name in "cd":
            tx.insert("Person", name=name)
        tx.insert("Knows", from_="a", to="d")
    assert graph.query(text).num_rows == 0
    assert [(row["a"], row["b"]) for row in graph.query(text, revision="larger").rows] == [("a", "d")]
    with graph.transaction() as tx:
        tx.insert("Knows", from_="a", to="b")
    assert [(row["a"], row["b"]) for row in graph.query(text).rows] == [("a", "b")]
