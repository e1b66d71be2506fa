"""Every write of a table: staged, detached, and a value that says what it did."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tables.small_tables import PATH, SCHEMA, SmallTables, numbers_of, rows

from omnigraph.tables import store as tables_store
from omnigraph.tables.staging import adopted
from omnigraph.tables.store import Tables
from omnigraph.testing.failpoints import Failpoint, FailpointReached, arm, raising


@pytest.fixture
def tables(tmp_path: Path) -> SmallTables:
    return SmallTables(tmp_path)


def test_an_append_says_what_it_made_and_moves_nothing(tables: SmallTables) -> None:
    empty = tables.empty()
    staged = tables.stage(empty, rows=rows(range(3)))
    assert (staged.path, staged.rows, staged.added, staged.removed) == (PATH, 3, 3, 0)
    assert len(staged.fragments) == 1
    assert numbers_of(tables.fresh(tables.at(staged))) == [0, 1, 2]
    assert Tables(str(tables.folder)).open(PATH, 1).rows == 0


def test_of_a_table_with_many_versions_the_last_ones_used_stay_open(
    tables: SmallTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables_store, "VERSIONS_CACHED", 3)
    versions = [tables.empty()]
    for number in range(5):
        versions.append(tables.put(versions[-1], [number]))
        assert len(tables._cache) <= 3
    assert tables.open(PATH, versions[-1].version) is versions[-1]
    again = tables.open(PATH, versions[1].version)
    assert again is not versions[1]
    assert again.read().to_pydict() == versions[1].read().to_pydict()


def test_versions_branch_freely(tables: SmallTables) -> None:
    base = tables.put(tables.empty(), range(3))
    left, right = tables.put(base, [10]), tables.put(base, [20, 21])
    assert numbers_of(left) == [0, 1, 2, 10]
    assert numbers_of(right) == [0, 1, 2, 20, 21]
    assert numbers_of(base) == [0, 1, 2]


def test_rows_go_by_address_and_new_ones_come_in_the_same_version(tables: SmallTables) -> None:
    base = tables.put(tables.put(tables.empty(), range(10)), range(10, 20))
    staged = tables.stage(base, rows=rows([103, 115]), remove=tables.addresses(base, [3, 15]))
    assert (staged.rows, staged.added, staged.removed) == (20, 2, 2)
    changed = tables.fresh(tables.at(staged))
    assert numbers_of(changed) == sorted({*range(20), 103, 115} - {3, 15})
    assert [fragment.rows for fragment in changed.fragments] == [9, 9, 2]
    assert numbers_of(base) == list(range(20))


def test_a_fragment_without_rows_left_goes(tables: SmallTables) -> None:
    base = tables.put(tables.put(tables.empty(), range(3)), range(3, 6))
    staged = tables.stage(base, remove=tables.addresses(base, range(3)))
    assert (staged.rows, staged.removed) == (3, 3)
    assert [fragment.rows for fragment in tables.at(staged).fragments] == [3]


def test_removing_what_is_gone_already_counts_nothing(tables: SmallTables) -> None:
    base = tables.put(tables.empty(), range(5))
    addresses = tables.addresses(base, [1, 2])
    once = tables.at(tables.stage(base, remove=addresses))
    twice = tables.stage(once, remove=[*addresses, *tables.addresses(once, [3])])
    assert (twice.rows, twice.removed) == (2, 1)
    assert numbers_of(tables.at(twice)) == [0, 4]


def test_clear_replaces_all_rows(tables: SmallTables) -> None:
    base = tables.put(tables.put(tables.empty(), range(5)), range(5, 9))
    staged = tables.stage(base, rows=rows([7, 8]), clear=True)
    assert (staged.rows, staged.added, staged.removed) == (2, 2, 9)
    assert numbers_of(tables.at(staged)) == [7, 8]
    assert tables.stage(base, clear=True).rows == 0


def test_the_same_fragments_go_on_any_later_version_without_a_new_file(tables: SmallTables) -> None:
    base = tables.put(tables.empty(), range(3))
    mine = tables.stage(base, rows=rows([100, 101]))
    moved = tables.put(tables.at(tables.stage(base, remove=tables.addresses(base, [0]))), [50])
    before = {file for file in tables.files() if file.startswith("data/")}
    for winner in (moved, tables.put(moved, [51])):
        again = tables.stage(winner, fragments=mine.fragments)
        assert again.added == 2
        assert numbers_of(tables.fresh(tables.at(again))) == sorted([*numbers_of(winner), 100, 101])
        tables.at(again).dataset.validate()
    after = {file for file in tables.files() if file.startswith("data/")}
    assert len(after - before) == 1  # the row of the second winner


def test_fragments_of_another_line_of_versions_are_adopted(tables: SmallTables) -> None:
    base = tables.put(tables.empty(), range(3))
    main, branch = tables.put(base, [10, 11]), tables.put(tables.put(base, [20]), [21, 22])
    known = {fragment.content for fragment in base.fragments}
    new = [fragment.id for fragment in branch.fragments if fragment.content not in known]
    files = {file for file in tables.files() if file.startswith("data/")}
    merged = tables.at(tables.stage(main, fragments=adopted(branch, new)))
    assert {file for file in tables.files() if file.startswith("data/")} == files
    assert numbers_of(merged) == [0, 1, 2, 10, 11, 20, 21, 22]
    merged.dataset.validate()
    row_ids = merged.read(["n"], with_row_id=True)["_rowid"].to_pylist()
    assert len(set(row_ids)) == 8


def test_shared_fragments_have_equal_content_and_changed_ones_do_not(tables: SmallTables) -> None:
    base = tables.put(tables.put(tables.empty(), range(3)), range(3, 6))
    later = tables.at(tables.stage(base, rows=rows([9]), remove=tables.addresses(base, [4])))
    same = {fragment.content for fragment in base.fragments} & {fragment.content for fragment in later.fragments}
    assert same == {base.fragments[0].content}


def test_every_new_file_is_made_durable_before_it_is_named(
    tables: SmallTables, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: list[str] = []
    monkeypatch.setattr(tables_store, "sync_files", lambda files, root: synced.extend(map(str, files)))
    base = tables.put(tables.put(tables.empty(), range(10)), range(10, 12))
    synced.clear()
    before = tables.files()
    staged = tables.stage(base, rows=rows([100]), remove=tables.addresses(base, [3]))
    tables.sync([staged])
    made = {file for file in tables.files() - before if not file.startswith("_transactions/")}
    assert {str(Path(file).relative_to(tables.folder / PATH)) for file in synced} == made
    assert {file.partition("/")[0] for file in made} == {"data", "_deletions", "_versions"}


def test_a_fold_with_an_index_names_its_files_too(tables: SmallTables) -> None:
    from omnigraph.tables.indexes import IndexSpec

    table = tables.put(tables.empty(), [0])
    index = tables.stage_index(table, [IndexSpec("id", "BTREE")])
    assert index is not None
    table = tables.at(index)
    for number in range(1, 9):
        before = tables.files()
        staged = tables.stage(table, rows=rows([number]))
        table = tables.at(staged)
        made = {file for file in tables.files() - before if not file.startswith("_transactions/")}
        assert set(staged.files) <= made
        # An index is written in two steps; what only the first one needed is garbage.
        named = {str(segment.uuid) for entry in table.dataset.describe_indices() for segment in entry.segments}
        assert all(
            file.split("/")[0] == "_indices" and file.split("/")[1] not in named for file in made - set(staged.files)
        )
    assert any(file.startswith("_indices/") for file in tables.files())


def test_a_version_opens_without_its_transaction_file(tables: SmallTables) -> None:
    base = tables.put(tables.empty(), range(10))
    table = tables.at(tables.stage(base, rows=rows([50]), remove=tables.addresses(base, [1])))
    shutil.rmtree(tables.folder / PATH / "_transactions")
    again = tables.fresh(table)
    assert again.rows == 10
    assert numbers_of(again) == numbers_of(table)
    other = SmallTables(tables.folder)
    assert other.put(again, [60]).rows == 11


def test_nothing_is_synced_when_durability_is_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def never(*_: object, **__: object) -> None:
        raise AssertionError("synced")

    monkeypatch.setattr(tables_store, "sync_files", never)
    tables = Tables(str(tmp_path), durable=False)
    tables.sync([tables.stage(tables.create(PATH, SCHEMA), rows=rows([1]))])


def test_making_a_table_twice_gives_the_same_table(tables: SmallTables) -> None:
    first = tables.empty()
    tables.put(first, [1])
    second = SmallTables(tables.folder).empty()
    assert (second.version, second.rows, second.schema) == (first.version, 0, first.schema)


def test_opening_is_cached_by_path_and_version(tables: SmallTables) -> None:
    table = tables.put(tables.empty(), [1])
    assert tables.open(PATH, table.version) is tables.open(PATH, table.version)


@pytest.mark.parametrize("point", [Failpoint.TABLE_STAGED_DATA, Failpoint.TABLE_STAGED_VERSION])
def test_a_crash_while_staging_leaves_garbage_only(tables: SmallTables, point: Failpoint) -> None:
    base = tables.put(tables.empty(), range(3))
    arm(point, raising(FailpointReached()))
    with pytest.raises(FailpointReached):
        tables.stage(base, rows=rows([9]))
    assert numbers_of(tables.fresh(base)) == [0, 1, 2]
    assert numbers_of(tables.put(base, [4])) == [0, 1, 2, 4]
