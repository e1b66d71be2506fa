"""Lookups in an object store, where a key column is read whole at once: the same rows as by a scan."""

from __future__ import annotations

import pyarrow as pa
import pytest
from s3_server import S3Server

from omnigraph.tables import lookups
from omnigraph.tables.addresses import ROW_ADDRESS
from omnigraph.tables.filters import in_list
from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table

SCHEMA = pa.schema([pa.field("id", pa.utf8(), False), pa.field("src", pa.utf8(), False), ("n", pa.int64())])
ROWS = 400

pytestmark = pytest.mark.s3


def rows(start: int) -> pa.Table:
    numbers = range(start, start + ROWS)
    columns = [[f"e{number}" for number in numbers], [f"s{number // 3}" for number in numbers], list(numbers)]
    return pa.Table.from_arrays([pa.array(column) for column in columns], schema=SCHEMA)


@pytest.fixture(params=["whole", "keys"])
def table(request: pytest.FixtureRequest, s3: S3Server, monkeypatch: pytest.MonkeyPatch) -> Table:
    """Two fragments, of which some rows are gone, as a process sees them that did not write them: so small that they are read whole,
    or such that count as long ones."""
    if request.param == "keys":
        monkeypatch.setattr(lookups, "MAX_FRAGMENT_ROWS", 0)
        monkeypatch.setattr("omnigraph.tables.table.READ_WHOLE_BYTES", 0)
    root = f"s3://{s3.new_bucket()}"
    tables = Tables(root, storage_options=s3.options)
    base = tables.create("edges/E", SCHEMA)
    for start in (0, ROWS):
        staged = tables.stage(base, rows=rows(start))
        base = tables.open(staged.path, staged.version)
    gone = base.read(["n"], "n IN (0, 4, 5, 300)", with_address=True).column(ROW_ADDRESS).to_pylist()
    staged = tables.stage(base, remove=gone)
    return Tables(root, storage_options=s3.options).open(staged.path, staged.version)


@pytest.mark.parametrize("columns", [["n"], ["id"], ["src", "id", "n"], ["src"], None])
@pytest.mark.parametrize("with_address", [True, False])
@pytest.mark.parametrize(
    ("name", "wanted"),
    [
        ("id", ["e1"]),
        ("id", ["e4", "e9", "e3", f"e{ROWS + 7}", "none"]),
        ("src", ["s1"]),
        ("src", ["s100", "s2", f"s{ROWS // 3}", "s9999999"]),
        ("id", ["none"]),
    ],
)
def test_a_lookup_gives_what_a_scan_gives(
    table: Table,
    name: str,
    wanted: list[str],
    columns: list[str] | None,
    with_address: bool,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    expected = table.read(columns, in_list(name, wanted), with_address=with_address)
    by_keys = table.lookup(name, wanted, columns, with_address=with_address)
    monkeypatch.setattr(lookups, "MAX_KEYS_READ", 0)
    by_filter = table.lookup(name, wanted, columns, with_address=with_address)
    assert by_keys.column_names == expected.column_names == by_filter.column_names
    assert by_keys.to_pylist() == expected.to_pylist() == by_filter.to_pylist()


def test_the_keys_are_read_once(table: Table, s3: S3Server) -> None:
    table.lookup("id", ["e1"], ["n"])
    s3.reset()
    assert table.lookup("id", ["e77"], ["id"]).num_rows == 1
    assert s3.requests() == []
