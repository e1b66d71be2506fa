"""Verification says that a sound graph is whole, finds planted faults by name, and looks at each file once."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from pathlib import Path

import pytest
from health.planting import put_rows, put_stale_index, remove_rows

import omnigraph as og
from omnigraph.errors import CommitNotFound, UsageError
from omnigraph.tables import IndexSpec
from omnigraph.tables.digests import digest_of

SCHEMA = """
node Person {
  name: String @key
  age: I32? @index
  nick: String? @unique
  bio: String? @index
  place: Vector(4)? @index
  @range(age, 0..150)
}
node Chief { name: String @key }
node Team { title: String @key }
edge Knows: Person -> Person @card(0..2)
edge Leads: Chief -> Team @card(1..2)
"""
PEOPLE = 60


def person(number: int) -> dict[str, object]:
    vector = [math.sin(number), math.cos(number), number / 20, 1.0]
    return {"name": f"p{number}", "age": number, "bio": f"word{number} of many", "place": vector}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "graph", SCHEMA, durability="process")
    with graph.transaction() as tx:
        tx.insert_many("Person", [person(number) for number in range(PEOPLE)])
        tx.insert("Team", title="T")
        tx.insert("Chief", name="Max")
        tx.insert("Leads", id="l", from_="Max", to="T")
        tx.insert("Knows", id="k", from_="p1", to="p2")
    graph.optimize()
    with graph.transaction() as tx:
        tx.insert_many("Person", [person(number) for number in range(PEOPLE, PEOPLE + 5)])
        tx.delete("Person", "p7")
    return graph


def test_a_sound_graph_is_whole_at_every_depth(graph: og.Graph) -> None:
    graph.branches.create("review")
    graph.tags.create("before", "main~1")
    with graph.transaction("review") as tx:
        tx.upsert("Person", name="p3", age=4)
    for deep in (False, True):
        report = graph.verify(all=True, deep=deep)
        assert report.findings == ()
        assert report.is_whole
        assert report.commits == 5
        assert bool(report.rows) is deep


def test_a_branch_is_looked_at_with_all_its_commits_and_any_other_revision_alone(graph: og.Graph) -> None:
    graph.tags.create("before", "main~1")
    graph.branches.create("review", "main~1")
    with graph.transaction("review") as tx:
        tx.upsert("Person", name="p3", age=4)
    assert graph.verify().commits == 4
    assert graph.verify("review").commits == 2  # The commit it was made at, and its own.
    assert graph.verify("before").commits == graph.verify("main~2").commits == 1
    with pytest.raises(CommitNotFound):
        graph.verify("nobody")
    with pytest.raises(UsageError, match="exclude each other"):
        graph.verify("main", all=True)


def test_a_file_that_many_commits_share_is_one_finding_that_counts_them(graph: og.Graph) -> None:
    for number in range(3):
        with graph.transaction() as tx:
            tx.insert("Team", title=f"T{number}")
    table = graph._repository.head()[1].table("node:Person")
    assert table is not None
    large = max(table.fragments, key=lambda fragment: fragment.rows)
    lost = f"{table.path}/data/{large.files[0]}"
    (Path(graph.uri) / lost).unlink()
    (finding,) = graph.verify().findings
    assert (finding.kind, finding.object_kind, finding.object) == ("missing", "data", lost)
    assert (finding.types, finding.rows) == (("Person",), large.rows)
    assert finding.commits[0] == graph.commit().id
    assert finding.total_commits == len(finding.commits) == 6
    assert "repair" in finding.action


FAULTS: dict[str, tuple[Callable[[og.Graph], object], str, str, str]] = {
    "duplicate id": (
        lambda graph: put_rows(graph, "node:Person", [{"id": "p3", "name": "p3"}]),
        "duplicate_id",
        "Person",
        "'p3'",
    ),
    "missing end": (
        lambda graph: put_rows(graph, "edge:Knows", [{"id": "x", "src": "p1", "dst": "nobody"}]),
        "missing_end",
        "Knows",
        "dst 'nobody' not found in Person",
    ),
    "node removed under its edge": (
        lambda graph: remove_rows(graph, "node:Person", ["p2"]),
        "missing_end",
        "Knows",
        "dst 'p2' not found in Person",
    ),
    "value out of range": (
        lambda graph: put_rows(graph, "node:Person", [{"id": "old", "name": "old", "age": 151}]),
        "broken_rule",
        "Person",
        "value 151 > max 150",
    ),
    "unique value twice": (
        lambda graph: put_rows(graph, "node:Person", [{"id": n, "name": n, "nick": "x"} for n in ("q1", "q2")]),
        "broken_rule",
        "Person",
        "value 'x' held by 'q1' and 'q2'",
    ),
    "too many edges": (
        lambda graph: put_rows(graph, "edge:Knows", [{"id": f"k{n}", "src": "p1", "dst": "p3"} for n in range(3)]),
        "broken_rule",
        "Knows",
        "source 'p1' has 4 edges (max 2)",
    ),
    "too few edges": (
        lambda graph: put_rows(graph, "node:Chief", [{"id": "Moe", "name": "Moe"}]),
        "broken_rule",
        "Leads",
        "source 'Moe' has 0 edges (min 1)",
    ),
    "stale lookup index": (
        lambda graph: put_stale_index(graph, "node:Person", IndexSpec("age", "BTREE")),
        "stale_index",
        "Person",
        "age.btree",
    ),
    "stale index of ids": (
        lambda graph: put_stale_index(graph, "node:Person", IndexSpec("id", "BTREE")),
        "stale_index",
        "Person",
        "id.btree",
    ),
    "stale text index": (
        lambda graph: put_stale_index(graph, "node:Person", IndexSpec("bio", "INVERTED", "english")),
        "stale_index",
        "Person",
        "bio.inverted.english",
    ),
    "stale vector index": (
        lambda graph: put_stale_index(graph, "node:Person", IndexSpec("place", "IVF_FLAT", "cosine")),
        "stale_index",
        "Person",
        "place.ivf_flat.cosine",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_name_and_nothing_else_is(fault: str, graph: og.Graph) -> None:
    plant, kind, type_name, words = FAULTS[fault]
    plant(graph)
    assert graph.verify(all=True).findings == ()
    (finding,) = graph.verify(deep=True).findings
    assert (finding.kind, finding.object) == (kind, type_name)
    assert words in finding.problem
    assert finding.commits == (graph.commit().id,)
    assert graph.verify("main~1", deep=True).findings == ()


def test_what_another_tool_made_is_named_and_is_no_damage(graph: og.Graph) -> None:
    import lance
    import pyarrow as pa

    path = graph._repository.head()[1].path("node:Team")
    folder = Path(graph.uri) / path
    lance.write_dataset(pa.table({"id": ["T9"], "title": ["T9"]}), folder, mode="append")
    (folder / "notes.txt").write_text("mine")
    (Path(graph.uri) / "README").write_text("mine")
    before = [row["t"]["title"] for row in graph.query("query q() { match { $t: Team } return { $t } }")]
    report = graph.verify(all=True, deep=True)
    assert report.is_whole
    assert {finding.kind for finding in report.findings} == {"foreign"}
    named = [finding.object for finding in report.findings]
    assert {"README", f"{path}/notes.txt"} < set(named)
    assert [finding.problem for finding in report.findings if "/_versions/" in finding.object] == [
        "another tool made a version of this table: no commit has it, and no read sees it"
    ]
    assert before == ["T"]


def test_verify_changes_nothing(graph: og.Graph) -> None:
    def files() -> dict[Path, str]:
        return {file: digest_of(file) for file in Path(graph.uri).rglob("*") if file.is_file()}

    before = files()
    graph.verify(all=True, deep=True)
    assert files() == before


def test_the_command_says_what_is_wrong_and_ends_with_1(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    from omnigraph.cli.main import run

    assert run(["verify", graph.uri, "--deep", "--all"]) == 0
    assert capsys.readouterr().out.startswith("whole: 4 commits, ")
    put_rows(graph, "node:Person", [{"id": "p3", "name": "p3"}])
    assert run(["verify", graph.uri, "--deep"]) == 1
    printed = capsys.readouterr().out
    assert "Person: several rows have the id 'p3'" in printed
    assert "to do: " in printed
    assert run(["verify", graph.uri, "--deep", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert value["whole"] is False
    assert [(each["kind"], each["object"], each["ids"]) for each in value["findings"]] == [
        ("duplicate_id", "Person", ["p3"])
    ]
