"""Merge and diff where the schema moved, on one side or on both."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import MergeConflicts, SchemaBoundary

PERSON = "node Person {{ name: String @key\n age: I32?\n mail: String?{mail}\n{body} }}\n"
SCHEMA = PERSON.format(mail="", body="") + "node City { name: String @key }\n"
WITH_TYPE = SCHEMA + "node Pet { name: String @key }\n"
WITH_RULES = SCHEMA.replace("mail: String?", "mail: String? @unique").replace("\n }", "\n @range(age, 0..9) }")
WITHOUT_CITY = PERSON.format(mail="", body="")
WITH_DEFAULT = SCHEMA.replace("age: I32?", "age: I32?\n rank: I32 @default(3)\n note: String?")
RENAMED = SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {')


def apply_schema(graph: og.Graph, branch: str, text: str) -> None:
    graph.apply_schema(text, branch=branch)


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    with graph.transaction() as tx:
        for name in "abc":
            tx.insert("Person", name=name, age=1)
        tx.insert("City", name="rome")
    graph.branches.create("work")
    return graph


def ids(graph: og.Graph, key: str) -> list[str]:
    table = graph._repository.resolve("main").table(key)
    return [] if table is None else sorted(table.read(["id"]).column("id").to_pylist())


def test_a_schema_that_moved_on_the_target_is_kept(graph: og.Graph) -> None:
    apply_schema(graph, "main", WITH_TYPE)
    with graph.transaction() as tx:
        tx.insert("Pet", name="rex")
        tx.update("Person", "a", age=2)
    with graph.transaction("work") as tx:
        tx.insert("Person", name="d")
    assert graph.branches.merge("work").outcome == "merged"
    assert (ids(graph, "node:Pet"), ids(graph, "node:Person")) == (["rex"], ["a", "b", "c", "d"])


def test_a_schema_that_moved_on_the_source_is_taken(graph: og.Graph) -> None:
    apply_schema(graph, "work", WITH_TYPE)
    with graph.transaction("work") as tx:
        tx.insert("Pet", name="rex")
        tx.update("Person", "a", age=2)
    with graph.transaction() as tx:
        tx.insert("Person", name="d")
        tx.delete("Person", "b")
    assert graph.branches.merge("work").outcome == "merged"
    assert "Pet" in graph.schema.nodes
    assert (ids(graph, "node:Pet"), ids(graph, "node:Person")) == (["rex"], ["a", "c", "d"])
    state = graph._repository.resolve("main").state("node:Person")
    assert state is not None
    assert state.generation == 3


def test_a_strategy_means_the_same_when_the_source_brings_the_schema(graph: og.Graph) -> None:
    apply_schema(graph, "work", WITH_TYPE)
    with graph.transaction("work") as tx:
        tx.update("Person", "a", age=2)
    with graph.transaction() as tx:
        tx.update("Person", "a", age=3)
    for strategy, age in (("ours", 3), ("theirs", 2)):
        graph.branches.create(strategy)
        graph.branches.merge("work", strategy, strategy=strategy)
        table = graph._repository.resolve(strategy).table("node:Person")
        assert table is not None
        assert table.lookup("id", ["a"], ["age"]).to_pylist() == [{"age": age}]


def test_rows_of_the_source_obey_the_rules_of_the_target(graph: og.Graph) -> None:
    apply_schema(graph, "main", WITH_RULES)
    with graph.transaction() as tx:
        tx.update("Person", "b", mail="m")
    with graph.transaction("work") as tx:
        tx.update("Person", "a", age=10, mail="m")
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work")
    assert [each.kind for each in caught.value.conflicts] == ["value_constraint_violation", "unique_violation"]


def test_rows_of_the_target_obey_the_rules_the_source_brings(graph: og.Graph) -> None:
    apply_schema(graph, "work", WITH_RULES)
    with graph.transaction() as tx:
        tx.update("Person", "a", age=10)
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work")
    assert [each.kind for each in caught.value.conflicts] == ["value_constraint_violation"]


def test_a_fast_forward_takes_the_schema_along(graph: og.Graph) -> None:
    apply_schema(graph, "work", WITH_TYPE)
    with graph.transaction("work") as tx:
        tx.insert("Pet", name="rex")
    assert graph.branches.merge("work").outcome == "fast_forward"
    assert ids(graph, "node:Pet") == ["rex"]


def test_schemas_that_moved_apart_are_not_merged(graph: og.Graph) -> None:
    apply_schema(graph, "work", WITH_TYPE)
    apply_schema(graph, "main", WITH_RULES)
    with pytest.raises(SchemaBoundary):
        graph.branches.merge("work")


def test_rows_of_a_type_the_other_side_removed_are_not_merged(graph: og.Graph) -> None:
    apply_schema(graph, "main", WITHOUT_CITY)
    with graph.transaction("work") as tx:
        tx.insert("City", name="oslo")
    with pytest.raises(SchemaBoundary):
        graph.branches.merge("work")


def test_a_diff_across_schemas_compares_what_both_have(graph: og.Graph) -> None:
    apply_schema(graph, "work", WITH_DEFAULT)
    assert list(graph.diff("main", "work")) == []
    with graph.transaction() as tx:
        tx.update("Person", "a", age=2)
    (change,) = graph.diff("main", "work")
    assert (change.op, change.id) == ("update", "a")
    assert change.before is not None
    assert change.before["rank"] == 3


def test_a_renamed_type_is_the_same_type(graph: og.Graph) -> None:
    apply_schema(graph, "work", RENAMED)
    assert list(graph.diff("main", "work")) == []
    with graph.transaction() as tx:
        tx.update("Person", "a", age=2)
        tx.insert("Person", name="d")
    found = [(change.op, change.type_name, change.id) for change in graph.diff("work", "main")]
    assert found == [("update", "Person", "a"), ("insert", "Person", "d")]
    with graph.transaction("work") as tx:
        tx.delete("Human", "b")
    assert graph.branches.merge("work").outcome == "merged"
    assert ids(graph, "node:Human") == ["a", "c", "d"]
    assert "node:Person" not in graph._repository.resolve("main").snapshot.tables


def test_a_diff_over_a_removed_type_has_its_entities_as_deleted(graph: og.Graph) -> None:
    apply_schema(graph, "work", WITHOUT_CITY)
    (gone,) = graph.diff("main", "work")
    assert (gone.op, gone.type_name, gone.before, gone.after) == (
        "delete",
        "City",
        {"id": "rome", "name": "rome"},
        None,
    )
    (back,) = graph.diff("work", "main")
    assert (back.op, back.type_name, back.after) == ("insert", "City", {"id": "rome", "name": "rome"})
