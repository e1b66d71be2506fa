"""What a minimum of edges costs: it follows the rows written, not the table."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from s3_server import S3Server

import omnigraph as og
from omnigraph.errors import CardinalityViolation
from omnigraph.tables.table import Table

SCHEMA = """
node Team {{ title: String @key }}
node Chief {{ name: String @key  rank: I32? }}
edge Leads: Chief -> Team @card({least}..3)
"""
CHIEFS = 40_000
"""More than a fragment whose keys are kept in memory has."""


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Many nodes with one edge each."""
    folder = tmp_path_factory.mktemp("filled") / "graph"
    names = [f"c{number}" for number in range(CHIEFS)]
    frames = {
        "Team": pa.table({"title": ["T", "U"]}),
        "Chief": pa.table({"name": names}),
        "Leads": pa.table({"id": [f"l{name}" for name in names], "from": names, "to": ["T"] * CHIEFS}),
    }
    og.init(folder, schema=SCHEMA.format(least=1), durability="process").load(frames, mode="append", engine="local")
    return folder


@contextmanager
def rows_fetched(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """How many rows each read of a table gave."""
    found: list[int] = []
    read = Table.read

    def counted(self: Table, *arguments: Any, **named: Any) -> pa.Table:
        rows = read(self, *arguments, **named)
        found.append(rows.num_rows)
        return rows

    with monkeypatch.context() as patch:
        patch.setattr(Table, "read", counted)
        yield found


def merge(graph: og.Graph, *records: dict[str, Any]) -> None:
    path = Path(graph.uri).parent / "few.jsonl"
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    graph.load(path, mode="merge", engine="local")


WRITES: dict[str, Callable[[og.Graph, str], object]] = {
    "a node is updated": lambda graph, name: graph.mutate(
        "query q($n: String) { update Chief set { rank: 1 } where name = $n }", {"n": name}
    ),
    "a node is put anew": lambda graph, name: graph.mutate(
        "query q($n: String) { insert Chief { name: $n, rank: 2 } }", {"n": name}
    ),
    "an edge goes and another comes": lambda graph, name: graph.mutate(
        'query q($n: String) { delete Leads where from = $n insert Leads { from: $n, to: "U" } }', {"n": name}
    ),
    "a load puts a node anew": lambda graph, name: merge(graph, {"type": "Chief", "data": {"name": name, "rank": 3}}),
    "a load moves an edge": lambda graph, name: merge(
        graph,
        {"edge": "Leads", "from": name, "to": "U", "data": {"id": f"l{name}"}},
    ),
}


@pytest.mark.parametrize("write", WRITES)
def test_few_rows_are_fetched_for_few_rows_written(write: str, filled: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = og.open(filled, durability="process")
    name = f"c{list(WRITES).index(write) + 100}"
    with rows_fetched(monkeypatch) as found:
        WRITES[write](graph, name)
    assert sum(found) < 100


def test_the_last_edge_of_a_node_in_a_large_table_is_kept(filled: Path) -> None:
    graph = og.open(filled, durability="process")
    with pytest.raises(CardinalityViolation, match=r"source 'c7' has 0 edges \(min 1\)"):
        graph.mutate('query q() { delete Leads where from = "c7" }')
    with pytest.raises(CardinalityViolation, match=r"source 'c7' has 0 edges \(min 1\)"):
        merge(graph, {"edge": "Leads", "from": "c8", "to": "U", "data": {"id": "lc7"}})


@pytest.mark.s3
def test_a_minimum_costs_no_request_more(s3: S3Server) -> None:
    """A node that is made with its edge, changed, put anew, and removed; by a process that wrote it."""

    def requests(least: int) -> list[int]:
        uri = f"s3://{s3.new_bucket()}/graph"
        graph = og.init(uri, schema=SCHEMA.format(least=least), storage_options=s3.options)
        graph.mutate('query q() { insert Team { title: "T" } }')
        found = []
        for number in range(4):
            for text in (
                'insert Chief { name: $n } insert Leads { from: $n, to: "T" }',
                "update Chief set { rank: 1 } where name = $n",
                "insert Chief { name: $n, rank: 2 }",
                "delete Chief where name = $n",
            ):
                s3.reset()
                graph.mutate(f"query q($n: String) {{ {text} }}", {"n": f"c{number}"})
                found.append(len(s3.requests()))
        return found

    assert requests(1) == requests(0)
