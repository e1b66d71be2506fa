"""A load is one commit or none: killed anywhere, racing anybody, on workers that fail and die."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from children import run_killed
from pipeline.conftest import SCHEMA, Write, content, knows, person
from s3_server import S3Server

import omnigraph as og
from omnigraph import errors
from omnigraph.spark.runner import SparkRunner, run_job
from omnigraph.tasks.runner import LocalRunner
from omnigraph.testing.failpoints import Failpoint, Park, arm, disarm_all
from omnigraph.testing.stores import Fault, FaultyStore

LOADING = """
import sys
import omnigraph as og
og.open(sys.argv[1]).load(sys.argv[2], mode=sys.argv[3], engine=sys.argv[4])
"""


def load_and_die(graph: og.Graph, source: str, mode: str, point: str, engine: str = "local") -> None:
    """Load in a process of its own that is killed at a failpoint."""
    run_killed(LOADING, graph._repository.store.uri, source, mode, engine, point=point)


BEFORE_THE_PLAN = ["load.after_read", "load.after_stage", "load.after_checks", "load.after_indexes"]
WITH_A_PLAN = ["recovery.plan_written", "load.before_publish", "publish.before_create"]
AFTER_THE_COMMIT = ["publish.after_create", "load.after_publish", "recovery.before_remove"]


@pytest.mark.parametrize("point", ["load.after_stage", "recovery.plan_written", "load.after_publish"])
def test_a_load_killed_at_a_point_is_one_commit_or_none(
    point: str, graph: og.Graph, write: Write, tmp_path: Path
) -> None:
    check_killed(point, graph, write, tmp_path, "local")


@pytest.mark.soak
@pytest.mark.parametrize("engine", ["local", "spark"])
@pytest.mark.parametrize("point", BEFORE_THE_PLAN + WITH_A_PLAN + AFTER_THE_COMMIT)
def test_a_load_killed_at_every_point(point: str, engine: str, graph: og.Graph, write: Write, tmp_path: Path) -> None:
    check_killed(point, graph, write, tmp_path, engine)


def check_killed(point: str, graph: og.Graph, write: Write, tmp_path: Path, engine: str) -> None:
    graph.load(write("first.jsonl", person("a"), person("b")), mode="append", engine="local")
    before = content(graph, tmp_path)
    source = write("second.jsonl", person("b", age=2), person("c"), knows("a", "c", id="e1"))
    load_and_die(graph, source, "merge", point, engine)
    fresh = og.open(graph._repository.store.uri, durability="process")
    prepared = fresh.recovery.list()
    if point in BEFORE_THE_PLAN:
        assert prepared == []
        assert content(fresh, tmp_path) == before
        fresh.load(source, mode="merge", engine="local")
    else:
        assert [write.total_entities for write in prepared] == [3]
        assert (content(fresh, tmp_path) == before) == (point in WITH_A_PLAN)
        commit = fresh.recovery.resume(prepared[0].commit_id)
        assert commit.id == prepared[0].commit_id == fresh.commits()[0].id
        assert fresh.recovery.list() == []
        assert fresh.recovery.resume(commit.id) == commit
    assert len(fresh.commits()) == 3
    assert content(fresh, tmp_path) == [
        {"edge": "Knows", "from": "a", "to": "c", "data": {"id": "e1"}},
        {"type": "Person", "data": {"id": "a", "email": "a"}},
        {"type": "Person", "data": {"id": "b", "email": "b", "age": 2}},
        {"type": "Person", "data": {"id": "c", "email": "c"}},
    ]


def test_a_prepared_load_can_be_resumed_after_others_wrote_or_discarded(
    graph: og.Graph, write: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMNIGRAPH_INLINE_ROWS", "0")
    graph.load(write("first.jsonl", person("a"), person("b")), mode="append", engine="local")
    source = write("second.jsonl", person("b", age=2), knows("a", "b", id="e1"))
    load_and_die(graph, source, "merge", "load.before_publish")
    graph.load(write("third.jsonl", person("b", age=77), person("d")), mode="merge", engine="local")
    graph.recovery.resume(graph.recovery.list()[0].commit_id)
    assert [record["data"] for record in content(graph, tmp_path)[1:]] == [
        {"id": "a", "email": "a"},
        {"id": "b", "email": "b", "age": 2},
        {"id": "d", "email": "d"},
    ]
    load_and_die(graph, write("fourth.jsonl", person("x")), "append", "load.before_publish")
    graph.recovery.discard(graph.recovery.list()[0].commit_id)
    assert graph.recovery.list() == []
    assert graph._repository.head()[1].rows("node:Person") == 3


def test_a_resume_that_is_refused_keeps_the_prepared_load(graph: og.Graph, write: Write, tmp_path: Path) -> None:
    load_and_die(graph, write("mine.jsonl", person("x"), person("y")), "append", "load.before_publish")
    (prepared,) = graph.recovery.list()
    graph.load(write("theirs.jsonl", person("x", age=5)), mode="append", engine="local")
    for _ in range(2):
        with pytest.raises(errors.KeyConflict) as caught:
            graph.recovery.resume(prepared.commit_id)
        assert f"omnigraph recovery {prepared.commit_id} --discard" in (caught.value.hint or "")
        assert graph.recovery.list() == [prepared]
    graph.mutate('query gone() { delete Person where email = "x" }')
    assert graph.recovery.resume(prepared.commit_id).id == prepared.commit_id
    assert graph.recovery.list() == []
    assert [record["data"]["id"] for record in content(graph, tmp_path)] == ["x", "y"]


def test_a_load_whose_plan_cannot_be_stored_is_not_committed(
    graph: og.Graph, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing was published, and the same load can be sent again."""
    monkeypatch.setenv("OMNIGRAPH_INLINE_ROWS", "0")
    recovery, source = graph._repository.history.recovery, write("first.jsonl", person("a"))
    recovery.store = FaultyStore(recovery.store, Fault("refused", "put", "recovery/*", times=1))
    with pytest.raises(errors.StorageError) as caught:
        graph.load(source, mode="append", engine="local")
    assert (caught.value.outcome, len(graph.commits())) == ("not_committed", 1)
    assert graph.load(source, mode="append", engine="local").commit == graph.commits()[0]


def test_a_plan_that_cannot_be_removed_changes_no_outcome(graph: og.Graph, write: Write) -> None:
    """The load is told by its commit, or by its refusal, whatever becomes of the clean-up."""
    recovery = graph._repository.history.recovery
    recovery.store = FaultyStore(recovery.store, Fault("refused", "delete", "recovery/*", times=2))
    receipt = graph.load(write("first.jsonl", person("a")), mode="append", engine="local")
    assert receipt.commit == graph.commits()[0]
    held = Held(graph, write("mine.jsonl", person("x")), "append")
    graph.mutate('query put() { insert Person { email: "x" } }')
    assert isinstance(held.release(), errors.KeyConflict)
    landed, refused = graph.recovery.list()
    assert graph.recovery.resume(landed.commit_id) == receipt.commit
    graph.recovery.discard(refused.commit_id)
    assert graph.recovery.list() == []
    assert len(graph.commits()) == 3


# ---------------------------------------------------------------- loads that make their branch

ON_NEW_BRANCH = """
import sys
import omnigraph as og
og.open(sys.argv[1]).load(sys.argv[2], mode="append", branch="review", from_="main", engine="local")
"""


def branches(graph: og.Graph) -> list[str]:
    return [branch.name for branch in og.open(graph.uri, durability="process").branches.list()]


@pytest.mark.parametrize("point", ["load.before_publish", "publish.after_create"])
def test_a_load_killed_anywhere_leaves_its_branch_with_its_commit_or_not_at_all(
    point: str, graph: og.Graph, write: Write
) -> None:
    source = write("p.jsonl", person("a"))
    run_killed(ON_NEW_BRANCH, graph.uri, source, point=point)
    if point == "publish.after_create":
        assert branches(graph) == ["main", "review"]
        assert graph._repository.head("review")[1].rows("node:Person") == 1
    else:
        assert branches(graph) == ["main"]
    for prepared in graph.recovery.list():
        assert graph.recovery.resume(prepared.commit_id).id == prepared.commit_id
    receipt = graph.load(write("q.jsonl", person("b")), mode="append", branch="review", from_="main", engine="local")
    assert not receipt.branch_created
    assert graph._repository.head("review")[1].rows("node:Person") == 2
    assert graph.recovery.list() == []


@pytest.mark.parametrize("error", [KeyboardInterrupt, errors.StorageDenied("no", key="k")])
@pytest.mark.parametrize("point", [Failpoint.LOAD_AFTER_READ, Failpoint.LOAD_BEFORE_PUBLISH])
def test_a_load_that_fails_takes_no_branch_away_that_somebody_else_made_and_wrote(
    error: BaseException, point: Failpoint, graph: og.Graph, write: Write
) -> None:
    other = og.open(graph.uri, durability="process")

    def made_by_another_and_failing() -> None:
        other.branches.create("review")
        other.mutate('query put() { insert Person { email: "theirs" } }', branch="review")
        raise error

    arm(point, made_by_another_and_failing)
    with pytest.raises((KeyboardInterrupt, errors.StorageDenied)):
        graph.load(write("p.jsonl", person("a")), mode="append", branch="review", from_="main", engine="local")
    assert branches(graph) == ["main", "review"]
    assert other._repository.head("review")[1].rows("node:Person") == 1


def test_a_refused_load_leaves_no_branch(graph: og.Graph, write: Write) -> None:
    for records in ([knows("nobody", "nowhere")], [person("a"), person("a")], [{"type": "Nope", "data": {}}]):
        with pytest.raises(errors.InputError):
            graph.load(write("p.jsonl", *records), mode="append", branch="review", from_="main", engine="local")
        assert branches(graph) == ["main"]


@pytest.mark.parametrize(("new_branch", "code"), [(False, None), (True, "already_exists")])
def test_a_branch_made_while_the_load_ran_is_loaded_into_unless_it_has_to_be_new(
    new_branch: bool, code: str | None, graph: og.Graph, write: Write, tmp_path: Path
) -> None:
    other = og.open(graph.uri, durability="process")

    def make() -> None:
        other.branches.create("review")
        other.mutate('query put() { insert Person { email: "theirs" } }', branch="review")

    arm(Failpoint.LOAD_BEFORE_PUBLISH, make)
    outcome: Any
    try:
        outcome = graph.load(
            write("p.jsonl", person("a")),
            mode="append",
            branch="review",
            from_="main",
            new_branch=new_branch,
            engine="local",
        )
    except errors.OmnigraphError as error:
        outcome = error
    assert getattr(outcome, "code", None) == code
    ids = sorted(graph._repository.head("review")[1].table("node:Person").read(["id"])["id"].to_pylist())  # type: ignore[union-attr]
    assert ids == (["theirs"] if code else ["a", "theirs"])
    if not code:
        assert not outcome.branch_created
    assert graph.recovery.list() == []


def test_the_same_key_in_a_branch_made_meanwhile_refuses_the_load_and_keeps_the_branch(
    graph: og.Graph, write: Write
) -> None:
    other = og.open(graph.uri, durability="process")

    def make() -> None:
        other.branches.create("review")
        other.mutate('query put() { insert Person { email: "a" } }', branch="review")

    arm(Failpoint.LOAD_BEFORE_PUBLISH, make)
    with pytest.raises(errors.KeyConflict):
        graph.load(write("p.jsonl", person("a")), mode="append", branch="review", from_="main", engine="local")
    assert branches(graph) == ["main", "review"]
    assert len(other.commits("review")) == 2


def check_unknown_outcome(graph: og.Graph, load: Callable[[], object], heal: Callable[[], None]) -> None:
    """The entry is created, its answer is lost, and nothing can be read for a while: the load says so, and nothing else."""
    with pytest.raises(errors.OutcomeUnknown) as caught:
        load()
    commit_id = caught.value.commit_id
    assert f"omnigraph recovery {commit_id} --resume" in (caught.value.hint or "")
    heal()
    fresh = og.open(graph.uri, storage_options=graph._repository.tables.options or None)
    assert [branch.name for branch in fresh.branches.list()] == ["main", "review"]
    assert fresh.show("review").id == commit_id
    assert [prepared.commit_id for prepared in fresh.recovery.list()] == [commit_id]
    assert fresh.recovery.resume(commit_id) == fresh.show("review")
    assert fresh.recovery.list() == []
    assert len(fresh.commits("review")) == 2


def test_an_unknown_outcome_is_told_as_such_and_its_branch_stays(graph: og.Graph, write: Write) -> None:
    chain = graph._repository.history.chain
    store = chain.store
    faulty = FaultyStore(store, Fault("answer_lost", "create", "branches/review/*", times=5))
    arm(Failpoint.PUBLISH_BEFORE_READBACK, lambda: faulty.add(Fault("refused", "*", "*", times=1_000)))
    chain.store = faulty
    graph._repository.history.recovery.store = faulty
    source = write("p.jsonl", person("a"))

    def heal() -> None:
        disarm_all()
        chain.store = graph._repository.history.recovery.store = store

    check_unknown_outcome(
        graph, lambda: graph.load(source, mode="append", branch="review", from_="main", engine="local"), heal
    )


@pytest.mark.s3
def test_an_unknown_outcome_on_s3_is_told_as_such_and_its_branch_stays(s3: S3Server, write: Write) -> None:
    """Reads fail for longer than any request is repeated."""
    options = {**s3.options, "client_max_retries": "2", "client_retry_timeout": "1"}
    graph = og.init(f"s3://{s3.new_bucket()}/graph", schema=SCHEMA, storage_options=options)
    s3.fault("answer_lost", method="PUT", key="*branches/review/*")
    s3.fault("refused", method="*", key="*branches/review/*", times=10_000)
    source = write("p.jsonl", person("a"))
    check_unknown_outcome(
        graph, lambda: graph.load(source, mode="append", branch="review", from_="main", engine="local"), s3.reset
    )


# ---------------------------------------------------------------- races


class Held:
    """A load held right before its publish, in a thread."""

    def __init__(self, graph: og.Graph, source: str, mode: Any) -> None:
        self.park = Park()
        self.outcome: Any = None
        arm(Failpoint.LOAD_BEFORE_PUBLISH, self.park)
        self._thread = threading.Thread(target=self._run, args=(graph, source, mode))
        self._thread.start()
        self.park.wait_until_reached()

    def _run(self, graph: og.Graph, source: str, mode: Any) -> None:
        try:
            self.outcome = graph.load(source, mode=mode, engine="local")
        except errors.OmnigraphError as error:
            self.outcome = error

    def release(self) -> Any:
        self.park.release()
        self._thread.join()
        return self.outcome


RACES: dict[str, tuple[str, list[Any], list[Any], str | None]] = {
    "other keys": ("append", [person("x")], [person("y")], None),
    "the same key": ("append", [person("x")], [person("x", age=5)], "Person 'x' already exists"),
    "a merge of the same key": ("merge", [person("x", age=1)], [person("x", age=5)], None),
    "the same unique value": (
        "append", [person("x", handle="h")], [person("y", handle="h")],
        "@unique violation on Person.handle: value 'h' held by 'y' and 'x'",
    ),
    "one edge too many": (
        "append", [knows("a", "b"), knows("a", "c")], [knows("a", "a")],
        "@card violation on edge Knows: source 'a' has 3 edges (max 2)",
    ),
    "an overwritten type": (
        "overwrite", [person("a"), person("b"), person("c")], [person("y")],
        "node:Person changed while this write was prepared: expected version 1, found 2",
    ),
}  # fmt: skip


@pytest.mark.parametrize("race", RACES)
def test_a_load_that_lost_the_race_is_checked_again(race: str, graph: og.Graph, write: Write, tmp_path: Path) -> None:
    mode, mine, theirs, said = RACES[race]
    graph.load(write("setup.jsonl", person("a"), person("b"), person("c")), mode="append", engine="local")
    held = Held(graph, write("mine.jsonl", *mine), mode)
    og.open(graph._repository.store.uri, durability="process").load(
        write("theirs.jsonl", *theirs), mode="append", engine="local"
    )
    outcome = held.release()
    if said is None:
        assert outcome.commit == graph.commits()[0]
        assert len(graph.commits()) == 4
    else:
        assert outcome.message == said
        assert len(graph.commits()) == 3
    assert graph.recovery.list() == []
    ids = [record["data"]["id"] for record in content(graph, tmp_path)]
    assert len(ids) == len(set(ids))


def test_a_node_that_was_deleted_meanwhile(graph: og.Graph, write: Write) -> None:
    graph.load(write("setup.jsonl", person("a"), person("b")), mode="append", engine="local")
    held = Held(graph, write("mine.jsonl", knows("a", "b")), "append")
    other = og.open(graph._repository.store.uri, durability="process")
    other.mutate('query gone() { delete Person where email = "b" }')
    outcome = held.release()
    assert isinstance(outcome, errors.EndpointMissing)
    assert outcome.message == "to 'b' not found in Person"


# ---------------------------------------------------------------- workers


@pytest.mark.spark
def test_a_task_that_fails_twice_and_then_works(spark: Any, tmp_path: Path) -> None:
    def shaky(number: int) -> int:
        tries = tmp_path / f"tries-{number}"
        tries.open("a").write("x")
        if number == 1 and len(tries.read_text()) < 3:
            raise OSError("not yet")
        return number * 10

    assert SparkRunner(spark, 2).map("shaky", shaky, [0, 1, 2]) == [0, 10, 20]
    assert (tmp_path / "tries-1").read_text() == "xxx"


@pytest.mark.spark
def test_a_worker_killed_in_the_middle_of_its_task(spark: Any, tmp_path: Path) -> None:
    def dies_once(number: int) -> int:
        mark = tmp_path / f"died-{number}"
        if number == 1 and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), 9)
        return number

    assert SparkRunner(spark, 2).map("dying", dies_once, [0, 1, 2]) == [0, 1, 2]
    assert (tmp_path / "died-1").exists()


@pytest.mark.spark
def test_what_workers_raise_arrives_without_a_java_stack(spark: Any) -> None:
    def broken(number: int) -> int:
        raise OSError(f"the disk of task {number} is full")

    def refusing(number: int) -> int:
        raise errors.EndpointMissing("from 'x' not found in Person", type_name="Knows", line=number)

    with pytest.raises(errors.PipelineFailed) as caught:
        SparkRunner(spark, 2).map("broken", broken, [7])
    assert caught.value.message == "the work on Spark stopped: OSError: the disk of task 7 is full"
    with pytest.raises(errors.EndpointMissing) as refused:
        SparkRunner(spark, 2).map("refusing", refusing, [3])
    assert (refused.value.message, refused.value.line) == ("from 'x' not found in Person", 3)


def test_an_error_in_process_stops_the_other_tasks() -> None:
    def refusing(number: int) -> int:
        if number == 5:
            raise errors.UsageError("five")
        return number

    with pytest.raises(errors.UsageError, match="five"):
        LocalRunner().map("refusing", refusing, list(range(50)))


def test_importing_omnigraph_starts_no_jvm_and_loads_no_engine() -> None:
    code = "import sys, omnigraph; print([m for m in ('pyspark', 'lance', 'duckdb', 'pandas', 'pyarrow') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_loading_in_process_never_touches_spark(graph: og.Graph, write: Write) -> None:
    source = write("p.jsonl", person("a"))
    code = f"{LOADING}\nassert not any(name.startswith('pyspark') for name in sys.modules)"
    arguments = [graph._repository.store.uri, source, "append", "local"]
    subprocess.run([sys.executable, "-c", code, *arguments], check=True)
    assert graph._repository.head()[1].rows("node:Person") == 1


def test_a_jvm_that_is_gone_is_a_failure_of_the_work(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever talks to it then is refused, before any work of theirs begins."""

    def refused(*_: object) -> None:
        raise ConnectionRefusedError(111, "Connection refused")

    with monkeypatch.context() as patch:
        patch.setattr("pyspark.InheritableThread.start", refused)
        with pytest.raises(errors.PipelineFailed, match="Connection refused"):
            run_job(spark, "count", lambda: spark.range(3).count())
    assert run_job(spark, "count", lambda: spark.range(3).count()) == 3
