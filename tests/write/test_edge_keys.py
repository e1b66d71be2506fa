"""Edges with a key: their ids follow from it, so every way in meets the same edge."""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest

import omnigraph as og
from omnigraph.errors import (
    ExpectedVersionMismatch,
    KeyConflict,
    MergeConflicts,
    RejectedRecords,
    SchemaChangeRefused,
    UniqueViolation,
)

PLAIN = """
node Author { name: String @key }
node Book { title: String @key }
edge Wrote: Author -> Book { year: I32? }
"""
KEYED = PLAIN.replace("Author -> Book", "Author -> Book @key(src, dst)")
NODES = [{"type": "Author", "data": {"name": "Ada"}}, {"type": "Author", "data": {"name": 'Bo "B"'}}] + [
    {"type": "Book", "data": {"title": title}} for title in ("Notes", "Sums")
]
EDGES = [
    {"edge": "Wrote", "from": "Ada", "to": "Notes", "data": {"year": 1843}},
    {"edge": "Wrote", "from": 'Bo "B"', "to": "Sums"},
]


def written(folder: Path, records: list[dict[str, object]]) -> Path:
    path = folder / "records.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def library(folder: Path, schema: str, name: str = "g") -> og.Graph:
    graph = og.init(folder / name, schema=schema, durability="process")
    graph.load(written(folder, NODES + EDGES), mode="append", engine="local")
    return graph


def edges(graph: og.Graph, branch: str = "main") -> dict[str, int | None]:
    rows = b"".join(graph.export_stream(types=["Wrote"], revision=branch)).splitlines()
    return {record["data"]["id"]: record["data"].get("year") for record in map(json.loads, rows)}


FIRST = {'["Ada","Notes"]': 1843, '["Bo \\"B\\"","Sums"]': None}


def test_a_file_that_is_loaded_again_finds_its_edges(tmp_path: Path) -> None:
    graph = library(tmp_path, KEYED)
    again = graph.load(tmp_path / "records.jsonl", mode="merge", engine="local")
    assert (again.commit, again.total.unchanged, again.duplicates) == (None, 6, {})
    assert edges(graph) == FIRST


def test_a_merge_without_a_key_counts_the_edges_that_it_doubles(tmp_path: Path) -> None:
    graph = library(tmp_path, PLAIN)
    more = [*EDGES, {"edge": "Wrote", "from": "Ada", "to": "Sums"}, {**EDGES[0], "data": {"year": 1844}}]
    path = written(tmp_path, more)
    tried = graph.load(path, mode="merge", engine="local", dry_run=True)
    assert (tried.duplicates, tried.refusals) == ({"edge:Wrote": 2}, ())
    assert graph.load(path, mode="merge", engine="local").duplicates == {"edge:Wrote": 2}
    assert len(edges(graph)) == 6
    assert graph.load(path, mode="append", engine="local").duplicates == {}


def test_transactions_and_mutations_meet_the_same_edge(tmp_path: Path) -> None:
    graph = library(tmp_path, KEYED)
    with graph.transaction() as tx:
        assert tx.upsert("Wrote", from_="Ada", to="Notes", year=1) == '["Ada","Notes"]'
        tx.insert("Wrote", from_="Ada", to="Sums")
    with pytest.raises(KeyConflict), graph.transaction() as tx:
        tx.insert("Wrote", from_="Ada", to="Sums")
    graph.mutate('query q() { insert Wrote { from: "Ada", to: "Sums", year: 7 } }')
    assert edges(graph) == FIRST | {'["Ada","Notes"]': 1, '["Ada","Sums"]': 7}
    graph.mutate('query q() { delete Wrote where from = "Ada" and to = "Sums" }')
    assert edges(graph) == FIRST | {'["Ada","Notes"]': 1}


def test_an_id_that_does_not_follow_from_the_key_is_refused(tmp_path: Path) -> None:
    graph = library(tmp_path, KEYED)
    with pytest.raises(RejectedRecords, match="does not match its key"):
        graph.load(written(tmp_path, [{**EDGES[0], "data": {"id": "x"}}]), mode="merge", engine="local")
    with pytest.raises(og.errors.QueryError, match=r"the id of a Wrote follows from its key \(from, to\)"):
        graph.mutate('query q() { insert Wrote { id: "x", from: "Ada", to: "Sums" } }')
    with pytest.raises(UniqueViolation):
        graph.load(written(tmp_path, [EDGES[0], EDGES[0]]), mode="merge", engine="local")


def test_frames_patch_and_delete_edges_by_their_ends(tmp_path: Path) -> None:
    graph = library(tmp_path, KEYED)
    patch = pd.DataFrame({"from": ["Ada", "Ada"], "to": ["Notes", "Sums"], "year": [5, 6]})
    counts = graph.load({"Wrote": patch}, mode="patch").total
    assert (counts.updated, counts.inserted) == (1, 1)
    gone = pd.DataFrame({"from": ["Ada", "Ada"], "to": ["Sums", "Nothing"]})
    counts = graph.load({"Wrote": gone}, mode="delete").total
    assert (counts.deleted, counts.unchanged) == (1, 1)
    assert edges(graph) == FIRST | {'["Ada","Notes"]': 5}


def test_lines_patch_and_delete_edges_by_their_ends(tmp_path: Path) -> None:
    graph = library(tmp_path, KEYED)
    records = [{**EDGES[0], "data": {"year": 9}}, {"edge": "Wrote", "from": 'Bo "B"', "to": "Sums", "_delete": True}]
    graph.load(written(tmp_path, records), mode="patch", engine="local")
    assert edges(graph) == {'["Ada","Notes"]': 9}
    graph.load(written(tmp_path, [{"edge": "Wrote", "from": "Ada", "to": "Notes"}]), mode="delete", engine="local")
    assert edges(graph) == {}
    with pytest.raises(RejectedRecords, match="needs 'from' and 'to' or 'id'"):
        graph.load(written(tmp_path, [{"edge": "Wrote"}]), mode="delete", engine="local")
    with pytest.raises(RejectedRecords, match=r"key property Wrote\.to is missing"):
        graph.load(written(tmp_path, [{"edge": "Wrote", "from": "Ada"}]), mode="delete", engine="local")


def test_many_edges_of_a_node_keep_their_own_ids(tmp_path: Path) -> None:
    """Edges of one node are stored side by side; ids that follow from a key stay with their edges."""
    graph = library(tmp_path, KEYED)
    titles = [f"b{number}" for number in range(40)]
    graph.load({"Book": pd.DataFrame({"title": titles})}, mode="append")
    frame = pd.DataFrame({"from": "Ada", "to": titles[::-1], "year": range(40)})
    graph.load({"Wrote": frame}, mode="append")
    assert edges(graph) == FIRST | {json.dumps(["Ada", f"b{39 - n}"], separators=(",", ":")): n for n in range(40)}


def test_a_key_may_have_properties_or_only_one_end(tmp_path: Path) -> None:
    schema = (
        PLAIN + "edge First: Author -> Book @key(src)\nedge Read: Author -> Book { on: Date  @key(dst, on, src) }\n"
    )
    graph = library(tmp_path, schema)
    with graph.transaction() as tx:
        assert tx.insert("Read", from_="Ada", to="Sums", on="1970-01-03") == '["Sums","2","Ada"]'
        assert tx.insert("First", from_="Ada", to="Sums") == "Ada"
        tx.upsert("First", from_="Ada", to="Notes")
    entity = graph.entity("First", "Ada")
    assert entity is not None
    assert entity["to"] == "Notes"
    frame = pd.DataFrame({"from": ["Ada"], "to": ["Sums"], "on": ["1970-01-03"]})
    assert graph.load({"Read": frame}, mode="merge").total.unchanged == 1


def test_two_branches_that_add_the_same_edge_have_one_after_a_merge(tmp_path: Path) -> None:
    graph = library(tmp_path, KEYED)
    graph.branches.create("work")
    for branch in ("main", "work"):
        with graph.transaction(branch) as tx:
            tx.insert("Wrote", from_="Ada", to="Sums", year=1)
    graph.branches.merge("work")
    assert edges(graph) == FIRST | {'["Ada","Sums"]': 1}
    for branch, year in (("main", 2), ("work", 3)):
        with graph.transaction(branch) as tx:
            tx.upsert("Wrote", from_="Ada", to="Sums", year=year)
    (conflict,) = graph.branches.merge("work", dry_run=True).conflicts
    assert (conflict.entity_id, conflict.kind) == ('["Ada","Sums"]', "divergent_update")
    assert [change.op for change in graph.diff("main~1", "main", types=["Wrote"])] == ["update"]


# ---------------------------------------------------------------- a key that is declared later


def test_declaring_a_key_gives_the_edges_its_ids(tmp_path: Path) -> None:
    graph = library(tmp_path, PLAIN)
    plan = graph.schema.apply(KEYED).plan
    assert plan.lines() == ["add constraint @key(src, dst) to edge 'Wrote'"]
    assert edges(graph) == FIRST
    assert graph.load(tmp_path / "records.jsonl", mode="merge", engine="local").commit is None
    assert graph.maintenance.verify(deep=True).findings == ()
    assert graph.schema.apply(PLAIN).plan.lines() == ["remove constraint @key(src, dst) from edge 'Wrote'"]
    assert edges(graph) == FIRST


def test_a_key_that_edges_share_is_refused_with_them(tmp_path: Path) -> None:
    graph = library(tmp_path, PLAIN)
    with graph.transaction() as tx:
        second = tx.insert("Wrote", from_="Ada", to="Notes", year=1)
    with pytest.raises(SchemaChangeRefused, match="@key violation on Wrote") as refused:
        graph.schema.apply(KEYED)
    assert second in str(refused.value)
    graph.schema.apply(KEYED, with_="query fix() { delete Wrote where year = 1 }")
    assert edges(graph) == FIRST


def test_a_writer_that_meets_the_key_is_told(tmp_path: Path) -> None:
    graph = library(tmp_path, PLAIN)
    other = graph.transaction()
    other.insert("Wrote", from_="Ada", to="Sums")
    og.open(tmp_path / "g").schema.apply(KEYED)
    with pytest.raises(ExpectedVersionMismatch, match="Wrote has another key"):
        other.commit()
    assert edges(graph) == FIRST


@pytest.mark.parametrize("keyed", ["main", "work"])
def test_a_branch_without_the_key_merges_by_it(tmp_path: Path, keyed: str) -> None:
    graph = library(tmp_path, PLAIN)
    graph.branches.create("work")
    other = "work" if keyed == "main" else "main"
    graph.schema.apply(KEYED, branch=keyed)
    with graph.transaction(keyed) as tx:
        tx.upsert("Wrote", from_="Ada", to="Notes", year=2)
        tx.insert("Wrote", from_="Ada", to="Sums", year=3)
    with graph.transaction(other) as tx:
        tx.insert("Wrote", from_="Ada", to="Sums", year=3)
        tx.insert("Wrote", from_='Bo "B"', to="Notes", year=4)
    graph.branches.merge("work")
    assert edges(graph) == FIRST | {'["Ada","Notes"]': 2, '["Ada","Sums"]': 3, '["Bo \\"B\\"","Notes"]': 4}
    assert og.open(tmp_path / "g").maintenance.verify(deep=True).findings == ()


def test_a_branch_with_two_edges_of_one_key_does_not_merge_into_it(tmp_path: Path) -> None:
    graph = library(tmp_path, PLAIN)
    graph.branches.create("work")
    with graph.transaction("work") as tx:
        second = tx.insert("Wrote", from_="Ada", to="Notes")
    graph.schema.apply(KEYED)
    with pytest.raises(MergeConflicts, match="'work' has edges of Wrote with the same key") as refused:
        graph.branches.merge("work", strategy="ours")
    assert second in str(refused.value)
