"""Folding: few fragments however many commits, every row kept, indexes still cover what they covered."""

from __future__ import annotations

from pathlib import Path

import pytest
from tables.small_tables import SmallTables, numbers_of, rows

from omnigraph.tables.addresses import Fragment
from omnigraph.tables.indexes import IndexSpec, coverage
from omnigraph.tables.staging import FOLD_WIDTH, MAX_FOLD_BYTES, MAX_FOLD_ROWS, fragments_to_fold, level_of


@pytest.fixture
def tables(tmp_path: Path) -> SmallTables:
    return SmallTables(tmp_path)


def fragment(number: int, rows: int, size: int = 100) -> Fragment:
    return Fragment(number, (f"{number}.lance",), "", rows, size)


@pytest.mark.parametrize(("rows", "level"), [(0, 0), (1, 0), (7, 0), (8, 1), (63, 1), (64, 2), (511, 2), (512, 3)])
def test_levels_are_powers_of_the_width(rows: int, level: int) -> None:
    assert level_of(rows) == level


def test_nothing_is_folded_before_a_level_is_full() -> None:
    fragments = [fragment(n, 1) for n in range(FOLD_WIDTH - 1)]
    assert fragments_to_fold(fragments) == ()
    assert fragments_to_fold([*fragments, fragment(99, 1)]) == (*fragments, fragment(99, 1))


def test_a_fold_carries_into_the_next_level() -> None:
    tens = [fragment(n, 10) for n in range(FOLD_WIDTH - 1)]
    ones = [fragment(100 + n, 1) for n in range(FOLD_WIDTH)]
    assert fragments_to_fold([*tens, *ones]) == (*tens, *ones)


def test_parts_the_write_changes_and_big_fragments_are_left_alone() -> None:
    fragments = [fragment(n, 1) for n in range(FOLD_WIDTH)]
    assert fragments_to_fold(fragments, busy=[3]) == ()
    assert fragments_to_fold([fragment(n, MAX_FOLD_ROWS) for n in range(20)]) == ()
    assert fragments_to_fold([fragment(n, 5, MAX_FOLD_BYTES) for n in range(20)]) == ()


def test_simulated_commits_keep_the_number_of_fragments_logarithmic() -> None:
    fragments: list[Fragment] = []
    rewritten = most = 0
    for number in range(20_000):
        folded = fragments_to_fold(fragments)
        if folded:
            gone = {each.id for each in folded}
            fragments = [each for each in fragments if each.id not in gone]
            fragments.append(fragment(1_000_000 + number, sum(each.rows for each in folded)))
            rewritten += fragments[-1].rows
        fragments.append(fragment(number, 1))
        most = max(most, len(fragments))
    assert sum(each.rows for each in fragments) == 20_000
    assert most <= FOLD_WIDTH * 6
    assert rewritten / 20_000 < 6


def test_many_one_row_commits_keep_every_row_in_few_fragments(tables: SmallTables) -> None:
    table = tables.empty()
    most = 0
    for number in range(150):
        table = tables.put(table, [number])
        most = max(most, len(table.fragments))
    assert most <= 3 * FOLD_WIDTH
    assert numbers_of(tables.fresh(table)) == list(range(150))
    table.dataset.validate()


def test_folding_drops_deleted_rows_and_keeps_the_rest(tables: SmallTables) -> None:
    table = tables.empty()
    for start in range(0, 5 * (FOLD_WIDTH - 1), 5):
        table = tables.put(table, range(start, start + 5))
    table = tables.at(tables.stage(table, remove=tables.addresses(table, [1, 6, 11])))
    table = tables.put(table, [500])
    before = len(table.fragments)
    table = tables.put(table, [501])
    assert len(table.fragments) < before
    assert all(fragment.deletions == "" for fragment in table.fragments)
    expected = sorted({*range(5 * (FOLD_WIDTH - 1)), 500, 501} - {1, 6, 11})
    assert numbers_of(tables.fresh(table)) == expected


def test_an_upsert_folds_around_the_fragment_it_changes(tables: SmallTables) -> None:
    table = tables.empty()
    for number in range(FOLD_WIDTH + 3):
        table = tables.put(table, range(number * 4, number * 4 + 4), fold=False)
    staged = tables.stage(table, rows=rows([1000]), remove=tables.addresses(table, [5]))
    assert (staged.added, staged.removed, staged.rows) == (1, 1, 4 * (FOLD_WIDTH + 3))
    assert numbers_of(tables.at(staged)) == sorted({*range(4 * (FOLD_WIDTH + 3)), 1000} - {5})
    assert len(tables.at(staged).fragments) == 3


SPECS = (IndexSpec("id", "BTREE"), IndexSpec("camelCase", "INVERTED"))


def test_indexes_cover_the_folded_fragments_again(tables: SmallTables) -> None:
    table = tables.put(tables.empty(), range(20))
    staged = tables.stage_index(table, SPECS)
    assert staged is not None
    table = tables.at(staged)
    for number in range(20, 20 + 2 * FOLD_WIDTH):
        table = tables.put(table, [number])
        if number == 24:
            again = tables.stage_index(table, SPECS)
            assert again is not None
            table = tables.at(again)
    for name, state in coverage(table, SPECS).items():
        assert state.pending_rows < FOLD_WIDTH, name
        assert state.covered_rows + state.pending_rows == table.rows
    fresh = tables.fresh(table)
    for number in range(20 + 2 * FOLD_WIDTH):
        assert fresh.lookup("id", [f"e{number}"], ["n"])["n"].to_pylist() == [number]
    found = fresh.dataset.to_table(full_text_query="21", columns=["n"])["n"].to_pylist()
    assert found == [21]
    assert "ScalarIndexQuery" in fresh.dataset.scanner(filter="id = 'e3'").explain_plan()
