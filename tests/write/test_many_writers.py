"""Writers that overlap: the outcome is that of some serial order, and nobody sees a conflict that such an order would not have.

Each runs with one handle, whose writers share entries, and with two, which know nothing of each other, as two processes do.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.errors import ExpectedVersionMismatch, OmnigraphError, PreconditionFailed

SCHEMA = """
node Person { name: String @key  n: I32  version: I32? }
node Post { title: String @key  n: I32? }
edge Knows: Person -> Person { n: I32? }
edge Likes: Person -> Post
"""
WRITERS = 12
ROUNDS = 5
SET = "query q($k: String, $n: I32) { update Person set { n: $n } where name = $k }"
ADD = "query q($k: String) { update Person set { n: n + 1 } where name = $k }"
DELETE = "query q($k: String) { delete Person where name = $k }"
OLD = "query q() { match { $p: Person  $p.n > 5 } return { $p.name as name } order { name } }"
Handles = tuple[og.Graph, og.Graph]


@pytest.fixture(params=["one handle", "two handles"])
def handles(request: pytest.FixtureRequest, tmp_path: Path) -> Handles:
    graph = og.init(tmp_path / "g", schema=SCHEMA)
    with graph.transaction() as tx:
        tx.insert_many("Person", [{"name": f"p{i}", "n": 0} for i in range(WRITERS)])
        tx.insert("Knows", {"id": "k"}, from_="p0", to="p1")
        tx.insert("Post", title="post", n=0)
    return graph, graph if request.param == "one handle" else og.open(graph.uri)


def number(graph: og.Graph, name: str) -> Any:
    entity = graph.entity("Person", name)
    return None if entity is None else entity["n"]


def at_once(work: Callable[[int], object], count: int = WRITERS) -> list[OmnigraphError]:
    """Runs the work in threads that start together; returns the errors."""
    barrier, errors = threading.Barrier(count), list[OmnigraphError]()

    def run(index: int) -> None:
        barrier.wait()
        try:
            work(index)
        except OmnigraphError as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(index,)) for index in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return errors


# ---------------------------------------------------------------- each its own row, and all one row


def test_updates_of_different_rows_all_succeed(handles: Handles) -> None:
    def work(index: int) -> None:
        for value in range(1, ROUNDS + 1):
            receipt = handles[index % 2].mutate(SET, {"k": f"p{index}", "n": value})
            assert (receipt.affected_nodes, receipt.commit is None) == (1, False)

    assert at_once(work) == []
    assert [number(handles[0], f"p{i}") for i in range(WRITERS)] == [ROUNDS] * WRITERS


def test_updates_of_one_row_all_count(handles: Handles) -> None:
    assert at_once(lambda index: [handles[index % 2].mutate(ADD, {"k": "p0"}) for _ in range(ROUNDS)]) == []
    assert number(handles[0], "p0") == WRITERS * ROUNDS


def test_deletes_of_different_rows_all_succeed_with_their_edges(handles: Handles) -> None:
    assert at_once(lambda index: handles[index % 2].mutate(DELETE, {"k": f"p{index}"})) == []
    assert [number(handles[0], f"p{i}") for i in range(WRITERS)] == [None] * WRITERS
    assert handles[0].query("query q() { match { $a $k:knows $b } return { count($k) as n } }").rows == [{"n": 0}]


def test_deletes_of_one_row_count_it_once(handles: Handles) -> None:
    receipts: list[og.types.Receipt] = []
    assert at_once(lambda index: receipts.append(handles[index % 2].mutate(DELETE, {"k": "p0"}))) == []
    assert sorted(receipt.types["node:Person"].deleted for receipt in receipts) == [0] * (WRITERS - 1) + [1]
    assert [receipt.commit is not None for receipt in receipts].count(True) == 1


def test_an_edge_that_arrives_is_deleted_with_its_node(handles: Handles) -> None:
    tx = handles[0].transaction()
    tx.mutate(DELETE, {"k": "p2"})
    with handles[1].transaction() as other:
        other.insert("Knows", from_="p3", to="p2")
    tx.commit()
    assert (tx.receipt.types["node:Person"].deleted, tx.receipt.types["edge:Knows"].deleted) == (1, 1)


def test_a_mutation_that_has_nothing_left_to_change_makes_no_commit(handles: Handles) -> None:
    tx = handles[0].transaction()
    tx.mutate(SET, {"k": "p0", "n": 7})
    handles[1].mutate(DELETE, {"k": "p0"})
    before = handles[1].head().id
    receipt = tx.commit()
    assert (receipt.commit, receipt.affected_nodes) == (None, 0)
    assert handles[1].head().id == before


def test_ids_and_the_time_are_the_same_when_statements_are_run_again(handles: Handles) -> None:
    tx = handles[0].transaction()
    tx.update("Person", "p0", n=1)
    knows = tx.insert("Knows", from_="p0", to="p2")
    handles[1].mutate(SET, {"k": "p1", "n": 9})
    tx.commit()
    assert handles[0].entity("Knows", knows) is not None
    assert (number(handles[0], "p0"), number(handles[0], "p1")) == (1, 9)


def test_an_exact_precondition_stays_exact(handles: Handles) -> None:
    head = handles[0].head().id
    handles[1].mutate(SET, {"k": "p1", "n": 9})
    with pytest.raises(PreconditionFailed):
        handles[0].mutate(SET, {"k": "p0", "n": 1}, if_commit=head)


# ---------------------------------------------------------------- transactions that have read


def test_a_read_row_that_changed_is_a_conflict_that_names_it(handles: Handles) -> None:
    tx = handles[0].transaction()
    assert (tx.get("Person", "p0") or {})["n"] == 0
    tx.update("Person", "p1", n=1)
    handles[1].mutate(SET, {"k": "p0", "n": 7})
    with pytest.raises(ExpectedVersionMismatch) as refused:
        tx.commit()
    error = refused.value
    assert (error.table_key, error.entity_id, error.retry) == ("node:Person", "p0", True)
    assert error.expected < error.actual
    assert number(handles[0], "p1") == 0


def test_rows_that_were_not_read_may_change(handles: Handles) -> None:
    tx = handles[0].transaction()
    assert (tx.get("Person", "p0") or {})["n"] == 0
    assert tx.query(OLD).rows == []
    tx.update("Person", "p0", n=1)
    handles[1].mutate(SET, {"k": "p1", "n": 3})
    tx.commit()
    assert (number(handles[0], "p0"), number(handles[0], "p1")) == (1, 3)


def test_a_row_that_a_query_would_now_return_is_a_conflict(handles: Handles) -> None:
    tx = handles[0].transaction()
    assert tx.query(OLD).rows == []
    tx.insert("Post", title="nobody is old")
    handles[1].mutate(SET, {"k": "p1", "n": 6})
    with pytest.raises(ExpectedVersionMismatch):
        tx.commit()
    assert handles[0].entity("Post", "nobody is old") is None


def test_an_update_that_found_its_row_is_a_conflict_if_the_row_has_gone(handles: Handles) -> None:
    tx = handles[0].transaction()
    assert tx.update("Person", "p0", n=1)
    handles[1].mutate(DELETE, {"k": "p0"})
    with pytest.raises(ExpectedVersionMismatch):
        tx.commit()
