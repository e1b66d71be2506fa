"""The cost promises, counted at the S3 server: flat in history, in the number of tables, and on a branch."""

from __future__ import annotations

import pytest
from history.cost_on_s3 import Cost, cost_table, group_of_writers
from history.key_cost_on_s3 import KeyCost, key_costs
from s3_server import S3Server

import omnigraph as og

pytestmark = pytest.mark.s3


def test_costs_are_small_and_flat(s3: S3Server) -> None:
    costs = list(cost_table(s3, depths=(1, 10, 100, 1_000), tables=(5, 200)))
    print("\n" + Cost.HEADER)
    for cost in costs:
        print(cost)
    for cost in costs:
        for requests, hops in (cost.append, cost.append_on_branch):
            assert requests <= 6
            assert hops <= 5
        assert cost.branch_create <= 4, "the source, the branch, a tag of its name, the entry"
        assert cost.branch_delete <= 3
        assert cost.cold_open <= 6
    every = [cost.append[0] for cost in costs] + [cost.append_on_branch[0] for cost in costs]
    assert max(every) - min(every) <= 1


def test_a_write_key_adds_nothing_to_a_warm_commit_and_a_request_to_a_cold_one(s3: S3Server) -> None:
    costs = list(key_costs(s3, depths=(10, 150)))
    print("\n" + KeyCost.HEADER)
    for cost in costs:
        print(cost)
        assert cost.keyed == cost.plain
        assert cost.repeated <= (1, 1), "the probe of the head"
        rolled = int(cost.depth > 64)
        assert cost.cold_for_the_key == rolled, "the object of older keys"
        assert cost.cold_repeated[0] <= 3 + 2 * rolled, (
            "a listing, the head, the schema, and if need be keys and the commit's record"
        )
    assert costs[0].keyed == costs[1].keyed


def test_a_group_of_writers_costs_one_create(s3: S3Server) -> None:
    assert group_of_writers(s3, 10) == 1


def test_opening_asks_for_the_identity_alone_and_the_first_row_for_six_objects_more(s3: S3Server) -> None:
    uri = f"s3://{s3.new_bucket()}/graph"
    graph = og.init(uri, "node Person { name: String @key }", storage_options=s3.options)
    for names in (["stored", "also"], ["in a commit"]):
        with graph.transaction() as tx:
            tx.insert_many("Person", [{"name": name} for name in names])
    s3.reset()
    reader = og.open(uri, storage_options=s3.options)
    assert len(s3.requests()) == 1
    question = "query q($n: String) { match { $p: Person { name: $n } } return { $p.name } }"
    assert len(reader.query(question, {"n": "stored"})) == 1
    assert len(s3.requests()) <= 7, "a listing, the entry, the schema; twice the version's manifest, and its file"
