"""Changes counted by type, those of some entities, and how far apart revisions are."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    schema = "node Person { name: String @key  age: I32? }  edge Knows: Person -> Person"
    return og.init(tmp_path / "g", schema=schema, durability="process")


def test_counts_are_those_of_the_changes(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        for name in "abc":
            tx.insert("Person", name=name)
        tx.insert("Knows", id="k", from_="a", to="b")
    with graph.transaction() as tx:
        tx.update("Person", "a", age=1)
        tx.delete("Person", "b")
        tx.insert("Person", name="d")
    expected: dict[tuple[str, str], dict[str, int]] = {}
    for change in graph.diff("main~1", "main"):
        expected.setdefault((change.kind, change.type_name), {"insert": 0, "update": 0, "delete": 0})[change.op] += 1
    counted = {
        (each.kind, each.type_name): {"insert": each.inserts, "update": each.updates, "delete": each.deletes}
        for each in graph.diff_stat("main~1", "main")
    }
    assert counted == expected
    assert counted[("edge", "Knows")] == {"insert": 0, "update": 0, "delete": 1}
    assert [each.type_name for each in graph.diff_stat("main~1", "main", kinds=["edge"])] == ["Knows"]
    assert graph.diff_stat("main", "main") == []


def test_ids_leave_only_their_entities(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        for name in "abc":
            tx.insert("Person", name=name)
    assert [change.id for change in graph.diff("main~1", "main", ids=["c", "a", "z"])] == ["a", "c"]
    assert list(graph.diff("main~1", "main", ids=[])) == []


def test_distances_count_commits_on_each_side(graph: og.Graph) -> None:
    graph.branches.create("review")
    for branch, name in (("review", "a"), ("review", "b"), ("main", "c")):
        with graph.transaction(branch) as tx:
            tx.insert("Person", name=name)
    assert graph.distance("review") == og.types.Distance(ahead=2, behind=1)
    assert graph.distance("main", "review~1") == og.types.Distance(ahead=1, behind=1)
    graph.branches.merge("review")
    assert graph.distance("review") == og.types.Distance(ahead=0, behind=2)
