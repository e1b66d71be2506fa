"""What a transaction promises around its statements: reading its own writes, conditions, ends, and leaving no trace."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest
from write.graphs import FILLED, SCHEMA, changed, content, fill

import omnigraph as og
from omnigraph.errors import (
    BranchNotFound,
    BranchReplaced,
    CardinalityViolation,
    EndpointMissing,
    OmnigraphError,
    PreconditionFailed,
    UniqueViolation,
    UsageError,
)
from omnigraph.language.arrow import arrow_schema
from omnigraph.testing.failpoints import Failpoint, arm, raising
from omnigraph.write import Delta, Proposal, check_deltas, write_rows
from omnigraph.write import Transaction as WriteTransaction


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
        table = tx._writes.preview().table("node:Person")
        assert table is not None
        assert set(table.read(["id"]).column("id").to_pylist()) == {"Ada", "Cy", "Dee"}
        assert content(graph) == FILLED


def test_a_transaction_stays_on_its_snapshot(graph: og.Graph) -> None:
    with graph.transaction() as tx:
        with graph.transaction() as other:
            other.insert("Person", name="Dee")
        assert tx.get("Person", "Dee") is None
        tx.insert("Team", title="V")
    assert {"Dee"} == set(content(graph)["node:Person"]) - set(FILLED["node:Person"])
    assert "V" in content(graph)["node:Team"]


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


# ---------------------------------------------------------------- the whole image of a type


def overwrite(graph: og.Graph, **images: list[dict[str, object]]) -> None:
    """What a load in mode overwrite hands over: the new image of each type."""
    entry, view = graph._repository.head()
    deltas = {}
    for name, image in images.items():
        entity = view.entity(name.replace("_", ":", 1))
        rows = pa.Table.from_pylist(image, schema=arrow_schema(entity))
        deltas[entity.table_key] = Delta(entity, rows, "strict", clear=True)
    addresses = check_deltas(view, deltas)
    proposal = Proposal(view, deltas, addresses, write_rows(view, deltas))
    graph._committer.propose(proposal, proposal.plan(entry, commit_id=graph._repository.history.new_id()))


def image(*names: str) -> list[dict[str, object]]:
    return [{"id": name, "name": name, "nick": "a"} if name == "Ada" else {"id": name, "name": name} for name in names]


def test_an_overwrite_replaces_the_image(graph: og.Graph) -> None:
    overwrite(graph, node_Person=image("Ada", "Bob", "Cy", "Dee"))
    people = {name: {"name": name} for name in ("Bob", "Cy", "Dee")} | {"Ada": {"name": "Ada", "nick": "a"}}
    assert content(graph) == FILLED | {"node:Person": people}


def test_an_overwrite_may_not_strand_edges(graph: og.Graph) -> None:
    with pytest.raises(EndpointMissing) as caught:
        overwrite(graph, node_Person=image("Ada", "Bob"))
    assert caught.value.message == "dst 'Cy' not found in Person: edge Knows 'k2' still points to it"
    assert content(graph) == FILLED


def test_an_overwrite_of_nodes_and_edges_is_checked_together(graph: og.Graph) -> None:
    """Edges are validated against the new image of their nodes."""
    edge = {"id": "k9", "src": "Ada", "dst": "Dee"}
    overwrite(graph, node_Person=image("Ada", "Dee"), edge_Knows=[edge])
    assert content(graph)["edge:Knows"] == {"k9": {"src": "Ada", "dst": "Dee"}}
    with pytest.raises(EndpointMissing, match="dst 'Bob' not found in Person"):
        overwrite(graph, edge_Knows=[edge | {"dst": "Bob"}])


def test_an_overwrite_of_edges_keeps_the_least_number(graph: og.Graph) -> None:
    with pytest.raises(CardinalityViolation, match=r"source 'Ada' has 0 edges \(min 1\)"):
        overwrite(graph, edge_Leads=[])
    overwrite(graph, edge_Leads=[{"id": "l9", "src": "Ada", "dst": "U"}])
    assert content(graph)["edge:Leads"] == {"l9": {"src": "Ada", "dst": "U"}}


def test_an_overwrite_with_one_id_twice(graph: og.Graph) -> None:
    with pytest.raises(UniqueViolation, match="duplicate id 'Dee' for Person in one batch"):
        overwrite(graph, node_Person=image("Ada", "Bob", "Cy", "Dee", "Dee"))


# ---------------------------------------------------------------- plans


def test_a_proposal_is_put_on_what_arrived_meanwhile(graph: og.Graph) -> None:
    tx = WriteTransaction(graph._repository, graph._committer)
    tx.insert("Person", name="Dee", nick="d")
    tx.insert("Knows", id="k9", from_="Dee", to="Bob")
    proposed = tx._proposal(tx._deltas())
    with graph.transaction() as other:
        other.insert("Person", name="Eve")
        other.insert("Knows", id="k8", from_="Eve", to="Eve")
    graph._committer.propose(*proposed)
    assert content(graph) == changed(
        FILLED,
        node_Person={"Dee": {"name": "Dee", "nick": "d"}, "Eve": {"name": "Eve"}},
        edge_Knows={"k9": {"src": "Dee", "dst": "Bob"}, "k8": {"src": "Eve", "dst": "Eve"}},
    )


def test_a_proposal_is_checked_again_against_what_arrived(graph: og.Graph) -> None:
    tx = WriteTransaction(graph._repository, graph._committer)
    tx.insert("Person", name="Dee", nick="d")
    proposed = tx._proposal(tx._deltas())
    with graph.transaction() as other:
        other.insert("Person", name="Eve", nick="d")
    before = content(graph)
    with pytest.raises(OmnigraphError, match=r"@unique violation on Person\.nick: value 'd' held by 'Eve' and 'Dee'"):
        graph._committer.propose(*proposed)
    assert content(graph) == before
