"""What a transaction promises around its statements: reading its own writes, conditions, ends, and leaving no trace."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from write.graphs import FILLED, SCHEMA, changed, content, fill

import omnigraph as og
from omnigraph.errors import (
    BranchNotFound,
    BranchReplaced,
    ExpectedVersionMismatch,
    OmnigraphError,
    PreconditionFailed,
    UsageError,
    ValueViolation,
)
from omnigraph.testing.failpoints import Failpoint, arm, raising
from omnigraph.write.row_write import prepare_write
from omnigraph.write.transaction import WriteTransaction


@pytest.fixture
def graph() -> og.Graph:
    graph = og.init("memory://", schema=SCHEMA)
    with graph.transaction() as tx:
        fill(tx)
    return graph


# ---------------------------------------------------------------- reading its own writes


def test_later_statements_see_earlier_ones(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.insert("Person", name="Dee", age=5)
        tx.mutate("query q() { update Person set { age: 6 } where age = 5 }")
        assert tx.get("Person", "Dee") == tx.get("Person", "Dee") | {"age": 6}
        tx.delete("Person", "Dee")
        assert tx.get("Person", "Dee") is None
        assert not tx.delete("Person", "Dee")
        assert not tx.update("Person", "Dee", age=1)
    assert content(graph) == FILLED


def test_a_preview_shows_the_transaction_and_nobody_else_sees_it(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        tx.insert("Person", name="Dee")
        tx.delete("Person", "Bob")
        table = tx._writes.run(lambda writes: writes.preview(["node:Person"]).table("node:Person"), compare=str)
        assert table is not None
        assert set(table.read(["id"]).column("id").to_pylist()) == {"Ada", "Cy", "Dee"}
        assert content(graph) == FILLED


def test_a_transaction_stays_on_its_snapshot(graph: og.Graph) -> None:
    tx = graph.transaction()
    with graph.transaction() as other:
        other.insert("Person", name="Dee")
    assert tx.get("Person", "Dee") is None
    assert tx.get("Person", "Ada") is not None
    tx.rollback()
    assert {"Dee"} == set(content(graph)["node:Person"]) - set(FILLED["node:Person"])


# ---------------------------------------------------------------- ends


def test_an_error_in_the_block_publishes_nothing(graph: og.Graph) -> None:
    before = graph.commits()
    begun: list[og.Transaction] = []

    def broken() -> None:
        with graph.transaction() as tx:
            begun.append(tx)
            tx.insert("Person", name="Dee")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        broken()
    assert graph.commits() == before
    with pytest.raises(UsageError, match="not committed"):
        _ = begun[0].receipt


ENDED: list[Callable[[og.Transaction], object]] = [
    lambda tx: tx.insert("Person", name="Dee"),
    lambda tx: tx.update("Person", "Ada", age=1),
    lambda tx: tx.delete("Person", "Ada"),
    lambda tx: tx.mutate("query q() { delete Person where age > 1 }"),
    lambda tx: tx.commit(),
]


@pytest.mark.parametrize("statement", ENDED)
def test_a_transaction_ends_once(graph: og.Graph, statement: Callable[[og.Transaction], object]) -> None:
    with graph.transaction() as tx:
        tx.insert("Person", name="Eve")
    with pytest.raises(UsageError, match="has ended"):
        statement(tx)


STOPS = [
    Failpoint.TXN_BEFORE_STAGE,
    Failpoint.TABLE_STAGED_DATA,
    Failpoint.TABLE_STAGED_VERSION,
    Failpoint.TXN_AFTER_STAGE,
    Failpoint.PUBLISH_BEFORE_CREATE,
]


@pytest.mark.usefixtures("stores_every_commit")
@pytest.mark.parametrize("point", STOPS)
@pytest.mark.parametrize("error", [KeyboardInterrupt, RuntimeError])
def test_cancellation_leaves_no_trace_and_nobody_waits(
    graph: og.Graph, point: Failpoint, error: type[BaseException]
) -> None:
    before = graph.commits()
    arm(point, raising(error()))
    with pytest.raises(error):
        graph.mutate('query q() { insert Person { name: "Dee" } insert Knows { from: "Dee", to: "Ada" } }')
    assert graph.commits() == before
    assert content(graph) == FILLED
    with graph.transaction() as tx:
        tx.insert("Person", name="Dee")
    assert "Dee" in content(graph)["node:Person"]


# ---------------------------------------------------------------- conditions


def test_an_expected_commit_that_is_not_the_head(graph: og.Graph) -> None:
    head = graph.commits()[0].id
    with graph.transaction(if_commit=head) as tx:
        tx.insert("Person", name="Dee")
    with pytest.raises(PreconditionFailed) as caught, graph.transaction(if_commit=head) as tx:
        tx.insert("Person", name="Eve")
    assert (caught.value.expected, caught.value.actual) == (head, graph.commits()[0].id)
    assert "Eve" not in content(graph)["node:Person"]


def test_an_expected_commit_that_is_overtaken(graph: og.Graph) -> None:
    """Even by a write that has nothing to do with it."""
    head = graph.commits()[0].id

    def overtaken() -> None:
        with graph.transaction(if_commit=head) as tx:
            tx.insert("Person", name="Eve")
            with graph.transaction() as other:
                other.insert("Team", title="V")

    with pytest.raises(PreconditionFailed):
        overtaken()
    assert "Eve" not in content(graph)["node:Person"]


def test_a_mutation_takes_the_condition_too(graph: og.Graph) -> None:
    with pytest.raises(PreconditionFailed):
        graph.mutate('query q() { delete Knows where from = "Ada" }', if_commit="01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert content(graph) == FILLED


def test_a_branch_that_is_not_there(graph: og.Graph) -> None:
    with pytest.raises(BranchNotFound), graph.transaction("nowhere"):
        pass


def test_a_branch_that_is_replaced_under_the_transaction(graph: og.Graph) -> None:
    graph.branches.create("side")

    def replaced() -> None:
        with graph.transaction("side") as tx:
            tx.insert("Person", name="Dee")
            graph.branches.delete("side", force=True)
            graph.branches.create("side")

    with pytest.raises(BranchReplaced):
        replaced()
    assert content(graph, "side") == FILLED


# ---------------------------------------------------------------- plans


def test_a_write_is_put_on_what_arrived_meanwhile(graph: og.Graph) -> None:
    tx = WriteTransaction(graph._repository, graph._committer)
    tx.insert("Person", name="Dee", nick="d")
    tx.insert("Knows", id="k9", from_="Dee", to="Bob")
    write = prepare_write(tx.view, tx.entry, tx.deltas(tx.view.schema))
    with graph.transaction() as other:
        other.insert("Person", name="Eve")
        other.insert("Knows", id="k8", from_="Eve", to="Eve")
    graph._committer.publish(write)
    assert content(graph) == changed(
        FILLED,
        node_Person={"Dee": {"name": "Dee", "nick": "d"}, "Eve": {"name": "Eve"}},
        edge_Knows={"k9": {"src": "Dee", "dst": "Bob"}, "k8": {"src": "Eve", "dst": "Eve"}},
    )


def test_a_write_is_checked_again_against_what_arrived(graph: og.Graph) -> None:
    tx = WriteTransaction(graph._repository, graph._committer)
    tx.insert("Person", name="Dee", nick="d")
    write = prepare_write(tx.view, tx.entry, tx.deltas(tx.view.schema))
    with graph.transaction() as other:
        other.insert("Person", name="Eve", nick="d")
    before = content(graph)
    with pytest.raises(OmnigraphError, match=r"@unique violation on Person\.nick: value 'd' held by 'Eve' and 'Dee'"):
        graph._committer.publish(write)
    assert content(graph) == before


def test_a_transaction_sees_what_others_wrote_before_its_first_read(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph"), schema=SCHEMA)
    other = og.open(str(tmp_path / "graph"))
    with graph.transaction() as tx:
        tx.insert("Person", name="a", age=1)
    with other.transaction() as tx:
        tx.update("Person", "a", age=2)
    with graph.transaction() as tx:
        tx.insert("Person", name="b")
        assert (tx.get("Person", "a") or {})["age"] == 2
    tx = graph.transaction()
    assert (tx.get("Person", "a") or {})["age"] == 2
    with other.transaction() as theirs:
        theirs.update("Person", "a", age=3)
    assert (tx.get("Person", "a") or {})["age"] == 2


def test_what_others_did_to_the_schema_is_known_where_it_matters(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph"), schema=SCHEMA)
    with graph.transaction() as tx:
        tx.insert("Person", name="a")
    og.open(str(tmp_path / "graph")).schema.apply(SCHEMA + "node Place { name: String @key }")
    with graph.transaction() as tx:
        tx.insert("Place", name="here")
    og.open(str(tmp_path / "graph")).schema.apply(SCHEMA + "node Place { name: String @key  size: I32? }")
    graph.mutate('query q() { insert Place { name: "there", size: 1 } }')
    assert graph.entity("Place", "there") is not None
    tx = graph.transaction()
    tx.insert("Place", name="third", size=1)
    og.open(str(tmp_path / "graph")).schema.apply(SCHEMA + "node Place { name: String @key  size: I64? }")
    with pytest.raises(ExpectedVersionMismatch):
        tx.get("Place", "here")


def test_a_refusal_is_judged_by_the_newest_head(tmp_path: Path) -> None:
    graph = og.init(str(tmp_path / "graph"), schema=SCHEMA)
    other = og.open(str(tmp_path / "graph"))
    with graph.transaction() as tx:
        tx.insert("Person", name="a", nick="n")
    with other.transaction() as tx:
        tx.insert("Person", name="b")
        tx.update("Person", "a", nick=None)
    with graph.transaction() as tx:
        tx.insert("Person", name="c", nick="n")
        tx.insert("Knows", from_="c", to="b")
    assert graph.entity("Person", "c") is not None
    with other.transaction() as tx:
        tx.insert("Person", name="d")
    with pytest.raises(PreconditionFailed):
        graph.transaction(if_commit=graph.show("main~1").id)
    with graph.transaction(if_commit=other.head().id) as tx:
        tx.insert("Person", name="e")


def test_what_is_wrong_in_itself_is_said_before_who_came_first(graph: og.Graph) -> None:
    tx = graph.transaction()
    tx.update("Person", "Ada", age=200)
    with graph.transaction() as theirs:
        theirs.update("Person", "Ada", age=3)
    with pytest.raises(ValueViolation, match="age"):
        tx.commit()
