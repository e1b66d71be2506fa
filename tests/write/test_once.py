"""Mutations, transactions and loads under a write key: tried again, they are one commit."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import AlreadyExists, InputError, PreconditionFailed, SequencePassed, UsageError, WriteKeyReused
from omnigraph.testing import failpoints
from omnigraph.testing.failpoints import Failpoint, FailpointReached

SCHEMA = """
node Person { name: String @key
  age: I32? }
edge Knows: Person -> Person
"""
ADD = "query add($n: String, $a: I32) { insert Person { name: $n, age: $a } }"
GROW = "query grow($n: String) { update Person set { age: 99 } where name = $n }"


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "graph", SCHEMA)


def again(graph: og.Graph) -> og.Graph:
    """Another process."""
    return og.open(graph.uri)


def seq(graph: og.Graph, branch: str = "main") -> int:
    return graph.show(branch).ref.seq


def records(folder: Path, *names: str, file: str = "people.jsonl") -> Path:
    path = folder / file
    path.write_text("".join(f'{{"type": "Person", "data": {{"name": "{name}"}}}}\n' for name in names))
    return path


# ---------------------------------------------------------------- mutations and transactions


@pytest.mark.parametrize("once", ["add Ada", ("people", 7)])
def test_a_mutation_that_is_sent_again_is_one_commit(graph: og.Graph, once: Any) -> None:
    first = graph.mutate(ADD, {"n": "Ada", "a": 36}, once=once, actor="ann")
    graph.mutate(ADD, {"n": "Bo", "a": 1})
    for process in (graph, again(graph)):
        second = process.mutate(ADD, {"n": "Ada", "a": 36}, once=once, actor="bob")
        assert (second.commit, second.repeated, second.types, second.actor) == (first.commit, True, {}, "ann")
        assert second.query_name == "add"
    assert not first.repeated
    assert seq(graph) == 2


def test_what_a_mutation_asks_for_is_its_text_and_parameters(graph: og.Graph) -> None:
    graph.mutate(ADD, {"n": "Ada", "a": 36}, once="k")
    for text, params in ((ADD, {"n": "Ada", "a": 37}), (ADD.replace("add", "more"), {"n": "Ada", "a": 36})):
        with pytest.raises(WriteKeyReused):
            graph.mutate(text, params, once="k")
    assert seq(graph) == 1


def test_a_write_that_changes_nothing_is_a_commit_under_a_key_so_that_it_stays_so(graph: og.Graph) -> None:
    first = graph.mutate(GROW, {"n": "Ada"}, once="k")
    assert first.commit == graph.head()
    graph.mutate(ADD, {"n": "Ada", "a": 36})
    assert graph.mutate(GROW, {"n": "Ada"}, once="k").commit == first.commit
    assert graph.entity("Person", "Ada")["age"] == 36  # type: ignore[index]


def test_a_transaction_asks_for_its_statements_as_they_were_called(graph: og.Graph) -> None:
    def write(age: int, names: list[str]) -> og.types.Receipt:
        with again(graph).transaction(once="k") as tx:
            tx.insert("Person", name="Ada", age=age)
            tx.insert_many("Person", ({"name": name} for name in names))
            tx.insert("Knows", from_="Ada", to=names[0])
            tx.update("Person", "Ada", {"age": age + 1})
            tx.delete("Person", names[-1])
        return tx.receipt

    first = write(36, ["Bo", "Cy"])
    assert write(36, ["Bo", "Cy"]).commit == first.commit
    for other in (write, lambda *_: write(36, ["Bo", "Dee"])):
        with pytest.raises(WriteKeyReused):
            other(37, ["Bo", "Cy"])
    assert {change.id for change in graph.diff("main~1", "main", kinds=["node"])} == {"Ada", "Bo"}


def test_a_repeated_write_need_not_find_the_commit_that_its_first_try_expected(graph: og.Graph) -> None:
    head = graph.head().id
    first = graph.mutate(ADD, {"n": "Ada", "a": 1}, once="k", if_commit=head)
    assert graph.mutate(ADD, {"n": "Ada", "a": 1}, once="k", if_commit=head).commit == first.commit
    with pytest.raises(PreconditionFailed):
        graph.mutate(ADD, {"n": "Ada", "a": 1}, once="other", if_commit=head)


def test_a_write_that_was_refused_may_be_tried_again_under_its_key(graph: og.Graph) -> None:
    for _ in range(2):
        with pytest.raises(InputError), graph.transaction(once="k") as tx:
            tx.insert("Knows", from_="Ada", to="Ada")
    graph.mutate(ADD, {"n": "Ada", "a": 1})
    with graph.transaction(once="k") as tx:
        tx.insert("Knows", from_="Ada", to="Ada")
    assert not tx.receipt.repeated


def test_threads_that_send_the_same_writes_make_one_commit_of_each(graph: og.Graph) -> None:
    receipts: list[og.types.Receipt] = []

    def send() -> None:
        receipts.extend(graph.mutate(ADD, {"n": f"p{n}", "a": n}, once=f"k{n}") for n in range(12))

    threads = [threading.Thread(target=send) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert seq(graph) == 12
    assert len({receipt.commit.id for receipt in receipts if receipt.commit}) == 12
    assert sum(not receipt.repeated for receipt in receipts) == 12


def test_numbers_of_a_sequence_grow(graph: og.Graph) -> None:
    graph.mutate(ADD, {"n": "a", "a": 1}, once=("app", 1))
    graph.mutate(ADD, {"n": "b", "a": 1}, once=("app", 3))
    with pytest.raises(SequencePassed, match="number 2, which was never written"):
        graph.mutate(ADD, {"n": "c", "a": 1}, once=("app", 2))
    with pytest.raises(UsageError, match="'once' must be text, or an application and a number"):
        graph.mutate(ADD, {"n": "c", "a": 1}, once=3)  # type: ignore[arg-type]


# ---------------------------------------------------------------- loads


def test_a_load_that_is_tried_again_is_one_commit_wherever_its_files_are_now(graph: og.Graph, tmp_path: Path) -> None:
    first = graph.load(records(tmp_path, "Ada", "Bo"), mode="append", once="day", engine="local")
    graph.mutate(ADD, {"n": "Cy", "a": 1})
    fetched = records(tmp_path, "Ada", "Bo", file="fetched-again.jsonl")
    second = again(graph).load(fetched, mode="append", once="day", engine="local")
    assert (second.commit, second.repeated, second.types) == (first.commit, True, {})
    assert repr(second) == f"<LoadReceipt: loaded before on main, {first.commit.id}>"  # type: ignore[union-attr]
    assert seq(graph) == 2


def test_a_load_asks_for_what_its_files_hold_and_for_its_mode(graph: og.Graph, tmp_path: Path) -> None:
    graph.load(records(tmp_path, "Ada", "Bo"), mode="append", once="day", engine="local")
    with pytest.raises(WriteKeyReused):
        graph.load(records(tmp_path, "Ada", "Cy"), mode="append", once="day", engine="local")
    with pytest.raises(WriteKeyReused):
        graph.load(records(tmp_path, "Ada", "Bo"), mode="merge", once="day", engine="local")


def test_tables_in_memory_are_compared_by_their_rows(graph: og.Graph) -> None:
    import pyarrow as pa

    whole = pa.table({"name": ["Ada", "Bo", "Cy"], "age": [1, None, 3]})
    pieces = pa.concat_tables([whole.slice(0, 1), whole.slice(1)])
    first = graph.load({"Person": whole}, mode="append", once="k", engine="local")
    assert graph.load({"Person": pieces}, mode="append", once="k", engine="local").commit == first.commit
    with pytest.raises(WriteKeyReused):
        graph.load({"Person": whole.slice(0, 2)}, mode="append", once="k", engine="local")


def test_a_merge_load_of_rows_that_are_there_is_a_commit_under_a_key(graph: og.Graph, tmp_path: Path) -> None:
    graph.load(records(tmp_path, "Ada"), mode="append", engine="local")
    kept = graph.load(records(tmp_path, "Ada"), mode="merge", once="k", engine="local")
    empty = graph.load(records(tmp_path), mode="merge", once="empty", engine="local")
    assert kept.commit is not None
    assert kept.total == og.types.LoadCounts(unchanged=1)
    assert empty.commit == graph.head()
    assert graph.load(records(tmp_path), mode="merge", once="empty", engine="local").repeated
    assert list(graph.diff("main~2", "main")) == []


@pytest.mark.parametrize(
    "place", [Failpoint.RECOVERY_PLAN_WRITTEN, Failpoint.PUBLISH_AFTER_CREATE, Failpoint.LOAD_AFTER_PUBLISH]
)
def test_a_load_that_died_is_tried_again_and_its_prepared_plan_gives_the_same_commit(
    graph: og.Graph, tmp_path: Path, place: Failpoint
) -> None:
    data = records(tmp_path, "Ada")
    failpoints.arm(place, failpoints.raising(FailpointReached()))
    with pytest.raises(FailpointReached):
        graph.load(data, mode="append", once="k", engine="local")
    failpoints.disarm_all()
    made = again(graph).load(data, mode="append", once="k", engine="local")
    for prepared in graph.recovery.list():
        assert graph.recovery.resume(prepared.commit_id) == made.commit
    assert seq(graph) == 1
    assert not graph.recovery.list()


def test_rejected_records_of_an_earlier_try_are_replaced(graph: og.Graph, tmp_path: Path) -> None:
    data, aside = records(tmp_path, "Ada"), tmp_path / "rejects.jsonl"
    data.write_text(data.read_text() + '{"type": "Person", "data": {"age": 1}}\n')
    failpoints.arm(Failpoint.PUBLISH_BEFORE_CREATE, failpoints.raising(FailpointReached()))
    with pytest.raises(FailpointReached):
        graph.load(data, mode="append", once="k", rejects=aside, engine="local")
    failpoints.disarm_all()
    assert aside.exists()
    for repeated in (False, True):
        receipt = graph.load(data, mode="append", once="k", rejects=aside, engine="local")
        assert receipt.repeated == repeated
    assert len(aside.read_text().splitlines()) == 1


def test_a_load_that_makes_its_branch_makes_it_once(graph: og.Graph, tmp_path: Path) -> None:
    data = records(tmp_path, "Ada")
    first = graph.load(data, mode="append", branch="inbox", from_="main", once="k", engine="local")
    second = graph.load(data, mode="append", branch="inbox", from_="main", once="k", engine="local")
    assert (first.branch_created, second.branch_created, second.commit) == (True, False, first.commit)
    third = graph.load(data, mode="append", branch="inbox", from_="main", new_branch=True, once="k", engine="local")
    assert (third.repeated, third.commit) == (True, first.commit)
    with pytest.raises(AlreadyExists):
        graph.load(data, mode="append", branch="inbox", from_="main", new_branch=True, once="another", engine="local")
    other = graph.load(data, mode="append", branch="other", from_="inbox", once="k", engine="local")
    assert (other.branch_created, other.repeated, other.commit) == (True, True, first.commit)
    assert graph.entity("Person", "Ada", revision="other") is not None


def test_large_files_are_compared_by_pieces_of_them(
    monkeypatch: pytest.MonkeyPatch, graph: og.Graph, tmp_path: Path
) -> None:
    from omnigraph.load import rejects

    monkeypatch.setattr(rejects, "MAX_BYTES", 600)
    monkeypatch.setattr(rejects, "PIECE_BYTES", 100)
    names = [f"person-{number:04}" for number in range(400)]
    graph.load(records(tmp_path, *names), mode="append", once="k", engine="local")
    assert graph.load(records(tmp_path, *names), mode="append", once="k", engine="local").repeated
    for changed in (["person-000x", *names[1:]], [*names[:-1], "person-039x"], names[:-1]):
        with pytest.raises(WriteKeyReused):
            graph.load(records(tmp_path, *changed), mode="append", once="k", engine="local")
