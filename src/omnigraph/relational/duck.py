"""DuckDB in process: every database that this process opens, its share of one memory limit, and running SQL on them.

There are four, because these settings belong to a database and not to a connection: `QUERIES` gives up the order of rows for
speed; `RULES` keeps it; `SMALL` works on one core, which is faster for a few rows; `GIVEN` runs SQL that users write, with access
to nothing but the relations it is given. A user's database file that is loaded is a fifth while it is read. All spill to disk
beyond their share. A forked child opens its own and leaves its parent's alone.
"""

from __future__ import annotations

import os
import tempfile
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.relational.connections import ConnectionPool
from omnigraph.relational.sql import to_sql
from omnigraph.relational.trees import exp

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY_SHARE = 0.5
"""The share of the machine's memory that all databases of a process may use together."""


class Database:
    """One database of the process. Connections are borrowed, one per query at a time."""

    def __init__(self, name: str, share: float, *, is_locked: bool = False, **settings: str) -> None:
        """With `is_locked` it has no access to files, extensions or other databases, and SQL cannot change its settings."""
        self._name = name
        self._share = share
        self._is_locked = is_locked
        self._settings = settings
        self._opened: dict[int, Any] = {}
        self.connections = ConnectionPool(self._connect)

    def open(self) -> Any:
        """Another database with the same settings for the caller's own use; it is empty."""
        import duckdb

        config = {
            "memory_limit": self.memory_limit,
            "temp_directory": os.path.join(tempfile.gettempdir(), f"omnigraph-spill-{os.getpid()}-{self._name}"),
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            **self._settings,
        }
        opened = duckdb.connect(":memory:", config=config)
        opened.execute("SET GLOBAL TimeZone = 'UTC'")
        if self._is_locked:
            opened.execute("SET enable_external_access = false")
            opened.execute("SET lock_configuration = true")
        return opened

    @property
    def memory_limit(self) -> str:
        return f"{int(_machine_bytes() * MEMORY_SHARE * self._share) // 2**20}MiB"

    def _connect(self) -> Any:
        process = os.getpid()
        if process not in self._opened:
            self._opened.setdefault(process, self.open())
        return self._opened[process].cursor()


QUERIES = Database("queries", 0.6, preserve_insertion_order="false")
RULES = Database("rules", 0.2)
SMALL = Database("small", 0.05, threads="1")
GIVEN = Database("given", 0.15, is_locked=True)


def open_file(path: str) -> Any:
    """A user's database file, opened for reading. It may use as much memory as users' SQL."""
    import duckdb

    opened = duckdb.connect(path, read_only=True)
    opened.execute(f"SET memory_limit = '{GIVEN.memory_limit}'")
    opened.execute("SET TimeZone = 'UTC'")
    return opened


def _machine_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def run(tree: exp.Expr, relations: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over the given relations; rows keep their order unless the query changes it."""
    with RULES.connections.borrow() as connection:
        return execute(connection, to_sql(tree, "duckdb"), relations)


def run_text(text: str, relations: Mapping[str, pa.Table], *, one_core: bool = True) -> pa.Table:
    """Like `run`, for a query whose text is cached. For a few rows, one core is faster than several."""
    with (SMALL if one_core else RULES).connections.borrow() as connection:
        return execute(connection, text, relations)


def execute(
    connection: Any,
    text: str,
    relations: Mapping[str, Any],
    arguments: Mapping[str, object] | None = None,
    shaped: Callable[[Any], Any] | None = None,
) -> pa.Table:
    """Run one query on a connection, over Arrow relations bound by name. `shaped` may wrap the result in another query."""
    registered: list[str] = []
    try:
        for name, relation in relations.items():
            connection.register(name, relation)
            registered.append(name)
        result = connection.sql(text, params=dict(arguments)) if arguments else connection.sql(text)
        return (result if shaped is None else shaped(result)).to_arrow_table()
    finally:
        for name in registered:
            connection.unregister(name)
