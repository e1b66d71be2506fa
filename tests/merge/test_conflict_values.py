"""A conflict says what each side has, and its hint names only what can help."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import MergeConflicts
from omnigraph.merge.conflicts import NO_VALUE, MergeConflict, PropertyConflict

SCHEMA = """
node Person {
  name: String @key
  mail: String? @unique
  born: Date?
  tags: [String]?
  age: I32?
}
edge Knows: Person -> Person @card(0..1) { since: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert("Person", name="a", age=1, born="2000-01-01", tags=["x"])
        tx.insert("Person", name="b", age=1)
        tx.insert("Person", name="c")
        tx.insert("Knows", {"id": "ab", "since": 1}, from_="a", to="b")
    graph.branches.create("work")
    return graph


def edit(graph: og.Graph, *, work: Callable[[Any], object], main: Callable[[Any], object]) -> None:
    for branch, act in (("work", work), ("main", main)):
        with graph.transaction(branch) as tx:
            act(tx)


def conflict_of(graph: og.Graph, **how: Any) -> tuple[MergeConflict, str]:
    """The only conflict of merging work into main, and the hint: the same in the error as in a dry run."""
    tried = graph.branches.merge("work", dry_run=True, **how)
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work", **how)
    assert caught.value.conflicts == tried.conflicts
    assert caught.value.hint == f"nothing was published: {tried.hint}"
    assert pickle.loads(pickle.dumps(caught.value)).conflicts == tried.conflicts
    (conflict,) = tried.conflicts
    return conflict, str(tried.hint)


def values(conflict: MergeConflict) -> dict[str, tuple[Any, Any, Any]]:
    return {each.name: (each.base, each.ours, each.theirs) for each in conflict.properties}


def test_an_update_on_both_branches_shows_what_differs(graph: og.Graph) -> None:
    edit(
        graph,
        work=lambda tx: tx.update("Person", "a", age=2, born="2001-01-01", mail="m"),
        main=lambda tx: tx.update("Person", "a", age=3, tags=[], mail="m"),
    )
    conflict, hint = conflict_of(graph)
    assert conflict.kind == "divergent_update"
    assert conflict.to_json()["properties"] == [
        {"name": "born", "base": "2000-01-01", "ours": "2000-01-01", "theirs": "2001-01-01"},
        {"name": "tags", "base": ["x"], "ours": [], "theirs": ["x"]},
        {"name": "age", "base": 1, "ours": 3, "theirs": 2},
    ]
    assert "--by property keeps what only one branch changed, also with a strategy" in hint
    assert (conflict.discarded_by("ours"), conflict.discarded_by("theirs")) == (("born",), ("tags",))
    assert conflict.to_json()["discarded_by"] == {"ours": ["born"], "theirs": ["tags"]}
    ours = "--strategy ours keeps what 'main' has and discards what only 'work' changed (Person 'a' born)"
    theirs = "--strategy theirs takes what 'work' has and discards what only 'main' changed (Person 'a' tags)"
    assert f"{ours}, {theirs}" in hint


def test_a_merge_by_property_shows_only_what_both_changed_and_loses_nothing_else(graph: og.Graph) -> None:
    edit(
        graph,
        work=lambda tx: tx.update("Person", "a", age=2, born="2001-01-01"),
        main=lambda tx: tx.update("Person", "a", age=3, tags=[]),
    )
    conflict, hint = conflict_of(graph, by="property")
    assert values(conflict) == {"age": (1, 3, 2)}
    assert conflict.message.endswith("(age)")
    assert "discards" not in hint
    graph.branches.merge("work", by="property", strategy="theirs")
    entity = graph.entity("Person", "a")
    assert entity is not None
    assert (entity["age"], str(entity["born"]), entity["tags"]) == (2, "2001-01-01", [])


def test_changes_of_different_properties_hint_at_a_merge_by_property(graph: og.Graph) -> None:
    edit(graph, work=lambda tx: tx.update("Person", "a", age=2), main=lambda tx: tx.update("Person", "a", tags=None))
    conflict, hint = conflict_of(graph)
    assert values(conflict) == {"age": (1, 1, 2), "tags": (["x"], None, ["x"])}
    assert hint.startswith("--by property")
    assert graph.branches.merge("work", by="property", dry_run=True).outcome == "merged"


def test_ends_of_an_edge_that_moved_apart_do_not_hint_at_a_merge_by_property(graph: og.Graph) -> None:
    edit(
        graph,
        work=lambda tx: tx.upsert("Knows", {"id": "ab", "since": 1}, from_="c", to="b"),
        main=lambda tx: tx.upsert("Knows", {"id": "ab", "since": 1}, from_="a", to="c"),
    )
    conflict, hint = conflict_of(graph)
    assert values(conflict) == {"from": ("a", "a", "c"), "to": ("b", "c", "b")}
    assert "--by property" not in hint
    assert "--strategy" in hint


def test_an_insert_on_both_branches_has_no_base(graph: og.Graph) -> None:
    edit(
        graph,
        work=lambda tx: tx.insert("Person", name="n", age=1),
        main=lambda tx: tx.insert("Person", name="n", age=2),
    )
    conflict, _ = conflict_of(graph)
    assert values(conflict) == {"age": (NO_VALUE, 2, 1)}
    assert conflict.to_json()["properties"] == [{"name": "age", "ours": 2, "theirs": 1}]


@pytest.mark.parametrize("deleted_on", ["work", "main"])
def test_a_deletion_against_an_update_shows_the_update(graph: og.Graph, deleted_on: str) -> None:
    acts: dict[str, Callable[[Any], object]] = {
        "work": lambda tx: tx.update("Person", "c", age=2),
        "main": lambda tx: tx.update("Person", "c", age=2),
        deleted_on: lambda tx: tx.delete("Person", "c"),
    }
    edit(graph, **acts)
    conflict, hint = conflict_of(graph, by="property")
    expected = (None, 2, NO_VALUE) if deleted_on == "work" else (None, NO_VALUE, 2)
    assert (conflict.kind, values(conflict)) == ("delete_vs_update", {"age": expected})
    assert "--strategy" in hint
    assert "--by property" not in hint


def test_no_strategy_is_offered_for_an_edge_without_its_node(graph: og.Graph) -> None:
    edit(
        graph,
        work=lambda tx: tx.insert("Knows", {"id": "bc"}, from_="b", to="c"),
        main=lambda tx: tx.delete("Person", "c"),
    )
    conflict, hint = conflict_of(graph)
    assert (conflict.kind, values(conflict)) == ("orphan_edge", {"to": (NO_VALUE, NO_VALUE, "c")})
    assert "--strategy" not in hint
    assert "delete the edge or put its node back" in hint


def test_a_unique_value_on_both_branches_shows_its_holder(graph: og.Graph) -> None:
    edit(graph, work=lambda tx: tx.update("Person", "a", mail="m"), main=lambda tx: tx.update("Person", "b", mail="m"))
    conflict, hint = conflict_of(graph)
    expected = {"a": (None, None, "m"), "b": (None, "m", None)}[str(conflict.entity_id)]
    assert (conflict.kind, values(conflict)) == ("unique_violation", {"mail": expected})
    assert "--strategy" not in hint


def test_too_many_edges_are_no_matter_of_a_property(graph: og.Graph) -> None:
    edit(
        graph,
        work=lambda tx: tx.insert("Knows", from_="c", to="a"),
        main=lambda tx: tx.insert("Knows", from_="c", to="b"),
    )
    conflict, _ = conflict_of(graph)
    assert (conflict.kind, conflict.entity_id, conflict.properties) == ("cardinality_violation", "c", ())


def test_every_kind_of_conflict_has_its_way_out(graph: og.Graph) -> None:
    def work(tx: Any) -> None:
        tx.update("Person", "a", age=2)
        tx.insert("Knows", {"id": "bc"}, from_="b", to="c")

    def main(tx: Any) -> None:
        tx.update("Person", "a", age=3)
        tx.delete("Person", "c")

    edit(graph, work=work, main=main)
    hint = str(graph.branches.merge("work", dry_run=True).hint)
    assert "--strategy ours" in hint
    assert "orphan_edge: delete the edge or put its node back" in hint
    assert "no strategy settles a broken rule" in hint


def test_where_merges_crossed_a_disputed_base_has_no_value(graph: og.Graph) -> None:
    edit(graph, work=lambda tx: tx.update("Person", "a", age=2), main=lambda tx: tx.update("Person", "a", age=3))
    graph.branches.create("old-main", "main")
    graph.branches.create("old-work", "work")
    graph.branches.merge("old-main", "work", strategy="ours")
    graph.branches.merge("old-work", "main", strategy="ours")
    conflict, _ = conflict_of(graph)
    assert conflict.properties == (PropertyConflict("age", NO_VALUE, 3, 2),)
