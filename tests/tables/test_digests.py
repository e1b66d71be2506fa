"""Names that tell what a file holds: given on every way a file is written, read back, and unlike anything Lance makes up."""

from __future__ import annotations

import hashlib
import uuid
from pathlib import Path

import pyarrow as pa
import pytest

from omnigraph.tables import digests
from omnigraph.tables.indexes import IndexSpec
from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table

SCHEMA = pa.schema([pa.field("id", pa.utf8(), nullable=False), pa.field("n", pa.int64())])


def rows(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table({"id": [f"k{number}" for number in numbers], "n": list(numbers)}, schema=SCHEMA)


@pytest.fixture
def tables(tmp_path: Path) -> Tables:
    return Tables(str(tmp_path), durable=False)


def sha256(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def test_every_file_of_a_version_says_what_it_holds(tables: Tables, tmp_path: Path) -> None:
    base = tables.create("nodes/P-1", SCHEMA)
    first = tables.stage(base, rows=rows(0, 100))
    second = tables.stage(tables.open(first.path, first.version), rows=rows(100, 5), remove=[3, 4])
    indexed = tables.stage_index(tables.open(second.path, second.version), [IndexSpec("n", "BTREE")])
    assert indexed is not None
    folder = tmp_path / "nodes/P-1"
    for staged in (first, second, indexed):
        for name in staged.files:
            if name.startswith("_versions/"):
                assert staged.digest == sha256(folder / name)[:16]
            elif name.startswith("data/"):
                assert digests.data_digest(name) == sha256(folder / name)[:16]
            elif name.startswith("_deletions/"):
                assert digests.deletions_digest(name) == sha256(folder / name)[:15]
            else:
                index = (folder / name).parent
                assert digests.index_digest(index.name) == digests.folder_digest(index)
    kinds = {name.split("/")[0] for staged in (first, second, indexed) for name in staged.files}
    assert kinds == {"_versions", "data", "_deletions", "_indices"}
    found = tables.open(indexed.path, indexed.version)
    assert list(tables.damaged_files(found.path, found.version, indexed.digest)) == []
    assert sorted(found.read(["n"]).column(0).to_pylist()) == sorted({*range(105)} - {3, 4})


def test_a_fold_names_its_files_too(tables: Tables, tmp_path: Path) -> None:
    table = tables.create("nodes/P-1", SCHEMA)
    for number in range(9):
        staged = tables.stage(table, rows=rows(number, 1))
        table = tables.open(staged.path, staged.version)
    assert len(table.fragments) < 9
    for fragment in table.fragments:
        assert digests.data_digest(fragment.files[0]) == sha256(tmp_path / "nodes/P-1/data" / fragment.files[0])[:16]


def test_two_writers_of_the_same_rows_have_files_of_their_own(tables: Tables) -> None:
    """Otherwise one that gives up would take the other's files with it."""
    table = tables.create("nodes/P-1", SCHEMA)
    staged = tables.stage(table, rows=rows(0, 10))
    base = tables.open(staged.path, staged.version)
    twins = [tables.stage(base, rows=rows(10, 1), remove=[1]) for _ in range(2)]
    data = [{name for name in twin.files if not name.startswith("_versions/")} for twin in twins]
    assert len(data[0]) == 2
    assert data[0].isdisjoint(data[1])


@pytest.mark.parametrize(
    "name",
    [
        "data/0101110110100010110100018ce90b46a1b94fafcad2529bf5.lance",
        "data/0101110110100010110100018ce90b46a1b94fafcad2529bf5-123.lance",
    ],
)
def test_lances_own_names_of_data_files_say_nothing(name: str) -> None:
    assert digests.data_digest(name) is None


@pytest.mark.parametrize("version", [0, 1, 12, (1 << 62) - 1, 1 << 63, (1 << 64) - 1])
def test_a_version_in_the_name_of_a_deletion_file_says_nothing(version: int) -> None:
    assert digests.deletions_digest(f"_deletions/0-{version}-17.arrow") is None


def test_a_random_uuid_says_nothing() -> None:
    assert digests.index_digest(str(uuid.uuid4())) is None


def test_a_detached_version_never_looks_like_a_digest(tables: Tables) -> None:
    """Lance sets the highest bit of a detached version; ours have it clear, and the next one set."""
    base: Table = tables.create("nodes/P-1", SCHEMA)
    versions = [tables.stage(base, rows=rows(number, 1)).version for number in range(20)]
    assert all(version >= 1 << 63 for version in versions)


def test_a_table_elsewhere_keeps_lances_names() -> None:
    tables = Tables("memory://digests")
    staged = tables.stage(tables.create("nodes/P-1", SCHEMA), rows=rows(0, 3))
    assert staged.digest is None
    assert [digests.data_digest(name) for name in staged.files if name.startswith("data/")] == [None]
