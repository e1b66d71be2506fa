"""The command `repair`: what it would do, what it did, what remains."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from health.faults import PEOPLE, made_graph
from health.planting import put_rows, put_stale_index

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.errors import BranchNotFound, UsageError
from omnigraph.history.chain import key_of
from omnigraph.tables.indexes import IndexSpec
from omnigraph.tasks.engines import Lost
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, disarm_all, raising
from omnigraph.values.arrow import OUTSIDE_NAMES


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return made_graph(tmp_path / "graph")


def test_nothing_is_done_without_yes(graph: og.Graph, capsys: pytest.CaptureFixture[str]) -> None:
    table = graph._repository.head()[1].table("node:Person")
    assert table is not None
    largest = max(table.fragments, key=lambda fragment: fragment.rows)
    (Path(graph.uri) / table.path / "data" / largest.files[0]).unlink()
    before = graph.head().id
    assert run(["repair", graph.uri]) == 1
    assert "what remains:" in capsys.readouterr().out
    assert run(["repair", graph.uri, "--lost", "drop"]) == 0
    printed = capsys.readouterr().out
    assert "would: commit the head of main without the rows whose files are lost" in printed
    assert "nothing was changed; --yes does this" in printed
    assert graph.head().id == before
    assert run(["repair", graph.uri, "--lost", "drop", "--yes", "--as", "ada", "--json"]) == 1
    value = json.loads(capsys.readouterr().out)
    assert (value["done"], [step["kind"] for step in value["steps"]]) == (True, ["drop_rows"])
    assert value["steps"][0]["commit"]["kind"] == "repair"
    assert value["remaining"][0]["total_commits"] == 3, "the commits before it stay lost"
    assert graph.head().message == f"dropped entities whose files are lost: 1 of Knows, {PEOPLE - 1} of Person"
    assert graph.maintenance.verify("main~0", deep=True).is_whole


@pytest.mark.usefixtures("stores_every_commit")
def test_a_stale_index_is_built_again_when_depth_is_asked_for(graph: og.Graph) -> None:
    put_stale_index(graph, "node:Person", IndexSpec("age", "BTREE"))
    assert graph.maintenance.repair(dry_run=False).steps == ()
    report = graph.maintenance.repair(deep=True, dry_run=False)
    assert [(step.kind, step.object) for step in report.steps] == [("rebuild_indexes", "main")]
    assert graph.maintenance.verify("main~0", deep=True).is_whole
    assert list(graph.diff("main~1", "main")) == []


def test_what_makes_no_sense_is_refused(graph: og.Graph) -> None:
    with pytest.raises(BranchNotFound):
        graph.maintenance.repair("nobody")
    with pytest.raises(UsageError, match="not a way to treat what is lost"):
        graph.maintenance.repair(lost="sell")  # type: ignore[arg-type]


def test_what_another_tool_made_is_never_adopted(graph: og.Graph) -> None:
    import lance
    import pyarrow as pa

    folder = Path(graph.uri) / graph._repository.head()[1].path("node:Team")
    lance.write_dataset(pa.table({"id": ["T9"], "title": ["T9"]}), folder, mode="append")
    report = graph.maintenance.repair(lost="reset", deep=True, dry_run=False)
    assert report.steps == ()
    assert {finding.kind for finding in report.remaining} == {"foreign"}
    assert graph.entity("Team", "T9") is None


@pytest.mark.parametrize("point", ["table.staged_version", "publish.before_create", "publish.after_create"])
@pytest.mark.parametrize("lost", ["reset", "drop"])
def test_a_repair_that_dies_is_simply_done_again(lost: Lost, point: str, graph: og.Graph) -> None:
    table = graph._repository.head()[1].table("node:Person")
    assert table is not None
    (Path(graph.uri) / table.path / "data" / table.stored.fragments[-1].files[0]).unlink()
    arm(Failpoint(point), raising(FailpointReached()))
    try:
        graph.maintenance.repair(lost=lost, dry_run=False)
    except FailpointReached:
        disarm_all()
    fresh = og.open(graph.uri, durability="process")
    fresh.maintenance.repair(lost=lost, dry_run=False)
    assert [commit.kind for commit in fresh.commits(limit=5)].count("repair") == 1
    assert fresh.maintenance.verify("main~0", deep=True).is_whole


KEYLESS = """
node P { k: String @key }
node N { t: String }
edge E: P -> P { w: I64? }
edge H: P -> N
"""


@pytest.fixture
def repeated(tmp_path: Path) -> og.Graph:
    """Nine edges and nine nodes, with three ids each, and one of them changed by a small commit."""
    graph = og.init(tmp_path / "repeated", KEYLESS, durability="process")
    with graph.transaction() as tx:
        tx.insert_many("P", [{"k": f"a{number}"} for number in range(9)])
    for part in (range(5), range(5, 9)):
        put_rows(graph, "node:N", [{"id": f"n{number % 3}", "t": f"t{number}"} for number in part])
        edges = [{"id": f"e{number % 3}", "src": f"a{number}", "dst": "a1", "w": number} for number in part]
        put_rows(graph, "edge:E", edges)
    with graph.transaction() as tx:
        tx.insert("H", id="h", from_="a1", to="n1")
        tx.upsert("N", id="n2", t="later")
    return graph


def _rows(graph: og.Graph, key: str) -> list[dict[str, object]]:
    table = graph._repository.head()[1].table(key)
    assert table is not None
    rows: list[dict[str, object]] = table.read().to_pylist()
    return rows


def test_later_rows_with_equal_ids_get_new_ids_in_one_commit(repeated: og.Graph, tmp_path: Path) -> None:
    before = {key: _rows(repeated, key) for key in ("node:N", "edge:E", "edge:H")}
    found = repeated.maintenance.verify(deep=True)
    assert {finding.kind for finding in found.findings} == {"duplicate_id"}
    assert all("repair --deep --yes" in finding.action for finding in found.findings)
    head = repeated.head().id
    outline = repeated.maintenance.repair(deep=True)
    assert [(step.kind, step.object) for step in outline.steps] == [("renumber_rows", "main")]
    assert outline.remaining == ()
    assert repeated.head().id == head
    report = repeated.maintenance.repair(deep=True, dry_run=False)
    assert [step.kind for step in report.steps] == ["renumber_rows"]
    assert report.is_whole
    assert repeated.show("main~1").id == head, "it is one commit"
    assert repeated.head().message == "gave new ids to rows whose ids others had: 6 of E, 6 of N"
    for key, rows in before.items():
        after = _rows(repeated, key)
        assert len({row["id"] for row in after}) == len(after)
        without_ids = [sorted(str({**row, "id": None}) for row in some) for some in (rows, after)]
        assert without_ids[0] == without_ids[1]
    assert _rows(repeated, "edge:H") == before["edge:H"]
    repeated.export(tmp_path / "out.jsonl")
    copy = og.init(tmp_path / "copy", KEYLESS, durability="process")
    copy.load(tmp_path / "out.jsonl", mode="append", engine="local")
    assert repeated.maintenance.repair(deep=True, dry_run=False).steps == ()


def _feed(graph: og.Graph, limit: int) -> Iterator[og.types.EntityChange]:
    page = graph.changes("main", start="beginning", limit=limit)
    while True:
        for block in page.blocks:
            yield from block.changes
        if page.next_page_token is None:
            return
        page = graph.changes("main", page_token=page.next_page_token, limit=limit)


def _result(changes: Iterable[og.types.EntityChange]) -> Counter[str]:
    """The edges that are there after these changes to none at all."""
    edges: Counter[str] = Counter()
    for change in changes:
        if change.type_name == "E":
            edges[str(change.before)] -= 1
            edges[str(change.after)] += 1
    del edges["None"]
    return +edges


def test_the_feed_and_diffs_of_a_graph_with_equal_ids_lose_no_row_and_repeat_none(repeated: og.Graph) -> None:
    def check() -> None:
        edges = [{OUTSIDE_NAMES.get(name, name): row[name] for name in row} for row in _rows(repeated, "edge:E")]
        expected = Counter(map(str, edges))
        assert _result(repeated.diff(commits[-1], "main")) == expected
        for limit in (1, 2, 1_000):
            assert _result(_feed(repeated, limit)) == expected

    commits = [commit.id for commit in repeated.commits()]
    check()
    with repeated.transaction() as tx:
        tx.upsert("E", id="e2", from_="a1", to="a1", w=100)
        tx.delete("E", id="e1")
    before = repeated.head().id
    assert [(change.op, change.id) for change in repeated.diff("main~1", "main")] == [
        ("delete", "e1"),
        ("update", "e2"),
    ]
    check()
    repeated.maintenance.optimize()
    for counts in repeated.diff_stat(before, "main"):
        assert (counts.inserts, counts.deletes) == (0, 0)
        assert counts.updates <= 3, "each row is compared with one other"
    check()
    repeated.maintenance.repair(deep=True, dry_run=False)
    check()


@pytest.mark.usefixtures("stores_every_commit")
@pytest.mark.parametrize("lost", ["its files", "newest entry"])
def test_a_branch_is_set_to_a_commit_that_it_inherited(graph: og.Graph, lost: str) -> None:
    """Its own commits are all lost; the ones before its creation are whole."""
    before = graph.head().id
    graph.branches.create("side")
    for title in ("S1", "S2"):
        with graph.transaction("side") as tx:
            tx.insert("Team", title=title)
    folder, chain = Path(graph.uri), graph._repository.history.chain
    entries = [chain.read("side", position) for position in chain.positions("side")]
    for entry in entries[1:]:
        state = entry.head.table("node:Team")
        assert state is not None
        (folder / state.path / "_versions" / f"d{state.version}.manifest").unlink()
    if lost == "newest entry":
        (folder / key_of("side", entries[-1].position)).write_bytes(b"{")
    fresh = og.open(folder, durability="process")
    (step,) = fresh.maintenance.repair("side", lost="reset", dry_run=False).steps
    assert before in step.action
    assert fresh.maintenance.verify("side~0", deep=True).is_whole
    assert fresh.entity("Team", "S1", revision="side") is None
