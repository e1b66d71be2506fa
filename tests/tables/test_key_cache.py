"""Looking up keys: the same rows from memory, through an index, by a scan, and after every kind of change."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

from omnigraph._internal.runtime import ByteCache
from omnigraph.tables.addresses import ROW_ADDRESS
from omnigraph.tables.fragment_columns import FragmentKeys, KeyCache
from omnigraph.tables.indexes import IndexSpec
from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table

SCHEMA = pa.schema(
    [pa.field(name, pa.utf8(), nullable=False) for name in ("id", "src", "dst")] + [pa.field("n", pa.int32())]
)


def rows(*numbers: int) -> pa.Table:
    values = [{"id": f"e{n}", "src": f"s{n % 5}", "dst": f"it's {n % 3}", "n": n} for n in numbers]
    return pa.Table.from_pylist(values, schema=SCHEMA)


def check(table: Table) -> None:
    """Every way of asking gives what a scan gives."""
    everything = {row["id"]: row for row in table.read(with_address=True).to_pylist()}
    asked = {
        "id": [*list(everything)[::2], "nobody"],
        "src": ["s1", "s3", "nobody"],
        "dst": ["it's 2"],
        "n": [7, 8, 101, 10_000],
    }
    for name, values in asked.items():
        expected = sorted(id for id, row in everything.items() if row[name] in values)
        for columns in (["id"], ["id", "src", "dst"], ["id", "n"], None):
            found = table.lookup(name, values, columns, with_address=True)
            assert sorted(found.column("id").to_pylist()) == expected
            assert found.column(ROW_ADDRESS).to_pylist() == sorted(found.column(ROW_ADDRESS).to_pylist())
            for row in found.to_pylist():
                assert row == {column: everything[row["id"]][column] for column in row}
            plain = table.lookup(name, values, columns)
            assert plain.schema.equals(found.drop_columns([ROW_ADDRESS]).schema)
            assert sorted(plain.column("id").to_pylist()) == expected


@pytest.mark.parametrize("seed", range(4))
def test_lookups_are_right_after_any_changes(seed: int) -> None:
    chance = random.Random(seed)
    tables = Tables("memory://lookups")
    table = tables.create("edges/E-1", SCHEMA)
    number = 0
    for step in range(40):
        there = table.read(["id"], with_address=True)
        remove = chance.sample(there.column(ROW_ADDRESS).to_pylist(), min(there.num_rows, chance.randrange(4)))
        new = range(number, number + chance.randrange(1, 4))
        number = new.stop
        staged = tables.stage(table, rows=rows(*new), remove=remove, clear=step == 20)
        table = tables.open(table.path, staged.version)
        if step == 30:
            indexed = tables.stage_index(table, [IndexSpec("id", "BTREE"), IndexSpec("src", "BTREE")])
            assert indexed is not None
            table = tables.open(table.path, indexed.version)
        if step % 5 == 0 or step > 30:
            check(table)


def test_another_reader_finds_the_same(tmp_path: object) -> None:
    """One that wrote none of it has to read the keys first."""
    writer = Tables(str(tmp_path))
    table = writer.create("edges/E-1", SCHEMA)
    for number in range(20):
        staged = writer.stage(table, rows=rows(number, number + 100))
        table = writer.open(table.path, staged.version)
    addresses = table.lookup("id", ["e3", "e103", "e7"], ["id"], with_address=True).column(ROW_ADDRESS).to_pylist()
    staged = writer.stage(table, remove=addresses)
    for tables in (writer, Tables(str(tmp_path))):
        found = tables.open(table.path, staged.version)
        assert found.rows == 37
        check(found)


def test_two_versions_of_one_base_do_not_mix() -> None:
    """Fragments that got the same number in two versions have different rows."""
    tables = Tables("memory://lookups")
    base = tables.create("edges/E-1", SCHEMA)
    ours, theirs = (tables.stage(base, rows=rows(number)) for number in (1, 2))
    for staged, id in ((ours, "e1"), (theirs, "e2"), (ours, "e1")):
        found = tables.open(base.path, staged.version).lookup("id", ["e1", "e2"], ["id"])
        assert found.column("id").to_pylist() == [id]


def test_what_is_kept_is_bounded_and_the_oldest_goes() -> None:
    cache = KeyCache(ByteCache(2 * FragmentKeys.of(rows(*range(4))).nbytes), "root")
    for number in range(5):
        cache.put("t", ((f"f{number}",), ""), FragmentKeys.of(rows(*range(4))))
        cache.get("t", (("f0",), ""))
    kept = [number for number in range(5) if cache.get("t", ((f"f{number}",), "")) is not None]
    assert kept == [0, 4]


def test_a_fragment_that_lost_rows() -> None:
    keys = FragmentKeys.of_written(rows(*range(6)), SCHEMA).without([1, 4]).without([0])
    assert list(keys.offsets) == [2, 3, 5]
    assert keys.columns["id"] == ["e2", "e3", "e5"]
    assert keys.rows is not None
    assert keys.rows.column("n").to_pylist() == [2, 3, 5]
    assert keys.find("dst", ["it's 2", "nobody"]) == [0, 2]


def test_fragments_of_single_rows_count_for_what_they_cost() -> None:
    """Four columns of one row take about five kilobytes, of which their values are some bytes."""
    cache = ByteCache(1_000_000)
    keys = KeyCache(cache, "root")
    for number in range(1_000):
        keys.put("edges/E-1", ((f"{number}",), ""), FragmentKeys.of_written(rows(number), "identity"))
    held = sum(keys.get("edges/E-1", ((f"{number}",), "")) is not None for number in range(1_000))
    assert 100 < held < 250
    assert cache.nbytes <= 1_000_000
