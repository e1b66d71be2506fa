"""Writers of one process share an entry of the branch; each has its own commit, or its own error."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from write.crowd import Crowd, person

import omnigraph as og
from omnigraph.errors import KeyConflict, OmnigraphError, OutcomeUnknown, StorageTransient, UniqueViolation
from omnigraph.history.chain import Chain
from omnigraph.testing.failpoints import Failpoint, arm, raising

SCHEMA = """
node Person { name: String @key  nick: String? @unique }
edge Knows: Person -> Person @card(0..1)
"""


@pytest.fixture
def graph() -> og.Graph:
    return og.init("memory://", schema=SCHEMA)


def positions(graph: og.Graph) -> int:
    return graph._repository.history.chain.head("main").position


def test_waiting_writers_share_one_entry(graph: og.Graph) -> None:
    before = positions(graph)
    crowd = Crowd(graph)
    crowd.hold_first(person("p"))
    for number in range(10):
        crowd.start(f"w{number}", person(f"p{number}"))
    crowd.wait_for(10)
    crowd.release()
    receipts = {name: outcome for name, outcome in crowd.outcomes.items() if isinstance(outcome, og.types.Receipt)}
    assert len(receipts) == 11
    assert positions(graph) == before + 2, "one entry for the first, one for all who waited"
    commits = {commit.id: commit for commit in graph.commits()}
    for name, receipt in receipts.items():
        assert receipt.commit is not None
        assert commits[receipt.commit.id].message == name
    assert graph._repository.resolve("main").rows("node:Person") == 11
    assert [len(commit.parents) for commit in graph.commits(limit=11)] == [1] * 11


def test_one_failing_member_fails_alone(graph: og.Graph) -> None:
    crowd = Crowd(graph)
    crowd.hold_first(person("p", "n"))
    crowd.start("same key", person("p"))
    crowd.start("same nick", person("q", "n"))
    crowd.start("fine", person("r"))
    crowd.start("rival 1", person("s"))
    crowd.start("rival 2", person("s"))
    crowd.wait_for(5)
    crowd.release()
    assert isinstance(crowd.outcomes["same key"], KeyConflict)
    assert isinstance(crowd.outcomes["same nick"], UniqueViolation)
    assert isinstance(crowd.outcomes["fine"], og.types.Receipt)
    rivals = [crowd.outcomes["rival 1"], crowd.outcomes["rival 2"]]
    assert sorted(type(outcome).__name__ for outcome in rivals) == ["KeyConflict", "Receipt"]
    assert {commit.message for commit in graph.commits(limit=3)} >= {"first", "fine"}


def test_cardinality_holds_within_a_group(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": name} for name in ("a", "b", "c", "d")])
    crowd = Crowd(graph)
    crowd.hold_first(lambda tx: tx.insert("Knows", from_="b", to="a"))
    for number, target in enumerate(("b", "c", "d")):
        crowd.start(f"w{number}", lambda tx, target=target: tx.insert("Knows", from_="a", to=target))
    crowd.wait_for(3)
    crowd.release()
    outcomes = [crowd.outcomes[f"w{number}"] for number in range(3)]
    assert sorted(type(outcome).__name__ for outcome in outcomes) == [
        "CardinalityViolation",
        "CardinalityViolation",
        "Receipt",
    ]
    assert graph._repository.resolve("main").rows("edge:Knows") == 2


@pytest.mark.parametrize("error", [KeyboardInterrupt, OSError])
def test_a_leader_that_dies_takes_nobody_with_it(graph: og.Graph, error: type[BaseException]) -> None:
    crowd = Crowd(graph)
    crowd.hold_first(person("p"))
    for number in range(5):
        crowd.start(f"w{number}", person(f"p{number}"))
    crowd.wait_for(5)
    arm(Failpoint.TABLE_STAGED_VERSION, raising(error()))
    crowd.release()
    died = [name for name, outcome in crowd.outcomes.items() if isinstance(outcome, error)]
    assert len(died) == (1 if error is KeyboardInterrupt else 0)
    assert graph._repository.resolve("main").rows("node:Person") == 6 - len(died)
    with graph.transaction() as tx:
        tx.insert("Person", name="later")


def test_an_unknown_outcome_names_each_writers_own_commit(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(_: Chain, entry: object, **__: object) -> None:
        raise OutcomeUnknown("the store stopped answering", commit_id=entry.id)  # type: ignore[attr-defined]

    crowd = Crowd(graph)
    crowd.hold_first(person("p"))
    crowd.start("a", person("a"))
    crowd.start("b", person("b"))
    crowd.wait_for(2)
    monkeypatch.setattr(Chain, "append", silent)
    crowd.release()
    unknown = [crowd.outcomes["a"], crowd.outcomes["b"]]
    assert all(isinstance(outcome, OutcomeUnknown) for outcome in unknown)
    assert len({outcome.commit_id for outcome in unknown if isinstance(outcome, OutcomeUnknown)}) == 2


def test_a_store_that_does_not_answer_is_heard_by_all(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    def silent(*_: object, **__: object) -> None:
        raise StorageTransient("no answer", key="branches/main")

    crowd = Crowd(graph)
    crowd.hold_first(person("p"))
    crowd.start("a", person("a"))
    crowd.start("b", person("b"))
    crowd.wait_for(2)
    monkeypatch.setattr(Chain, "append", silent)
    crowd.release()
    assert all(isinstance(crowd.outcomes[name], OmnigraphError) for name in ("a", "b"))


@pytest.mark.parametrize("backend", ["memory", "local"])
def test_many_threads_lose_nothing(backend: str, tmp_path: Path) -> None:
    uri = "memory://" if backend == "memory" else str(tmp_path / "graph")
    graph = og.init(uri, schema=SCHEMA, durability="process")
    failed: list[BaseException] = []

    def write(writer: int) -> None:
        try:
            for number in range(12):
                with graph.transaction() as tx:
                    tx.insert("Person", name=f"{writer}.{number}")
        except BaseException as error:
            failed.append(error)

    threads = [threading.Thread(target=write, args=(writer,)) for writer in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failed == []
    assert graph._repository.resolve("main").rows("node:Person") == 144
    assert len(graph.commits(limit=1_000)) == 145
    table = graph._repository.resolve("main").table("node:Person")
    assert table is not None
    assert len(table.fragments) <= 64, "somebody folds, even where every write is rebased"
