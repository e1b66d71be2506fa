"""The walk of a team: the schema changes on a branch and is loaded there, others load on main, the branch is merged back, and
readers of the feed that know nothing of it follow main all the way."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from evolve.test_random_evolution import follow

import omnigraph as og
from omnigraph.errors import MergeConflicts

SCHEMA = """
node Person { name: String @key  age: I32?  city: String? }
node Team { name: String @key }
edge Plays: Person -> Team
"""
LATER = """
node Employee @rename_from("Person") {
  name: String @key
  years: I64? @rename_from("age")
  level: enum(junior, senior) @default(junior)
  mail: String? @unique
}
node Team { name: String @key }
node Office { name: String @key }
edge Plays: Employee -> Team
edge Sits: Employee -> Office @card(0..1)
"""


def lines(folder: Path, name: str, records: list[dict[str, Any]]) -> str:
    file = folder / f"{name}.jsonl"
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return str(file)


def node(type: str, **data: Any) -> dict[str, Any]:
    return {"type": type, "data": data}


def edge(type: str, source: str, target: str) -> dict[str, Any]:
    return {"edge": type, "from": source, "to": target, "data": {}}


def test_a_team_changes_the_schema_on_a_branch_and_merges_it_back(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=SCHEMA, durability="process")
    people = [node("Person", name=f"p{number}", age=number, city="rome") for number in range(6)]
    start = [*people, node("Team", name="red"), *(edge("Plays", f"p{number}", "red") for number in range(6))]
    graph.load(lines(tmp_path, "start", start), mode="append", engine="local")
    out = tmp_path / "baseline.ndjson"
    cursor = graph.baseline(str(out)).resume_cursor
    records = [json.loads(line) for line in out.read_text().splitlines()[:-1]]

    # One works on the schema, with data, on a branch.
    graph.branches.create("hr")
    graph.schema.apply(LATER, branch="hr", actor="ann")
    new = [
        node("Employee", name="ann", years=2**40, level="senior", mail="ann@x"),
        node("Employee", name="p1", years=11, level="senior", mail="p1@x"),
        node("Office", name="north"),
        edge("Sits", "ann", "north"),
    ]
    graph.load(lines(tmp_path, "hr", new), mode="merge", branch="hr", engine="local", actor="ann")

    # Others go on with main, which is as it was.
    graph.load(
        lines(tmp_path, "main", [node("Person", name="bob", age=7), node("Person", name="p2", age=22, city="oslo")]),
        mode="merge",
        engine="local",
        actor="bob",
    )
    with graph.transaction(actor="bob") as tx:
        tx.delete("Person", "p5")

    # Bob gave p2 another city, which is gone on the branch: that is for the team to decide.
    with pytest.raises(MergeConflicts) as caught:
        graph.branches.merge("hr")
    assert [(each.kind, each.entity) for each in caught.value.schema_conflicts] == [
        ("drop_vs_values", "node:Person.city")
    ]
    assert (
        str(caught.value.schema_conflicts[0].ours)
        == "line 2: node Person { name: String @key  age: I32?  city: String? }"
    )
    before = graph.show("main")
    assert graph.branches.merge("hr", strategy="theirs").outcome == "merged"

    assert graph.schema.plan(LATER).is_empty
    found = {row["name"]: row for row in all_of(graph, "Employee")}
    assert {name: row["years"] for name, row in found.items()} == {
        "ann": 2**40, "bob": 7, "p0": 0, "p1": 11, "p2": 22, "p3": 3, "p4": 4,
    }  # fmt: skip
    assert {row["level"] for name, row in found.items() if name not in ("ann", "p1")} == {"junior"}
    sitting = graph.query("query q() { match { $e: Employee $o: Office $e sits $o } return { $e.name as name } }")
    assert sitting.rows == [{"name": "ann"}]
    playing = graph.query("query q() { match { $e: Employee $t: Team $e plays $t } return { count($e) as count } }")
    assert playing.rows == [{"count": 5}]
    # Time travel has the names of its time, and an entity one history.
    assert graph.entity("Person", "p1", revision=before.id) == {"id": "p1", "name": "p1", "age": 1, "city": "rome"}
    assert graph.entity("Employee", "p1")["years"] == 11  # type: ignore[index]

    versions = [(version.commit.kind, version.value) for version in graph.history("Employee", "p1")]
    assert [kind for kind, _ in versions] == ["merge", "load"]
    assert versions[1][1] == {"id": "p1", "name": "p1", "age": 1, "city": "rome"}

    follows_knowing(graph, cursor, records)
    follows_unknowing(graph, cursor, records)
    diffed = {(change.op, change.type_name, change.id) for change in graph.diff(before.id, "main", kinds=["node"])}
    assert diffed == {("insert", "Employee", "ann"), ("update", "Employee", "p1"), ("insert", "Office", "north")}


def all_of(graph: og.Graph, type: str) -> list[dict[str, Any]]:
    table = graph._repository.resolve("main").table(f"node:{type}")
    return [] if table is None else table.read().to_pylist()


def follows_knowing(graph: og.Graph, cursor: str, records: list[dict[str, Any]]) -> None:
    """A reader that takes schema steps has main, name by name."""
    held: dict[str, dict[str, dict[str, Any]]] = {"Person": {}, "Team": {}}
    for record in records:
        if "type" in record:
            values = {name: value for name, value in record["data"].items() if name not in ("id", "name")}
            held[record["type"]][record["data"]["name"]] = values
    page = graph.changes("main", since=cursor)
    for block in page.blocks:
        nodes = tuple(change for change in block.changes if change.kind == "node")
        follow(held, og.types.CommitChanges(block.commit, nodes, schema_steps=block.schema_steps))
    for type in ("Employee", "Team", "Office"):
        expected = {row["id"]: {k: v for k, v in row.items() if k not in ("id", "name")} for row in all_of(graph, type)}
        assert held[type] == expected


def follows_unknowing(graph: og.Graph, cursor: str, records: list[dict[str, Any]]) -> None:
    """A reader from before schema changes, which knows entities by the ids of their types, has every entity and no other."""
    (person_id,) = {
        change.type_id for block in graph.changes("main", since=cursor).blocks for change in block.changes if change.type_name == "Person"
    }  # fmt: skip
    held = {record["data"]["name"] for record in records if record.get("type") == "Person"}
    for block in graph.changes("main", since=cursor).blocks:
        for change in block.changes:
            if change.type_id == person_id:
                (held.discard if change.op == "delete" else held.add)(change.id)
    assert held == {row["id"] for row in all_of(graph, "Employee")}
