"""Reverts and resets: what was changed is taken back by a commit, and nothing of history goes."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import BranchNotFound, CommitNotFound, MergeConflicts, PreconditionFailed, UsageError
from omnigraph.testing.failpoints import Failpoint, arm

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
edge Knows: Person -> Person { since: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    with graph.transaction(message="first") as tx:
        for name in "abc":
            tx.insert("Person", name=name, age=1)
        tx.insert("Knows", id="ab", from_="a", to="b")
    return graph


def content(graph: og.Graph, revision: str = "main") -> list[bytes]:
    return sorted(b"".join(graph.export_stream(revision=revision)).splitlines())


def change(graph: og.Graph, branch: str = "main", message: str = "a change") -> None:
    with graph.transaction(branch, message=message) as tx:
        tx.update("Person", "a", age=2)
        tx.delete("Person", "b")
        tx.insert("Person", name="d")


def test_the_newest_commit_is_taken_back(graph: og.Graph) -> None:
    before = content(graph)
    change(graph)
    result = graph.revert("main", actor="ada")
    assert result.commit is not None
    assert content(graph) == before
    assert (result.commit.kind, result.commit.actor, len(result.commit.parents)) == ("revert", "ada", 1)
    assert result.commit.message == f"revert of {graph.show('main~1').id}: a change"
    assert graph.head().id == result.commit.id
    assert graph.maintenance.verify().is_whole


def test_an_older_commit_is_taken_back_and_what_came_later_stays(graph: og.Graph) -> None:
    change(graph)
    with graph.transaction() as tx:
        tx.update("Person", "c", city="Oslo")
        tx.insert("Person", name="e")
    graph.revert("main~1")
    people = {row["name"]: (row["age"], row["city"]) for row in graph.query(PEOPLE).rows}
    assert people == {"a": (1, None), "b": (1, None), "c": (1, "Oslo"), "e": (None, None)}
    assert graph.entity("Knows", "ab") == {"id": "ab", "from": "a", "to": "b", "since": None}
    assert graph.maintenance.verify().is_whole


PEOPLE = "query q() { match { $p: Person } return { $p.name as name, $p.age as age, $p.city as city } }"


def test_a_revert_of_a_revert_is_the_change_again(graph: og.Graph) -> None:
    change(graph)
    after = content(graph)
    graph.revert("main")
    graph.revert("main")
    assert content(graph) == after


def test_what_was_changed_since_conflicts_and_is_decided_as_in_a_merge(graph: og.Graph) -> None:
    change(graph)
    reverted = graph.head().id
    with graph.transaction() as tx:
        tx.update("Person", "a", age=3)
    head = graph.head().id
    with pytest.raises(MergeConflicts) as refused:
        graph.revert(reverted)
    (conflict,) = refused.value.conflicts
    (age,) = conflict.properties
    assert (age.name, age.base, age.ours, age.theirs) == ("age", 2, 3, 1)
    assert graph.head().id == head
    assert graph.revert(reverted, dry_run=True).conflicts == refused.value.conflicts
    result = graph.revert(reverted, resolutions=[conflict.resolve("ours")])
    assert result.commit is not None
    assert "resolved: Person 'a' (ours)" in str(result.commit.message)
    assert {row["name"]: row["age"] for row in graph.query(PEOPLE).rows} == {"a": 3, "b": 1, "c": 1}


def test_an_edge_that_came_since_keeps_its_node(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.insert("Person", name="d")
    reverted = graph.head().id
    with graph.transaction() as tx:
        tx.insert("Knows", id="ad", from_="a", to="d")
    with pytest.raises(MergeConflicts) as refused:
        graph.revert(reverted)
    assert {each.kind for each in refused.value.conflicts} == {"orphan_edge"}


def test_a_merge_is_taken_back_as_a_whole(graph: og.Graph) -> None:
    graph.branches.create("review")
    change(graph, "review")
    with graph.transaction() as tx:
        tx.update("Person", "c", age=9)
    before = content(graph)
    graph.branches.merge("review")
    graph.revert("main")
    assert content(graph) == before


def test_a_schema_change_is_taken_back_with_its_schema(graph: og.Graph) -> None:
    wider = SCHEMA.replace("city: String?", "city: String?  email: String?")
    graph.schema.apply(wider)
    graph.revert("main")
    assert "email" not in graph.schema.catalog.nodes["Person"].properties
    assert graph.maintenance.verify().is_whole


def test_what_is_undone_already_makes_no_commit(graph: og.Graph) -> None:
    change(graph)
    reverted = graph.head().id
    graph.revert(reverted)
    with graph.transaction() as tx:
        tx.update("Person", "c", age=5)
    head = graph.head().id
    result = graph.revert(reverted)
    assert (result.outcome, result.commit, graph.head().id) == ("already_up_to_date", None, head)


def test_commits_without_changes_are_refused(graph: og.Graph) -> None:
    with pytest.raises(UsageError, match="nothing before it"):
        graph.revert("main~1")
    graph.maintenance.optimize()
    with pytest.raises(UsageError, match="not the data"):
        graph.revert("main")
    with pytest.raises(CommitNotFound):
        graph.revert("nowhere")
    with pytest.raises(BranchNotFound):
        graph.revert("main~1", branch="nowhere")


def test_a_reset_gives_a_branch_the_state_of_a_revision(graph: og.Graph) -> None:
    before = content(graph)
    graph.tags.create("good")
    change(graph)
    wider = SCHEMA.replace("city: String?", "city: String?  email: String?")
    graph.schema.apply(wider)
    changed = content(graph)
    commit = graph.reset("main", "good", actor="ada")
    assert commit is not None
    assert (commit.kind, commit.actor, commit.message) == ("reset", "ada", f"reset to {graph.show('good').id}")
    assert content(graph) == before
    assert "email" not in graph.schema.catalog.nodes["Person"].properties
    assert content(graph, "main~1") == changed
    assert [version.value and version.value["age"] for version in graph.history("Person", "a")] == [1, 2, 1]
    assert graph.reset("main", "good") is None
    assert graph.maintenance.verify().is_whole
    with graph.transaction() as tx:
        tx.insert("Person", name="z")
    assert len(content(graph)) == len(before) + 1


def test_a_reset_takes_back_nothing_that_nobody_agreed_to(graph: og.Graph) -> None:
    change(graph)
    head = graph.head().id

    def meanwhile() -> None:
        with graph.transaction() as tx:
            tx.insert("Person", name="late")

    arm(Failpoint.PUBLISH_BEFORE_CREATE, meanwhile, nth=1)
    with pytest.raises(PreconditionFailed):
        graph.reset("main", "main~1")
    assert graph.show("main~1").id == head
    assert graph.entity("Person", "late") is not None


WIDER = {
    "a longer integer": ("I32?", "I64?", 2, 5_000_000_000),
    "a float": ("I32?", "F64?", 2, 2.5),
    "a longer float": ("F32?", "F64?", 2.5, 0.1),
    "a list": ("I32?", "[I64]?", 2, [4, 5]),
    "a list of texts": ("String?", "[String]?", "a", ["b", "c"]),
}


def widened(case: str) -> tuple[og.Graph, str]:
    """A graph whose property got wider, and then a value that it did not hold before."""
    old, new, first, later = WIDER[case]
    schema = "node Thing { name: String @key  x: %s }"
    graph = og.init("memory://", schema=schema % old)
    with graph.transaction() as tx:
        for name in "ab":
            tx.insert("Thing", name=name, x=first)
    graph.tags.create("before")
    commit = graph.schema.apply(schema % new).commit
    assert commit is not None
    with graph.transaction() as tx:
        tx.update("Thing", "a", x=later)
    return graph, commit.id


@pytest.mark.parametrize("case", WIDER)
def test_values_that_fit_the_wider_type_alone_are_not_lost_when_it_is_taken_back(case: str) -> None:
    graph, commit = widened(case)
    before = graph.entity("Thing", "a")
    for strategy in ("fail", "ours", "theirs"):
        with pytest.raises(MergeConflicts, match="narrower"):
            graph.revert(commit, strategy=strategy)  # type: ignore[arg-type]  # each is a strategy
    graph.branches.create("back")
    graph.reset("back", "before")
    with graph.transaction() as tx:
        tx.insert("Thing", name="c")
    with pytest.raises(MergeConflicts, match="narrower"):
        graph.branches.merge("back")
    assert graph.entity("Thing", "a") == before


@pytest.mark.parametrize("case", WIDER)
def test_changes_to_a_narrower_type_have_both_values(case: str) -> None:
    _, _, first, later = WIDER[case]
    graph, _ = widened(case)
    (change,) = graph.diff("main", "before")
    assert (change.id, change.before, change.after) == (
        "a",
        {"id": "a", "name": "a", "x": later},
        {"id": "a", "name": "a", "x": first},
    )
    graph.reset("main", "before")
    (block,) = [block for block in graph.changes("main", start="beginning").blocks if block.commit.kind == "reset"]
    assert [(each.before, each.after) for each in block.changes] == [(change.before, change.after)]
    assert graph.maintenance.verify("main", deep=True).is_whole


def test_a_wider_type_is_taken_back_while_nothing_else_was_written() -> None:
    graph, commit = widened("a longer integer")
    graph.branches.create("back", commit)
    graph.revert("back", branch="back")
    assert graph.entity("Thing", "a", revision="back") == {"id": "a", "name": "a", "x": 2}
