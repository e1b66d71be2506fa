"""The merged whole passes the same rules as any write: each side is fine by itself, and together they are not."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.writes import MergeJson
from omnigraph.errors import MergeConflicts, UsageError
from omnigraph.merge.conflicts import PropertyConflict

SCHEMA = """
node Person {
  name: String @key
  mail: String? @unique
  city: String?
  street: String?
  age: I32?
  @unique(city, street)
  @range(age, 0..150)
}
node Team { name: String @key  size: I32? }
edge Leads: Person -> Team @card(0..1) { since: I32? }
edge Needs: Team -> Person @card(1..2)
edge Likes: Person -> Person { since: I32?  @unique(src, dst) }
"""

Act = Callable[[Any], object]


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    with graph.transaction() as tx:
        for name in "abcd":
            tx.insert("Person", name=name)
        tx.insert("Person", name="home", city="Rome", street="Via")
        for name in "tu":
            tx.insert("Team", name=name)
            tx.insert("Needs", {"id": f"n{name}a"}, from_=name, to="a")
            tx.insert("Needs", {"id": f"n{name}b"}, from_=name, to="b")
        tx.insert("Likes", {"id": "ab"}, from_="a", to="b")
    graph.branches.create("work")
    return graph


def merged(graph: og.Graph, source: Act, target: Act, **how: Any) -> list[tuple[str, str, str | None]]:
    """The conflicts of merging `source` on a branch with `target` on main."""
    for branch, act in (("work", source), ("main", target)):
        with graph.transaction(branch) as tx:
            act(tx)
    before = graph._repository.resolve("main").snapshot
    expected = graph.branches.merge("work", dry_run=True, **how).conflicts
    if not expected:
        graph.branches.merge("work", **how)
        return []
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work", **how)
    assert graph._repository.resolve("main").snapshot == before
    assert caught.value.details()["merge_conflicts"] == [each.to_json() for each in expected]
    return [(each.kind, each.type_name, each.entity_id) for each in caught.value.conflicts]


def test_a_unique_value_given_on_both_sides(graph: og.Graph) -> None:
    found = merged(graph, lambda tx: tx.update("Person", "a", mail="m"), lambda tx: tx.update("Person", "b", mail="m"))
    assert [(kind, type_name) for kind, type_name, _ in found] == [("unique_violation", "Person")]


def test_a_unique_value_that_moved_on_one_side(graph: og.Graph) -> None:
    """The source hands the value from one row to another; the target did not touch it."""
    with graph.transaction() as tx:
        tx.update("Person", "a", mail="m")
    graph.branches.merge("main", "work")

    def hand_over(tx: Any) -> None:
        tx.update("Person", "a", mail=None)
        tx.update("Person", "b", mail="m")

    assert merged(graph, hand_over, lambda tx: tx.update("Person", "c", age=1)) == []
    table = graph._repository.resolve("main").table("node:Person")
    assert table is not None
    assert table.lookup("mail", ["m"], ["id"]).to_pylist() == [{"id": "b"}]


def test_a_pair_made_of_both_sides_values_meets_a_row_nobody_touched(graph: og.Graph) -> None:
    found = merged(
        graph,
        lambda tx: tx.update("Person", "a", city="Rome"),
        lambda tx: tx.update("Person", "a", street="Via"),
        by="property",
    )
    assert [(kind, type_name) for kind, type_name, _ in found] == [("unique_violation", "Person")]


def test_an_edge_that_must_be_unique_inserted_on_both_sides(graph: og.Graph) -> None:
    found = merged(
        graph, lambda tx: tx.insert("Likes", from_="c", to="d"), lambda tx: tx.insert("Likes", from_="c", to="d")
    )
    assert [(kind, type_name) for kind, type_name, _ in found] == [("unique_violation", "Likes")]


def test_too_many_edges_together(graph: og.Graph) -> None:
    found = merged(
        graph, lambda tx: tx.insert("Leads", from_="a", to="t"), lambda tx: tx.insert("Leads", from_="a", to="u")
    )
    assert found == [("cardinality_violation", "Leads", "a")]


def test_too_few_edges_together(graph: og.Graph) -> None:
    found = merged(graph, lambda tx: tx.delete("Needs", "nta"), lambda tx: tx.delete("Needs", "ntb"))
    assert found == [("cardinality_violation", "Needs", "t")]


def test_a_node_that_goes_with_its_edges_has_no_count(graph: og.Graph) -> None:
    assert merged(graph, lambda tx: tx.delete("Team", "t"), lambda tx: tx.delete("Needs", "nta")) == []


def test_a_node_that_the_strategy_brings_back_without_its_edges(graph: og.Graph) -> None:
    """The target removed the node with its edges; the source only changed the node, so only the node comes back."""
    found = merged(
        graph, lambda tx: tx.update("Team", "t", size=1), lambda tx: tx.delete("Team", "t"), strategy="theirs"
    )
    assert found == [("cardinality_violation", "Needs", "t")]


def test_a_node_that_the_strategy_keeps_without_its_edges(graph: og.Graph) -> None:
    found = merged(graph, lambda tx: tx.delete("Team", "t"), lambda tx: tx.update("Team", "t", size=1), strategy="ours")
    assert found == [("cardinality_violation", "Needs", "t")]


def test_a_node_made_with_an_edge_to_one_that_the_target_removed(graph: og.Graph) -> None:
    """Its edge is an orphan, and is counted all the same."""

    def make(tx: Any) -> None:
        tx.insert("Team", name="v")
        tx.insert("Needs", {"id": "nvd"}, from_="v", to="d")

    assert merged(graph, make, lambda tx: tx.delete("Person", "d")) == [("orphan_edge", "Needs", "nvd")]


def test_an_edge_to_a_node_the_target_removed(graph: og.Graph) -> None:
    found = merged(
        graph, lambda tx: tx.insert("Likes", {"id": "cd"}, from_="c", to="d"), lambda tx: tx.delete("Person", "d")
    )
    assert found == [("orphan_edge", "Likes", "cd")]


def test_an_edge_of_the_target_to_a_node_the_source_removed(graph: og.Graph) -> None:
    found = merged(
        graph, lambda tx: tx.delete("Person", "d"), lambda tx: tx.insert("Likes", {"id": "cd"}, from_="c", to="d")
    )
    assert found == [("orphan_edge", "Likes", "cd")]


def test_a_strategy_settles_no_broken_rule(graph: og.Graph) -> None:
    for strategy in ("ours", "theirs"):
        branch = f"work-{strategy}"
        graph.branches.create(branch)
        with graph.transaction(branch) as tx:
            tx.delete("Person", "d")
    with graph.transaction() as tx:
        tx.insert("Likes", {"id": "cd"}, from_="c", to="d")
    for strategy in ("ours", "theirs"):
        with pytest.raises(MergeConflicts) as caught:
            graph.branches.merge(f"work-{strategy}", strategy=strategy)
        assert [each.kind for each in caught.value.conflicts] == ["orphan_edge"]


def test_a_node_restored_by_the_strategy_keeps_its_new_edge(graph: og.Graph) -> None:
    """The target removed the node, the source changed it and drew an edge to it: "theirs" brings both back."""

    def change(tx: Any) -> None:
        tx.update("Person", "d", age=5)
        tx.insert("Likes", {"id": "cd"}, from_="c", to="d")

    assert merged(graph, change, lambda tx: tx.delete("Person", "d"), strategy="theirs") == []
    assert graph._repository.resolve("main").rows("edge:Likes") == 2


def test_every_conflict_is_collected_in_order(graph: og.Graph) -> None:
    def source(tx: Any) -> None:
        tx.update("Person", "a", age=1, mail="m")
        tx.insert("Person", name="new", age=1)
        tx.insert("Likes", {"id": "cd"}, from_="c", to="d")

    def target(tx: Any) -> None:
        tx.update("Person", "a", age=2)
        tx.insert("Person", name="new", age=2)
        tx.delete("Person", "d")

    found = merged(graph, source, target)
    assert found == [
        ("divergent_update", "Person", "a"),
        ("divergent_insert", "Person", "new"),
        ("orphan_edge", "Likes", "cd"),
    ]


def test_endpoints_of_an_edge_change_as_one(graph: og.Graph) -> None:
    """By property, one side's source and the other side's target would be an edge nobody drew."""
    found = merged(
        graph,
        lambda tx: tx.upsert("Likes", {"id": "ab"}, from_="c", to="b"),
        lambda tx: tx.upsert("Likes", {"id": "ab"}, from_="a", to="d"),
        by="property",
    )
    assert found == [("divergent_update", "Likes", "ab")]


def test_a_dry_run_says_everything_and_publishes_nothing(graph: og.Graph) -> None:
    with graph.transaction("work") as tx:
        tx.update("Person", "a", age=1)
    with graph.transaction() as tx:
        tx.update("Person", "a", age=2)
        tx.update("Person", "b", age=2)
    before = graph.commits()
    result = graph.branches.merge("work", dry_run=True)
    message = "Person 'a': both branches changed it differently (age)"
    values = (PropertyConflict("age", base=None, ours=2, theirs=1),)
    (conflict,) = result.conflicts
    assert (conflict.kind, conflict.type_name, conflict.entity_id) == ("divergent_update", "Person", "a")
    assert (conflict.message, conflict.properties) == (message, values)
    assert (result.outcome, result.commit) == ("conflicts", None)
    assert MergeJson.to_json(graph.branches.merge("work", strategy="theirs", dry_run=True))["changes"] == {
        "node:Person": {"way": "rows", "inserted": 0, "updated": 1, "deleted": 0}
    }
    assert graph.commits() == before


def test_a_branch_is_deleted_after_its_merge(graph: og.Graph) -> None:
    with graph.transaction("work") as tx:
        tx.update("Person", "a", age=1)
    result = graph.branches.merge("work", delete_branch=True)
    assert (result.outcome, result.branch_deleted) == ("fast_forward", True)
    assert [branch.name for branch in graph.branches.list()] == ["main"]
    graph.branches.create("work")
    again = graph.branches.merge("work", delete_branch=True)
    assert (again.outcome, again.branch_deleted) == ("already_up_to_date", True)


def test_a_fast_forward_is_a_commit_with_two_parents(graph: og.Graph) -> None:
    with graph.transaction("work") as tx:
        tx.update("Person", "a", age=1)
    parted = graph.commits(limit=1)[0]
    result = graph.branches.merge("work", actor="ada", message="take it")
    commit = graph.commits(limit=1)[0]
    assert (result.outcome, result.commit) == ("fast_forward", commit)
    assert (commit.kind, commit.actor, commit.message) == ("merge", "ada", "take it")
    assert commit.parents == (parted.ref, graph.commits("work", limit=1)[0].ref)
    assert graph.branches.merge("main", "work").outcome == "fast_forward"


@pytest.mark.parametrize("arguments", [("main", "main"), ("work", "work")])
def test_a_branch_is_not_merged_into_itself(graph: og.Graph, arguments: tuple[str, str]) -> None:
    with pytest.raises(UsageError):
        graph.branches.merge(*arguments)


@pytest.mark.parametrize("wrong", [{"strategy": "mine"}, {"by": "column"}])
def test_an_unknown_way_to_merge_is_refused(graph: og.Graph, wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError):
        graph.branches.merge("work", **wrong)
