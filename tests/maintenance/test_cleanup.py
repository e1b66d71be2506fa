"""Cleanup of real graphs: what goes, what stays, and what those are told who come too late."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from maintenance.aging import HOURS, age, files_of
from write.graphs import SCHEMA, content, fill

import omnigraph as og
from omnigraph.errors import BranchNotFound, Damaged, HistoryGap, StagedTooLongAgo, UsageError
from omnigraph.history.branches import Branches
from omnigraph.history.chain import key_of
from omnigraph.history.encoding import encode_entry
from omnigraph.history.retention import Leases, Retention
from omnigraph.history.revisions import Revisions
from omnigraph.maintenance import reachable
from omnigraph.storage.local import LocalStore
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, disarm_all, raising


def person(graph: og.Graph, name: str, branch: str = "main") -> None:
    with graph.transaction(branch) as tx:
        tx.insert("Person", name=name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "graph"


@pytest.fixture
def graph(folder: Path) -> og.Graph:
    """Eleven commits on main: people one by one, then one who is gone again."""
    graph = og.init(folder, SCHEMA, durability="process")
    with graph.transaction() as tx:
        fill(tx)
    for number in range(8):
        person(graph, f"p{number}")
    graph.mutate('query q() { delete Person where name = "p3" }')
    return graph


# ---------------------------------------------------------------- what goes and what stays


@pytest.mark.usefixtures("stores_every_commit")
def test_the_newest_commits_stay_and_read_the_same(graph: og.Graph, folder: Path) -> None:
    before = {number: content(graph, f"main~{number}") for number in range(3)}
    age(folder)
    report = graph.maintenance.cleanup(keep=3)
    assert report.removed["commits"].files == 8
    assert report.removed["versions"].files >= 7
    assert report.watermarks == {"main": 8}
    assert {number: content(graph, f"main~{number}") for number in range(3)} == before
    with pytest.raises(HistoryGap, match="branch 'main' has entries from 8 on") as caught:
        graph.snapshot("main~3")
    assert caught.value.details() == {"branch": "main", "watermark": 8}
    assert len(graph.commits(limit=100)) == 11
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


@pytest.mark.usefixtures("stores_every_commit")
def test_a_dry_run_says_what_would_go_and_changes_nothing(graph: og.Graph, folder: Path) -> None:
    graph.tags.create("first", "main~9")
    age(folder)
    before = files_of(folder)
    promised = graph.maintenance.cleanup(keep=2, dry_run=True)
    assert files_of(folder) == before
    assert {kept.name for kept in promised.kept} == {"branch main", "tag first"}
    assert all(kept.bytes_alone > 0 for kept in promised.kept)
    done = graph.maintenance.cleanup(keep=2)
    assert {kind: vars(totals) for kind, totals in done.removed.items()} == {
        kind: vars(totals) for kind, totals in promised.removed.items()
    }
    assert len(before - files_of(folder)) == done.files


def test_reports_write_nothing(graph: og.Graph, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even an object that is deleted again: the folder may be read-only."""
    age(folder)

    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something was written")

    for write in ("put", "create", "fill", "delete", "delete_many"):
        monkeypatch.setattr(LocalStore, write, refuse)
    assert graph.maintenance.cleanup(keep=2, dry_run=True).removed["commits"].files == 9
    assert graph.maintenance.cleanup(older_than=0, dry_run=True).files > 0
    assert graph.maintenance.storage().types


@pytest.mark.usefixtures("stores_every_commit")
def test_without_a_policy_only_garbage_goes(graph: og.Graph, folder: Path) -> None:
    graph.branches.create("dropped", "main~2")
    person(graph, "lost", "dropped")
    graph.branches.delete("dropped", force=True)
    state = graph._repository.history.chain.head("main").head.table("node:Person")
    assert state is not None
    stray = folder / state.path / "data" / f"{'0' * 24}{'ab' * 13}.lance"
    stray.write_bytes(b"half a file")
    age(folder)
    report = graph.maintenance.cleanup()
    assert not stray.exists()
    assert set(report.removed) == {"commits", "data", "versions", "transactions"}
    assert report.watermarks == {"dropped": 2}
    assert [content(graph, f"main~{number}") for number in range(11)]
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


def test_tags_branches_and_merge_bases_keep_what_they_need(graph: og.Graph, folder: Path) -> None:
    graph.tags.create("v1", "main~6")
    graph.branches.create("side", "main~4")
    person(graph, "aside", "side")
    person(graph, "ahead")
    before = {revision: content(graph, revision) for revision in ("main", "side", "v1")}
    age(folder)
    graph.maintenance.cleanup(keep=1)
    again = og.open(folder)
    assert {revision: content(again, revision) for revision in before} == before
    assert again.branches.merge("side").commit is not None
    assert {"aside", "ahead"} <= content(again)["node:Person"].keys()


def test_the_base_of_any_two_branches_is_kept(graph: og.Graph, folder: Path) -> None:
    graph.branches.create("one", "main~4")
    person(graph, "x1", "one")
    graph.branches.create("two", "one")
    for branch in ("one", "two"):
        person(graph, f"y {branch}", branch)
    age(folder)
    graph.maintenance.cleanup(keep=1)
    assert og.open(folder).branches.merge("two", into="one").commit is not None


def test_a_branch_that_starts_at_a_tag_merges_with_every_other(graph: og.Graph, folder: Path) -> None:
    """Nobody but the tag has the branch that it was set on, and two tags parted before the heads did."""
    graph.branches.create("tried", "main~6")
    person(graph, "tried", "tried")
    graph.tags.create("v1", "tried")
    graph.branches.create("retried", "tried~1")
    graph.mutate('query q() { delete Person where name = "p0" }', branch="retried")
    graph.tags.create("v2", "retried")
    for branch in ("tried", "retried"):
        graph.branches.delete(branch, force=True)
    for _ in range(2):
        age(folder)
        graph.maintenance.cleanup(keep=1)
    graph = og.open(folder)
    for number in (1, 2):
        graph.branches.create(f"fix-{number}", f"v{number}")
    graph.branches.merge("fix-1", into="fix-2")
    graph.branches.merge("fix-2")
    people = content(graph)["node:Person"].keys()
    assert {"tried", "p7"} <= people
    assert people.isdisjoint({"p0", "p3"})


def test_crossed_merges_have_their_older_bases_after_a_cleanup(graph: og.Graph, folder: Path) -> None:
    """Both branches have merged main, one of them before main deleted what it had added, and each other in between."""
    graph.branches.create("x")
    graph.branches.create("y")
    person(graph, "from y", "y")
    person(graph, "from main")
    graph.branches.merge("y", into="x")
    graph.branches.merge("main", into="y")
    graph.mutate('query q() { delete Person where name = "from main" }')
    person(graph, "then on main")
    graph.branches.merge("main", into="x")
    for _ in range(2):
        age(folder)
        graph.maintenance.cleanup(keep=1)
    graph = og.open(folder)
    rehearsal = graph.branches.merge("y", into="x", dry_run=True)
    assert (len(rehearsal.bases), rehearsal.conflicts) == (2, ())
    graph.branches.merge("x", into="y")
    assert "from main" not in content(graph, "y")["node:Person"]


def test_branches_whose_base_an_old_cleanup_removed_have_a_way_out(
    graph: og.Graph, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("side")
    for number, branch in enumerate(("main", "side", "main", "side")):
        person(graph, f"first {number}", branch)
        graph.branches.merge("side" if branch == "main" else "main", into=branch)
    for branch in ("main", "side"):
        person(graph, f"then {branch}", branch)
    with monkeypatch.context() as patch:
        patch.setattr(reachable, "merge_bases", lambda *_: ())  # as cleanup was once
        age(folder)
        graph.maintenance.cleanup(keep=1)
    graph = og.open(folder)
    for source, target in (("side", "main"), ("main", "side")):
        with pytest.raises(HistoryGap, match="it is not known which of them changed what") as caught:
            graph.branches.merge(source, into=target)
        assert f"'branch create NEW --from {target}', 'branch reset NEW {source}'" in str(caught.value.hint)
    graph.branches.create("new", "main")
    graph.reset("new", "side")
    changes = {(change.op, change.id) for change in graph.diff("main", "new")}
    assert changes == {("delete", "then main"), ("insert", "then side"), ("insert", "first 3")}
    person(graph, "then main", "new")
    assert graph.branches.merge("new").commit is not None
    assert {"then main", "then side"} <= content(graph)["node:Person"].keys()


def test_only_the_named_branches_are_shortened(graph: og.Graph, folder: Path) -> None:
    graph.branches.create("side")
    for number in range(3):
        person(graph, f"s{number}", "side")
    age(folder)
    graph.maintenance.cleanup(keep=1, branches=["side"])
    assert [content(graph, f"main~{number}") for number in range(10)]
    with pytest.raises(HistoryGap):
        graph.snapshot("side~1")
    with pytest.raises(BranchNotFound):
        graph.maintenance.cleanup(branches=["nobody"])


def test_what_is_younger_than_the_policy_or_an_hour_stays(graph: og.Graph, folder: Path) -> None:
    report = graph.maintenance.cleanup(keep=1)
    assert (report.files, report.waiting.files > 0) == (0, True)
    age(folder)
    assert graph.maintenance.cleanup(older_than="4h").removed.keys().isdisjoint({"commits", "versions"})
    assert graph.maintenance.cleanup(older_than="2h").removed["commits"].files == 10


def clean_up_with_fences(graph: og.Graph, folder: Path, **policy: Any) -> None:
    """A cleanup hours later, with garbage to remove: that adds a fence to every branch."""
    garbage = folder / "history" / f"{'0' * 26}.json"
    garbage.parent.mkdir(exist_ok=True)
    garbage.write_bytes(b"")
    age(folder)
    assert graph.maintenance.cleanup(**policy).removed["log"].files == 1


def test_a_fence_does_not_supersede_the_commit_below_it(graph: og.Graph, folder: Path) -> None:
    """Cleanups put fences on the head, hours later comes the next commit, and the former head stays for an hour from then on."""
    graph.branches.create("side")
    cursors = {branch: graph.changes(branch).cursor for branch in ("main", "side")}
    before = content(graph)
    for _ in range(3):
        clean_up_with_fences(graph, folder, keep=1)
    graph.tags.create("head", "main")
    graph.tags.delete("head")
    for branch in cursors:
        person(graph, f"next on {branch}", branch)
    graph.maintenance.cleanup(keep=1)
    for branch, cursor in cursors.items():
        assert content(graph, f"{branch}~1") == before
        assert len(graph.commit_changes(branch).changes) == 1
        assert len(graph.changes(branch, since=cursor).blocks) == 1
        assert graph.revert(branch, branch=branch).commit is not None
    assert graph.maintenance.verify(all=True).findings == ()
    age(folder)
    assert graph.maintenance.cleanup(keep=1).removed["commits"].files > 0
    assert graph.maintenance.cleanup(keep=1).waiting.files == 0
    with pytest.raises(HistoryGap):
        graph.changes("main", since=cursors["main"])


def begin_and_merge(graph: og.Graph) -> tuple[str, str]:
    """A branch at a commit that nothing else keeps, merged at once: the commit, and a cursor of the change feed."""
    graph.branches.create("side", "main~5")
    began, cursor = graph.show("side").id, graph.changes("side").cursor
    person(graph, "first of side", "side")
    graph.branches.merge("side")
    assert cursor is not None
    return began, cursor


def test_the_commit_at_which_a_branch_began_stays_for_an_hour(graph: og.Graph, folder: Path) -> None:
    """It is a commit of another branch, which moved on long ago. Only the new branch was there a moment ago."""
    age(folder)
    began, cursor = begin_and_merge(graph)
    graph.maintenance.cleanup(keep=1)
    assert graph.show("side~1").id == began
    assert len(graph.changes("side", since=cursor).blocks) == 1
    graph.branches.delete("side")
    graph.maintenance.cleanup(keep=1)
    content(graph, began)
    age(folder)
    graph.maintenance.cleanup(keep=1)
    with pytest.raises(HistoryGap):
        content(graph, began)


def test_the_commit_at_which_a_branch_began_during_the_cleanup_stays_too(graph: og.Graph, folder: Path) -> None:
    age(folder)
    other, cursors = og.open(folder), []
    arm(Failpoint.SWEEP_BEFORE_WATERMARK, lambda: cursors.append(begin_and_merge(other)[1]))
    try:
        graph.maintenance.cleanup(keep=1)
    finally:
        disarm_all()
    assert len(graph.changes("side", since=cursors[0]).blocks) == 1


def test_files_that_omnigraph_did_not_make_are_left_alone(graph: og.Graph, folder: Path) -> None:
    state = graph._repository.history.chain.head("main").head.table("node:Person")
    assert state is not None
    strangers = [
        folder / state.path / "data" / "notes.lance",
        folder / state.path / "README",
        folder / "staging" / "mine" / "x",
        folder / "history" / "backup.json",
    ]
    for file in strangers:
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("mine")
    age(folder)
    report = graph.maintenance.cleanup(keep=1)
    assert all(file.exists() for file in strangers)
    assert set(report.foreign) == {str(file.relative_to(folder)) for file in strangers}


def test_half_written_files_of_dead_processes_go(graph: og.Graph, folder: Path) -> None:
    left = folder / "branches" / "main" / f".tmp-{'0' * 16}"
    left.write_bytes(b"{")
    other = folder / "branches" / "main" / ".tmp-mine"
    other.write_bytes(b"")
    age(folder)
    graph.maintenance.cleanup()
    assert not left.exists()
    assert other.exists()


def test_a_damaged_graph_is_not_cleaned_up(graph: og.Graph, folder: Path) -> None:
    state = graph._repository.history.revisions.resolve("main~2").table("node:Person")
    assert state is not None
    (folder / state.path / "_versions" / f"d{state.version}.manifest").unlink()
    age(folder)
    before = files_of(folder)
    with pytest.raises(Damaged, match="_versions"):
        og.open(folder).maintenance.cleanup(keep=5)
    assert files_of(folder) == before


def test_a_commit_that_is_lost_takes_no_older_one_with_it(graph: og.Graph, folder: Path) -> None:
    """It was not removed by a cleanup, so what is below it is still to be kept."""
    age(folder)
    lost = folder / key_of("main", 5)
    data = lost.read_bytes()
    lost.unlink()
    before = files_of(folder)
    for policy in ({}, {"keep": 8}, {"older_than": "30d"}):
        with pytest.raises(Damaged) as damage:
            og.open(folder).maintenance.cleanup(**policy)  # type: ignore[arg-type]  # as named
        assert folder / damage.value.file == lost
    assert files_of(folder) == before
    lost.write_bytes(data)
    assert og.open(folder).maintenance.verify(all=True, deep=True).findings == ()
    lost.unlink()
    # Who keeps nothing that old may forget it.
    assert og.open(folder).maintenance.cleanup(keep=2).watermarks["main"] > 5
    assert og.open(folder).maintenance.verify(all=True, deep=True).findings == ()


@pytest.mark.parametrize("bad", [{"keep": 0}, {"older_than": "soon"}, {"older_than": -1}, {"older_than": "7 days"}])
def test_a_policy_that_makes_no_sense_is_refused(graph: og.Graph, bad: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        graph.maintenance.cleanup(**bad)  # type: ignore[arg-type]


# ---------------------------------------------------------------- beside others


@pytest.mark.usefixtures("stores_every_commit")
def test_a_reader_whose_commit_is_removed_under_it_hears_of_the_watermark(
    graph: og.Graph, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has pinned the commit, and no file of it is open yet."""
    reader = og.open(folder)
    resolve = Revisions.resolve

    def resolve_then_clean_up(self: Revisions, *arguments: Any) -> Any:
        snapshot = resolve(self, *arguments)
        age(folder)
        graph.maintenance.cleanup(keep=1)
        return snapshot

    monkeypatch.setattr(Revisions, "resolve", resolve_then_clean_up)
    with pytest.raises(HistoryGap, match="removed by cleanup") as caught:
        reader.query("query q() { match { $p: Person } return { $p.name } }", revision="main~5")
    assert caught.value.watermark == 10


def test_a_transaction_that_was_stopped_for_long_refuses(graph: og.Graph, folder: Path) -> None:
    """It staged, slept for hours, and a cleanup came: nothing of it is visible, and the next one is fine."""
    sleeper = og.open(folder)
    history = sleeper._repository.history
    away = 0.0

    def sleep_through_a_cleanup() -> None:
        nonlocal away
        disarm_all()
        away = 3 * HOURS
        age(folder)
        graph.maintenance.cleanup(older_than=0)

    clock = history.clock
    for part in (history, history.chain, history.retention):
        part.clock = lambda: clock() + away
    arm(Failpoint.PUBLISH_BEFORE_CREATE, sleep_through_a_cleanup)
    with pytest.raises(StagedTooLongAgo) as caught:
        person(sleeper, "late")
    assert caught.value.retry
    assert graph.maintenance.verify(all=True, deep=True).findings == ()
    person(sleeper, "late")
    assert "late" in content(graph)["node:Person"]


def test_a_load_of_twelve_hours_is_not_swept(graph: og.Graph, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It stages for hours; its lease is renewed, and cleanups in between leave what it staged and what it reads."""
    data = folder.parent / "people.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded"}}\n')
    loader = og.open(folder)
    history = loader._repository.history
    away = 0.0
    clock = history.clock
    for part in (history, history.chain, history.retention, history.leases):
        part.clock = lambda: clock() + away
    monkeypatch.setattr(Retention, "store_now", lambda self: time.time() + away)

    def work_for_twelve_hours() -> None:
        nonlocal away
        disarm_all()
        lease = history.leases.begin(history.chain.head("main").head.commit.ref, history.clock())
        for _ in range(12):
            away += HOURS
            history.leases.renew(lease)
            now = time.time() + away
            os.utime(folder / "leases" / f"{lease.id}.json", (now, now))
            graph.maintenance.cleanup(older_than=0)

    arm(Failpoint.LOAD_AFTER_READ, work_for_twelve_hours)
    assert loader.load(data, mode="append", engine="local").total.inserted == 1
    assert "loaded" in content(graph)["node:Person"]
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


@pytest.mark.usefixtures("stores_every_commit")
def test_a_load_that_was_stopped_without_a_lease_refuses(graph: og.Graph, folder: Path) -> None:
    data = folder.parent / "people.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded"}}\n')
    loader = og.open(folder)
    history = loader._repository.history
    away = 0.0
    clock = history.clock
    for part in (history, history.chain, history.retention, history.leases):
        part.clock = lambda: clock() + away

    def sleep_through_a_cleanup() -> None:
        nonlocal away
        disarm_all()
        away = 3 * HOURS
        age(folder)
        graph.maintenance.cleanup(older_than=0)

    arm(Failpoint.LOAD_AFTER_CHECKS, sleep_through_a_cleanup)
    with pytest.raises((StagedTooLongAgo, HistoryGap)):
        loader.load(data, mode="append", engine="local")
    assert graph.recovery.list() == []
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


def test_a_lease_is_written_only_by_long_work_and_removed_at_its_end(
    graph: og.Graph, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import threading

    monkeypatch.setattr("omnigraph.history.retention.RENEWAL_S", 0.01)
    renewed = threading.Event()
    renew = Leases.renew
    monkeypatch.setattr(Leases, "renew", lambda self, lease: (renew(self, lease), renewed.set()))
    history = graph._repository.history
    with history.leases.hold(history.chain.head("main").head.commit.ref):
        assert renewed.wait(120)
        (lease,) = history.leases.living(time.time())
        assert lease.since < time.time()
    assert history.leases.living(time.time()) == []
    assert not (folder / "leases").exists()


@pytest.mark.usefixtures("stores_every_commit")
def test_a_prepared_load_keeps_what_it_staged_until_it_is_too_old(graph: og.Graph, folder: Path) -> None:
    data = folder.parent / "people.jsonl"
    data.write_text('{"type": "Person", "data": {"name": "loaded"}}\n')
    for _ in range(2):
        arm(Failpoint.RECOVERY_PLAN_WRITTEN, raising(FailpointReached()))
        with pytest.raises(FailpointReached):
            og.open(folder).load(data, mode="append", engine="local")
        disarm_all()
    first, second = graph.recovery.list()
    age(folder)
    graph.maintenance.cleanup(older_than=0)
    assert graph.recovery.resume(first.commit_id).kind == "load"
    os.utime(folder / "recovery" / f"{second.commit_id}.json", (1, 1))
    age(folder)
    assert graph.maintenance.cleanup(older_than=0).removed["prepared"].files == 1
    assert graph.recovery.list() == []
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


def test_a_branch_cannot_start_at_a_commit_that_goes_at_the_same_time(graph: og.Graph, folder: Path) -> None:
    age(folder)

    def clean_up() -> None:
        disarm_all()
        og.open(folder).maintenance.cleanup(keep=1)

    arm(Failpoint.BRANCH_BEFORE_CREATE, clean_up)
    with pytest.raises(HistoryGap, match="older than what cleanup keeps"):
        graph.branches.create("late", "main~5")
    assert not graph.branches.exists("late")


def test_the_head_of_a_branch_without_commits_of_its_own_can_be_tagged(graph: og.Graph, folder: Path) -> None:
    graph.branches.create("side", "main~4")
    before = content(graph, "side")
    age(folder)
    graph.maintenance.cleanup(keep=1)
    graph.tags.create("v1", "side")
    with pytest.raises(HistoryGap):
        graph.tags.create("v2", "main~3")
    graph.branches.delete("side", force=True)
    graph.tags.create("release", "v1")
    graph.tags.delete("v1")
    age(folder)
    graph.maintenance.cleanup(keep=1)
    assert content(og.open(folder), "release") == before


def test_a_branch_starts_at_a_tag_below_the_watermark(graph: og.Graph, folder: Path) -> None:
    graph.tags.create("v1", "main~6")
    before = content(graph, "v1")
    age(folder)
    graph.maintenance.cleanup(keep=1)
    graph.branches.create("fix", "v1")
    assert content(graph, "fix") == before


def test_a_type_that_has_no_rows_yet_keeps_its_empty_table(graph: og.Graph, folder: Path) -> None:
    arm(Failpoint.TABLE_STAGED_DATA, raising(FailpointReached()))
    fresh = og.init(folder.parent / "fresh", SCHEMA, durability="process")
    with pytest.raises(FailpointReached):
        person(fresh, "first")
    disarm_all()
    age(folder.parent / "fresh")
    fresh.maintenance.cleanup(older_than=0)
    person(fresh, "first")
    assert list(content(fresh)["node:Person"]) == ["first"]


@pytest.mark.usefixtures("stores_every_commit")
@pytest.mark.parametrize("back", [1, 4])
def test_an_entry_of_a_writer_that_came_too_late_and_died_is_not_damage(
    graph: og.Graph, folder: Path, back: int
) -> None:
    """It was created at a position that a cleanup had removed, its files are gone, and nobody deleted it again."""
    history = graph._repository.history
    entry = history.chain.read("main", history.chain.head("main").position - back)
    late, (step,) = history.new_id(), entry.steps
    commit = replace(step.commit, ref=replace(step.commit.ref, id=late))
    age(folder)
    graph.maintenance.cleanup(keep=1)
    file = folder / key_of("main", entry.position)
    file.write_bytes(encode_entry(replace(entry, id=late, steps=(replace(step, commit=commit),))))
    assert graph.maintenance.verify(all=True).findings == ()
    report = graph.maintenance.cleanup(older_than="7d")
    assert (report.files, report.waiting.files) == (0, 1)
    age(folder)
    assert graph.maintenance.cleanup(older_than="7d").removed["commits"].files == 1
    assert not file.exists()
    assert graph.maintenance.verify(all=True, deep=True).findings == ()


def test_a_branch_that_is_deleted_during_a_cleanup_does_not_stop_it(
    graph: og.Graph, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph.branches.create("brief")
    listed = Branches.list

    def list_then_delete(self: Branches) -> Any:
        monkeypatch.undo()
        heads = listed(self)
        og.open(folder).branches.delete("brief", force=True)
        return heads

    monkeypatch.setattr(Branches, "list", list_then_delete)
    graph.maintenance.cleanup(older_than=0)
    assert not graph.branches.exists("brief")


# ---------------------------------------------------------------- erasure


def holders(folder: Path, *texts: str) -> list[str]:
    """The files in which one of these texts is."""
    files = [file for file in folder.rglob("*") if file.is_file()]
    return [
        str(file.relative_to(folder)) for file in files if any(text.encode() in file.read_bytes() for text in texts)
    ]


def index_files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file() and "_indices" in file.parts]


def test_an_erasure_takes_two_cleanups_and_one_more_an_hour_later(graph: og.Graph, folder: Path) -> None:
    """As docs/operations.md says, step by step. A clone of the newest commits is free of the erased bytes at once."""
    secret = "Zacharias-Quillfeather-4711"
    with graph.transaction() as tx:
        tx.insert("Person", name=secret, code="ERASEME")
    graph.branches.create("copy")
    person(graph, "on the copy only", "copy")
    person(graph, "on main only")
    graph.tags.create("v1")
    graph.maintenance.ensure_indexes()
    graph.maintenance.ensure_indexes("copy")
    assert any("_indices" in name for name in holders(folder, secret))
    graph.mutate(f'query q() {{ delete Person where name = "{secret}" }}')
    graph.maintenance.cleanup(older_than=0)
    graph.branches.merge("main", into="copy")
    graph.tags.delete("v1")
    graph.maintenance.cleanup(older_than=0)
    assert holders(folder, secret) != []
    og.clone(folder, folder.parent / "clone", depth=1, durability="process")
    assert holders(folder.parent / "clone", secret) == []
    age(folder)
    graph.maintenance.cleanup(older_than=0)
    assert holders(folder, secret) == []
    for whole in (graph, og.open(folder.parent / "clone")):
        assert whole.maintenance.verify(all=True, deep=True).findings == ()


@pytest.mark.parametrize("how", ["deleted", "replaced", "deleted with others"])
def test_rows_that_only_commits_held_are_erased(folder: Path, how: str) -> None:
    graph = og.init(folder, SCHEMA, durability="process")
    person(graph, "stored with its table")
    graph.maintenance.optimize()
    person(graph, "in a commit")
    with graph.transaction() as tx:
        tx.insert("Person", name="Quillfeather-4711", code="ERASEME")
    assert all("branches" in name for name in holders(folder, "ERASEME"))
    with graph.transaction() as tx:
        if how == "replaced":
            tx.update("Person", "Quillfeather-4711", code="ANOTHER")
        else:
            tx.delete("Person", "Quillfeather-4711")
        if how == "deleted with others":
            tx.delete("Person", "in a commit")
    assert holders(folder, "ERASEME") != []
    clean_up_all(graph, folder)
    secrets = ["ERASEME"] if how == "replaced" else ["ERASEME", "Quillfeather"]
    assert holders(folder, *secrets) == []
    assert graph.maintenance.verify(all=True, deep=True).findings == ()
    assert graph.maintenance.cleanup(older_than=0).files == 0, "what is erased is not erased again"


VECTORS = """
node Paper { title: String @key  text: String? @index  embedding: Vector(4)? @index }
node Author { name: String @key }
"""


@pytest.fixture
def papers(folder: Path) -> og.Graph:
    """Two papers, each in a fragment of its own; one has a vector."""
    graph = og.init(folder, VECTORS, durability="process")
    for title, vector in (("first", None), ("Quillfeather-4711", [1.0, 0.0, 0.0, 0.0])):
        with graph.transaction() as tx:
            tx.insert("Paper", title=title, text=f"about {title}", embedding=vector)
        graph.maintenance.ensure_indexes()
    return graph


def clean_up_all(graph: og.Graph, folder: Path) -> None:
    while graph.maintenance.cleanup(older_than=0).waiting.files:
        age(folder)


@pytest.mark.usefixtures("stores_every_commit")
def test_a_table_without_rows_keeps_no_index_files(papers: og.Graph, folder: Path) -> None:
    with papers.transaction() as tx:
        for title in ("first", "Quillfeather-4711"):
            tx.delete("Paper", title)
    age(folder)
    (table,) = papers.maintenance.optimize().tables
    assert table.actions == ("drop 6 index segments with values of rows that are gone",)
    age(folder)
    papers.maintenance.cleanup(keep=1)
    assert index_files(folder) == []
    assert papers.maintenance.optimize().commit is None
    assert papers.maintenance.verify(all=True, deep=True).findings == ()


def test_what_indexes_hold_of_a_fragment_that_is_gone_is_erased(papers: og.Graph, folder: Path) -> None:
    assert any("_indices" in name for name in holders(folder, "Quillfeather", "quillfeather"))
    papers.mutate('query q() { delete Paper where title = "Quillfeather-4711" }')
    clean_up_all(papers, folder)
    assert holders(folder, "Quillfeather", "quillfeather") == []
    assert papers.maintenance.verify(all=True, deep=True).findings == ()
    found = papers.query('query q() { match { $p: Paper { title: "first" } } return { $p.text as t } }')
    assert found.rows == [{"t": "about first"}]


def test_an_index_that_is_no_longer_declared_is_erased(papers: og.Graph, folder: Path) -> None:
    papers.maintenance.optimize()
    papers.schema.apply(VECTORS.replace("text: String? @index", "text: String?"))
    papers.mutate('query q() { delete Paper where title = "Quillfeather-4711" }')
    clean_up_all(papers, folder)
    assert holders(folder, "Quillfeather", "quillfeather") == []
    assert papers.maintenance.verify(all=True, deep=True).findings == ()


def test_vectors_that_are_all_gone_are_erased_and_optimize_can_be_repeated(papers: og.Graph, folder: Path) -> None:
    import struct

    papers.maintenance.optimize()
    papers.mutate('query q() { update Paper set { embedding: null } where title = "Quillfeather-4711" }')
    clean_up_all(papers, folder)
    vector = struct.pack("<4f", 1.0, 0.0, 0.0, 0.0)
    assert [file for file in folder.rglob("*") if file.is_file() and vector in file.read_bytes()] == []
    assert papers.maintenance.optimize().commit is None


# ---------------------------------------------------------------- storage


@pytest.mark.usefixtures("stores_every_commit")
def test_storage_tells_what_is_live_what_is_history_and_what_is_reclaimable(graph: og.Graph, folder: Path) -> None:
    graph.branches.create("side")
    person(graph, "aside", "side")
    report = graph.maintenance.storage()
    people = next(each for each in report.types if each.type == "node:Person")
    assert (people.rows, people.deleted_rows >= 0, people.fragments > 0) == (10, True, True)
    assert people.live_bytes > 0
    assert people.history_bytes > 0
    on_disk = sum(f.stat().st_size for f in folder.glob("nodes/Person-*/**/*") if f.is_file())
    assert people.live_bytes + people.history_bytes + people.reclaimable_bytes == on_disk
    alone = {kept.name: kept.bytes_alone for kept in report.kept}
    assert alone["branch side"] > 0
    age(folder)
    graph.maintenance.cleanup(keep=1)
    after = next(each for each in graph.maintenance.storage().types if each.type == "node:Person")
    assert after.live_bytes == people.live_bytes
    assert after.history_bytes < people.history_bytes
    assert after.reclaimable_bytes == 0
