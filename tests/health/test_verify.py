"""Verification says that a sound graph is whole, finds planted faults by name, and looks at each file once."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from health.faults import FAULTS, PEOPLE, made_graph, person
from health.planting import put_rows
from hypothesis import Phase, given, settings, strategies as st

import omnigraph as og
from omnigraph.errors import CommitNotFound, UsageError
from omnigraph.tables.digests import digest_of


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return made_graph(tmp_path / "graph")


def test_a_sound_graph_is_whole_at_every_depth(graph: og.Graph) -> None:
    graph.branches.create("review")
    graph.tags.create("before", "main~1")
    with graph.transaction("review") as tx:
        tx.upsert("Person", name="p3", age=4)
    for deep in (False, True):
        report = graph.maintenance.verify(all=True, deep=deep)
        assert report.findings == ()
        assert report.is_whole
        assert report.commits == 5
        assert bool(report.rows) is deep


def test_a_branch_is_looked_at_with_all_its_commits_and_any_other_revision_alone(graph: og.Graph) -> None:
    graph.tags.create("before", "main~1")
    graph.branches.create("review", "main~1")
    with graph.transaction("review") as tx:
        tx.upsert("Person", name="p3", age=4)
    assert graph.maintenance.verify().commits == 4
    assert graph.maintenance.verify("review").commits == 2  # The commit it was made at, and its own.
    assert graph.maintenance.verify("before").commits == graph.maintenance.verify("main~2").commits == 1
    with pytest.raises(CommitNotFound):
        graph.maintenance.verify("nobody")
    assert (
        graph.maintenance.verify(as_of=graph.head().at).commits
        == graph.maintenance.verify("review", as_of=graph.head().at).commits
        == 1
    )
    with pytest.raises(UsageError, match="exclude each other"):
        graph.maintenance.verify("main", all=True)
    with pytest.raises(UsageError, match="exclude each other"):
        graph.maintenance.verify(as_of=graph.head().at, all=True)


@pytest.mark.usefixtures("stores_every_commit")
def test_a_file_that_many_commits_share_is_one_finding_that_counts_them(graph: og.Graph) -> None:
    for number in range(3):
        with graph.transaction() as tx:
            tx.insert("Team", title=f"T{number}")
    table = graph._repository.head()[1].table("node:Person")
    assert table is not None
    large = max(table.fragments, key=lambda fragment: fragment.rows)
    lost = f"{table.path}/data/{large.files[0]}"
    (Path(graph.uri) / lost).unlink()
    (finding,) = graph.maintenance.verify().findings
    assert (finding.kind, finding.object_kind, finding.object) == ("missing", "data", lost)
    assert (finding.types, finding.rows) == (("Person",), large.rows)
    assert finding.commits[0] == graph.head().id
    assert finding.total_commits == len(finding.commits) == 6
    assert "repair" in finding.action


@pytest.mark.usefixtures("stores_every_commit")
@pytest.mark.parametrize("fault", FAULTS)
def test_a_planted_fault_is_found_by_name_and_nothing_else_is(fault: str, graph: og.Graph) -> None:
    plant, kind, type_name, words, ids = FAULTS[fault]
    plant(graph)
    assert graph.maintenance.verify(all=True).findings == ()
    (finding,) = graph.maintenance.verify(deep=True).findings
    assert (finding.kind, finding.object) == (kind, type_name)
    assert words in finding.problem
    assert finding.ids == ids
    assert finding.commits == (graph.head().id,)
    assert graph.maintenance.verify("main~1", deep=True).findings == ()


@pytest.mark.usefixtures("stores_every_commit")
@given(
    chosen=st.sets(st.sampled_from(sorted(FAULTS)), max_size=4),
    written=st.lists(st.integers(0, PEOPLE - 1), max_size=12),
    removed=st.sets(st.integers(20, 40), max_size=12),
)
@settings(max_examples=4, phases=[Phase.generate])
def test_in_graphs_of_any_past_exactly_the_planted_faults_are_found(
    chosen: set[str], written: list[int], removed: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        graph = made_graph(Path(folder) / "graph")
        for number in written:
            with graph.transaction() as tx:
                tx.upsert("Person", **{**person(number), "age": 150 - number})
        with graph.transaction() as tx:
            for number in removed:
                tx.delete("Person", f"p{number}")
        assert graph.maintenance.verify(all=True, deep=True).findings == ()
        # Rows first: a write may build an index anew.
        for fault in sorted(chosen, key=lambda fault: (fault.startswith("stale"), fault)):
            FAULTS[fault][0](graph)
        found = graph.maintenance.verify(deep=True).findings
        for fault in chosen:
            _, kind, type_name, words, ids = FAULTS[fault]
            alike = [finding for finding in found if (finding.kind, finding.object) == (kind, type_name)]
            # A check names the first of what breaks it in words, and all of it by id.
            assert any(set(ids) <= set(each.ids) if ids else words in each.problem for each in alike), (fault, found)
        assert {(finding.kind, finding.object) for finding in found} == {FAULTS[fault][1:3] for fault in chosen}


@pytest.mark.spark
def test_on_spark_the_same_is_found(graph: og.Graph, spark: Any) -> None:
    put_rows(graph, "node:Person", [{"id": "p3", "name": "p3"}])
    table = graph._repository.head("main")[1].table("edge:Knows")
    assert table is not None
    lost = Path(graph.uri) / table.path / "data" / table.fragments[0].files[0]
    lost.write_bytes(lost.read_bytes()[:-1])
    assert graph.maintenance.verify(all=True, deep=True, engine=spark) == graph.maintenance.verify(all=True, deep=True)
    assert {finding.kind for finding in graph.maintenance.verify(deep=True, engine=spark).findings} == {
        "size",
        "duplicate_id",
    }


def test_what_another_tool_made_is_named_and_is_no_damage(graph: og.Graph) -> None:
    import lance
    import pyarrow as pa

    path = graph._repository.head()[1].path("node:Team")
    folder = Path(graph.uri) / path
    lance.write_dataset(pa.table({"id": ["T9"], "title": ["T9"]}), folder, mode="append")
    (folder / "notes.txt").write_text("mine")
    (Path(graph.uri) / "README").write_text("mine")
    before = [row["t"]["title"] for row in graph.query("query q() { match { $t: Team } return { $t } }")]
    report = graph.maintenance.verify(all=True, deep=True)
    assert report.is_whole
    assert {finding.kind for finding in report.findings} == {"foreign"}
    named = [finding.object for finding in report.findings]
    assert {"README", f"{path}/notes.txt"} < set(named)
    assert [finding.problem for finding in report.findings if "/_versions/" in finding.object] == [
        "another tool made a version of this table: no commit has it, and no read sees it"
    ]
    assert before == ["T"]


def test_a_table_that_two_writers_made_at_once_is_ours(graph: og.Graph) -> None:
    """The second one adds an empty version of its own."""
    import lance
    import pyarrow as pa

    path = graph._repository.head()[1].path("node:Team")
    schema = lance.dataset(Path(graph.uri) / path).schema
    lance.write_dataset(pa.Table.from_batches([], schema), Path(graph.uri) / path, mode="overwrite")
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


def test_verify_changes_nothing(graph: og.Graph) -> None:
    def files() -> dict[Path, str]:
        return {file: digest_of(file) for file in Path(graph.uri).rglob("*") if file.is_file()}

    before = files()
    graph.maintenance.verify(all=True, deep=True)
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
