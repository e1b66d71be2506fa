"""Reading a table at a version: scans, lookups, addresses, indexes, filter texts."""

from __future__ import annotations

import datetime as dt
import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tables.small_tables import SmallTables, rows

from omnigraph.tables import indexes, lookups
from omnigraph.tables.filters import column, equals, in_list, literal
from omnigraph.tables.indexes import MAX_SEGMENTS, IndexSpec, coverage
from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table


@pytest.fixture
def tables(tmp_path: Path) -> SmallTables:
    return SmallTables(tmp_path)


@pytest.fixture
def table(tables: SmallTables) -> Table:
    return tables.put(tables.put(tables.empty(), range(30)), range(30, 50))


def test_scan_projection_filter_fragments_and_count(table: Table) -> None:
    assert table.rows == 50
    assert table.count("n >= 45") == 5
    assert table.read(["n"], "n < 3").to_pydict() == {"n": [0, 1, 2]}
    assert table.read(["n"], fragments=[table.fragments[1].id]).num_rows == 20
    assert table.read(["n"], fragments=[]).num_rows == 0
    assert [batch.num_rows for batch in table.scan(["n"], batch_rows=16, limit=20)] == [16, 4]


@pytest.mark.parametrize("value", ["it's 7", "it's 49"])
def test_lookups_of_names_and_values_that_need_quotes(table: Table, value: str) -> None:
    assert table.lookup("camelCase", [value], ["n"])["n"].to_pylist() == [int(value[5:])]
    assert table.lookup("select", ['a "b" `c` 1'], ["n"]).num_rows == 17
    assert table.lookup("camelCase", ["'; drop", "' OR 1=1 --"]).num_rows == 0
    assert table.lookup("id", []).num_rows == 0
    assert table.lookup("n", [3, 4, 3], ["n"], filter="`select` = 'a \"b\" `c` 0'")["n"].to_pylist() == [3]


def test_a_lookup_by_scan_gives_what_the_index_gives(table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = ["e1", "e40", "nothing", "e7"]
    by_index = table.lookup("id", wanted, ["n"], with_address=True)
    monkeypatch.setattr(lookups, "MAX_IN_LIST", 2)
    in_chunks = table.lookup("id", wanted, ["n"], with_address=True)
    monkeypatch.setattr(Table, "rows", 8)
    by_scan = table.lookup("id", wanted, ["n"], with_address=True)
    assert by_index.to_pydict() == by_scan.to_pydict() == in_chunks.to_pydict()
    assert by_index["n"].to_pylist() == [1, 7, 40]


def test_rows_are_taken_by_address(tables: SmallTables, table: Table) -> None:
    addresses = tables.addresses(table, [4, 33, 2])
    taken = table.take_addresses(addresses, ["n"])
    assert taken["n"].to_pylist() == [2, 4, 33]
    assert set(taken["_rowaddr"].to_pylist()) == set(addresses)
    assert table.take_addresses([]).num_rows == 0


def test_filter_texts(table: Table) -> None:
    assert column("camelCase") == "`camelCase`"
    assert equals("a", "o'k") == "`a` = 'o''k'"
    assert in_list("a", [1, None, True, 2.5]) == "`a` IN (1, NULL, true, 2.5)"
    assert literal(dt.date(2026, 7, 1)) == "date '2026-07-01'"
    moment = dt.datetime(2026, 7, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert literal(moment) == "timestamp '2026-07-01 00:00:00.000000'"
    with pytest.raises(TypeError):
        literal(b"x")
    assert table.count(equals("camelCase", "it's 3")) == 1


def test_filter_texts_of_every_kind_select_the_value(tmp_path: Path) -> None:
    schema = pa.schema(
        [("s", pa.string()), ("i", pa.int64()), ("f", pa.float64()), ("b", pa.bool_()), ("d", pa.date32()),
         ("t", pa.timestamp("ms"))]
    )  # fmt: skip
    values = {
        "s": "x'y",
        "i": -5,
        "f": 1.5,
        "b": True,
        "d": dt.date(2026, 7, 1),
        "t": dt.datetime(2026, 7, 1, 10, 0, 0, 5000),
    }
    tables = Tables(str(tmp_path))
    staged = tables.stage(tables.create("nodes/T", schema), rows=pa.Table.from_pylist([values, {}], schema=schema))
    table = tables.open("nodes/T", staged.version)
    for name, value in values.items():
        assert table.count(equals(name, value)) == 1, name


# ---------------------------------------------------------------- indexes


def test_an_index_covers_every_row_and_grows_by_segments(tables: SmallTables, table: Table) -> None:
    spec = IndexSpec("id", "BTREE")
    assert coverage(table, [spec])[spec.name].covered_rows == 0
    staged = tables.stage_index(table, [spec])
    assert staged is not None
    assert (staged.rows, staged.added, staged.removed) == (50, 0, 0)
    indexed = tables.at(staged)
    assert tables.stage_index(indexed, [spec]) is None
    for number in range(100, 100 + MAX_SEGMENTS + 2):
        indexed = tables.put(indexed, [number], fold=False)
        state = coverage(indexed, [spec])[spec.name]
        assert state.pending_rows == 1
        again = tables.stage_index(indexed, [spec])
        assert again is not None
        indexed = tables.at(again)
        state = coverage(indexed, [spec])[spec.name]
        assert (state.pending_rows, state.covered_rows) == (0, indexed.rows)
        assert state.segments <= MAX_SEGMENTS
        assert indexed.lookup("id", [f"e{number}", "e3"], ["n"])["n"].to_pylist() == [3, number]
    assert tables.fresh(indexed).lookup("id", ["e101"], ["n"])["n"].to_pylist() == [101]


def test_the_index_of_one_version_is_not_that_of_another(tables: SmallTables, table: Table) -> None:
    spec = IndexSpec("id", "BTREE")
    staged = tables.stage_index(table, [spec])
    assert staged is not None
    assert coverage(table, [spec])[spec.name].segments == 0
    assert coverage(tables.fresh(tables.at(staged)), [spec])[spec.name].segments == 1


def test_a_removed_row_is_not_found_through_the_index(tables: SmallTables, table: Table) -> None:
    staged = tables.stage_index(table, [IndexSpec("id", "BTREE")])
    assert staged is not None
    indexed = tables.at(staged)
    changed = tables.at(tables.stage(indexed, rows=rows([7]), remove=tables.addresses(indexed, [7, 8])))
    assert changed.lookup("id", ["e7"], ["n"]).num_rows == 1
    assert changed.lookup("id", ["e8"], ["n"]).num_rows == 0


def test_a_vector_index_is_skipped_until_there_are_vectors_and_found_after(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("v", pa.list_(pa.float32(), 4))])
    tables = Tables(str(tmp_path))
    spec = IndexSpec("v", "IVF_FLAT", "l2")
    empty = tables.create("nodes/V", schema)
    without = tables.open("nodes/V", tables.stage(empty, rows=pa.table({"id": ["a"], "v": [None]}, schema)).version)
    assert tables.stage_index(without, [spec]) is None
    vectors = np.random.default_rng(1).random((200, 4), dtype=np.float32)
    more = pa.table({"id": [f"v{n}" for n in range(200)], "v": list(vectors)}, schema)
    filled = tables.open("nodes/V", tables.stage(without, rows=more).version)
    staged = tables.stage_index(filled, [spec])
    assert staged is not None
    indexed = tables.open("nodes/V", staged.version)
    near = indexed.dataset.to_table(nearest={"column": "v", "q": vectors[42], "k": 1}, columns=["id"])
    assert near["id"].to_pylist() == ["v42"]


def test_a_large_index_is_built_as_several_segments_that_may_travel(
    tables: SmallTables, table: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    grown = table
    for first in range(100, 600, 100):
        grown = tables.put(grown, range(first, first + 100), fold=False)
    monkeypatch.setattr(indexes, "SEGMENT_ROWS", 100)
    spec = IndexSpec("id", "BTREE")
    plans = indexes.plan_segments(grown, [spec])
    assert len(plans) == 5, "by rows, however many"
    assert sorted(fragment for plan in plans for fragment in plan.fragments) == sorted(
        fragment.id for fragment in grown.fragments
    )
    built = [pickle.loads(pickle.dumps(tables.build_segment(grown.path, grown.version, plan))) for plan in plans]
    staged = tables.stage_segments(grown, plans, built)
    assert staged is not None
    indexed = tables.at(staged)
    state = coverage(indexed, [spec])[spec.name]
    assert (state.segments, state.pending_rows) == (len(plans), 0)
    for number in (7, 150, 599):
        assert indexed.lookup("id", [f"e{number}"], ["n"])["n"].to_pylist() == [number]
