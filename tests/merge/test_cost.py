"""A merge costs what changed, not what is there: requests and bytes counted on S3, data files on local disk."""

from __future__ import annotations

from pathlib import Path

import pytest
from merge import bulk
from s3_server import S3Server

import omnigraph as og
from omnigraph.tables.addresses import Fragment
from omnigraph.write.inlining import ENVIRONMENT

CHANGED = 1_000
SLACK = 1.2
MANY_ROWS = 60_000
"""A table of fewer rows is read with a request for each fragment, which costs less."""


def merge_cost(s3: S3Server, rows: int) -> tuple[int, int, int]:
    """Requests, bytes read and bytes written by a cold merge of 1,000 changed rows, where the target moved too."""
    uri = f"s3://{s3.new_bucket()}/graph"
    graph = og.init(uri, schema=bulk.SCHEMA, storage_options=s3.options)
    bulk.publish(graph, "main", bulk.items(0, rows))
    graph.branches.create("work")
    updated, inserted = bulk.items(5_000, 500, a=-1), bulk.items(10**8, 300)
    bulk.publish(graph, "work", updated, remove=range(5_000, 5_700))
    bulk.publish(graph, "work", inserted)
    bulk.publish(graph, "main", bulk.items(2 * 10**8, 10))
    cold = og.open(uri, storage_options=s3.options)
    s3.reset()
    result = cold.branches.merge("work")
    log = s3.requests()
    summary = result.types[bulk.KEY]
    assert (summary.inserted, summary.updated, summary.deleted) == (300, 500, 200)
    assert cold._repository.resolve("main").rows(bulk.KEY) == rows + 300 - 200 + 10
    return len(log), sum(each.bytes_out for each in log), sum(each.bytes_in for each in log)


def check_flat(s3: S3Server, sizes: list[int]) -> None:
    costs = {rows: merge_cost(s3, rows) for rows in sizes}
    print(f"\n{'rows':>10}  requests  bytes read  bytes written   ({CHANGED:,} changed rows)")
    for rows, (requests, read, written) in costs.items():
        print(f"{rows:>10,}  {requests:>8}  {read:>10,}  {written:>13,}")
    smallest = costs[sizes[0]]
    for rows in sizes[1:]:
        for name, cost, least in zip(("requests", "bytes read", "bytes written"), costs[rows], smallest, strict=True):
            assert cost <= least * SLACK, f"{name} grew from {least} to {cost} at {rows} rows"


@pytest.mark.s3
def test_a_merge_costs_the_same_in_a_table_of_any_size(s3: S3Server) -> None:
    check_flat(s3, [MANY_ROWS, 1_000_000])


@pytest.mark.s3
@pytest.mark.soak
def test_a_merge_costs_the_same_in_five_million_rows(s3: S3Server) -> None:
    check_flat(s3, [MANY_ROWS, 1_000_000, 5_000_000])


def data_files(graph: og.Graph) -> set[Path]:
    return {path for path in Path(graph.uri.removeprefix("file://")).rglob("data/*") if path.is_file()}


def test_merging_a_million_appended_rows_writes_none_of_them_again(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=bulk.SCHEMA, durability="process")
    bulk.publish(graph, "main", bulk.items(0, 1_000))
    graph.branches.create("work")
    bulk.publish(graph, "work", bulk.items(10_000, 1_000_000))
    with graph.transaction() as tx:
        tx.update("Item", "k000000001", a=7)
    before = data_files(graph)
    result = graph.branches.merge("work")
    assert result.types[bulk.KEY].inserted == 1_000_000
    stored = data_files(graph) - before
    assert len(stored) <= 1, "the row that stood in a commit"
    assert sum(file.stat().st_size for file in stored) < 10_000
    table = graph._repository.resolve("main").table(bulk.KEY)
    assert table is not None
    assert table.rows == table.count("id IS NOT NULL") == 1_001_000
    assert table.lookup("id", ["k000000001"], ["a"]).to_pylist() == [{"a": 7}]


def test_a_part_that_is_wanted_in_fragment_is_adopted_without_the_rest(tmp_path: Path) -> None:
    """The branch appended rows and deleted some of them again: the merge takes the fragment, not the deleted rows."""
    graph = og.init(tmp_path / "g", schema=bulk.SCHEMA, durability="process")
    bulk.publish(graph, "main", bulk.items(0, 10))
    graph.branches.create("work")
    bulk.publish(graph, "work", bulk.items(100, 500))
    with graph.transaction("work") as tx:
        for number in (100, 120, 149):
            tx.delete("Item", f"k{number:09d}")
    with graph.transaction() as tx:
        tx.delete("Item", "k000000003")
    before = data_files(graph)
    graph.branches.merge("work")
    stored = data_files(graph) - before
    assert len(stored) <= 1, "the row that stood in a commit"
    assert sum(file.stat().st_size for file in stored) < 10_000
    table = graph._repository.resolve("main").table(bulk.KEY)
    assert table is not None
    ids = {int(id[1:]) for id in table.read(["id"]).column("id").to_pylist()}
    assert ids == {*range(10), *range(100, 600)} - {3, 100, 120, 149}


def test_a_merge_of_few_rows_is_one_object(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Inserted, replaced and removed rows are in the commit, on top of the target's stored rows."""
    monkeypatch.delenv(ENVIRONMENT, raising=False)
    graph = og.init(tmp_path / "g", schema=bulk.SCHEMA, durability="process")
    bulk.publish(graph, "main", bulk.items(0, 100))
    graph.branches.create("work")
    with graph.transaction("work") as tx:
        tx.insert("Item", key="new", a=1)
        tx.update("Item", "k000000001", a=7)
        tx.delete("Item", "k000000002")
    with graph.transaction() as tx:
        tx.update("Item", "k000000003", a=8)
    files = set(tmp_path.rglob("*.*"))
    assert graph.branches.merge("work").outcome == "merged"
    assert [path.parent.name for path in set(tmp_path.rglob("*.*")) - files] == ["main"], "the entry"
    state = graph._repository.resolve("main").state(bulk.KEY)
    assert state is not None
    assert (state.rows, state.inline.row_count, state.inline.masked_count) == (100, 3, 3)
    rows = graph.query("query q() { match { $i: Item } return { $i.key as key, $i.a as a } }").rows
    values = {row["key"]: row["a"] for row in rows}
    assert (values["new"], values["k000000001"], values["k000000003"]) == (1, 7, 8)
    assert "k000000002" not in values


def test_a_table_the_target_did_not_touch_moves_by_its_pointer(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=bulk.SCHEMA + "node Other { name: String @key }", durability="process")
    bulk.publish(graph, "main", bulk.items(0, 10))
    graph.branches.create("work")
    with graph.transaction("work") as tx:
        tx.update("Item", "k000000001", a=7)
    with graph.transaction() as tx:
        tx.insert("Other", name="o")
    result = graph.branches.merge("work")
    source, target = (
        graph._repository.resolve("work").state(bulk.KEY),
        graph._repository.resolve("main").state(bulk.KEY),
    )
    assert (result.outcome, result.types[bulk.KEY].way) == ("merged", "pointer")
    assert source is not None
    assert target is not None
    assert (target.path, target.version, target.generation) == (source.path, source.version, 2)


def test_rows_that_the_target_only_stored_elsewhere_give_way(tmp_path: Path) -> None:
    """The target was optimised, so no fragment of the base is left; the source's updates and deletions still find their rows."""
    graph = og.init(tmp_path / "g", schema=bulk.SCHEMA, durability="process")
    for first in (0, 10, 20):
        bulk.publish(graph, "main", bulk.items(first, 10))
    graph.branches.create("work")
    with graph.transaction("work") as tx:
        tx.update("Item", "k000000005", a=-5)
        tx.delete("Item", "k000000025")
    assert graph.maintenance.optimize().commit is not None
    assert not {fragment.files for fragment in fragments(graph, "main")} & {
        fragment.files for fragment in fragments(graph, "main~1")
    }
    result = graph.branches.merge("work")
    assert (result.outcome, result.types[bulk.KEY].updated, result.types[bulk.KEY].deleted) == ("merged", 1, 1)
    assert list(graph.diff("work", "main")) == []
    assert graph._repository.resolve("main").rows(bulk.KEY) == 29


def fragments(graph: og.Graph, revision: str) -> tuple[Fragment, ...]:
    table = graph._repository.resolve(revision).table(bulk.KEY)
    assert table is not None
    return table.fragments


def test_a_type_that_both_sides_write_first_is_merged(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "g", schema=bulk.SCHEMA, durability="process")
    graph.branches.create("work")
    bulk.publish(graph, "work", bulk.items(0, 5))
    bulk.publish(graph, "main", bulk.items(3, 5))
    result = graph.branches.merge("work")
    assert (result.outcome, result.types[bulk.KEY].inserted) == ("merged", 3)
    assert graph._repository.resolve("main").rows(bulk.KEY) == 8
    assert list(graph.diff("main", "work", ops=["insert", "update"])) == []
