"""The files that kept commits need: with nothing else left of the graph, they read and can be written on."""

from __future__ import annotations

from pathlib import Path

import pytest
from write.graphs import SCHEMA, changed, content, fill

import omnigraph as og
from omnigraph.errors import Damaged
from omnigraph.maintenance.reachable import Reachable, index_folder


def busy_graph(folder: Path) -> og.Graph:
    """Indexes, deletions, folds, a compaction, and a branch that is elsewhere."""
    graph = og.init(folder, SCHEMA)
    with graph.transaction() as tx:
        fill(tx)
    graph.maintenance.ensure_indexes()
    for number in range(20):
        with graph.transaction() as tx:
            tx.insert("Person", name=f"p{number}")
    graph.mutate('query q() { delete Person where name = "p3" }')
    graph.branches.create("side")
    graph.mutate('query q() { delete Person where name = "p4" }', branch="side")
    graph.maintenance.optimize()
    return graph


def test_what_is_reachable_from_the_heads_is_enough_to_read_and_write(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path / "g")
    repository = graph._repository
    before = {branch: content(graph, branch) for branch in ("main", "side")}
    reach = Reachable(repository.files_of)
    reach.add_entries(repository.history.chain.head(branch) for branch in before)
    infos = repository.store.list("")
    unneeded = [info for info in infos if not reach.needs(info.key)]
    assert any("/_transactions/" in info.key for info in unneeded)
    assert {*reach.objects} <= {info.key for info in infos}
    for info in unneeded:
        (tmp_path / "g" / info.key).unlink()

    again = og.open(tmp_path / "g")
    assert {branch: content(again, branch) for branch in before} == before
    for number in range(12):
        with again.transaction() as tx:
            tx.insert("Person", name=f"q{number}")
    again.mutate('query q() { delete Person where name = "q3" }')
    again.maintenance.optimize()
    rows = {f"q{number}": {"name": f"q{number}"} for number in range(12) if number != 3}
    assert content(again) == changed(before["main"], node_Person=rows)
    assert content(again, "side") == before["side"]


def test_each_version_is_opened_once_however_many_commits_have_it(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path / "g")
    repository, opened = graph._repository, []
    reach = Reachable(lambda state: opened.append(state) or repository.files_of(state))  # type: ignore[func-returns-value]
    for _ in range(2):
        reach.add_entries(repository.history.chain.read("main", position) for position in range(20))
    versions = [(state.path, state.version) for state in opened]
    assert len(versions) == len(set(versions)) > 8
    assert {(state.path, state.version) for state in reach.states} == set(versions)
    assert len(reach.states) > 20
    assert {state.path for state in opened} >= {f"nodes/Note-{graph.schema.catalog.nodes['Note'].table_id}"}


def test_a_lost_manifest_is_damage_and_never_an_empty_list_of_files(tmp_path: Path) -> None:
    graph = busy_graph(tmp_path / "g")
    entry = graph._repository.history.chain.head("main")
    state = entry.head.table("node:Person")
    assert state is not None
    (tmp_path / "g" / state.path / "_versions" / f"d{state.version}.manifest").unlink()
    again = og.open(tmp_path / "g")
    with pytest.raises(Damaged, match="_versions"):
        Reachable(again._repository.files_of).add_entries([entry])


def test_files_of_an_index_belong_to_its_folder() -> None:
    assert index_folder("nodes/P-1/_indices/u/part/a.lance") == "nodes/P-1/_indices/u"
    assert index_folder("nodes/P-1/_indices/stray") is None
    assert index_folder("nodes/P-1/data/a.lance") is None
