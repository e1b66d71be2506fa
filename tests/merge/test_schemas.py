"""Merge and diff where the schema moved, on one side or on both."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph as og
from omnigraph.errors import MergeConflicts

PERSON = "node Person {{ name: String @key\n age: I32?\n mail: String?{mail}\n{body} }}\n"
SCHEMA = PERSON.format(mail="", body="") + "node City { name: String @key }\n"
WITH_TYPE = SCHEMA + "node Pet { name: String @key }\n"
WITH_RULES = SCHEMA.replace("mail: String?", "mail: String? @unique").replace("\n }", "\n @range(age, 0..9) }")
WITHOUT_CITY = PERSON.format(mail="", body="")
WITH_DEFAULT = SCHEMA.replace("age: I32?", "age: I32?\n rank: I32 @default(3)\n note: String?")
RENAMED = SCHEMA.replace("node Person {", 'node Human @rename_from("Person") {')


def apply_schema(graph: og.Graph, branch: str, text: str) -> None:
    graph.schema.apply(text, branch=branch)


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


def people(graph: og.Graph, column: str, branch: str = "main") -> dict[str, object]:
    table = graph._repository.resolve(branch).table("node:Person")
    assert table is not None
    return {row["id"]: row[column] for row in table.read().to_pylist()}


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
    assert "Pet" in graph.schema.catalog.nodes
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


def test_schemas_that_moved_on_both_sides_are_merged_and_every_row_keeps_the_rules_of_both(graph: og.Graph) -> None:
    apply_schema(graph, "work", WITH_TYPE)
    apply_schema(graph, "main", WITH_RULES)
    with graph.transaction("work") as tx:
        tx.insert("Pet", name="rex")
        tx.update("Person", "a", age=2)
    with graph.transaction() as tx:
        tx.insert("Person", name="d", age=9)
    result = graph.branches.merge("work")
    assert (result.outcome, [step.line() for step in result.schema_steps]) == ("merged", ["add node type 'Pet'"])
    assert (ids(graph, "node:Pet"), ids(graph, "node:Person")) == (["rex"], ["a", "b", "c", "d"])
    with graph.transaction("work") as tx:
        tx.update("Person", "a", age=10)
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work")
    assert [each.kind for each in caught.value.conflicts] == ["value_constraint_violation"]


def test_a_property_renamed_here_and_given_values_there_has_them_under_its_new_name(graph: og.Graph) -> None:
    apply_schema(graph, "main", SCHEMA.replace("age: I32?", 'years: I64? @rename_from("age")'))
    with graph.transaction("work") as tx:
        tx.update("Person", "a", age=2)
    with graph.transaction() as tx:
        tx.update("Person", "b", years=2**40)
    assert graph.branches.merge("work").outcome == "merged"
    assert people(graph, "years") == {"a": 2, "b": 2**40, "c": 1}


def test_properties_added_on_both_sides_have_the_values_of_both(graph: og.Graph) -> None:
    apply_schema(graph, "work", WITH_DEFAULT)
    apply_schema(graph, "main", SCHEMA.replace("age: I32?", "age: I32?\n nick: String?"))
    with graph.transaction("work") as tx:
        tx.update("Person", "a", rank=7, note="n")
        tx.insert("Person", name="e")
    with graph.transaction() as tx:
        tx.update("Person", "b", nick="bee")
        tx.insert("Person", name="d", nick="dee")
    assert graph.branches.merge("work").outcome == "merged"
    assert people(graph, "rank") == {"a": 7, "b": 3, "c": 3, "d": 3, "e": 3}
    assert people(graph, "nick") == {"a": None, "b": "bee", "c": None, "d": "dee", "e": None}
    assert people(graph, "note") == {"a": "n", "b": None, "c": None, "d": None, "e": None}


def test_branches_that_add_the_same_type_have_its_entities_together_merge_after_merge(graph: og.Graph) -> None:
    for branch in ("main", "work"):
        apply_schema(graph, branch, WITH_TYPE)
        with graph.transaction(branch) as tx:
            tx.insert("Pet", name=f"{branch} rex")
    assert graph.branches.merge("work").outcome == "merged"
    assert ids(graph, "node:Pet") == ["main rex", "work rex"]
    with graph.transaction("work") as tx:
        tx.insert("Pet", name="tom")
        tx.delete("Pet", "work rex")
    with graph.transaction() as tx:
        tx.insert("Pet", name="joe")
    assert graph.branches.merge("work").outcome == "merged"
    assert ids(graph, "node:Pet") == ["joe", "main rex", "tom"]


def test_branches_that_add_one_type_with_other_columns_come_to_one_table(graph: og.Graph) -> None:
    apply_schema(graph, "main", SCHEMA + "node Pet { name: String @key\n legs: I32? }\n")
    apply_schema(graph, "work", SCHEMA + "node Pet { name: String @key\n tail: Bool? }\n")
    with graph.transaction() as tx:
        tx.insert("Pet", name="rex", legs=4)
    with graph.transaction("work") as tx:
        tx.insert("Pet", name="tom", tail=True)
    assert graph.branches.merge("work").outcome == "merged"
    pets = graph.query(
        "query q() { match { $p: Pet } return { $p.name, $p.legs, $p.tail } order { $p.name asc } }"
    ).rows
    assert [tuple(row.values()) for row in pets] == [("rex", 4, None), ("tom", None, True)]


CONFLICTS = [
    # what main declares, what work declares, what work writes, the conflict
    (WITH_TYPE, WITH_TYPE.replace("Pet {", 'Pet @description("x") {'), None, ("divergent_change", "node:Pet")),
    (WITHOUT_CITY, SCHEMA, ("City", "oslo"), ("drop_vs_values", "node:City")),
    (SCHEMA.replace(" age: I32?\n", ""), SCHEMA, ("Person", "d"), ("drop_vs_values", "node:Person.age")),
    (SCHEMA.replace(" age: I32?\n", ""), SCHEMA.replace("I32", "I64"), None, ("drop_vs_change", "node:Person.age")),
]


@pytest.mark.parametrize(("ours", "theirs", "written", "expected"), CONFLICTS, ids=[each[3][0] for each in CONFLICTS])
def test_contradicting_schemas_are_a_conflict_that_a_strategy_settles(
    graph: og.Graph, ours: str, theirs: str, written: tuple[str, str] | None, expected: tuple[str, str]
) -> None:
    apply_schema(graph, "main", ours)
    apply_schema(graph, "work", theirs)
    if written is not None:
        with graph.transaction("work") as tx:
            tx.insert(written[0], {"name": written[1]} | ({"age": 5} if written[0] == "Person" else {}))
    with graph.transaction() as tx:
        tx.insert("Person", name="z")
    tried = graph.branches.merge("work", dry_run=True)
    assert (tried.outcome, [(each.kind, each.entity) for each in tried.schema_conflicts]) == ("conflicts", [expected])
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("work")
    assert caught.value.schema_conflicts == tried.schema_conflicts
    for strategy, text in (("ours", ours), ("theirs", theirs)):
        graph.branches.create(strategy)
        assert graph.branches.merge("work", strategy, strategy=strategy).outcome == "merged"
        assert graph.schema.plan(text, branch=strategy).is_empty
        assert ("z" in people(graph, "name", strategy)) is True
    if written is not None and written[0] == "City":
        table = graph._repository.resolve("theirs").table("node:City")
        assert table is not None
        assert sorted(table.read(["id"]).column("id").to_pylist()) == ["oslo", "rome"]
    if written is not None and written[0] == "Person":
        assert people(graph, "age", "theirs") == {"a": 1, "b": 1, "c": 1, "d": 5, "z": None}


def test_a_dropped_property_that_nobody_wrote_is_dropped(graph: og.Graph) -> None:
    apply_schema(graph, "main", SCHEMA.replace(" age: I32?\n", ""))
    with graph.transaction("work") as tx:
        tx.update("Person", "a", mail="m")
        tx.insert("Person", name="d")
    assert graph.branches.merge("work").outcome == "merged"
    assert people(graph, "mail") == {"a": "m", "b": None, "c": None, "d": None}


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
