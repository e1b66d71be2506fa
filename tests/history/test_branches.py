"""Branches, tags, and the birth of a graph."""

from __future__ import annotations

import hashlib

import pytest
from history.small_graph import Clock, Ids, SmallGraph

from omnigraph.errors import (
    AlreadyExists,
    AmbiguousRevision,
    BranchNotFound,
    BranchNotMerged,
    BranchReplaced,
    GraphNotFound,
    StorageTransient,
    TagNotFound,
    UsageError,
)
from omnigraph.history.history import History
from omnigraph.storage.options import open_store
from omnigraph.storage.store import Store
from omnigraph.testing import failpoints
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, raising
from omnigraph.testing.stores import Fault, FaultyStore


def names(graph: SmallGraph) -> list[str]:
    return [entry.branch for entry in graph.again().history.branches.list()]


def test_create_list_delete_and_create_again() -> None:
    graph = SmallGraph()
    graph.commits(2)
    for name in ("b/c", "a", "b"):
        graph.branch(name)
    assert names(graph) == ["main", "a", "b", "b/c"]
    graph.commits(3, "b/c")
    graph.history.branches.delete("b/c", force=True)
    assert names(graph) == ["main", "a", "b"]
    for call in (lambda: graph.head("b/c"), lambda: graph.history.branches.delete("b/c")):
        with pytest.raises(BranchNotFound):
            call()
    again = graph.branch("b/c")
    assert again.position == 5
    assert again.incarnation != graph.history.chain.read("b/c", 0).incarnation
    assert again.head == graph.head().head


def test_a_branch_sees_its_source_and_changes_alone() -> None:
    graph = SmallGraph()
    graph.commits(2)
    graph.branch("x")
    graph.commits(3, "x")
    graph.commit()
    assert graph.head("x").head.table("node:P").rows == 5  # type: ignore[union-attr]
    assert graph.head().head.table("node:P").rows == 3  # type: ignore[union-attr]


def test_a_branch_costs_a_look_and_a_create_whatever_the_graph_holds() -> None:
    graph = SmallGraph()
    graph.commits(30)
    source = graph.head()
    graph.store.reset()
    graph.history.branches.create("x", source)
    assert graph.store.snapshot().by_kind == {"list": 1, "get": 1, "create": 1}, "the branch, the tag, the entry"
    graph.store.reset()
    graph.again().history.branches.delete("x", force=True)
    assert graph.store.snapshot().by_kind == {"list": 1, "get": 1, "create": 1}


def test_what_may_not_be_made_or_deleted() -> None:
    graph = SmallGraph()
    graph.branch("x")
    with pytest.raises(AlreadyExists):
        graph.branch("x")
    for call in (
        lambda: graph.branch("main"),
        lambda: graph.history.branches.delete("main"),
        lambda: graph.branch("a~b"),
    ):
        with pytest.raises(UsageError):
            call()


def test_two_makers_of_a_branch_one_wins() -> None:
    graph = SmallGraph()
    other = graph.again()
    source = graph.head()
    arm(Failpoint.BRANCH_BEFORE_CREATE, lambda: (failpoints.disarm_all(), other.branch("x"), None)[2])
    with pytest.raises(AlreadyExists):
        graph.history.branches.create("x", source)
    assert graph.head("x").position == 0


def test_a_delete_follows_a_moving_branch_unless_told_where_it_must_be() -> None:
    graph = SmallGraph()
    graph.branch("x")
    at = graph.commit("x")
    other = graph.again()
    arm(Failpoint.BRANCH_BEFORE_DELETE, lambda: (failpoints.disarm_all(), other.commit("x"), None)[2])
    with pytest.raises(BranchReplaced):
        graph.history.branches.delete("x", at=at, force=True)
    arm(Failpoint.BRANCH_BEFORE_DELETE, lambda: (failpoints.disarm_all(), other.commit("x"), None)[2])
    graph.history.branches.delete("x", force=True)
    assert names(graph) == ["main"]
    assert graph.history.chain.find("x", 4) is not None


def test_a_delete_leaves_a_branch_that_was_made_anew() -> None:
    graph = SmallGraph()
    graph.branch("x")
    other = graph.again()

    def replaced() -> None:
        failpoints.disarm_all()
        other.history.branches.delete("x")
        other.branch("x")

    arm(Failpoint.BRANCH_BEFORE_DELETE, replaced)
    with pytest.raises(BranchNotFound):
        graph.history.branches.delete("x")
    assert names(graph) == ["main", "x"]


# ---------------------------------------------------------------- commits that nothing else reaches


def test_a_branch_with_commits_of_its_own_is_deleted_by_force_only() -> None:
    graph = SmallGraph()
    graph.branch("x")
    graph.commits(3, "x")
    with pytest.raises(BranchNotMerged) as caught:
        graph.history.branches.delete("x")
    assert (caught.value.branch, caught.value.commits) == ("x", 3)
    assert graph.head("x").head.commit.id in (caught.value.hint or "")
    assert names(graph) == ["main", "x"]
    graph.history.branches.delete("x", force=True)
    assert names(graph) == ["main"]


def test_what_another_branch_or_a_tag_reaches_is_not_missed() -> None:
    graph = SmallGraph()
    graph.branch("empty")
    graph.history.branches.delete("empty")
    graph.branch("merged")
    graph.commits(2, "merged")
    graph.merge("merged", "main")
    graph.history.branches.delete("merged")
    graph.branch("x")
    _, second, _ = graph.commits(3, "x")
    graph.history.tags.create("t", second.ref)
    with pytest.raises(BranchNotMerged) as caught:
        graph.history.branches.delete("x")
    assert caught.value.commits == 1
    graph.branch("y", "x")
    graph.history.branches.delete("x")
    with pytest.raises(BranchNotMerged, match="branch 'y' has 1 commit that"):
        graph.history.branches.delete("y")


def test_commits_of_a_deleted_branch_that_only_this_one_merged_are_missed_too() -> None:
    graph = SmallGraph()
    for name in ("x", "y"):
        graph.branch(name)
        graph.commits(2, name)
    graph.merge("y", "x")
    graph.history.branches.delete("y")
    with pytest.raises(BranchNotMerged) as caught:
        graph.history.branches.delete("x")
    assert caught.value.commits == 2 + 1 + 2


def test_a_merged_branch_is_deleted_with_a_look_at_main_alone() -> None:
    graph = SmallGraph()
    for number in range(5):
        graph.branch(f"other{number}")
    graph.branch("x")
    graph.commit("x")
    graph.merge("x", "main")
    graph.store.reset()
    graph.history.branches.delete("x")
    assert graph.store.snapshot().by_kind == {"get": 2, "create": 1}


def test_a_commit_that_arrives_during_the_deletion_is_counted() -> None:
    graph = SmallGraph()
    graph.branch("x")
    other = graph.again()
    arm(Failpoint.BRANCH_BEFORE_DELETE, lambda: (failpoints.disarm_all(), other.commit("x"), None)[2])
    with pytest.raises(BranchNotMerged):
        graph.history.branches.delete("x")
    assert names(graph) == ["main", "x"]


def test_two_deletions_at_once_may_count_on_each_other_and_the_commits_are_found_by_id() -> None:
    graph = SmallGraph()
    graph.branch("x")
    tip = graph.commit("x")
    graph.branch("y", "x")
    other = graph.again()
    arm(Failpoint.BRANCH_BEFORE_DELETE, lambda: (failpoints.disarm_all(), other.history.branches.delete("y"), None)[2])
    graph.history.branches.delete("x")
    assert names(graph) == ["main"]
    again = graph.history.branches.create("back", graph.history.revisions.entry(tip.id))
    assert again.head.commit == tip


# ---------------------------------------------------------------- tags


def test_a_branch_and_a_tag_exclude_each_other() -> None:
    graph = SmallGraph()
    commit = graph.commit()
    graph.history.tags.create("v1", commit.ref)
    graph.branch("x")
    with pytest.raises(AlreadyExists, match="'v1' is a tag"):
        graph.branch("v1")
    for name in ("x", "main"):
        with pytest.raises(AlreadyExists, match=f"'{name}' is a branch"):
            graph.history.tags.create(name, commit.ref)
    graph.history.tags.delete("v1")
    graph.branch("v1")
    graph.history.branches.delete("x")
    graph.history.tags.create("x", commit.ref)
    assert graph.history.revisions.resolve("x").commit == commit


def test_a_tag_gives_way_to_a_branch_made_meanwhile() -> None:
    graph = SmallGraph()
    other = graph.again()
    commit = graph.commit()
    arm(Failpoint.TAG_BEFORE_CREATE, lambda: (failpoints.disarm_all(), other.branch("x"), None)[2])
    with pytest.raises(AlreadyExists, match="'x' is a branch"):
        graph.history.tags.create("x", commit.ref)
    assert graph.again().history.tags.list() == {}
    assert graph.again().history.revisions.resolve("x") == graph.head("x").head


def test_a_name_that_became_both_is_ambiguous_until_one_is_deleted() -> None:
    """The one order in which neither sees the other: the tag is made between the branch's look and its entry."""
    graph = SmallGraph()
    other = graph.again()
    old, _ = graph.commits(2)
    arm(
        Failpoint.BRANCH_BEFORE_CREATE,
        lambda: (failpoints.disarm_all(), other.history.tags.create("x", old.ref), None)[2],
    )
    graph.branch("x")
    for process in (graph, other, graph.again()):
        with pytest.raises(AmbiguousRevision, match="'x' is a branch and a tag"):
            process.history.revisions.resolve("x")
    assert graph.history.revisions.resolve("x~0") == graph.head("x").head
    other.history.tags.delete("x")
    assert graph.history.revisions.resolve("x") == graph.head("x").head


@pytest.mark.parametrize("name", ["01J9", "01JABCDEFG", "0" * 26, "01ARZ3NDEKTSV4RRFFQ69G5FAV"])
def test_a_name_that_reads_as_a_commit_id_is_refused(name: str) -> None:
    graph = SmallGraph()
    commit = graph.commit()
    with pytest.raises(UsageError, match="reads as a commit id"):
        graph.branch(name)
    with pytest.raises(UsageError, match="reads as a commit id"):
        graph.history.tags.create(name, commit.ref)


@pytest.mark.parametrize("name", ["2026-07-01", "20260701", "v1", "TEST", "011", "01j9abc", "x01J9"])
def test_other_names_are_fine(name: str) -> None:
    graph = SmallGraph()
    graph.branch(name)
    graph.commit(name)
    assert graph.history.revisions.resolve(name) == graph.head(name).head


def test_reading_a_branch_looks_for_a_tag_of_its_name_once() -> None:
    graph = SmallGraph()
    graph.branch("x")
    other = graph.again()
    other.history.revisions.resolve("x")
    graph.store.reset()
    other.history.revisions.resolve("x")
    assert graph.store.snapshot().by_kind == {"get": 1}
    other.history.revisions.resolve("main")
    graph.store.reset()
    other.history.revisions.resolve("main")
    assert graph.store.snapshot().by_kind == {"get": 1}


def test_tags() -> None:
    graph = SmallGraph()
    old, new = graph.commits(2)
    tags = graph.history.tags
    tags.create("release/1", old.ref)
    tags.create("release/1", old.ref)
    with pytest.raises(AlreadyExists):
        tags.create("release/1", new.ref)
    tags.create("a", new.ref)
    assert graph.again().history.tags.list() == {"a": new.ref, "release/1": old.ref}
    tags.delete("a")
    assert tags.find("a") is None
    with pytest.raises(TagNotFound):
        tags.delete("a")
    with pytest.raises(UsageError):
        tags.create("a b", old.ref)


@pytest.mark.parametrize("kind", ["answer_lost", "refused"])
def test_a_tag_whose_answer_was_lost(kind: str) -> None:
    inner = open_store("memory://")
    graph = SmallGraph(inner)
    commit = graph.commit()
    graph.store.inner = FaultyStore(inner, Fault(kind, "create", "tags/*"))  # type: ignore[arg-type]
    if kind == "refused":
        with pytest.raises(StorageTransient):
            graph.history.tags.create("t", commit.ref)
        assert graph.history.tags.find("t") is None
    graph.history.tags.create("t", commit.ref)
    assert graph.history.tags.find("t") == commit.ref


# ---------------------------------------------------------------- init


def make(store: Store, ids: Ids | None = None) -> History:
    return History.create(store, b'{"schema": 1}', new_id=ids or Ids(), wall_clock=Clock(), actor="ann")


def test_a_new_graph_has_one_commit_and_its_schema() -> None:
    store = open_store("memory://")
    made = make(store)
    history = History.open(store)
    assert history.identity == made.identity
    head = history.chain.head("main")
    assert (head.position, head.head.commit.kind, head.head.commit.actor, head.head.tables) == (0, "init", "ann", {})
    assert head.head.schema == hashlib.sha256(b'{"schema": 1}').hexdigest()
    assert history.schemas.get(head.head.schema) == b'{"schema": 1}'
    with pytest.raises(AlreadyExists):
        make(store, Ids("1"))


def test_no_graph_there() -> None:
    with pytest.raises(GraphNotFound):
        History.open(open_store("memory://"))


def test_an_init_that_died_before_its_first_entry_is_finished_by_whoever_opens() -> None:
    store = open_store("memory://")
    arm(Failpoint.INIT_BEFORE_FIRST_COMMIT, raising(FailpointReached()))
    with pytest.raises(FailpointReached):
        make(store)
    assert store.list("branches") == []
    first, second = History.open(store), History.open(store)
    assert first.chain.head("main") == second.chain.head("main")
    assert len(store.list("branches")) == 1


@pytest.mark.parametrize("key", ["graph.json", "branches/*"])
def test_an_init_whose_answer_was_lost_succeeds(key: str) -> None:
    store = open_store("memory://")
    faulty = FaultyStore(store, Fault("answer_lost", "create", key))
    make(faulty)
    assert History.open(store).chain.head("main").position == 0


def test_an_init_that_was_refused_can_be_tried_again() -> None:
    store = open_store("memory://")
    with pytest.raises(StorageTransient):
        make(FaultyStore(store, Fault("refused", "create", "graph.json")))
    make(store)


def test_a_schema_is_stored_once_and_read_once() -> None:
    graph = SmallGraph()
    first = graph.history.schemas.put(b"x")
    assert graph.history.schemas.put(b"x") == first
    other = graph.again()
    graph.store.reset()
    assert other.history.schemas.get(first) == b"x"
    assert other.history.schemas.get(first) == b"x"
    assert graph.store.snapshot().by_kind == {"get": 1}
