"""A table at a version as a value that travels with a task."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table


class TablePlace:
    """In this process the tables that are open here; in another one they are opened again, once."""

    def __init__(self, tables: Tables, path: str, version: int) -> None:
        self.tables = tables
        self.path = path
        self.version = version

    def __reduce__(self) -> tuple[Any, ...]:
        return _reopened, (self.tables.root, tuple(sorted(self.tables.options.items())), self.path, self.version)

    def open(self) -> Table:
        return self.tables.open(self.path, self.version)


def _reopened(root: str, options: tuple[tuple[str, str], ...], path: str, version: int) -> TablePlace:
    return TablePlace(_tables(root, options), path, version)


@lru_cache(maxsize=4)
def _tables(root: str, options: tuple[tuple[str, str], ...]) -> Tables:
    return Tables(root, storage_options=dict(options))
