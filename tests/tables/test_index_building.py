"""Building indexes disturbs nobody who reads the same version."""

from __future__ import annotations

import threading
from pathlib import Path

import pyarrow as pa

from omnigraph.tables.indexes import IndexSpec
from omnigraph.tables.store import Tables

ROWS = 200_000


def test_reads_go_on_while_indexes_are_built(tmp_path: Path) -> None:
    tables = Tables(str(tmp_path), durable=False)
    schema = pa.schema([pa.field("id", pa.string(), nullable=False), ("n", pa.int64())])
    rows = pa.table({"id": [f"e{number}" for number in range(ROWS)], "n": list(range(ROWS))}, schema=schema)
    base = tables.create("nodes/P-1", schema)
    table = tables.open(base.path, tables.stage(base, rows=rows).version)
    staged = []
    builder = threading.Thread(
        target=lambda: staged.append(tables.stage_index(table, [IndexSpec("id", "BTREE"), IndexSpec("n", "BTREE")]))
    )
    builder.start()
    while builder.is_alive():
        assert table.read(["n"], "`id` = 'e77'").column("n").to_pylist() == [77]
        assert table.dataset.schema.names == ["id", "n"]
        assert table.dataset.describe_indices() == []
    builder.join()
    (made,) = staged
    assert made is not None
    indexed = tables.open(base.path, made.version)
    assert sorted(entry.name for entry in indexed.dataset.describe_indices()) == ["id.btree", "n.btree"]
    assert indexed.lookup("id", ["e77"], ["n"]).column("n").to_pylist() == [77]
