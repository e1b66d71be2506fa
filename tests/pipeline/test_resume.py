"""What has happened since a load was prepared, and what becomes of it when it is resumed: published once, or kept."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from pipeline.conftest import Write, person

import omnigraph as og
from omnigraph import errors
from omnigraph.history import retention
from omnigraph.load import assembly
from omnigraph.testing.failpoints import Failpoint, arm, disarm_all, raising

PUT = "query put($who: String) { insert Person { email: $who } }"
GONE = "query gone($who: String) { delete Person where email = $who }"


def put(graph: og.Graph, who: str, branch: str) -> None:
    graph.mutate(PUT, {"who": who}, branch=branch)


def replaced(graph: og.Graph) -> None:
    graph.branches.delete("work", force=True)
    graph.branches.create("work")


def published(graph: og.Graph) -> None:
    """By somebody who died before the plan was forgotten."""
    (prepared,) = graph.recovery.list()
    arm(Failpoint.RECOVERY_BEFORE_REMOVE, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        graph.recovery.resume(prepared.commit_id)
    disarm_all()


def published_and_deleted(graph: og.Graph) -> None:
    published(graph)
    graph.branches.delete("work", force=True)


def published_and_replaced(graph: og.Graph) -> None:
    published(graph)
    replaced(graph)


@dataclass(frozen=True)
class Case:
    """`error`: the load is refused and stays prepared. `rows`: of the branch afterwards (None: there is no branch)."""

    since: Callable[[og.Graph], object]
    rows: int | None
    error: type[errors.OmnigraphError] | None = None


INTO_A_BRANCH = {
    "nothing": Case(lambda graph: None, 2),
    "another key": Case(lambda graph: put(graph, "z", "work"), 3),
    "the same key": Case(lambda graph: put(graph, "x", "work"), 1, errors.KeyConflict),
    "the same key came and went": Case(
        lambda graph: (put(graph, "x", "work"), graph.mutate(GONE, {"who": "x"}, branch="work")), 2
    ),
    "the branch was deleted": Case(
        lambda graph: graph.branches.delete("work", force=True), None, errors.BranchReplaced
    ),
    "the branch was replaced": Case(replaced, 0, errors.BranchReplaced),
    "it was published": Case(published, 2),
    "it was published, and the branch deleted": Case(published_and_deleted, None),
    "it was published, and the branch replaced": Case(published_and_replaced, 0),
    "its tables were compacted": Case(lambda graph: graph.maintenance.optimize("work"), 2),
}

MAKING_A_BRANCH = {
    "nothing": Case(lambda graph: None, 2),
    "main moved": Case(lambda graph: put(graph, "z", "main"), 2),
    "somebody made the branch": Case(lambda graph: graph.branches.create("work"), 2),
    "somebody made it and wrote": Case(lambda graph: (graph.branches.create("work"), put(graph, "z", "work")), 3),
    "somebody made it and wrote the same key": Case(
        lambda graph: (graph.branches.create("work"), put(graph, "x", "work")), 1, errors.KeyConflict
    ),
    "somebody made it and deleted it": Case(
        lambda graph: (graph.branches.create("work"), graph.branches.delete("work")), 2
    ),
    "a tag took the name": Case(lambda graph: graph.tags.create("work"), None, errors.AlreadyExists),
    "it was published": Case(published, 2),
    "it was published, and the branch deleted": Case(published_and_deleted, None),
    "it was published, and the branch replaced": Case(published_and_replaced, 0),
}


def check(graph: og.Graph, case: Case, load: Callable[[], object]) -> None:
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        load()
    disarm_all()
    (prepared,) = graph.recovery.list()
    other = og.open(graph.uri, durability="process")
    case.since(other)
    graph = og.open(graph.uri, durability="process")
    for _ in range(2):
        if case.error is not None:
            with pytest.raises(case.error):
                graph.recovery.resume(prepared.commit_id)
            assert [left.commit_id for left in graph.recovery.list()] == [prepared.commit_id]
    if case.error is None:
        assert graph.recovery.resume(prepared.commit_id).id == prepared.commit_id
        assert graph.recovery.list() == []
        assert graph.recovery.resume(prepared.commit_id).id == prepared.commit_id
    if case.rows is None:
        assert not other.branches.exists("work")
    else:
        assert other._repository.head("work")[1].rows("node:Person") == case.rows
        ids = [commit.id for commit in other.commits("work")]
        assert len(ids) == len(set(ids))
    for left in graph.recovery.list():
        graph.recovery.discard(left.commit_id)
    assert graph.recovery.list() == []


@pytest.mark.parametrize("name", INTO_A_BRANCH)
def test_a_load_into_a_branch(name: str, graph: og.Graph, write: Write) -> None:
    graph.branches.create("work")
    source = write("p.jsonl", person("x"), person("y"))
    check(graph, INTO_A_BRANCH[name], lambda: graph.load(source, mode="append", branch="work", engine="local"))


@pytest.mark.parametrize("name", MAKING_A_BRANCH)
def test_a_load_that_makes_its_branch(name: str, graph: og.Graph, write: Write) -> None:
    source = write("p.jsonl", person("x"), person("y"))
    check(
        graph,
        MAKING_A_BRANCH[name],
        lambda: graph.load(source, mode="append", branch="work", from_="main", engine="local"),
    )


def test_a_plan_that_another_resumes_in_between_is_its_commit(
    graph: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The head was read before the other published, the plan looked for after the other had discarded it."""
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        graph.load(write("p.jsonl", person("x")), mode="append", branch="work", from_="main", engine="local")
    disarm_all()
    (prepared,) = graph.recovery.list()
    monkeypatch.setattr(retention, "PROBE_WINDOW_S", 0)
    check = retention.Retention.check_staged

    def overtaken(self: retention.Retention, plan: Any) -> None:
        monkeypatch.setattr(retention.Retention, "check_staged", check)
        og.open(graph.uri, durability="process").recovery.resume(prepared.commit_id)
        check(self, plan)

    monkeypatch.setattr(retention.Retention, "check_staged", overtaken)
    assert graph.recovery.resume(prepared.commit_id).id == prepared.commit_id
    assert len(graph.commits("work")) == 2


def test_many_that_resume_at_once_publish_one_commit(graph: og.Graph, write: Write) -> None:
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        graph.load(write("p.jsonl", person("x")), mode="append", branch="work", from_="main", engine="local")
    disarm_all()
    (prepared,) = graph.recovery.list()
    outcomes: list[Any] = []
    ready = threading.Barrier(4)

    def resume() -> None:
        mine = og.open(graph.uri, durability="process")
        ready.wait()
        try:
            outcomes.append(mine.recovery.resume(prepared.commit_id).id)
        except errors.NotFound as error:  # the others had finished by then
            outcomes.append(error.code)

    threads = [threading.Thread(target=resume) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(outcomes) <= {prepared.commit_id, "not_found"}
    assert prepared.commit_id in outcomes
    assert len(graph.commits("work")) == 2
    assert graph._repository.head("work")[1].rows("node:Person") == 1


@pytest.mark.usefixtures("staged_loads")
def test_resuming_twice_gives_the_same_commit(graph: og.Graph, write: Write) -> None:
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        graph.load(write("mine.jsonl", person("a")), mode="append", engine="local")
    disarm_all()
    (prepared,) = graph.recovery.list()
    first = graph.recovery.resume(prepared.commit_id)
    put(graph, "b", "main")
    assert graph.recovery.resume(prepared.commit_id) == first
    assert graph.recovery.list() == []
    with pytest.raises(errors.NotFound, match="there is no prepared write"):
        graph.recovery.resume("01ARZ3NDEKTSV4RRFFQ69G5FAV")


def prepare(
    graph: og.Graph, source: object, point: Failpoint = Failpoint.LOAD_BEFORE_PUBLISH
) -> og.types.PreparedWrite:
    arm(point, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        graph.load(source, mode="append", branch="work", actor="ada", message="week 1", engine="local")  # type: ignore[arg-type]
    disarm_all()
    (prepared,) = graph.recovery.list()
    return prepared


def test_a_prepared_load_is_listed_with_its_actor_and_state(graph: og.Graph, write: Write) -> None:
    graph.branches.create("work")
    prepared = prepare(graph, write("p.jsonl", person("x")))
    assert (prepared.actor, prepared.branch, prepared.state) == ("ada", "work", "resumable")
    published(graph)
    assert [write.state for write in graph.recovery.list()] == ["published"]


def test_who_resumes_a_load_is_its_actor_and_the_message_says_who_prepared_it(graph: og.Graph, write: Write) -> None:
    graph.branches.create("work")
    prepared = prepare(graph, write("p.jsonl", person("x")))
    commit = graph.recovery.resume(prepared.commit_id, actor="eve")
    assert (commit.actor, commit.message) == ("eve", "week 1 (prepared by ada)")
    assert graph.recovery.resume(prepared.commit_id, actor="bob") == commit


@pytest.mark.parametrize(
    ("point", "since", "state", "error", "advice"),
    [
        (Failpoint.LOAD_BEFORE_PUBLISH, replaced, "moot", errors.BranchReplaced, "--branch work --from main"),
        (Failpoint.RECOVERY_PLAN_PROVISIONAL, None, "provisional", errors.StagedTooLongAgo, "and load again"),
    ],
)
def test_advice_for_a_load_that_cannot_be_resumed(
    point: Failpoint,
    since: Callable[[og.Graph], object] | None,
    state: str,
    error: type[errors.OmnigraphError],
    advice: str,
    graph: og.Graph,
    write: Write,
) -> None:
    graph.branches.create("work")
    prepared = prepare(graph, write("p.jsonl", person("x")), point)
    if since is not None:
        since(graph)
    assert [write.state for write in graph.recovery.list()] == [state]
    with pytest.raises(error) as caught:
        graph.recovery.resume(prepared.commit_id)
    assert f"omnigraph recovery {prepared.commit_id} --discard" in (caught.value.hint or "")
    assert advice in (caught.value.hint or "")
    assert "--resume" not in (caught.value.hint or "")


@pytest.mark.spark
def test_a_load_is_checked_again_on_spark(
    spark: Any, graph: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(assembly, "IN_PROCESS_ROWS", -1)
    arm(Failpoint.LOAD_BEFORE_PUBLISH, raising(KeyboardInterrupt()))
    with pytest.raises(KeyboardInterrupt):
        graph.load(write("a.jsonl", person("x"), person("y")), mode="append", engine=spark)
    disarm_all()
    other = og.open(graph.uri, durability="process")
    other.maintenance.optimize()
    put(other, "z", "main")
    (prepared,) = graph.recovery.list()
    jobs = spark.sparkContext._jsc.sc().statusStore()
    before = jobs.jobsList(None).length()
    assert graph.recovery.resume(prepared.commit_id, engine=spark).id == prepared.commit_id
    assert jobs.jobsList(None).length() > before
    assert other._repository.head("main")[1].rows("node:Person") == 3
