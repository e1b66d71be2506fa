"""Reads of a table with rows in commits cost about what they cost when these rows are stored."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import omnigraph as og
from omnigraph.tables.adjacency.nodes import Nodes
from omnigraph.tables.changed_table import MAX_FILTERS, ChangedTable
from omnigraph.tables.table import Table

SCHEMA = "node Person { name: String @key  age: I32? }"
POINT = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
STORED = 20_000


@pytest.fixture(scope="module")
def graph(tmp_path_factory: pytest.TempPathFactory) -> Iterator[og.Graph]:
    """Stored people with ages below 90; in commits, one that is new and one that replaces a stored one."""
    with pytest.MonkeyPatch.context() as environment:
        environment.delenv("OMNIGRAPH_INLINE_ROWS", raising=False)
        graph = og.init(tmp_path_factory.mktemp("reads") / "graph", schema=SCHEMA, durability="process")
        with graph.transaction() as tx:
            tx.insert_many("Person", [{"name": f"p{number}", "age": number % 90} for number in range(STORED)])
        graph.maintenance.optimize()
        with graph.transaction() as tx:
            tx.insert("Person", name="new", age=91)
        with graph.transaction() as tx:
            tx.update("Person", "p1", age=92)
        yield graph


def changed(graph: og.Graph) -> ChangedTable:
    table = graph._repository.head()[1].table("node:Person")
    assert isinstance(table, ChangedTable)
    return table


def test_rows_in_commits_are_asked_for_a_filter_once(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    table = changed(graph)
    asked: list[str | None] = []
    real = Table.read

    def read(self: Table, columns=None, filter=None, **options):  # type: ignore[no-untyped-def]
        if self is table.searchable:
            asked.append(filter)
        return real(self, columns, filter, **options)

    monkeypatch.setattr(Table, "read", read)
    for _ in range(3):
        assert sorted(table.read(["id"], "age > 89").column(0).to_pylist()) == ["new", "p1"]
        assert table.read(["id"], "age > 91").column(0).to_pylist() == ["p1"]
        assert table.count("age > 89") == 2
    assert asked == ["age > 89", "age > 91"]
    for number in range(2 * MAX_FILTERS):
        table.read(["id"], f"age > {100 + number}")
    assert len(table._places_by_filter) == MAX_FILTERS, "not without end"


def test_a_stored_row_is_found_without_a_look_at_all_rows_in_commits(
    graph: og.Graph, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(64):  # So that the order of the stored rows is held in memory.
        graph.query(POINT, {"n": f"p{number}"})
    asked: list[list[int]] = []
    real = Nodes.addresses
    monkeypatch.setattr(
        Nodes, "addresses", lambda self, table, numbers: asked.append(numbers) or real(self, table, numbers)
    )
    ages = {name: graph.query(POINT, {"n": name}).rows[0]["p.age"] for name in ("p1", "new", "p2", "p19999")}
    assert ages == {"p1": 92, "new": 91, "p2": 2, "p19999": 19_999 % 90}
    assert asked == []
