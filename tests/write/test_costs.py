"""What a write costs on an object store, in requests and in sequential hops, counted at the server.

A small write is one create. The one that finds too many rows in commits first folds them into the table: data, transaction, version
and, where rows of the table went, deletions. Everything else is the same at any depth.
Hops are told from times: on a busy machine requests that go out together may not overlap at the server, so where a write
changes several tables the least hops of several such writes count. Requests are exact.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from s3_server import S3Server

import omnigraph as og
from omnigraph import errors
from omnigraph.metering import Meter, StoreCost
from omnigraph.tasks.engines import LoadMode

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

    def load(self, path: Path, record: dict[str, object], mode: LoadMode = "merge") -> tuple[int, int]:
        path.write_text(json.dumps(record))
        return self.of(lambda: self.graph.load(path, mode=mode, engine="local"))

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


ONE = (1, 1)


def test_a_small_write_is_one_request(costs: Costs) -> None:
    """Warm, over enough writes that some of them fold."""
    edges = [costs.of(lambda number=number: costs.edge(number)) for number in range(2, 12)]
    assert set(edges) == {ONE}
    both = [costs.of(lambda number=number: costs.node_and_edge(f"q{number}")) for number in range(66)]
    assert both.count(ONE) >= 62
    assert most(both) <= (12, 12), "data, transaction and version of two tables, a roll-up of the log, the entry"


def test_a_mutation_costs_what_the_transaction_costs(costs: Costs) -> None:
    text = 'query q($n: String) { insert Person { name: $n } insert Knows { from: $n, to: "p0" } }'
    assert {costs.of(lambda name=name: costs.graph.mutate(text, {"n": name})) for name in ("q2", "q3")} == {ONE}


KNOWS = {"edge": "Knows", "from": "p2", "to": "p0"}
LOADS: list[tuple[LoadMode, dict[str, object], int]] = [
    ("append", KNOWS, 2),
    ("merge", KNOWS, 2),
    ("merge", {"type": "Person", "data": {"name": "q1", "nick": "n1"}}, 2),
    ("merge", {"type": "Person", "data": {"name": "p3", "nick": "n2"}}, 2),
    ("merge", {"type": "Person", "data": {"name": "p3", "nick": "n2"}}, 1),
    ("patch", {"type": "Person", "data": {"name": "p3", "nick": "n4"}}, 2),
    ("delete", {"type": "Person", "data": {"name": "p4"}}, 2),
]


def test_a_load_of_one_row_is_a_look_at_the_head_and_a_create(costs: Costs, tmp_path: Path) -> None:
    """Warm. Nothing is written for a row that is there already."""
    measured = [(mode, costs.load(tmp_path / "row.jsonl", record, mode)[0]) for mode, record, _ in LOADS]
    assert measured == [(mode, requests) for mode, _, requests in LOADS]
    assert {commit.kind for commit in costs.graph.commits(limit=6)} == {"load"}
    assert costs.graph.recovery.list() == []


def test_a_cold_load_of_one_edge(costs: Costs, tmp_path: Path) -> None:
    """Identity, listing, entry, schema; the version and the data of the edges, which are compared, and of their ends; the create."""
    path = tmp_path / "row.jsonl"
    path.write_text(json.dumps(KNOWS))

    def load(mode: LoadMode) -> None:
        og.open(costs.uri, storage_options=costs.server.options).load(path, mode=mode, engine="local")

    assert costs.of(lambda: load("merge"))[0] <= 9


def test_ten_statements_with_a_hundred_rows_of_five_tables(s3: S3Server) -> None:
    schema = "".join(f"node T{number} {{ name: String @key }}\n" for number in range(5))
    graph = og.init(f"s3://{s3.new_bucket()}/graph", schema=schema, storage_options=s3.options)

    def write(turn: int) -> None:
        with graph.transaction() as tx:
            for statement in range(10):
                rows = [{"name": f"{turn}.{statement}.{row}"} for row in range(10)]
                tx.insert_many(f"T{statement % 5}", rows)

    write(0)
    s3.reset()
    write(1)
    assert len(s3.requests()) == 1


def test_who_comes_too_late_reads_who_was_first_and_creates_again(costs: Costs) -> None:
    graph = og.open(costs.uri, storage_options=costs.server.options)

    def edge(number: int) -> None:
        with graph.transaction() as tx:
            tx.insert("Knows", from_=f"p{number}", to="p0")

    edge(2)
    costs.edge(3)
    assert costs.of(lambda: edge(4)) == (3, 3)
    assert costs.of(lambda: edge(5)) == ONE


def test_who_loses_again_reads_two_entries_at_once(costs: Costs, monkeypatch: pytest.MonkeyPatch) -> None:
    """While it reads the one that won, the next one may have been created."""
    graph, rivals = og.open(costs.uri, storage_options=costs.server.options), [4, 5]
    with graph.transaction() as tx:
        tx.insert("Knows", from_="p2", to="p0")
    store, history = graph._repository.store, graph._repository.history
    create = store.create

    def come_too_late(key: str, data: bytes, **options: Sequence[str]) -> None:
        if rivals:
            costs.edge(rivals.pop())
        create(key, data, **options)

    monkeypatch.setattr(store, "create", come_too_late)
    monkeypatch.setattr(history, "sleep", lambda _: costs.server.meeting(2))
    costs.graph.head()
    costs.server.reset()
    with graph.transaction() as tx:
        tx.insert("Knows", from_="p3", to="p0")
    kinds = [request.kind for request in costs.server.requests()]
    assert sorted(kinds[-3:]) == ["CREATE", "GET", "GET"], "two that are not there, which meet at the server"
    assert Counter(kinds) == {"CREATE": 2 + 3, "GET": 2 + 2}
    assert graph.query("query q() { match { $a $k:knows $b } return { count($k) as n } }").rows == [{"n": 5}]


def test_the_library_counts_what_the_server_sees(costs: Costs, tmp_path: Path) -> None:
    """What operators are told. Requests of the table engine are in no known order, so hops are compared where there are none."""

    def measured(work: Callable[[], object]) -> tuple[StoreCost, tuple[int, int]]:
        meter = Meter()
        seen = costs.of(lambda: meter.run(work))
        return meter.cost(), seen

    inserted, seen = measured(lambda: costs.edge(2))
    assert (inserted.requests, inserted.hops, inserted.table_requests) == (*seen, 0) == (1, 1, 0)
    assert (inserted.bytes_read, inserted.bytes_written > 100, inserted.lost_races) == (0, True, 0)
    for number in range(8):
        costs.graph.branches.create(f"b{number}")
    listings = [measured(costs.graph.branches.list) for _ in range(5)]
    assert all(listed.requests == seen[0] for listed, seen in listings)
    assert min(listed.hops for listed, _ in listings) <= 3, "heads are read at the same time, by other threads"
    costs.graph.maintenance.optimize()
    cold = og.open(costs.uri, storage_options=costs.server.options)
    queried, seen = measured(lambda: cold.query("query q() { match { $p: Person } return { $p.name as n } }"))
    assert queried.requests + queried.table_requests == seen[0]
    assert queried.table_requests > 0


def test_a_lost_race_is_counted(costs: Costs) -> None:
    other = og.open(costs.uri, storage_options=costs.server.options)
    with other.transaction() as first:
        first.insert("Person", name="early")  # A handle that has read the table already.
    tx = other.transaction()
    tx.insert("Person", name="late")
    costs.edge(2)
    meter = Meter()
    meter.run(tx.commit)
    cost = meter.cost()
    assert (cost.lost_races, cost.requests) == (1, 3), "create, read who was first, create"


def test_a_branch_costs_what_main_costs(costs: Costs) -> None:
    costs.graph.branches.create("side")
    assert {costs.of(lambda number=number: costs.edge(number, "side")) for number in (4, 5)} == {ONE}


def test_many_rows_cost_what_they_did(costs: Costs) -> None:
    """Rows that are too many for a commit are staged: data, transaction and version of each table, and the entry."""

    def many(turn: int) -> None:
        with costs.graph.transaction() as tx:
            tx.insert_many("Person", [{"name": f"m{turn}.{number}"} for number in range(1000)])
            tx.insert_many("Knows", [{"from": f"m{turn}.{number}", "to": "p0"} for number in range(1000)])

    measured = [costs.of(lambda turn=turn: many(turn)) for turn in range(4)]
    assert {requests for requests, _ in measured} == {7}
    assert min(hops for _, hops in measured) <= 5


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
    assert most(measured[:-1]) <= (2, 2), "a look at the head, for those that read, and the create"
    assert measured[-1][0] <= 6, "a node and its edges: rows of them are read"


def test_depth_does_not_count(costs: Costs) -> None:
    costs.deepen(5)
    shallow = [costs.of(lambda number=number: costs.edge(number)) for number in range(1, 9)]
    costs.deepen(150)
    deep = [costs.of(lambda number=number: costs.edge(number)) for number in range(9, 17)]
    costs.graph.branches.create("side")
    side = [costs.of(lambda number=number: costs.edge(number, "side")) for number in range(17, 25)]
    assert len(costs.graph.commits(limit=2_000)) > 300
    for measured in (shallow, deep, side):
        assert measured.count(ONE) >= 7, "one may roll up the log, or fold"


# ---------------------------------------------------------------- branches


def test_the_heads_of_branches_are_read_at_the_same_time(costs: Costs) -> None:
    """At most eight at once, so this holds where a store is asked over eight connections."""
    graph, server = costs.graph, costs.server
    for number in range(12):
        graph.branches.create(f"b{number}")
    costs.edge(2, "b3")
    warm = [costs.of(graph.branches.list) for _ in range(3)]
    assert {requests for requests, _ in warm} == {14}
    assert min(hops for _, hops in warm) <= 4, "the names, and two rounds"
    cold = [costs.of(lambda: og.open(costs.uri, storage_options=server.options).branches.list()) for _ in range(3)]
    assert {requests for requests, _ in cold} == {28}
    assert min(hops for _, hops in cold) <= 8, "identity and names, and twice two rounds"

    def refused() -> None:
        with pytest.raises(errors.BranchNotMerged):
            graph.branches.delete("b3")

    deletions = [costs.of(refused) for _ in range(3)]
    assert max(requests for requests, _ in deletions) <= 17
    assert min(hops for _, hops in deletions) <= 8


def test_a_merge_of_few_rows_reads_three_entries_and_creates_one(costs: Costs) -> None:
    """Both heads at the same time, and the base: the rows are in them, and in the new one."""
    merges = []
    for number in range(3):
        costs.graph.branches.create(f"side{number}")
        costs.edge(3 * number + 2, f"side{number}")
        costs.edge(3 * number + 3)
        merges.append(costs.of(lambda number=number: costs.graph.branches.merge(f"side{number}")))
    assert {requests for requests, _ in merges} == {4}
    assert min(hops for _, hops in merges) <= 3


def test_a_merge_of_many_rows_reads_no_entry_twice(costs: Costs) -> None:
    """Both heads and the base; the source's rows, for their ids and for the rules; the rows of the target's commits, transaction and
    version of the table; the entry."""
    merges = []
    for number in range(3):
        costs.graph.branches.create(f"side{number}")
        with costs.graph.transaction(f"side{number}") as tx:
            tx.insert_many("Person", [{"name": f"m{number}.{row}"} for row in range(100)])
        with costs.graph.transaction() as tx:
            tx.insert("Person", name=f"q{number}")
        merges.append(costs.of(lambda number=number: costs.graph.branches.merge(f"side{number}")))
        entries = [request.key for request in costs.server.requests() if "/branches/" in request.key]
        assert len(entries) == len(set(entries)) + 1, "the one that is not there is read, and created"
    assert min(requests for requests, _ in merges) <= 9
    assert min(hops for _, hops in merges) <= 8, "the heads are read at the same time"


def test_a_new_branch_is_four_requests(costs: Costs) -> None:
    """The head of its source, the entries and the tag of its name, its entry."""
    assert {costs.of(lambda number=number: costs.graph.branches.create(f"b{number}"))[0] for number in range(3)} == {4}


def test_threads_that_share_a_cold_handle_list_a_branch_once(costs: Costs) -> None:
    graph = og.open(costs.uri, storage_options=costs.server.options)
    costs.server.reset()
    with costs.server.latency(0.01), ThreadPoolExecutor(30) as pool:
        assert len({commit.id for commit in pool.map(lambda _: graph.head(), range(30))}) == 1
    listings = [request for request in costs.server.requests() if request.method == "GET" and not request.key]
    assert len(listings) == 1
