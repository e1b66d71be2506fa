"""A table for tests of tables: short rows, staged one version after the other."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.tables.staging import Staged
from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table

SCHEMA = pa.schema(
    [
        pa.field("id", pa.string(), nullable=False),
        ("n", pa.int64()),
        ("camelCase", pa.string()),
        ("select", pa.string()),
    ]
)
PATH = "nodes/P-1"


def rows(numbers: Iterable[int]) -> pa.Table:
    chosen = list(numbers)
    return pa.table(
        {
            "id": [f"e{n}" for n in chosen],
            "n": chosen,
            "camelCase": [f"it's {n}" for n in chosen],
            "select": [f'a "b" `c` {n % 3}' for n in chosen],
        },
        schema=SCHEMA,
    )


class SmallTables(Tables):
    """With the shape of the calls the tests need."""

    def __init__(self, folder: Path) -> None:
        super().__init__(str(folder))
        self.folder = folder

    def empty(self) -> Table:
        return self.create(PATH, SCHEMA)

    def at(self, staged: Staged) -> Table:
        return self.open(staged.path, staged.version)

    def put(self, base: Table, numbers: Iterable[int], **options: Any) -> Table:
        return self.at(self.stage(base, rows=rows(numbers), **options))

    def addresses(self, table: Table, numbers: Iterable[int]) -> list[int]:
        found = table.lookup("n", list(numbers), ["n"], with_address=True)
        return [int(address) for address in found["_rowaddr"].to_pylist()]

    def fresh(self, table: Table) -> Table:
        """The same version, opened by another process as it were."""
        return Tables(str(self.folder)).open(table.path, table.version)

    def files(self) -> set[str]:
        root = self.folder / PATH
        return {str(file.relative_to(root)) for file in root.rglob("*") if file.is_file()}


def numbers_of(table: Table) -> list[int]:
    return sorted(table.read(["n"])["n"].to_pylist())
