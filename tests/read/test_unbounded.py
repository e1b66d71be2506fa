"""Hops without an upper end: they stop by themselves, and a walk that would be too large is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from read.graphs import commit, new_graph, query

from omnigraph.errors import ResourceExhausted
from omnigraph.language.query.mutations import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read.executor import matching
from omnigraph.read.strategies import dense
from omnigraph.snapshot import View

LENGTH = 60
SCHEMA = "node N { name: String @key }\nedge Next: N -> N"
FROM_START = 'query q() { match { $a: N { name: "n00" }  $a next{1,} $b } return { count($b) as n } }'
ANY_PAIR = "query q() { match { $a: N  $a next{1,} $b } return { count($b) as n } }"


@pytest.fixture(scope="module")
def view(tmp_path_factory: pytest.TempPathFactory) -> View:
    """A chain, which ends where it started."""
    nodes: list[Any] = [{"type": "N", "data": {"name": f"n{place:02}"}} for place in range(LENGTH)]
    edges = [{"edge": "Next", "from": f"n{place:02}", "to": f"n{(place + 1) % LENGTH:02}"} for place in range(LENGTH)]
    folder: Path = tmp_path_factory.mktemp("chain")
    return commit(new_graph(str(folder / "g"), SCHEMA), [*nodes, *edges])


@pytest.mark.parametrize("mode", ["auto", "scan", "index", "csr"])
def test_a_long_chain_is_followed_to_its_end_and_a_cycle_once(view: View, mode: Any) -> None:
    assert query(view, FROM_START, mode=mode).rows == [{"n": LENGTH - 1}]
    assert query(view, ANY_PAIR, mode=mode).rows == [{"n": LENGTH * (LENGTH - 1)}]


def test_too_many_pairs_are_refused_with_what_to_write(view: View) -> None:
    too_many = patch.object(matching, "BYTES_PER_ROW", 2**40), patch.object(dense, "MAX_PAIRS", 1_000)
    with too_many[0], too_many[1], pytest.raises(ResourceExhausted) as caught:
        query(view, ANY_PAIR, mode="csr")
    assert "may reach more than 1,000 pairs" in caught.value.message
    assert caught.value.hint == "bind one end by a condition, or give an upper end: {1,6}"


@pytest.mark.spark
def test_a_walk_on_spark_that_goes_on_is_refused(view: View, spark: Any) -> None:
    from omnigraph.spark import queries

    plan = compile_query(FROM_START, view.catalog)
    assert isinstance(plan, ReadPlan)
    with patch.object(queries, "MAX_LEVELS", 3), pytest.raises(ResourceExhausted, match="does not end after 3 hops"):
        queries.run_read_on_spark(view, plan, {}, spark)
