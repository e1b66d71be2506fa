"""Blame names the commit that gave each property its value."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.history.chain import Chain
from omnigraph.history.values import Entry
from omnigraph.read import entity_history
from omnigraph.snapshot import View
from omnigraph.values.arrow import Entity

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
edge Knows: Person -> Person { since: I32? }
"""


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g", schema=SCHEMA, durability="process")


def write(graph: og.Graph, message: str, branch: str = "main", **values: object) -> None:
    with graph.transaction(branch, message=message) as tx:
        tx.upsert("Person", **values)


def messages(graph: og.Graph, id: str, revision: str = "main") -> dict[str, str | None]:
    return {name: commit.message for name, commit in graph.blame("Person", id, revision=revision).items()}


def test_each_property_has_its_own_commit(graph: og.Graph) -> None:
    write(graph, "first", name="a", age=1, city="Rome")
    write(graph, "second", name="a", age=2, city="Rome")
    write(graph, "another entity", name="b")
    write(graph, "third", name="a", age=2, city="Oslo")
    assert messages(graph, "a") == {"name": "first", "age": "second", "city": "third"}
    assert messages(graph, "a", "main~1") == {"name": "first", "age": "second", "city": "first"}


def test_a_value_that_came_back_was_set_when_it_came_back(graph: og.Graph) -> None:
    for message, age in (("one", 1), ("two", 2), ("one again", 1)):
        write(graph, message, name="a", age=age)
    assert messages(graph, "a")["age"] == "one again"


def test_an_entity_that_was_made_again_was_set_then(graph: og.Graph) -> None:
    write(graph, "first", name="a", age=1)
    with graph.transaction() as tx:
        tx.delete("Person", "a")
    with pytest.raises(og.errors.NotFound):
        graph.blame("Person", "a")
    write(graph, "again", name="a", age=1)
    assert set(messages(graph, "a").values()) == {"again"}


def test_what_a_merge_brought_was_set_on_its_branch(graph: og.Graph) -> None:
    write(graph, "first", name="a", age=1, city="Rome")
    graph.branches.create("review")
    write(graph, "on main", name="a", age=2, city="Rome")
    write(graph, "on review", "review", name="a", age=1, city="Oslo")
    graph.branches.create("nested", "review")
    write(graph, "on nested", "nested", name="b", age=5)
    write(graph, "meanwhile", "review", name="c")
    graph.branches.merge("nested", into="review", message="inner")
    graph.branches.merge("review", by="property", message="outer")
    graph.branches.delete("nested", force=True)
    graph.branches.delete("review", force=True)
    assert messages(graph, "a") == {"name": "first", "age": "on main", "city": "on review"}
    assert messages(graph, "b") == {"name": "on nested", "age": "on nested", "city": "on nested"}


def test_what_a_merge_decided_is_its_own(graph: og.Graph) -> None:
    write(graph, "first", name="a", age=1)
    graph.branches.create("review")
    write(graph, "on main", name="a", age=2)
    write(graph, "on review", "review", name="a", age=3)
    (conflict,) = graph.branches.merge("review", dry_run=True).conflicts
    graph.branches.merge("review", resolutions=[conflict.resolve("value", {"name": "a", "age": 4})], message="merge")
    assert str(messages(graph, "a")["age"]).startswith("merge")
    assert messages(graph, "a")["name"] == "first"


def test_the_ends_of_an_edge_have_a_commit(graph: og.Graph) -> None:
    with graph.transaction(message="both") as tx:
        tx.insert("Person", name="a")
        tx.insert("Person", name="b")
        tx.insert("Knows", id="k", from_="a", to="b")
    with graph.transaction(message="since") as tx:
        tx.upsert("Knows", id="k", from_="a", to="b", since=1)
    found = {name: commit.message for name, commit in graph.blame("Knows", "k").items()}
    assert found == {"from": "both", "to": "both", "since": "since"}


def test_properties_keep_their_commits_whatever_they_are_called_later(graph: og.Graph) -> None:
    """By their stable ids: a rename sets nothing, what is dropped is not named, what is added was set when it was declared."""
    write(graph, "first", name="a", age=1, city="Rome")
    write(graph, "another entity", name="b")
    renamed = (
        SCHEMA.replace("node Person", 'node Human @rename_from("Person")')
        .replace("Person -> Person", "Human -> Human")
        .replace("age: I32?", "age: [I64]?  rank: I32 @default(3)")
        .replace("city: String?", 'town: String? @rename_from("city")  note: String?')
    )
    schema = graph.schema.apply(renamed).commit
    assert schema is not None
    found = {name: commit.message or commit.kind for name, commit in graph.blame("Human", "a").items()}
    wanted = {"name": "first", "age": "first", "town": "first", "rank": "schema", "note": "schema"}
    assert found == wanted
    assert [version.commit.message for version in graph.history("Human", "a")] == ["first"]
    with graph.transaction(message="ranked") as tx:
        tx.update("Human", "a", rank=4)
    with graph.transaction(message="another entity again") as tx:
        tx.update("Human", "b", rank=4)
    found = {name: commit.message or commit.kind for name, commit in graph.blame("Human", "a").items()}
    assert found == {**wanted, "rank": "ranked"}
    graph.schema.apply(renamed.replace("rank: I32 @default(3)", ""))
    found = {name: commit.message or commit.kind for name, commit in graph.blame("Human", "a").items()}
    assert found == {"name": "first", "age": "first", "town": "first", "note": "schema"}
    assert [version.commit.message for version in graph.history("Human", "a")] == ["ranked", "first"]
    assert found.keys() | {"id"} == graph.entity("Human", "a").keys()


def test_what_was_taken_back_was_set_then(graph: og.Graph) -> None:
    write(graph, "first", name="a", age=1, city="Rome")
    write(graph, "second", name="a", age=2, city="Rome")
    graph.revert("main", message="back")
    assert messages(graph, "a") == {"name": "first", "age": "back", "city": "first"}
    assert [version.commit.message for version in graph.history("Person", "a")] == ["back", "second", "first"]


def test_history_and_blame_read_each_commit_once_and_the_table_where_the_entity_may_have_changed(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = 200
    for number in range(commits):
        write(graph, f"m{number}", name="a" if number in (3, 150) else f"p{number}", age=number)
    read, looked_up = Counter[int](), Counter[int]()
    find, entity = Chain.find, entity_history.entity

    def counted_find(self: Chain, branch: str, position: int) -> Entry | None:
        read[position] += 1
        return find(self, branch, position)

    def counted_entity(view: View, type_name: str, entity_id: str) -> Entity | None:
        looked_up[view.snapshot.commit.ref.seq] += 1
        return entity(view, type_name, entity_id)

    monkeypatch.setattr(Chain, "find", counted_find)
    monkeypatch.setattr(entity_history, "entity", counted_entity)
    assert [version.commit.message for version in graph.history("Person", "a")] == ["m150", "m3"]
    assert max(read.values()) <= 2
    assert sum(looked_up.values()) < commits / 8
    read.clear()
    assert messages(graph, "a") == {"name": "m3", "age": "m150", "city": "m3"}
    assert max(read.values()) <= 2
