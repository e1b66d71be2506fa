"""A table at a version, as a value that can be sent with a task."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from omnigraph.tables.layout import Layout
from omnigraph.tables.store import Tables
from omnigraph.tables.table import Table
from omnigraph.values.inline_rows import NO_INLINE, Inline


class TablePlace:
    """In this process it uses the tables that are open; in another process they are opened again, once."""

    def __init__(
        self, tables: Tables, path: str, version: int, layout: Layout | None, inline: Inline = NO_INLINE
    ) -> None:
        self.tables = tables
        self.path = path
        self.version = version
        self.layout = layout
        self.inline = inline

    @classmethod
    def of(cls, tables: Tables, table: Table) -> TablePlace:
        return cls(tables, table.path, table.version, table.layout, table.inline)

    def __reduce__(self) -> tuple[Any, ...]:
        options = tuple(sorted(self.tables.options.items()))
        return _reopened, (self.tables.root, options, self.path, self.version, self.layout, self.inline)

    def open(self) -> Table:
        return self.tables.open(self.path, self.version, layout=self.layout, inline=self.inline)


def _reopened(
    root: str, options: tuple[tuple[str, str], ...], path: str, version: int, layout: Layout | None, inline: Inline
) -> TablePlace:
    return TablePlace(tables_at(root, options), path, version, layout, inline)


@lru_cache(maxsize=4)
def tables_at(root: str, options: tuple[tuple[str, str], ...]) -> Tables:
    """The tables at a root, for the tasks of a worker: opened once, however many tasks there are."""
    return Tables(root, storage_options=dict(options))
