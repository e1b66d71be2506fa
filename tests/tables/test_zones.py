"""Edges are found by id and by source without an index where these ascend; whatever becomes of the files, the answer is the same."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from maintenance.aging import age

import omnigraph as og
from omnigraph.load import assembly
from omnigraph.tables import lookups
from omnigraph.tables.adjacency import zones
from omnigraph.tables.table import Table

SCHEMA = """
node Person { name: String @key }
edge Knows: Person -> Person { weight: I32? }
"""
PEOPLE = 9


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    """As with large fragments: they have zones, and are not held in memory."""
    monkeypatch.setattr(zones, "MIN_ROWS", 8)
    monkeypatch.setattr(zones, "ZONE_ROWS", 4)
    monkeypatch.setattr(lookups, "MAX_FRAGMENT_ROWS", 0)
    monkeypatch.setattr(assembly, "MIN_INDEX_ROWS", 1)


pytestmark = pytest.mark.usefixtures("stores_every_commit")


def loaded(folder: Path, loads: int = 2) -> og.Graph:
    graph = og.init(folder, SCHEMA, durability="process")
    numbers = random.Random(5)
    for number in range(loads):
        edges = [
            {"from": f"p{numbers.randrange(PEOPLE)}", "to": f"p{numbers.randrange(PEOPLE)}", "weight": weight}
            for weight in range(60)
        ]
        rows = {"Knows": edges} | ({} if number else {"Person": [{"name": f"p{n}"} for n in range(PEOPLE)]})
        graph.load(as_tables(rows), mode="append", engine="local")
    return graph


def as_tables(rows: dict[str, list[dict[str, object]]]) -> dict[str, object]:
    import pyarrow as pa

    return {name: pa.Table.from_pylist(each) for name, each in rows.items()}


def edges(folder: Path) -> Table:
    found = og.open(folder)._repository.head()[1].table("edge:Knows")
    assert found is not None
    return found


def stored(folder: Path) -> set[str]:
    return {file.name.rsplit("-", 1)[1] for file in folder.rglob("*.zones")}


def indexed(folder: Path) -> set[str]:
    return {index.name for index in edges(folder).stored.dataset.describe_indices()}


def check(folder: Path) -> None:
    """Every value, several of them, and some that are not there, with and without a filter."""
    rows = edges(folder).read(["id", "src", "weight"], with_address=True).to_pylist()
    for column in ("id", "src"):
        values = sorted({row[column] for row in rows})
        for wanted in ([values[0]], [values[-1]], values[1::3], ["", "zz", values[2]], ["p", "01"]):
            for filter in (None, "weight < 30"):
                expected = [row for row in rows if row[column] in wanted and (filter is None or row["weight"] < 30)]
                found = edges(folder).lookup(column, wanted, ["id", "src", "weight"], with_address=True, filter=filter)
                assert found.to_pylist() == expected
            assert edges(folder).lookup(column, wanted, [column]).num_rows == len(
                [row for row in rows if row[column] in wanted]
            )


def test_edges_of_a_load_have_zones_and_are_found_by_them(tmp_path: Path) -> None:
    graph = loaded(tmp_path / "graph")
    assert stored(tmp_path) == {"id.zones", "src.zones"}
    assert indexed(tmp_path / "graph") == {"dst.btree"}
    assert all(index.is_complete for each in graph.maintenance.storage().types for index in each.indexes)
    assert graph.maintenance.verify(all=True).findings == (), "they are files of the graph"
    check(tmp_path / "graph")
    ids = edges(tmp_path / "graph").read(["id"]).column("id").to_pylist()
    with graph.transaction() as tx:
        for id in ids[3:90:5]:
            tx.delete("Knows", id)
    check(tmp_path / "graph")
    graph.maintenance.optimize()
    check(tmp_path / "graph")


def test_lookups_read_zones_and_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    loaded(tmp_path / "graph")
    table = edges(tmp_path / "graph")
    id = table.read(["id"]).column("id")[70].as_py()
    monkeypatch.setattr(lookups.Lookup, "by_filter", None)
    assert table.lookup("id", [id]).num_rows == 1
    assert table.lookup("src", ["p3"]).num_rows > 1


def test_copies_have_zones_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = loaded(tmp_path / "graph", loads=1)
    og.clone(tmp_path / "graph", tmp_path / "copy")
    assert stored(tmp_path / "copy") == {"id.zones", "src.zones"}
    more = [{"from": "p1", "to": f"p{n % PEOPLE}", "weight": n} for n in range(60)]
    graph.load(as_tables({"Knows": more}), mode="append", engine="local")
    graph.push(str(tmp_path / "copy"))
    copied = {file.name for file in (tmp_path / "copy").rglob("*.zones")}
    assert copied == {file.name for file in (tmp_path / "graph").rglob("*.zones")}
    assert len(copied) == 4
    check(tmp_path / "copy")
    monkeypatch.setattr(lookups.Lookup, "by_filter", None)
    assert edges(tmp_path / "copy").lookup("src", ["p1"]).num_rows > 60


@pytest.mark.parametrize("harm", ["removed", "cut", "flipped"])
def test_lost_zones_make_lookups_scan_until_optimize(tmp_path: Path, harm: str) -> None:
    graph = loaded(tmp_path / "graph", loads=1)
    for file in tmp_path.rglob("*.zones"):
        data = bytearray(file.read_bytes())
        data[-1] ^= 1
        _ = file.unlink() if harm == "removed" else file.write_bytes(data if harm == "flipped" else data[:40])
    check(tmp_path / "graph")
    faults = {finding.object_kind for finding in graph.maintenance.verify().findings}
    assert faults == (set() if harm == "removed" else {"adjacency"})
    commits = len(graph.commits())
    og.open(tmp_path / "graph").maintenance.optimize()
    assert len(graph.commits()) == commits, "zones stand beside the table: they need no version"
    assert stored(tmp_path) == {"id.zones", "src.zones"}
    assert graph.maintenance.verify().is_whole
    check(tmp_path / "graph")


def test_ids_in_any_order_get_an_index(tmp_path: Path) -> None:
    graph = loaded(tmp_path / "graph", loads=1)
    given = [{"id": f"e{n * 7 % 60}", "from": f"p{n % PEOPLE}", "to": "p1", "weight": n} for n in range(60)]
    graph.load(as_tables({"Knows": given}), mode="append", engine="local")
    assert indexed(tmp_path / "graph") == {"dst.btree", "id.btree"}
    check(tmp_path / "graph")


def test_cleanup_keeps_zones_of_fragments_that_are_all_needed(tmp_path: Path) -> None:
    graph = loaded(tmp_path / "graph")
    first = set(tmp_path.rglob("*.zones"))
    assert len(first) == 4
    age(tmp_path / "graph")
    graph.maintenance.cleanup()
    assert set(tmp_path.rglob("*.zones")) == first
    graph.load(as_tables({"Knows": [{"from": "p0", "to": "p1", "weight": 1}]}), mode="overwrite", engine="local")
    age(tmp_path / "graph")
    graph.maintenance.cleanup(keep=1)
    assert not first & set(tmp_path.rglob("*.zones"))


def test_zones_of_sources_do_not_stand_for_those_of_ids(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ids ascend in one fragment, sources in both: one file of zones has all the fragments of the other and more."""
    monkeypatch.setattr(assembly, "MIN_INDEX_ROWS", 1_000)
    graph = loaded(tmp_path / "graph", loads=1)
    given = [{"id": f"e{n * 7 % 60}", "from": f"p{n % PEOPLE}", "to": "p1", "weight": n} for n in range(60)]
    graph.load(as_tables({"Knows": given}), mode="append", engine="local")
    graph.maintenance.ensure_indexes()
    assert stored(tmp_path) == {"id.zones", "src.zones"}
    age(tmp_path / "graph")
    graph.maintenance.cleanup()
    assert stored(tmp_path) == {"id.zones", "src.zones"}
    assert all(index.is_complete for index in og.open(tmp_path / "graph").indexes())
