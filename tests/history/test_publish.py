"""What a plan meets when somebody else was first."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import partial

import pytest
from history.small_graph import SmallGraph, following, reapply

from omnigraph.errors import (
    AlreadyExists,
    BranchNotFound,
    BranchReplaced,
    Contention,
    ExpectedVersionMismatch,
    KeyConflict,
    OutcomeUnknown,
    PreconditionFailed,
)
from omnigraph.history.chain import key_of
from omnigraph.history.plan import PreparedPlan, PublishPlan, TableChange
from omnigraph.history.publish import Head
from omnigraph.history.values import Commit, Snapshot
from omnigraph.storage.options import open_store
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all
from omnigraph.testing.stores import Fault, FaultyStore
from omnigraph.write.publishing import MAX_ATTEMPTS, LostRace, Write, on_newest_head, publish, publish_group


def test_a_commit_says_who_when_and_what() -> None:
    graph = SmallGraph()
    commit = graph.commit(actor="ann", message="why", kind="load")
    head = graph.again().head()
    assert head.head.commit == commit
    assert (commit.actor, commit.message, commit.kind, commit.ref.seq, commit.ref.position) == (
        "ann",
        "why",
        "load",
        1,
        1,
    )
    assert commit.parents == (head.before.commit.ref,)
    assert head.head.table("node:P").rows == 1  # type: ignore[union-attr]


def test_publishing_on_the_cached_head_is_one_request() -> None:
    graph = SmallGraph()
    plan = graph.plan()
    graph.store.reset()
    publish(graph.history, plan)
    assert graph.store.snapshot().by_kind == {"create": 1}


def test_disjoint_tables_are_carried_over() -> None:
    graph = SmallGraph()
    a, b = graph.plan(table="node:A", mode="strict"), graph.plan(table="node:B", mode="strict")
    publish(graph.history, a)
    publish(graph.history, b)
    head = graph.head().head
    assert head.tables.keys() == {"node:A", "node:B"}


def test_a_strict_change_that_lost_says_what_it_expected() -> None:
    graph = SmallGraph()
    graph.commits(4)
    plan = graph.plan(mode="strict")
    graph.commits(2)
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(graph.history, plan, reapply)
    assert (caught.value.table_key, caught.value.expected, caught.value.actual) == ("node:P", 4, 6)
    assert graph.head().head.table("node:P").generation == 6  # type: ignore[union-attr]


def test_an_insert_without_a_rebase_says_what_it_expected() -> None:
    graph = SmallGraph()
    graph.commits(2)
    plan = graph.plan()
    graph.commit()
    with pytest.raises(ExpectedVersionMismatch) as caught:
        publish(graph.history, plan)
    assert (caught.value.expected, caught.value.actual) == (2, 3)


def test_an_insert_is_rebased_as_often_as_needed() -> None:
    graph = SmallGraph()
    other = graph.again()
    seen: list[int] = []

    def rebase(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        seen.append(snapshot.commit.ref.seq)
        if len(seen) < 3:
            other.commit()
        return reapply(plan, snapshot)

    plan = graph.plan()
    other.commit()
    commit = publish(graph.history, plan, rebase)
    assert seen == [1, 2, 3]
    assert (commit.ref.seq, commit.id) == (4, plan.commit_id)
    assert graph.head().head.table("node:P").rows == 4  # type: ignore[union-attr]


def test_a_rebase_may_refuse() -> None:
    graph = SmallGraph()
    plan = graph.plan()
    graph.commit()

    def rebase(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        raise KeyConflict("P", "ann")

    with pytest.raises(KeyConflict):
        publish(graph.history, plan, rebase)
    assert graph.again().head().head.commit.ref.seq == 1


def test_a_table_that_was_read_is_checked_again_when_it_moved() -> None:
    graph = SmallGraph()
    graph.commit(table="node:Q")
    state = graph.head().head.table("node:Q")
    plan = graph.plan(reads=("node:Q",), read_states={"node:Q": state})
    asked: list[str] = []

    def rebase(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        asked.append(snapshot.commit.id)
        return plan

    graph.commit(table="node:R")
    publish(graph.history, plan, rebase)
    assert asked == []
    again = graph.plan(reads=("node:Q",), read_states={"node:Q": state})
    moved = graph.commit(table="node:Q")
    publish(graph.history, again, rebase)
    assert asked == [moved.id]
    with pytest.raises(ExpectedVersionMismatch):
        publish(graph.history, replace(again, commit_id=graph.ids()))


def test_a_plan_of_another_schema_is_put_under_the_new_one_by_its_writer_or_refused() -> None:
    graph = SmallGraph()
    plan, strict = graph.plan(), graph.plan(table="node:R", mode="strict")
    graph.commit(table="node:Q", new_schema="other")
    for each in (plan, strict):
        with pytest.raises(ExpectedVersionMismatch) as caught:
            publish(graph.history, each)
        assert caught.value.table_key == "schema"
    asked: list[str] = []

    def rebase(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        asked.append(snapshot.schema)
        return reapply(plan, snapshot)

    publish(graph.history, plan, rebase)
    assert asked == ["other"]
    assert graph.head().head.schema == "other"


def test_if_commit_is_met_or_refused() -> None:
    graph = SmallGraph()
    at = graph.commit()
    publish(graph.history, graph.plan(if_commit=at.id))
    stale = graph.plan(if_commit=at.id)
    with pytest.raises(PreconditionFailed) as caught:
        publish(graph.history, stale, reapply)
    assert (caught.value.expected, caught.value.actual) == (at.id, graph.head().head.commit.id)


def test_a_dropped_table_is_gone_from_the_snapshot() -> None:
    graph = SmallGraph()
    graph.commit()
    plan = graph.plan(mode="strict")
    publish(graph.history, replace(plan, changes=(replace(plan.changes[0], state=None),)))
    assert graph.again().head().head.table("node:P") is None


def test_a_writer_of_a_deleted_branch_is_told() -> None:
    graph = SmallGraph()
    graph.branch("x")
    plan, other = graph.plan("x"), graph.again()
    other.history.branches.delete("x")
    with pytest.raises(BranchReplaced):
        publish(graph.history, plan, reapply)
    other.branch("x")
    with pytest.raises(BranchReplaced):
        publish(graph.history, plan, reapply)
    assert graph.head("x").head.table("node:P") is None
    with pytest.raises(BranchNotFound):
        publish(graph.history, replace(plan, branch="never"))


def test_a_plan_made_on_a_newer_head_than_the_cached_one_is_not_refused_for_it() -> None:
    graph, other = SmallGraph(), None
    graph.head()
    other = graph.again()
    other.commits(2)
    plan = other.plan(mode="strict")
    assert publish(graph.history, plan).ref.seq == 3
    other.branch("x")
    graph.head("x")
    other.history.branches.delete("x")
    other.branch("x")
    assert publish(graph.history, other.plan("x", mode="strict")).ref.seq == 4


def test_publishing_a_plan_again_gives_the_same_commit() -> None:
    graph = SmallGraph(max_tail=2)
    plan = graph.plan()
    commit = publish(graph.history, plan, reapply)
    graph.commits(7)
    for process in (graph, graph.again()):
        assert publish(process.history, plan, reapply) == commit
    assert graph.head().head.table("node:P").rows == 8  # type: ignore[union-attr]


def test_a_plan_that_was_published_is_not_denied_because_its_branch_was_replaced_since() -> None:
    graph = SmallGraph()
    graph.branch("x")
    plan = graph.plan("x")
    commit = publish(graph.history, plan)
    for _ in range(2):
        graph.history.branches.delete("x", force=True)
        assert publish(graph.again().history, plan, reapply) == commit
        graph.branch("x")
        assert publish(graph.again().history, plan, reapply) == commit
    never = replace(plan, commit_id=graph.ids())
    with pytest.raises(BranchReplaced):
        publish(graph.again().history, never, reapply)


def test_two_processes_publish_one_plan_as_one_commit() -> None:
    graph, other = SmallGraph(), None
    plan = graph.plan()
    graph.commit()
    other = graph.again()
    other.head()
    rebased_elsewhere: list[Commit] = []

    def rebase(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        result = reapply(plan, snapshot)
        rebased_elsewhere.append(publish(other.history, plan, reapply))
        return result

    commit = publish(graph.history, plan, rebase)
    assert commit == rebased_elsewhere[0]
    graph.commit()
    assert graph.again().head().head.table("node:P").rows == 3  # type: ignore[union-attr]
    assert graph.history.chain.read("main", 3).before == graph.history.chain.read("main", 2).head


def test_endless_contention_ends_with_an_error_to_retry() -> None:
    graph = SmallGraph()
    other = graph.again()

    def rebase(plan: PublishPlan, snapshot: Snapshot) -> PublishPlan:
        other.commit()
        return reapply(plan, snapshot)

    plan = graph.plan()
    other.commit()
    with pytest.raises(Contention) as caught:
        publish(graph.history, plan, rebase)
    assert caught.value.retry


# ---------------------------------------------------------------- plans that make their branch


def test_a_branch_appears_with_its_first_commit_in_one_entry() -> None:
    graph = SmallGraph()
    graph.commits(2)
    plan = graph.opening_plan("x")
    graph.store.reset()
    commit = publish(graph.history, plan)
    assert graph.store.snapshot().by_kind == {"list": 1, "get": 1, "create": 1}, (
        "the branch, a tag of its name, the entry"
    )
    (entry,) = [graph.again().head("x")]
    assert (entry.op, entry.position, [step.commit for step in entry.steps]) == ("create", 0, [commit])
    assert entry.before == graph.head().head
    assert commit.parents == (graph.head().head.commit.ref,)
    assert commit.ref.opens_branch
    assert [each.id for each in graph.history.log.walk(entry)][1:] == [
        each.id for each in graph.history.log.walk(graph.head())
    ]
    later = graph.commit("x")
    assert not later.ref.opens_branch
    assert [each.id for each, _ in graph.history.lineage.merge_bases(graph.head("x"), graph.head())] == [
        graph.head().head.commit.id
    ]
    assert graph.history.revisions.resolve("x~1").commit == commit
    assert graph.history.revisions.resolve("x~2") == graph.head().head


def test_the_branch_starts_where_the_plan_was_made_whatever_its_source_does_meanwhile() -> None:
    graph = SmallGraph()
    base = graph.commit()
    graph.branch("source")
    graph.commit("source")
    plan = graph.opening_plan("x", graph.head("source"))
    start = graph.head("source").head
    graph.commits(2, "source")
    graph.history.branches.delete("source", force=True)
    commit = publish(graph.history, plan)
    assert commit.parents == (start.commit.ref,)
    assert graph.head("x").head.table("node:P").rows == 3  # type: ignore[union-attr]
    assert base.id in {each.id for each in graph.history.log.walk(graph.head("x"))}


def test_a_branch_made_meanwhile_is_written_like_any_other() -> None:
    graph = SmallGraph()
    plan = graph.opening_plan("x")
    other = graph.again()
    other.branch("x")
    theirs = other.commit("x")
    commit = publish(graph.history, plan, reapply)
    assert commit.parents == (theirs.ref,)
    assert not commit.ref.opens_branch
    assert graph.head("x").head.table("node:P").rows == 2  # type: ignore[union-attr]


def test_a_branch_that_has_to_be_new_is_refused_when_somebody_made_it() -> None:
    graph = SmallGraph()
    plan = graph.opening_plan("x", new_branch=True)
    theirs = graph.again().branch("x")
    with pytest.raises(AlreadyExists):
        publish(graph.history, plan, reapply)
    assert graph.again().head("x") == theirs
    graph.history.branches.delete("x")
    assert publish(graph.history, plan, reapply).ref.opens_branch


def test_a_branch_lost_in_the_race_for_its_first_entry_is_rebased_on() -> None:
    graph = SmallGraph()
    plan = graph.opening_plan("x")
    other = graph.again()
    theirs = other.opening_plan("x")
    arm(Failpoint.PUBLISH_BEFORE_CREATE, lambda: (disarm_all(), publish(other.history, theirs), None)[2])
    commit = publish(graph.history, plan, reapply)
    assert [each.id for each in graph.history.log.walk(graph.head("x"))][:2] == [commit.id, theirs.commit_id]


def test_a_branch_that_came_and_went_meanwhile_is_made_again() -> None:
    graph = SmallGraph()
    plan = graph.opening_plan("x")
    other = graph.again()
    other.branch("x")
    other.commits(2, "x")
    other.history.branches.delete("x", force=True)
    commit = publish(graph.history, plan, reapply)
    assert (commit.ref.opens_branch, commit.ref.position) == (True, 4)
    assert graph.head("x").head.table("node:P").rows == 1  # type: ignore[union-attr]


def test_a_plan_that_made_its_branch_is_published_once_even_if_the_branch_is_deleted_since() -> None:
    graph = SmallGraph()
    plan = graph.opening_plan("x")
    commit = publish(graph.history, plan, reapply)
    assert publish(graph.again().history, plan, reapply) == commit
    graph.commits(3, "x")
    assert publish(graph.again().history, plan, reapply) == commit
    graph.history.branches.delete("x", force=True)
    assert publish(graph.again().history, plan, reapply) == commit
    graph.branch("x")
    graph.commit("x")
    assert publish(graph.again().history, plan, reapply) == commit
    graph.history.branches.delete("x", force=True)
    graph.branch("x")
    assert publish(graph.again().history, plan, reapply) == commit
    assert graph.head("x").position == 8


def test_whether_a_swept_incarnation_had_the_plan_is_unknown() -> None:
    graph = SmallGraph()
    plan = graph.opening_plan("x")
    publish(graph.history, plan)
    graph.history.branches.delete("x", force=True)
    graph.branch("x")
    graph.store.delete(key_of("x", 1))
    with pytest.raises(OutcomeUnknown):
        publish(graph.again().history, plan, reapply)


def test_a_plan_does_not_make_a_branch_with_the_name_of_a_tag() -> None:
    graph = SmallGraph()
    plan = graph.opening_plan("x")
    graph.history.tags.create("x", graph.head().head.commit.ref)
    with pytest.raises(AlreadyExists, match="'x' is a tag"):
        publish(graph.history, plan)
    assert graph.again().history.chain.newest("x") is None


@pytest.mark.parametrize("kind", ["answer_lost", "refused"])
def test_a_lost_answer_of_the_first_entry_is_looked_up(kind: str) -> None:
    inner = open_store("memory://")
    graph = SmallGraph(inner)
    plan = graph.opening_plan("x")
    graph.store.inner = FaultyStore(inner, Fault(kind, "create", "branches/x/*"))  # type: ignore[arg-type]
    assert publish(graph.history, plan).id == plan.commit_id
    assert graph.again().head("x").op == "create"


# ---------------------------------------------------------------- groups


def test_a_group_is_one_entry_and_a_commit_each() -> None:
    graph = SmallGraph()
    plans = [graph.plan() for _ in range(4)]
    graph.store.reset()
    outcomes = publish_group(graph.history, [Write(plan, reapply) for plan in plans])
    assert graph.store.snapshot().by_kind == {"create": 1}
    assert [outcome.id for outcome in outcomes if isinstance(outcome, Commit)] == [plan.commit_id for plan in plans]
    head = graph.again().head()
    assert head.position == 1
    assert head.head.table("node:P").rows == 4  # type: ignore[union-attr]
    for number, plan in enumerate(plans, 1):
        assert graph.history.revisions.resolve(plan.commit_id).table("node:P").rows == number  # type: ignore[union-attr]


def test_a_member_that_does_not_fit_fails_alone() -> None:
    graph = SmallGraph()
    graph.commit()
    plans = [graph.plan(mode="strict"), graph.plan(mode="strict"), graph.plan(table="node:Q")]
    first, second, third = publish_group(graph.history, [Write(plan, reapply) for plan in plans])
    assert isinstance(first, Commit)
    assert isinstance(second, ExpectedVersionMismatch)
    assert isinstance(third, Commit)
    assert third.parents == (first.ref,)


def test_a_group_that_lost_the_race_loses_no_rows() -> None:
    graph = SmallGraph()
    plans = [graph.plan() for _ in range(3)]
    graph.again().commit()
    publish_group(graph.history, [Write(plan, reapply) for plan in plans])
    assert graph.head().head.table("node:P").rows == 4  # type: ignore[union-attr]


def test_a_member_refused_for_a_neighbour_that_did_not_get_in_is_tried_again() -> None:
    graph = SmallGraph()
    graph.commit()
    state = graph.head().head.table("node:P")
    lost = graph.plan(mode="strict")
    lost = replace(lost, changes=(*lost.changes, TableChange("node:Q", "strict", None, following(None))))
    fine = graph.plan(mode="strict")
    graph.again().commit(table="node:Q")
    first, second = publish_group(graph.history, [Write(lost), Write(fine)])
    assert isinstance(first, ExpectedVersionMismatch)
    assert first.table_key == "node:Q"
    assert isinstance(second, Commit)
    assert graph.head().head.table("node:P").generation == state.generation + 1  # type: ignore[union-attr]


def test_a_merge_stands_alone_in_its_entry() -> None:
    graph = SmallGraph()
    graph.branch("x")
    tip = graph.commit("x")
    plans = [graph.plan(), graph.plan(table="node:Q", merged=tip.ref, kind="merge"), graph.plan(table="node:R")]
    outcomes = publish_group(graph.history, [Write(plan, reapply) for plan in plans])
    assert [outcome.ref.position for outcome in outcomes if isinstance(outcome, Commit)] == [1, 2, 3]
    before = graph.history.revisions.snapshot(outcomes[0].ref)  # type: ignore[union-attr]
    entry = graph.branch("y", at=before)
    assert [base.id for base, _ in graph.history.lineage.merge_bases(entry, graph.head("x"))] != [tip.id]


# ---------------------------------------------------------------- prepared plans


def test_a_prepared_plan_is_a_value_that_another_process_publishes() -> None:
    graph = SmallGraph()
    graph.branch("x")
    tip = graph.commit("x")
    plan = graph.plan(
        actor="ann", message="long", kind="load", reads=("node:Q",), read_states={"node:Q": None, "node:P": following(None)},
        if_commit=None, merged=tip.ref, new_schema="s2",
    )  # fmt: skip
    plan = replace(
        plan, changes=(replace(plan.changes[0], staged={"parts": ["{}"]}), TableChange("node:Z", "strict", None, None))
    )
    assert PublishPlan.from_json(json.loads(json.dumps(plan.to_json()))) == plan
    graph.history.recovery.keep(PreparedPlan(plan, 7, {"rows": 3}), lambda: None)
    other = graph.again()
    (found,) = other.history.recovery.list()
    assert found == PreparedPlan(plan, 7, {"rows": 3})
    commit = publish(other.history, found.plan)
    other.history.recovery.remove(commit.id)
    assert graph.history.recovery.list() == []


def test_another_process_makes_the_branch_of_a_prepared_plan() -> None:
    graph = SmallGraph(max_tail=2)
    graph.commits(5)
    plan = graph.opening_plan("x", new_branch=True)
    graph.history.recovery.keep(PreparedPlan(plan, 7, {}), lambda: None)
    graph.commits(5)
    other = graph.again()
    (found,) = other.history.recovery.list()
    assert found.plan == plan
    commit = publish(other.history, found.plan)
    assert commit.ref.opens_branch
    assert len(list(graph.history.log.walk(graph.head("x")))) == 7


def test_prepared_plans_are_listed_oldest_first_even_while_others_remove_them(monkeypatch: pytest.MonkeyPatch) -> None:
    graph = SmallGraph()
    plans = [graph.plan() for _ in range(3)]
    for at, plan in zip((5, 3, 4), plans, strict=True):
        graph.history.recovery.keep(PreparedPlan(plan, at, {}), lambda: None)
    listing = graph.store.list

    def list_then_remove(prefix: str, *, limit: int | None = None) -> object:
        found = listing(prefix, limit=limit)
        graph.store.delete(f"recovery/{plans[1].commit_id}.json")
        return found

    monkeypatch.setattr(graph.store, "list", list_then_remove)
    assert [prepared.prepared_at for prepared in graph.history.recovery.list()] == [4, 5]


# ---------------------------------------------------------------- the loop of attempts


def test_attempts_go_on_for_as_long_as_the_write_took_to_prepare() -> None:
    graph = SmallGraph()
    tried = 0

    def attempt(_: Head) -> None:
        nonlocal tried
        tried += 1
        raise LostRace

    newest = partial(graph.history.publisher.newest_head, "main")
    began = graph.history.clock()
    with pytest.raises(Contention):
        on_newest_head(graph.history, "main", newest, attempt)
    assert tried == MAX_ATTEMPTS
    took = graph.history.clock() - began
    with pytest.raises(Contention):
        on_newest_head(graph.history, "main", newest, attempt, patience_s=2 * took)
    assert tried > 2 * MAX_ATTEMPTS


def test_the_next_attempt_is_on_the_head_that_won_or_on_the_newest() -> None:
    graph = SmallGraph()
    won, seen = Head(graph.head(), 0.0, confirmed=True), list[Head]()

    def attempt(head: Head) -> Head:
        seen.append(head)
        if len(seen) < 3:
            raise LostRace(won if len(seen) == 1 else None)
        return head

    newest = partial(graph.history.publisher.newest_head, "main")
    result = on_newest_head(graph.history, "main", newest, attempt)
    assert seen[1] is won
    assert result not in (won, seen[0])
