"""Clones, and branches that travel between them: the same commits on both sides, or nothing and an error that says what to do."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from azure_server import AzureServer
from children import run_killed
from maintenance.aging import age
from s3_server import S3Server

import omnigraph as og
from omnigraph.errors import AlreadyExists, HistoryGap, NotFastForward, UsageError
from omnigraph.history.history import new_ulid
from omnigraph.history.values import Entry
from omnigraph.maintenance import cloning, replication
from omnigraph.storage import copying
from omnigraph.storage.options import open_store
from omnigraph.tasks import progress
from omnigraph.tasks.progress import Status
from omnigraph.testing import failpoints
from omnigraph.testing.failpoints import Failpoint, arm
from omnigraph.types import CopyReport
from omnigraph.write import publishing

SCHEMA = "node P { name: String @key  x: I32? @index  text: String? @index }  edge Knows: P -> P"


def add(graph: og.Graph, *names: str, branch: str = "main") -> None:
    with graph.transaction(branch) as tx:
        for name in names:
            tx.insert("P", name=name, text=f"about {name}")


def people(graph: og.Graph, revision: str = "main") -> list[str]:
    rows = graph.query("query q() { match { $p: P } return { $p.name as n } order { n } }", revision=revision).rows
    return [row["n"] for row in rows]


def ids(graph: og.Graph, revision: str = "main") -> list[str]:
    return [commit.id for commit in graph.commits(revision, limit=1_000)]


def assert_same(a: og.Graph, b: og.Graph, revision: str = "main") -> None:
    assert a.id == b.id
    assert ids(a, revision) == ids(b, revision)
    assert people(a, revision) == people(b, revision)


def assert_whole(graph: og.Graph) -> None:
    assert og.open(graph.uri).maintenance.verify(all=True, deep=True).findings == ()


@pytest.fixture
def origin(tmp_path: Path) -> og.Graph:
    graph = og.init(tmp_path / "origin", SCHEMA, durability="process")
    for number in range(12):
        add(graph, f"p{number}")
    with graph.transaction() as tx:
        tx.insert("Knows", id="e", from_="p1", to="p2")
        tx.delete("P", "p3")
    graph.tags.create("v1", "main~4")
    graph.maintenance.optimize()
    graph.branches.create("review", "main~2")
    add(graph, "r1", branch="review")
    graph.branches.create("gone")
    graph.branches.delete("gone")
    return graph


def cloned(origin: og.Graph, name: str = "copy", **options: Any) -> og.Graph:
    target = Path(origin.uri).parent / name
    og.clone(origin.uri, target, durability="process", **options)
    return og.open(target, durability="process")


# ---------------------------------------------------------------- clone


def test_a_clone_is_the_same_graph_in_another_place(origin: og.Graph) -> None:
    copy = cloned(origin)
    for revision in ("main", "review", "main~7", "v1"):
        assert_same(origin, copy, revision)
    assert [tag.name for tag in copy.tags.list()] == ["v1"]
    assert [branch.name for branch in copy.branches.list()] == ["main", "review"]
    assert list(copy.diff("main~9", "main")) == list(origin.diff("main~9", "main"))
    assert_whole(copy)
    add(copy, "own")
    assert people(origin).count("own") == 0


def test_a_clone_has_the_tags_of_branches_that_are_deleted(origin: og.Graph) -> None:
    origin.branches.create("release")
    for name in ("rc", "final", "later"):
        add(origin, name, branch="release")
    add(origin, "meanwhile")
    origin.tags.create("v2", "release~1")
    origin.branches.delete("release", force=True)
    copy = cloned(origin)
    assert [tag.name for tag in copy.tags.list()] == ["v1", "v2"]
    assert_same(origin, copy, "v2")
    copy.branches.create("hotfix", "v2")
    assert copy.branches.merge("hotfix").outcome == "merged"
    assert {"final", "meanwhile"} <= set(people(copy))
    assert_whole(copy)
    assert [tag.name for tag in cloned(origin, "newest", depth=1).tags.list()] == []
    assert [tag.name for tag in cloned(origin, "main", branches=[]).tags.list()] == ["v1"]


def test_a_clone_has_the_commits_that_branches_inherit_from_deleted_ones(origin: og.Graph) -> None:
    origin.branches.create("old")
    for name in ("kept", "later"):
        add(origin, name, branch="old")
    start = origin.show("old~1").id
    origin.branches.create("young", start)
    origin.branches.delete("old", force=True)
    for depth in (None, 1):
        copy = cloned(origin, f"copy-{depth}", depth=depth)
        assert copy.show("young").id == start
        assert people(copy, start) == people(origin, start)
        copy.maintenance.cleanup(keep=1)
        assert people(copy, start) == people(origin, start)
        copy.tags.create("began", "young")
        assert_whole(copy)


def test_a_clone_has_the_commit_that_a_branch_inherits_from_a_deleted_one_of_its_name(origin: og.Graph) -> None:
    origin.branches.create("again")
    for name in ("kept", "later"):
        add(origin, name, branch="again")
    start = origin.show("again~1").id
    origin.branches.delete("again", force=True)
    origin.branches.create("again", start)
    for depth in (None, 1):
        copy = cloned(origin, f"copy-{depth}", depth=depth)
        assert people(copy, start) == people(copy, "again") == people(origin, start)
        assert_whole(copy)


def test_a_place_with_a_graph_is_refused(origin: og.Graph) -> None:
    cloned(origin)
    with pytest.raises(AlreadyExists) as refused:
        cloned(origin)
    assert "omnigraph pull" in str(refused.value.hint)


def test_a_clone_of_some_branches_has_main_and_those(origin: og.Graph) -> None:
    origin.branches.create("other")
    add(origin, "o1", branch="other")
    copy = cloned(origin, branches=["review"])
    assert [branch.name for branch in copy.branches.list()] == ["main", "review"]
    copy.pull(origin.uri, "other")
    assert_same(origin, copy, "other")
    assert_whole(copy)


def test_what_is_older_than_the_depth_is_not_in_the_clone(origin: og.Graph) -> None:
    copy = cloned(origin, depth=3)
    assert ids(copy) == ids(origin)
    assert people(copy, "main~2") == people(origin, "main~2")
    with pytest.raises(HistoryGap):
        people(copy, "main~3")
    assert copy.tags.list() == []
    assert_whole(copy)
    add(copy, "own")
    copy.push(origin.uri)
    assert_same(origin, copy)


@pytest.mark.parametrize("depth", [None, 1])
def test_the_branches_of_a_clone_can_be_merged(origin: og.Graph, depth: int | None) -> None:
    """Where they parted is older than the depth, or below the watermark of a cleanup."""
    origin.branches.delete("review", force=True)
    origin.branches.create("side")
    for number in range(3):
        for branch in ("main", "side"):
            add(origin, f"{branch} {number}", branch=branch)
    if depth is None:
        age(Path(origin.uri))
        assert origin.maintenance.cleanup(keep=1).removed["commits"].files > 0
    copy = cloned(origin, depth=depth)
    assert_whole(copy)
    copy.branches.merge("side")
    assert {f"{branch} {number}" for branch in ("main", "side") for number in range(3)} <= set(people(copy))
    age(Path(copy.uri))
    copy.maintenance.cleanup(keep=1)
    assert copy.branches.merge("main", into="side").outcome == "fast_forward"
    assert_whole(copy)


def test_a_depth_is_at_least_one(origin: og.Graph) -> None:
    with pytest.raises(UsageError, match="must be at least 1"):
        cloned(origin, depth=0)


def run(program: str, *arguments: str, point: Failpoint, nth: int = 1, options: dict[str, str] | None = None) -> None:
    """A program that is killed at a point."""
    run_killed(f"import sys, omnigraph as og\noptions = {options!r}\n{program}", *arguments, point=point, nth=nth)


CLONE = "og.clone(sys.argv[1], sys.argv[2], storage_options=options if '://' in sys.argv[1] else None, "
CLONE += "target_options=options if '://' in sys.argv[2] else None)"


@pytest.mark.usefixtures("stores_every_commit")
@pytest.mark.s3
def test_a_clone_to_s3_and_back_killed_three_times_each_is_identical(origin: og.Graph, s3: S3Server) -> None:
    remote, back = f"s3://{s3.new_bucket()}/graph", str(Path(origin.uri).parent / "back")
    for source, target in ((origin.uri, remote), (remote, back)):
        for point, nth in (
            (Failpoint.COPY_AFTER_OBJECT, 3),
            (Failpoint.COPY_AFTER_OBJECT, 20),
            (Failpoint.CLONE_BEFORE_GRAPH_JSON, 1),
        ):
            run(CLONE, source, target, point=point, nth=nth, options=s3.options)
        options: dict[str, Any] = {"storage_options": s3.options} if "://" in target else {}
        with pytest.raises(og.errors.GraphNotFound):
            og.open(target, **options)
        report = og.clone(
            source,
            target,
            storage_options=s3.options if "://" in source else None,
            target_options=s3.options if "://" in target else None,
        )
        assert report.present > 20
    copy = og.open(back)
    for revision in ("main", "review", "main~7", "v1"):
        assert_same(origin, copy, revision)
    assert_whole(copy)


@pytest.mark.s3
def test_a_graph_travels_from_disk_to_s3_to_azure_and_back(origin: og.Graph, s3: S3Server, azure: AzureServer) -> None:
    bucket, container = f"s3://{s3.new_bucket()}/g", f"az://{azure.new_container()}/g"
    back = str(Path(origin.uri).parent / "back")
    og.clone(origin.uri, bucket, target_options=s3.options)
    og.clone(bucket, container, storage_options=s3.options, target_options=azure.options)
    og.clone(container, back, storage_options=azure.options)
    copy = og.open(back)
    add(copy, "from afar")
    copy.push(container, storage_options=azure.options)
    in_azure = og.open(container, storage_options=azure.options)
    in_azure.push(bucket, storage_options=s3.options)
    origin.pull(bucket, storage_options=s3.options)
    assert_same(origin, copy)
    assert_whole(origin)


# ---------------------------------------------------------------- progress


class Seen:
    """What somebody who watches is shown."""

    def __init__(self) -> None:
        self.statuses: list[Status] = []

    def update(self, status: Status) -> None:
        self.statuses.append(status)

    def close(self) -> None:
        """Nothing to close."""

    def last(self, stage: str) -> Status:
        return [status for status in self.statuses if status.stage == stage][-1]


@pytest.mark.usefixtures("stores_every_commit")
def test_clone_push_and_pull_show_objects_and_bytes_from_the_first_look_on(
    origin: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    def shown(run: Callable[[], CopyReport]) -> tuple[Seen, CopyReport]:
        seen = Seen()
        monkeypatch.setattr(progress, "progress_for", lambda _: seen)
        return seen, run()

    target = Path(origin.uri).parent / "copy"
    seen, report = shown(lambda: og.clone(origin.uri, target, durability="process", progress=True))
    stages = list(dict.fromkeys(status.stage for status in seen.statuses))
    assert stages == ["read commits of main", "read commits of review", "read tables", "copy"]
    assert [(status.done, status.unit) for status in seen.statuses[:1]] == [(0, "objects")]
    end = seen.last("copy")
    assert 0 < end.done == end.tasks < report.objects, "entries come last, and are small"
    assert 0 < end.bytes < report.bytes
    add(origin, "here")
    add(origin, "on review", branch="review")
    for run in (
        lambda: origin.push(target, progress=True),
        lambda: og.open(target).pull(origin.uri, "review", progress=True),
    ):
        seen, report = shown(run)
        assert [status.stage for status in seen.statuses][:2] == ["read commits", "copy"]
        assert (seen.last("copy").done, seen.last("copy").bytes) == (report.objects, report.bytes)


def test_the_bytes_of_an_object_that_is_not_done_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(copying, "MAX_WHOLE_BYTES", 0)
    source, target = (open_store(str(tmp_path / name), durability="process") for name in ("source", "target"))
    source.put("large", b"x" * 10)
    is_shown = threading.Event()

    def slow(_key: str) -> Iterator[bytes]:
        yield b"x" * 6
        assert is_shown.wait(60)
        yield b"x" * 4

    monkeypatch.setattr(source, "chunks", slow)

    def watch(_stage: str, done: int, objects: int, bytes: int = 0) -> None:
        if (done, objects, bytes) == (0, 1, 6):
            is_shown.set()

    assert copying.copy_between(source, target, [("large", 10)], old_before=0.0, watch=watch).bytes == 10
    assert target.get("large") == b"x" * 10


# ---------------------------------------------------------------- push and pull


def test_commits_go_back_and_forth_and_stay_the_same(origin: og.Graph) -> None:
    copy = cloned(origin)
    for number in range(3):
        add(copy, f"c{number}a")
        add(copy, f"c{number}b")
        copy.tags.create(f"t{number}", "main~1")
        assert copy.push(origin.uri).commits == {"main": 2}
        assert_same(origin, copy)
        add(origin, f"o{number}")
        assert copy.pull(origin.uri).commits == {"main": 1}
        assert_same(origin, copy)
    assert [tag.name for tag in origin.tags.list()] == ["t0", "t1", "t2", "v1"]
    assert origin.show("t1").id == copy.show("t1").id
    assert copy.push(origin.uri).commits == {"main": 0}
    assert_whole(origin)
    assert_whole(copy)


@pytest.mark.s3
def test_a_push_of_one_small_commit_is_at_most_six_requests(origin: og.Graph, s3: S3Server) -> None:
    remote = f"s3://{s3.new_bucket()}/graph"
    og.clone(origin.uri, remote, target_options=s3.options)
    for branch in ("main", "review"):
        add(origin, f"{branch} new", branch=branch)
        s3.reset()
        origin.push(remote, branch, storage_options=s3.options)
        requests = [f"{request.method} {request.key}" for request in s3.requests()]
        assert len(requests) <= 6, requests
    assert_same(origin, og.open(remote, storage_options=s3.options), "review")


def test_a_branch_that_went_two_ways_is_refused_both_ways_and_goes_on_as_another(origin: og.Graph) -> None:
    copy = cloned(origin)
    add(origin, "theirs")
    copy.branches.create("mine")
    add(copy, "ours")
    for sync in (copy.push, copy.pull):
        with pytest.raises(NotFastForward, match="has commits that"):
            sync(origin.uri)
    add(copy, "mine", branch="mine")
    copy.push(origin.uri, "mine")
    assert origin.branches.merge("mine").outcome == "merged"
    assert {"theirs", "mine"} <= set(people(origin))
    assert_whole(origin)


def test_what_went_two_ways_is_pushed_as_one_commit_and_merged_there(origin: og.Graph) -> None:
    copy = cloned(origin)
    add(origin, "theirs")
    for number in range(3):
        add(copy, f"ours{number}")
    with copy.transaction() as tx:
        tx.delete("P", "p5")
    report = copy.push(origin.uri, to="mine", actor="ada")
    assert report.commits == {"mine": 1}
    assert people(origin, "mine") == people(copy)
    assert (origin.show("mine").actor, origin.show("mine").parent) == ("ada", origin.show("main~1").ref)
    assert origin.branches.merge("mine").outcome == "merged"
    assert set(people(origin)) == set(people(copy)) | {"theirs"}
    assert_whole(origin)
    with pytest.raises(AlreadyExists):
        copy.push(origin.uri, to="mine")


def test_a_cursor_goes_on_in_a_copy(origin: og.Graph) -> None:
    copy = cloned(origin)
    cursor = origin.changes(start="now").cursor
    add(origin, "later", "still later")
    add(origin, "last")
    copy.pull(origin.uri)
    here, there = (graph.changes(since=cursor).blocks for graph in (copy, origin))
    assert [[change.id for change in block.changes] for block in here] == [["later", "still later"], ["last"]]
    assert [block.commit.id for block in here] == [block.commit.id for block in there]


def test_a_branch_that_a_clone_did_not_copy_is_not_damage(origin: og.Graph) -> None:
    origin.branches.create("other")
    add(origin, "o1", branch="other")
    merged = origin.show("other")
    origin.branches.merge("other")
    copy = cloned(origin, branches=[])
    assert people(copy) == people(origin)
    with pytest.raises(HistoryGap, match="branch 'other' is not in this graph"):
        copy._repository.history.lineage.entry_of(merged.ref)
    assert_whole(copy)


def test_a_branch_on_commits_that_the_other_lacks_is_refused_and_says_which(origin: og.Graph) -> None:
    copy = cloned(origin)
    add(copy, "c")
    copy.branches.create("mine")
    add(copy, "m", branch="mine")
    with pytest.raises(NotFastForward, match="of branch 'main', which"):
        copy.push(origin.uri, "mine")
    copy.push(origin.uri)
    copy.push(origin.uri, "mine")
    assert_same(origin, copy, "mine")


def test_a_merge_travels_after_what_it_merged(origin: og.Graph) -> None:
    copy = cloned(origin)
    add(copy, "r2", branch="review")
    copy.branches.merge("review")
    with pytest.raises(NotFastForward, match="of branch 'review', which"):
        copy.push(origin.uri)
    copy.push(origin.uri, "review")
    copy.push(origin.uri)
    assert_same(origin, copy)
    assert origin.head().merged == copy.head().merged
    add(origin, "r3", branch="review")
    assert origin.branches.merge("review").outcome == "merged"
    copy.pull(origin.uri, "review")
    copy.pull(origin.uri)
    assert_same(origin, copy)
    assert_whole(copy)


def test_a_branch_that_merged_a_deleted_one_is_pushed_as_one_commit_or_cloned(origin: og.Graph) -> None:
    copy = cloned(origin)
    origin.branches.create("done")
    add(origin, "d", branch="done")
    add(origin, "meanwhile")
    assert origin.branches.merge("done", delete_branch=True).branch_deleted
    with pytest.raises(NotFastForward, match="of branch 'done', which") as refused:
        origin.push(copy.uri)
    assert refused.value.hint is not None
    assert refused.value.hint.startswith(f"'done' was deleted: make a new copy (omnigraph clone {origin.uri} NEW)")
    assert "bring 'done'" not in refused.value.hint
    origin.push(copy.uri, to="incoming")
    assert copy.branches.merge("incoming").commit is not None
    assert people(copy) == people(origin)
    assert_same(origin, cloned(origin, "newest"))


def test_a_branch_that_was_made_again_is_another_one(origin: og.Graph) -> None:
    copy = cloned(origin)
    copy.branches.delete("review", force=True)
    copy.branches.create("review")
    add(copy, "again", branch="review")
    with pytest.raises(NotFastForward, match="deleted and created again"):
        copy.push(origin.uri, "review")
    origin.branches.delete("review", force=True)
    copy.push(origin.uri, "review")
    assert_same(origin, copy, "review")
    assert_whole(origin)


def meanwhile(action: Callable[[], Any]) -> None:
    arm(Failpoint.PUSH_AFTER_COPY, action)


def test_a_push_that_races_a_writer_is_refused_and_takes_nothing_away(origin: og.Graph) -> None:
    copy = cloned(origin)
    add(copy, "c")
    meanwhile(lambda: add(origin, "faster"))
    with pytest.raises(NotFastForward):
        copy.push(origin.uri)
    failpoints.disarm_all()
    assert people(origin).count("c") == 0
    assert "faster" in people(origin)
    assert_whole(origin)


def test_two_pushes_of_the_same_commits_at_once_are_one(origin: og.Graph) -> None:
    copy = cloned(origin)
    add(copy, "c1")
    add(copy, "c2")
    other = og.open(copy.uri)
    meanwhile(lambda: (failpoints.disarm_all(), other.push(origin.uri)))
    copy.push(origin.uri)
    assert_same(origin, copy)
    assert_whole(origin)


def test_an_entry_without_commits_stands_in_nobodys_way(origin: og.Graph) -> None:
    """The other side may have entries of its own in its chain: places differ, commits do not."""
    copy = cloned(origin)
    chain = origin._repository.history.chain
    head = chain.head("main")
    fence = replace(
        head,
        id=new_ulid(),
        op="commit",
        position=head.position + 1,
        before=head.head,
        steps=(),
        tail=(*head.tail, *(step.commit for step in head.steps)),
    )
    assert chain.append(fence, prepared_at=chain.clock()) is not None
    add(copy, "c1")
    copy.push(origin.uri)
    add(origin, "o1")
    copy.pull(origin.uri)
    copy.tags.create("here")
    assert_same(origin, copy)
    assert origin.head().ref.position == copy.head().ref.position + 1
    assert people(origin, "main~1") == people(copy, "main~1")
    assert_whole(origin)


def test_many_commits_arrive_in_few_entries(origin: og.Graph) -> None:
    copy = cloned(origin)
    before = origin.head().ref.position
    for number in range(70):
        add(copy, f"c{number}")
    assert copy.push(origin.uri).commits == {"main": 70}
    assert_same(origin, copy)
    assert origin.head().ref.position == before + 2
    assert people(origin, "main~33") == people(copy, "main~33")
    assert_whole(origin)


def test_a_push_takes_as_many_entries_as_it_needs(origin: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each of many merges has an entry to itself; that is no contention."""
    monkeypatch.setattr(replication, "MAX_COMMITS_PER_ENTRY", 1)
    monkeypatch.setattr(publishing, "MAX_ATTEMPTS", 3)
    copy = cloned(origin)
    for number in range(5):
        add(copy, f"c{number}")
    assert copy.push(origin.uri).commits == {"main": 5}
    assert_same(origin, copy)


@pytest.mark.usefixtures("stores_every_commit")
def test_a_killed_push_shows_nothing_and_the_next_one_copies_only_the_rest(origin: og.Graph) -> None:
    copy = cloned(origin)
    before = ids(origin)
    for number in range(3):
        add(copy, f"c{number}")
    program = "og.open(sys.argv[1]).push(sys.argv[2])"
    for point, nth in ((Failpoint.COPY_AFTER_OBJECT, 4), (Failpoint.PUSH_AFTER_COPY, 1)):
        run(program, copy.uri, origin.uri, point=point, nth=nth)
        assert ids(origin) == before
        assert_whole(origin)
    report = copy.push(origin.uri)
    assert (report.objects, report.bytes) == (0, 0)
    assert report.present > 4
    assert_same(origin, copy)


def test_what_is_no_copy_of_the_graph_is_refused(origin: og.Graph, tmp_path: Path) -> None:
    og.init(tmp_path / "stranger", SCHEMA, durability="process")
    with pytest.raises(UsageError, match="is not a copy of"):
        origin.push(tmp_path / "stranger")


def test_a_graph_in_memory_is_refused_in_every_direction_with_another_way(origin: og.Graph, tmp_path: Path) -> None:
    memory = og.init("memory://test-copies", SCHEMA)
    copies: list[Callable[[], object]] = [
        lambda: og.clone(origin.uri, "memory://copy"),
        lambda: og.clone(memory.uri, tmp_path / "copy"),
        lambda: origin.push(memory.uri),
        lambda: memory.push(origin.uri),
        lambda: origin.pull(memory.uri),
        lambda: memory.pull(origin.uri),
    ]
    for copy in copies:
        with pytest.raises(UsageError, match="memory of one process") as refused:
            copy()
        assert "export it, and load the export" in str(refused.value.hint)
    add(memory, "held")
    memory.export(tmp_path / "export.jsonl")
    elsewhere = og.init(tmp_path / "elsewhere", SCHEMA, durability="process")
    elsewhere.load(tmp_path / "export.jsonl", mode="append")
    assert people(elsewhere) == ["held"]


def test_tags_that_name_something_else_there_stay(origin: og.Graph) -> None:
    copy = cloned(origin)
    origin.tags.create("mark", "main~1")
    add(copy, "c")
    copy.tags.create("mark")
    assert copy.push(origin.uri).tags == ()
    assert origin.show("mark") == origin.show("main~2")


@pytest.mark.parametrize("when", ["before the copy is looked at", "after the files are copied"])
def test_commits_that_another_process_has_pushed_with_newer_ones_are_there(
    origin: og.Graph, tmp_path: Path, when: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    og.clone(origin.uri, tmp_path / "copy", durability="process")
    copy = og.open(tmp_path / "copy", durability="process")
    add(origin, "pushed by both")

    def other_process() -> None:
        failpoints.disarm_all()
        monkeypatch.undo()
        other = og.open(origin.uri)
        add(other, "newer")
        other.push(copy.uri)

    if when == "after the files are copied":
        arm(Failpoint.PUSH_AFTER_COPY, other_process)
    else:
        chain = origin._repository.history.chain
        head = chain.head

        def head_then_other(branch: str) -> Entry:
            entry = head(branch)
            other_process()
            return entry

        monkeypatch.setattr(chain, "head", head_then_other)
    origin.push(copy.uri)
    assert_same(og.open(origin.uri), og.open(copy.uri))
    assert_whole(copy)


def test_a_copy_that_is_behind_a_cleanup_says_how_to_go_on(origin: og.Graph, tmp_path: Path) -> None:
    og.clone(origin.uri, tmp_path / "copy", durability="process")
    copy = og.open(tmp_path / "copy", durability="process")
    for number in range(4):
        add(origin, f"later {number}")
    age(Path(origin.uri))
    origin.maintenance.cleanup(keep=1)
    for attempt in (lambda: copy.pull(origin.uri), lambda: origin.push(copy.uri)):
        with pytest.raises(HistoryGap, match="is behind a cleanup") as caught:
            attempt()
        assert f"omnigraph clone {origin.uri} NEW" in str(caught.value.hint)
    copy.branches.create("own")
    add(copy, "own", branch="own")
    add(copy, "diverged")
    for push in (lambda: copy.push(origin.uri, "own"), lambda: copy.push(origin.uri, to="diverged")):
        with pytest.raises(HistoryGap, match=r"which a cleanup of .* has removed") as caught:
            push()
        assert f"omnigraph clone {origin.uri} NEW" in str(caught.value.hint)
        assert [change.op for change in copy.diff(str(caught.value.commit_id), "own")] == ["insert"]
    og.clone(origin.uri, tmp_path / "new", durability="process")
    assert_same(og.open(tmp_path / "new"), origin)


@pytest.mark.usefixtures("stores_every_commit")
def test_a_clone_beside_a_cleanup_is_told_of_it_and_not_of_damage(
    origin: og.Graph, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    choose = cloning._choose

    def choose_then_clean_up(*arguments: Any) -> Any:
        chosen = choose(*arguments)
        age(Path(origin.uri))
        origin.maintenance.cleanup(keep=1)
        return chosen

    monkeypatch.setattr(cloning, "_choose", choose_then_clean_up)
    with pytest.raises(HistoryGap, match="while it was copied"):
        og.clone(origin.uri, tmp_path / "copy")
    monkeypatch.undo()
    og.clone(origin.uri, tmp_path / "copy")
    assert_same(og.open(tmp_path / "copy"), origin)
