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
    "its tables were compacted": Case(lambda graph: graph.optimize("work"), 2),
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
            assert graph.recovery.list() == [prepared]
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
