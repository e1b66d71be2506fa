"""Fragments that are looked up often are held in memory: the same rows as from storage, bounded, and never stale."""

from __future__ import annotations

import random
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, strategies as st
from tables.test_key_cache import SCHEMA, check, rows

from omnigraph._internal.runtime import ByteCache
from omnigraph.tables import fragment_columns, lookups
from omnigraph.tables.fragment_columns import MIN_LOOKUPS, FragmentColumns, KeyCache, SortedKeys
from omnigraph.tables.indexes import IndexSpec
from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table

TEXTS = st.text(alphabet="ab\0é\U0001f600", max_size=12)


@given(st.lists(TEXTS, max_size=40), st.lists(TEXTS, max_size=8))
def test_keys_are_found_where_they_are(texts: list[str], others: list[str]) -> None:
    column = pa.concat_arrays([pa.array(["first"]), pa.array(texts, pa.utf8())]).slice(1)
    wanted = list(dict.fromkeys([*texts[::2], *others]))
    expected = [place for place, text in enumerate(texts) if text in wanted]
    assert SortedKeys.of(column).find(wanted).tolist() == expected


@pytest.fixture
def always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every fragment is held from its first lookup on."""
    monkeypatch.setattr(fragment_columns, "MIN_LOOKUPS", 1)
    monkeypatch.setattr(fragment_columns, "ROWS_PER_LOOKUP", 1_000_000)
    monkeypatch.setattr(lookups, "MAX_FRAGMENT_ROWS", 0)
    monkeypatch.setattr(KeyCache, "get", lambda *_: None)


@contextmanager
def counted(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[object]]:
    """The scans that went to storage."""
    scans: list[object] = []
    scan = Table.scan

    def watched(self: Table, *args: object, **options: object) -> object:
        scans.append((args, options))
        return scan(self, *args, **options)  # type: ignore[arg-type]  # handed on as they came

    with monkeypatch.context() as patch:
        patch.setattr(Table, "scan", watched)
        yield scans


def staged(tables: Tables, base: Table, *numbers: int, remove: list[int] | None = None) -> Table:
    made = tables.stage(base, rows=rows(*numbers) if numbers else None, remove=remove or [], fold=False)
    return tables.open(base.path, made.version)


@pytest.mark.usefixtures("always")
@pytest.mark.parametrize("seed", range(3))
def test_lookups_in_memory_are_right_after_any_changes(seed: int) -> None:
    chance = random.Random(seed)
    tables = Tables("memory://columns")
    found = tables.create("edges/E-1", SCHEMA)
    number = 0
    for step in range(24):
        there = found.read(["id"], with_address=True)
        remove = chance.sample(there.column("_rowaddr").to_pylist(), min(there.num_rows, chance.randrange(4)))
        new = range(number, number + chance.randrange(1, 6))
        number = new.stop
        made = tables.stage(found, rows=rows(*new), remove=remove, clear=step == 12)
        found = tables.open(found.path, made.version)
        if step % 3 == 0:
            check(found)


@pytest.mark.usefixtures("always")
def test_versions_that_share_a_fragment_number_do_not_mix() -> None:
    tables = Tables("memory://columns")
    base = tables.create("edges/E-1", SCHEMA)
    ours, theirs = (staged(tables, base, *numbers) for numbers in ((1, 2), (3, 4)))
    less = staged(tables, ours, remove=ours.lookup("id", ["e1"], ["id"], with_address=True)["_rowaddr"].to_pylist())
    for one, expected in ((ours, ["e1", "e2"]), (theirs, ["e3", "e4"]), (less, ["e2"]), (ours, ["e1", "e2"])):
        assert one.lookup("id", ["e1", "e2", "e3", "e4"], ["id"]).column("id").to_pylist() == expected


@pytest.fixture
def large(tmp_path: Path) -> tuple[Tables, Table]:
    """One indexed fragment, as a process sees it that did not write it: nothing of it is known yet."""
    writer = Tables(str(tmp_path))
    base = staged(writer, writer.create("edges/E-1", SCHEMA), *range(50))
    indexed = writer.stage_index(base, [IndexSpec("id", "BTREE"), IndexSpec("src", "BTREE")])
    assert indexed is not None
    tables = Tables(str(tmp_path))
    return tables, tables.open(base.path, indexed.version)


def test_a_fragment_is_held_when_it_was_asked_for_often(
    large: tuple[Tables, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    _, found = large
    with counted(monkeypatch) as scans:
        for _ in range(MIN_LOOKUPS - 1):
            found.lookup("id", ["e7"], ["id", "n"])
            assert not found.looks_up_in_memory("id", ["id", "n"])
        assert len(scans) == MIN_LOOKUPS - 1, "the first lookups read what they asked for and nothing else"
        found.lookup("id", ["e7"], ["id", "n"])
        scans.clear()
        assert found.lookup("id", ["e8", "nobody"], ["id", "n"]).to_pylist() == [{"id": "e8", "n": 8}]
        assert scans == []
        assert found.looks_up_in_memory("id", ["id", "n"])


def test_a_small_commit_does_not_read_a_held_fragment_again(
    large: tuple[Tables, Table], monkeypatch: pytest.MonkeyPatch
) -> None:
    tables, found = large
    for _ in range(MIN_LOOKUPS):
        found.lookup("src", ["s1"], ["src", "dst"])
    with counted(monkeypatch) as scans:
        for number in range(100, 104):
            found = staged(tables, found, number)
            assert found.lookup("src", ["s1"], ["src", "dst"]).num_rows == 10 + (number >= 101)
        assert scans == []


def test_a_part_that_lost_a_row_is_another_fragment(large: tuple[Tables, Table]) -> None:
    tables, found = large
    for _ in range(MIN_LOOKUPS):
        gone = found.lookup("id", ["e7"], ["id", "n"], with_address=True)
    less = staged(tables, found, remove=gone["_rowaddr"].to_pylist())
    for _ in range(MIN_LOOKUPS + 1):
        assert less.lookup("id", ["e7", "e8"], ["id", "n"]).to_pylist() == [{"id": "e8", "n": 8}]
        assert found.lookup("id", ["e7"], ["id"]).num_rows == 1
    assert less.looks_up_in_memory("id", ["id", "n"])
    check(less)


def test_what_was_forgotten_has_to_be_earned_again(large: tuple[Tables, Table]) -> None:
    _, found = large
    fragment, memory = found.fragments[0], ByteCache(100_000)
    columns = FragmentColumns(memory)

    def held() -> list[bool]:
        return [columns.hold(found, fragment, ["id"]) is not None for _ in range(MIN_LOOKUPS)]

    expected = [False] * (MIN_LOOKUPS - 1) + [True]
    assert held() == expected
    memory.clear()
    assert held() == expected


def test_a_column_that_is_too_wide_is_not_held(large: tuple[Tables, Table], monkeypatch: pytest.MonkeyPatch) -> None:
    _, found = large
    columns = FragmentColumns(ByteCache(16 * 300))
    answers = [columns.hold(found, found.fragments[0], ["id"]) for _ in range(MIN_LOOKUPS * 2)]
    assert answers == [None] * (MIN_LOOKUPS * 2)
    with counted(monkeypatch) as scans:
        assert columns.hold(found, found.fragments[0], ["id"]) is None
        assert scans == [], "that it does not fit is remembered"
        assert columns.hold(found, found.fragments[0], ["n"]) is not None
