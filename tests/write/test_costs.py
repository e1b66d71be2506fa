"""What a write costs on an object store, in requests and in sequential hops, counted at the server.

A write that finds a level of small fragments full also folds them: one request more. Everything else is the same at any depth.
Hops are told from times: on a busy machine requests that go out together may not overlap at the server, so where a write
changes several tables the least hops of several such writes count. Requests are exact.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from s3_server import S3Server

import omnigraph as og

pytestmark = pytest.mark.s3

SCHEMA = """
node Person { name: String @key  nick: String? @unique }
edge Knows: Person -> Person @card(0..3) { note: String? }
"""


class Costs:
    """A graph on the server, and what one call asks of it."""

    def __init__(self, server: S3Server) -> None:
        self.server = server
        self.uri = f"s3://{server.new_bucket()}/graph"
        self.graph = og.init(self.uri, schema=SCHEMA, storage_options=server.options)
        with self.graph.transaction() as tx:
            tx.insert_many("Person", [{"name": f"p{number}"} for number in range(40)])
            tx.insert("Knows", from_="p0", to="p1")

    def of(self, write: Callable[[], object]) -> tuple[int, int]:
        self.server.reset()
        with self.server.latency(0.01):
            write()
            return len(self.server.requests()), self.server.hops()

    def edge(self, number: int, branch: str = "main") -> None:
        with self.graph.transaction(branch) as tx:
            tx.insert("Knows", from_=f"p{number}", to="p0")

    def node_and_edge(self, name: str, branch: str = "main") -> None:
        with self.graph.transaction(branch) as tx:
            tx.insert("Person", name=name)
            tx.insert("Knows", from_=name, to="p0")

    def deepen(self, commits: int) -> None:
        for _ in range(commits):
            with self.graph.transaction() as tx:
                tx.insert("Knows", from_="p39", to="p38", id="again")
            with self.graph.transaction() as tx:
                tx.delete("Knows", "again")


@pytest.fixture
def costs(s3: S3Server) -> Costs:
    return Costs(s3)


def most(costs: list[tuple[int, int]]) -> tuple[int, int]:
    return max(requests for requests, _ in costs), max(hops for _, hops in costs)


def test_one_edge_and_a_node_with_an_edge(costs: Costs) -> None:
    """Warm, over enough writes that some of them fold."""
    costs.edge(1)
    edges = [costs.of(lambda number=number: costs.edge(number)) for number in range(2, 12)]
    assert most(edges) <= (9, 5)
    assert edges.count((4, 4)) >= 8
    both = [costs.of(lambda number=number: costs.node_and_edge(f"q{number}")) for number in range(10)]
    requests = [count for count, _ in both]
    assert max(requests) <= 13
    assert requests.count(7) >= 6
    assert min(hops for _, hops in both) <= 6


def test_a_mutation_costs_what_the_transaction_costs(costs: Costs) -> None:
    text = 'query q($n: String) { insert Person { name: $n } insert Knows { from: $n, to: "p0" } }'
    costs.graph.mutate(text, {"n": "q1"})
    both = [costs.of(lambda name=name: costs.graph.mutate(text, {"n": name})) for name in ("q2", "q3", "q4", "q5")]
    assert max(requests for requests, _ in both) <= 8
    assert min(hops for _, hops in both) <= 6


def test_a_branch_costs_what_main_costs(costs: Costs) -> None:
    costs.edge(1)
    on_main = [costs.of(lambda number=number: costs.edge(number)) for number in (2, 3)]
    costs.graph.branches.create("side")
    on_side = [costs.of(lambda number=number: costs.edge(number, "side")) for number in (4, 5)]
    assert on_side == on_main == [(4, 4)] * 2


def test_many_rows_cost_what_one_row_costs(costs: Costs) -> None:
    costs.node_and_edge("q0")
    one = costs.of(lambda: costs.node_and_edge("q1"))

    def many(turn: int) -> None:
        with costs.graph.transaction() as tx:
            tx.insert_many("Person", [{"name": f"m{turn}.{number}"} for number in range(1000)])
            tx.insert_many("Knows", [{"from": f"m{turn}.{number}", "to": "p0"} for number in range(1000)])

    measured = [costs.of(lambda turn=turn: many(turn)) for turn in range(4)]
    assert {requests for requests, _ in measured} == {one[0]} == {7}
    assert min(hops for _, hops in measured) <= 6


def test_unique_values_updates_and_deletes(costs: Costs) -> None:
    """What this process wrote it need not read to change it, nor to know that a value is free."""
    writes: list[Callable[[og.Transaction], object]] = [
        lambda tx: tx.insert("Person", name="q1", nick="n1"),
        lambda tx: tx.insert("Person", name="q2", nick="n2"),
        lambda tx: tx.update("Person", "q1", nick="n3"),
        lambda tx: tx.upsert("Person", name="q2", nick="n1"),
        lambda tx: tx.mutate('query q() { update Person set { nick: "n4" } where name = "q2" }'),
        lambda tx: tx.delete("Person", "q1"),
        lambda tx: tx.mutate('query q() { delete Person where name = "p0" }'),
    ]

    def run(write: Callable[[og.Transaction], object]) -> None:
        with costs.graph.transaction() as tx:
            write(tx)

    measured = [costs.of(lambda write=write: run(write)) for write in writes]
    assert most(measured[:-1]) <= (7, 7)
    assert measured[-1][0] <= 10, "a node and its edges"


def test_depth_does_not_count(costs: Costs) -> None:
    costs.deepen(5)
    shallow = [costs.of(lambda number=number: costs.edge(number)) for number in range(1, 9)]
    costs.deepen(490)
    deep = [costs.of(lambda number=number: costs.edge(number)) for number in range(9, 17)]
    costs.graph.branches.create("side")
    side = [costs.of(lambda number=number: costs.edge(number, "side")) for number in range(17, 25)]
    assert len(costs.graph.commits(limit=2_000)) > 1_000
    for measured in (shallow, deep, side):
        assert most(measured) <= (5, 5)
        assert min(measured) == (4, 4)
