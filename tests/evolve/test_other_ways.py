"""Loads, exports, merges, searches and checks of graphs whose rows are older than their schema."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import UniqueViolation
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, disarm_all, raising

BEFORE = """
node Person { name: String @key  age: I32?  bio: String? @index  near: Vector(2)? @index  code: I32? @unique }
edge Knows: Person -> Person { since: I32? }
"""
AFTER = """
node Person {
  name: String @key
  years: I64? @rename_from("age")
  story: String? @index @rename_from("bio")
  place: Vector(2)? @index @rename_from("near")
  code: I64? @unique
  lang: String @default("en")
  tags: [String]?
}
edge Knows: Person -> Person { year: I64? @rename_from("since") }
"""


@pytest.fixture
def g(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "g", schema=BEFORE, durability="process")
    with graph.transaction() as tx:
        for n in range(20):
            bio = "likes chess" if n % 2 else "likes climbing"
            tx.insert("Person", name=f"p{n:02}", age=n, bio=bio, near=[float(n), 1.0], code=n)
        for n in range(19):
            tx.insert("Knows", id=f"k{n:02}", from_=f"p{n:02}", to=f"p{n + 1:02}", since=n)
    graph.maintenance.optimize()
    graph.schema.apply(AFTER)
    return graph


def lines(path: Path, *records: dict[str, Any]) -> Path:
    path.write_text("".join(json.dumps({"type": "Person", "data": record}) + "\n" for record in records))
    return path


def test_loads_append_merge_and_overwrite(g: og.Graph, tmp_path: Path) -> None:
    new = {"name": "new", "years": 2**40, "code": 100, "lang": "fr", "tags": ["x"]}
    g.load(lines(tmp_path / "a.jsonl", new), mode="append", engine="local")
    assert g.entity("Person", "new")["years"] == 2**40
    receipt = g.load(
        lines(tmp_path / "b.jsonl", {**new, "code": 5, "name": "p05", "lang": "en"}, new), mode="merge", engine="local"
    )
    assert (receipt.total.updated, receipt.total.unchanged) == (1, 1)
    assert g.entity("Person", "p05")["years"] == 2**40
    with pytest.raises(UniqueViolation):
        g.load(lines(tmp_path / "c.jsonl", {"name": "other", "code": 7}), mode="append", engine="local")
    g.load(
        lines(tmp_path / "d.jsonl", *({"name": f"p{n:02}", "years": 1} for n in range(20))),
        mode="overwrite",
        engine="local",
    )
    assert g.entity("Person", "p07") == {
        "id": "p07", "name": "p07", "years": 1, "story": None, "place": None, "code": None, "lang": "en", "tags": None
    }  # fmt: skip
    assert g.query("query q() { match { $p: Person $p knows $q } return { count($q) as n } }").rows == [{"n": 19}]


@pytest.mark.usefixtures("stores_every_commit")
def test_a_prepared_load_is_resumed_under_the_schema_it_was_made_for(g: og.Graph, tmp_path: Path) -> None:
    arm(Failpoint.RECOVERY_PLAN_WRITTEN, raising(FailpointReached()))
    try:
        g.load(lines(tmp_path / "a.jsonl", {"name": "new", "years": 7, "tags": ["x"]}), mode="append", engine="local")
    except FailpointReached:
        pass
    finally:
        disarm_all()
    with g.transaction() as tx:
        tx.insert("Person", name="meanwhile", lang="fr")
    (prepared,) = g.recovery.list()
    g.recovery.resume(prepared.commit_id)
    assert (g.entity("Person", "new")["tags"], g.entity("Person", "meanwhile")["lang"]) == (["x"], "fr")


def test_exports_are_loaded_again(g: og.Graph, tmp_path: Path) -> None:
    with g.transaction() as tx:
        tx.insert("Person", name="new", years=2**40, tags=["x", "y"])
    copy = og.init(tmp_path / "copy", schema=AFTER, durability="process")
    g.export(tmp_path / "all.jsonl")
    copy.load(tmp_path / "all.jsonl", mode="append", engine="local")
    for id in ("p00", "p13", "new"):
        assert copy.entity("Person", id) == g.entity("Person", id)
    assert copy.entity("Knows", "k03") == g.entity("Knows", "k03")


def test_searches_find_what_is_older_and_what_is_newer(g: og.Graph) -> None:
    with g.transaction() as tx:
        tx.insert("Person", name="new", story="chess and more", place=[3.2, 1.0])
    chess = 'query q() { match { $p: Person search($p.story, "chess") } return { count($p) as n } }'
    near = "query q($v: Vector(2)) { match { $p: Person } return { $p.name as n } order { nearest($p.place, $v) } limit 2 }"
    for _ in range(2):
        assert g.query(chess).rows == [{"n": 11}]
        assert len(g.query(near, {"v": [3.1, 1.0]}).rows) == 2
        g.maintenance.optimize()
    pending = {(each.column, each.kind) for table in g.maintenance.optimize().tables for each in table.after.pending}
    assert ("story", "INVERTED") not in pending


def test_unique_values_are_compared_across_columns(g: og.Graph) -> None:
    with pytest.raises(UniqueViolation), g.transaction() as tx:
        tx.insert("Person", name="other", code=7)
    with g.transaction() as tx:
        tx.update("Person", "p07", code=2**40)
        tx.insert("Person", name="other", code=7)


def test_branches_with_rows_of_both_kinds_merge(g: og.Graph) -> None:
    g.branches.create("b")
    with g.transaction("b") as tx:
        tx.insert_many("Person", [{"name": f"b{n}", "years": n, "tags": ["b"]} for n in range(30)])
        tx.update("Person", "p01", years=100)
    with g.transaction() as tx:
        tx.insert("Person", name="main", lang="fr")
        tx.update("Person", "p02", lang="de")
    g.branches.merge("b")
    found = {id: g.entity("Person", id) for id in ("b7", "p01", "p02", "main", "p03")}
    assert [found[id]["years"] for id in found] == [7, 100, 2, None, 3]
    assert [found[id]["lang"] for id in found] == ["en", "en", "de", "fr", "en"]
    og.open(g.uri, verify="full")


def test_branches_that_added_different_properties_merge(g: og.Graph) -> None:
    """Their new columns have the same numbers in Lance's files."""
    g.branches.create("b")
    g.schema.apply(AFTER.replace("tags: [String]?", "tags: [String]?  ours: I32?"))
    g.schema.apply(AFTER.replace("tags: [String]?", "tags: [String]?  theirs: I32?"), branch="b")
    with g.transaction() as tx:
        tx.insert_many("Person", [{"name": f"o{n}", "ours": n} for n in range(30)])
    with g.transaction("b") as tx:
        tx.insert_many("Person", [{"name": f"t{n}", "theirs": n} for n in range(30)])
    g.branches.merge("b")
    ours, theirs, old = (g.entity("Person", id) for id in ("o9", "t9", "p09"))
    assert (ours["ours"], ours["theirs"]) == (9, None)
    assert (theirs["ours"], theirs["theirs"]) == (None, 9)
    assert (old["ours"], old["theirs"], old["years"]) == (None, None, 9)


def test_a_diff_across_the_change_is_by_property(g: og.Graph) -> None:
    with g.transaction() as tx:
        tx.update("Person", "p03", years=300)
    changes = list(g.diff("main~1", "main", types=["Person"]))
    assert [(change.op, change.id) for change in changes] == [("update", "p03")]
    assert (changes[0].before["years"], changes[0].after["years"]) == (3, 300)


def test_optimize_brings_rows_into_the_columns_of_the_schema(g: og.Graph) -> None:
    """After it, filters of a widened or filled property are answered by an index again, and dropped values are not stored."""
    g.schema.apply(AFTER.replace("code: I64? @unique", "code: I64? @unique @index").replace("  tags: [String]?\n", ""))
    table = g._repository.head("main")[1].table("node:Person")
    assert (table.stored_column("code"), table.stored_column("lang"), table.stored_column("story")) == (
        None,
        None,
        "bio",
    )
    before = {f"p{n:02}": g.entity("Person", f"p{n:02}") for n in range(20)}
    report = g.maintenance.optimize()
    assert any("older than the schema" in action for each in report.tables for action in each.actions)
    table = g._repository.head("main")[1].table("node:Person")
    assert None not in (table.stored_column("code"), table.stored_column("lang"))
    (held,) = table.held_columns.values()
    assert held == set(table.layout.written_schema.names)
    assert {id: g.entity("Person", id) for id in before} == before
    assert not [each for each in g.maintenance.optimize().tables if each.actions]
    og.open(g.uri, verify="full")
