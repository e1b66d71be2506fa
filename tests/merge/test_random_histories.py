"""Random histories of branches, commits, merges and optimisations, checked step by step against the plain model."""

from __future__ import annotations

import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st
from merge import model

import omnigraph as og
from omnigraph.api.writes import MergeJson
from omnigraph.changes.entity_changes import EntityChange
from omnigraph.errors import InputError, MergeConflicts

BRANCHES = ["main", "x", "y"]
PEOPLE = "abcd"
EDGES = ["e1", "e2", "e3"]
NOTES = "mn"
AUTHORS = ["w1", "w2", "w3"]

people = st.sampled_from(PEOPLE)
notes = st.sampled_from(NOTES)
edits = st.one_of(
    st.tuples(
        st.just("person"),
        people,
        st.one_of(st.none(), st.integers(0, 2)),
        st.sampled_from([None, "", "n"]),
        st.sampled_from([None, None, "m1", "m2"]),
    ),
    st.tuples(st.just("age"), people, st.integers(0, 2)),
    st.tuples(st.just("nick"), people, st.sampled_from([None, "", "n", "o"])),
    st.tuples(st.just("drop"), people),
    st.tuples(st.just("edge"), st.sampled_from(EDGES), people, people, st.integers(0, 1)),
    st.tuples(st.just("cut"), st.sampled_from(EDGES)),
    st.tuples(st.just("note"), notes, st.sampled_from([None, "t"]), st.sampled_from(AUTHORS), people),
    st.tuples(st.just("text"), notes, st.sampled_from([None, "t", "u"])),
    st.tuples(st.just("tear"), notes),
    st.tuples(st.just("author"), st.sampled_from(AUTHORS), notes, people),
    st.tuples(st.just("unsign"), st.sampled_from(AUTHORS)),
)
branches = st.sampled_from(BRANCHES)
steps = st.one_of(
    st.tuples(st.just("commit"), branches, st.lists(edits, min_size=1, max_size=3)),
    st.tuples(
        st.just("merge"),
        branches,
        branches,
        st.sampled_from(["row", "property"]),
        st.sampled_from(["fail", "fail", "ours", "theirs"]),
    ),
    st.tuples(st.just("optimize"), branches),
)


@dataclass
class World:
    """A real graph and the model beside it."""

    graph: og.Graph
    commits: model.Commits
    heads: dict[str, int]

    @classmethod
    def new(cls, folder: str) -> World:
        graph = og.init(f"{folder}/g", schema=model.SCHEMA, durability="process")
        with graph.transaction() as tx:
            for name in PEOPLE[:3]:
                tx.insert("Person", name=name, age=1)
            tx.insert("Knows", {"id": "e1"}, from_="a", to="b")
            tx.insert("Note", title="m")
            tx.insert("WrittenBy", {"id": "w1"}, from_="m", to="c")
        commits = model.Commits()
        root = commits.add(model.state_of(graph, "main"))
        for name in BRANCHES[1:]:
            graph.branches.create(name)
        return cls(graph, commits, dict.fromkeys(BRANCHES, root))

    def step(self, action: tuple[Any, ...]) -> None:
        getattr(self, action[0])(*action[1:])

    def commit(self, branch: str, edits: list[tuple[Any, ...]]) -> None:
        try:
            with self.graph.transaction(branch) as tx:
                for edit in edits:
                    apply_edit(tx, edit)
        except InputError:
            return
        if tx.receipt.commit is not None:
            self.heads[branch] = self.commits.add(model.state_of(self.graph, branch), self.heads[branch])

    def optimize(self, branch: str) -> None:
        if self.graph.maintenance.optimize(branch).commit is not None:
            before = self.heads[branch]
            self.heads[branch] = self.commits.add(self.commits.states[before], before)
            assert list(self.graph.diff(f"{branch}~1", branch)) == [], "an optimisation changed something"

    def merge(self, source: str, target: str, by: str, strategy: str) -> None:
        if source == target:
            return
        outcome, expected = self.commits.merge(self.heads[source], self.heads[target], by=by, strategy=strategy)
        merge = self.graph.branches.merge
        rehearsals = [
            MergeJson.to_json(merge(source, target, by=by, strategy=strategy, dry_run=True)) for _ in range(2)
        ]
        assert rehearsals[0] == rehearsals[1], "merging is not deterministic"
        assert rehearsals[0]["outcome"] == outcome
        before = self.graph._repository.resolve(target).snapshot
        if expected.conflicts:
            with pytest.raises(MergeConflicts) as caught:
                merge(source, target, by=by, strategy=strategy)
            assert model.comparable(caught.value.conflicts) == expected.conflicts
            assert [each.to_json() for each in caught.value.conflicts] == rehearsals[0]["conflicts"]
            assert self.graph._repository.resolve(target).snapshot == before, (
                "a merge with conflicts published something"
            )
            return
        result = merge(source, target, by=by, strategy=strategy)
        assert result.outcome == outcome
        assert model.state_of(self.graph, target) == expected.state
        if outcome != "already_up_to_date":
            parents = (self.heads[target], self.heads[source])
            self.heads[target] = self.commits.add(expected.state, *parents)
        assert merge(source, target).outcome == "already_up_to_date"


def apply_edit(tx: Any, edit: tuple[Any, ...]) -> None:
    match edit:
        case ("person", name, age, nick, mail):
            tx.upsert("Person", name=name, age=age, nick=nick, mail=mail)
        case ("age", name, age):
            tx.update("Person", name, age=age)
        case ("nick", name, nick):
            tx.update("Person", name, nick=nick)
        case ("drop", name):
            tx.delete("Person", name)
        case ("edge", id, source, target, since):
            tx.upsert("Knows", {"id": id}, from_=source, to=target, since=since)
        case ("cut", id):
            tx.delete("Knows", id)
        case ("note", title, text, author, name):
            tx.upsert("Note", title=title, text=text)
            tx.upsert("WrittenBy", {"id": author}, from_=title, to=name)
        case ("text", title, text):
            tx.update("Note", title, text=text)
        case ("tear", title):
            tx.delete("Note", title)
        case ("author", id, title, name):
            tx.upsert("WrittenBy", {"id": id}, from_=title, to=name)
        case ("unsign", id):
            tx.delete("WrittenBy", id)


def applied(state: model.State, changes: list[EntityChange]) -> model.State:
    """A state with changes applied, each of which must fit it exactly."""
    result = dict(state)
    for change in changes:
        key = (change.kind, change.type_name, change.id)
        assert (key in result) == (change.before is not None)
        if change.before is not None:
            assert row_of(change.before) == result.pop(key)
        if change.after is not None:
            result[key] = row_of(change.after)
    return result


def row_of(entity: og.types.Entity) -> dict[str, Any]:
    names = {"from": "src", "to": "dst"}
    return {names.get(name, name): value for name, value in entity.items()}


@settings(max_examples=35, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(steps, min_size=4, max_size=24))
def test_histories_follow_the_model(actions: list[tuple[Any, ...]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World.new(folder)
        for action in actions:
            world.step(action)
        check_diffs(world)


def check_diffs(world: World) -> None:
    """diff(a, b) applied to a gives b, for the branches' heads and what came before them."""
    for a in BRANCHES:
        for b in BRANCHES:
            before, after = (world.commits.states[world.heads[name]] for name in (a, b))
            changes = list(world.graph.diff(a, b))
            assert applied(before, changes) == after
            order = [(change.kind == "edge", change.type_id, change.id) for change in changes]
            assert order == sorted(order)


def test_two_branches_that_merged_a_third_do_not_conflict(tmp_path: Path) -> None:
    world = World.new(str(tmp_path))
    world.commit("x", [("age", "a", 2)])
    world.merge("x", "main", "row", "fail")
    world.merge("x", "y", "row", "fail")
    world.commit("main", [("age", "b", 2)])
    world.commit("y", [("age", "c", 2)])
    outcome, expected = world.commits.merge(world.heads["y"], world.heads["main"], by="row", strategy="fail")
    assert (outcome, expected.conflicts) == ("merged", set())
    world.merge("y", "main", "row", "fail")


def test_crossed_merges_do_not_conflict(tmp_path: Path) -> None:
    """Each branch merges the other's older head; then each goes on. The bases are two, and disagree on everything."""
    world = World.new(str(tmp_path))
    graph = world.graph
    world.commit("x", [("age", "a", 2)])
    world.commit("y", [("age", "b", 2)])
    for name in ("x", "y"):
        graph.branches.create(f"old-{name}", name)
        world.heads[f"old-{name}"] = world.heads[name]
    world.merge("old-y", "x", "row", "fail")
    world.merge("old-x", "y", "row", "fail")
    world.commit("x", [("age", "a", 0), ("nick", "c", "n")])
    world.commit("y", [("age", "b", 0)])
    assert len(world.commits.bases(world.heads["x"], world.heads["y"])) == 2
    result = graph.branches.merge("x", "y", dry_run=True)
    assert (result.conflicts, len(result.bases)) == ((), 2)
    world.merge("x", "y", "row", "fail")
    world.merge("y", "x", "row", "fail")
    assert model.state_of(graph, "x") == model.state_of(graph, "y")


def test_crossed_merges_that_settled_a_conflict_differently_conflict(tmp_path: Path) -> None:
    world = World.new(str(tmp_path))
    world.commit("x", [("age", "a", 2)])
    world.commit("y", [("age", "a", 0)])
    for name in ("x", "y"):
        world.graph.branches.create(f"old-{name}", name)
        world.heads[f"old-{name}"] = world.heads[name]
    world.merge("old-y", "x", "row", "ours")
    world.merge("old-x", "y", "row", "ours")
    world.commit("y", [("nick", "b", "n")])
    result = world.graph.branches.merge("x", "y", dry_run=True)
    assert [(each.kind, each.entity_id) for each in result.conflicts] == [("divergent_update", "a")]
    world.merge("x", "y", "row", "fail")
    world.merge("x", "y", "property", "theirs")


def test_crossed_merges_that_settled_a_conflict_alike_go_on_from_there(tmp_path: Path) -> None:
    """The bases contradict each other, and both branches took the same side: what one of them made of it is newer."""
    world = World.new(str(tmp_path))
    world.commit("x", [("age", "a", 2), ("drop", "b")])
    world.commit("y", [("age", "a", 0), ("nick", "b", "n")])
    for name in ("x", "y"):
        world.graph.branches.create(f"old-{name}", name)
        world.heads[f"old-{name}"] = world.heads[name]
    world.merge("old-y", "x", "row", "ours")
    world.merge("old-x", "y", "row", "theirs")
    world.commit("y", [("age", "a", 1), ("person", "b", 2, "o", None)])
    world.commit("x", [("nick", "a", "o")])
    result = world.graph.branches.merge("y", "x", by="property", dry_run=True)
    assert (result.outcome, len(result.bases)) == ("merged", 2)
    world.merge("y", "x", "property", "fail")
    state = model.state_of(world.graph, "x")
    assert (state["node", "Person", "a"]["age"], state["node", "Person", "a"]["nick"]) == (1, "o")
    assert state["node", "Person", "b"]["nick"] == "o"
