"""Diff: typed deep equality, physical rewrites that are no changes, and reading only what differs."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og
from omnigraph.api.changes import ChangeJson
from omnigraph.changes import stored_rows, table_diff

SCHEMA = """
node Thing {
  name: String @key
  flag: Bool?
  small: I32?
  big: U64?
  real: F64?
  day: Date?
  moment: DateTime?
  bytes: Blob?
  words: [String]?
  numbers: [F64]?
  vector: Vector(2)?
}
"""

VALUES: dict[str, tuple[Any, Any]] = {
    "flag": (True, False),
    "small": (-1, 0),
    "big": (2**64 - 2, 2**64 - 1),
    "real": (0.5, -1.7976931348623157e308),
    "day": (dt.date(2026, 1, 2), dt.date(1969, 12, 31)),
    "moment": (dt.datetime(2026, 1, 2, 3, 4, 5, 678901), dt.datetime(2026, 1, 2, 3, 4, 5, 678902)),
    "bytes": (b"\x00\xff", b""),
    "words": (["a", ""], []),
    "numbers": ([5e-324, 1.0], [1.0, 5e-324]),
    "vector": ([0.5, -1.0], [0.5, 1.0]),
}


@pytest.fixture
def graph(tmp_path: Path) -> og.Graph:
    return og.init(tmp_path / "g", schema=SCHEMA, durability="process")


def write(graph: og.Graph, **values: Any) -> None:
    with graph.transaction() as tx:
        tx.upsert("Thing", name="t", **values)


def test_the_sign_of_zero_is_no_change(graph: og.Graph) -> None:
    write(graph, real=0.0, numbers=[0.0])
    with graph.transaction() as tx:
        tx.update("Thing", "t", real=-0.0)
    write(graph, real=-0.0, numbers=[0.0])
    assert list(graph.diff("main~1", "main")) == []


@pytest.mark.parametrize("name", VALUES)
def test_each_type_of_value_is_compared(graph: og.Graph, name: str) -> None:
    """Written again with the same value there is no change; with another, with null, there is."""
    one, other = VALUES[name]
    for value in (one, one, other, other, None, None):
        write(graph, **{name: value})
    ops = [[change.op for change in graph.diff(f"main~{5 - n}", f"main~{4 - n}")] for n in range(5)]
    assert ops == [[], ["update"], [], ["update"], []]
    (change,) = graph.diff("main~4", "main~3")
    assert change.before is not None
    shown = one.replace(tzinfo=dt.UTC) if isinstance(one, dt.datetime) else one
    assert repr(change.before[name]) == repr(shown)
    after = ChangeJson.to_json(change)["after"]["properties"][name]
    assert after == {
        "big": "18446744073709551615",
        "day": "1969-12-31",
        "moment": "2026-01-02T03:04:05.678902Z",
        "bytes": "base64:",
    }.get(name, other)


def test_diffs_are_empty_where_only_the_storage_changed(graph: og.Graph) -> None:
    for number in range(12):
        with graph.transaction() as tx:
            tx.insert("Thing", name=f"t{number:02d}", small=number)
    assert [len(list(graph.diff(f"main~{n + 1}", f"main~{n}"))) for n in range(11)] == [1] * 11
    before = graph._repository.resolve("main")
    assert graph.maintenance.optimize().commit is not None
    after = graph._repository.resolve("main")
    assert before.snapshot.tables != after.snapshot.tables
    assert list(graph.diff("main~1", "main")) == []
    assert [change.id for change in graph.diff("main~3", "main")] == ["t10", "t11"]


def test_only_parts_that_differ_are_read(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    for first in (0, 100):
        with graph.transaction() as tx:
            for number in range(first, first + 100):
                tx.insert("Thing", name=f"t{number:03d}", small=number)
    with graph.transaction() as tx:
        tx.update("Thing", "t005", small=-5)
        tx.delete("Thing", "t006")
    read: list[int] = []
    rows_at = stored_rows.rows_at

    def counted(table: Any, addresses: Any, columns: Any) -> Any:
        found = rows_at(table, addresses, columns)
        read.append(found.num_rows)
        return found

    for module in (stored_rows, table_diff):
        monkeypatch.setattr(module, "rows_at", counted)
    assert [(change.op, change.id) for change in graph.diff("main~1", "main")] == [
        ("update", "t005"),
        ("delete", "t006"),
    ]
    # Ids of the two old rows, the values of the updated one on both sides, and the images.
    assert sum(read) <= 2 + 2 + 4


def test_large_diffs_are_compared_in_pieces(graph: og.Graph, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stored_rows, "MAX_CHUNK_ROWS", 256)
    with graph.transaction() as tx:
        for number in range(1_000):
            tx.insert("Thing", name=f"t{number:04d}", small=number)
    with graph.transaction() as tx:
        for number in range(1_000):
            tx.upsert("Thing", name=f"t{number:04d}", small=number if number % 2 else -number)
    changes = list(graph.diff("main~1", "main"))
    assert [change.id for change in changes] == [f"t{number:04d}" for number in range(2, 1_000, 2)]
    assert all(change.after is not None and change.after["small"] < 0 for change in changes)


def test_revisions_of_every_form_can_be_compared(graph: og.Graph) -> None:
    write(graph, small=1)
    graph.tags.create("one")
    write(graph, small=2)
    commit = graph.commits(limit=1)[0]
    for before in ("one", "main~1"):
        for after in ("main", commit.id):
            assert [change.op for change in graph.diff(before, after)] == ["update"]
            assert [change.op for change in graph.diff(after, before, ops=["update"], types=["Thing"])] == ["update"]


@pytest.mark.parametrize("bound", ["0", "3", "100"])
def test_values_that_come_back_with_a_dropped_property_are_changes(
    bound: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No row moves when a property is dropped and comes back, so that both states share every fragment."""
    monkeypatch.setenv("OMNIGRAPH_INLINE_ROWS", bound)
    graph = og.init(
        tmp_path / "g", "node A { name: String @key  p: I32?  q: I32? }\nnode B { name: String @key  q: I32? }"
    )
    with graph.transaction() as tx:
        tx.insert_many("A", [{"name": f"a{number}", "p": number, "q": number or None} for number in range(6)])
        tx.insert("B", name="b", q=1)
    graph.schema.apply("node A { name: String @key  p: I32? }\nnode B { name: String @key  q: I32? }")
    assert list(graph.diff("main~1", "main")) == []
    graph.branches.create("work")
    with graph.transaction() as tx:
        tx.upsert("A", name="a1", p=7)
    graph.revert("main~1")
    for before, after in (("main~1", "main"), ("work", "main")):
        changes = {change.id: (change.before["q"], change.after["q"]) for change in graph.diff(before, after)}
        assert changes == {f"a{number}": (None, number) for number in range(1, 6)}
        assert [each.updates for each in graph.diff_stat(before, after)] == [5]
