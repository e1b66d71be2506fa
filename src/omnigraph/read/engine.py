"""DuckDB in process: one database for the process, a connection for each query at a time, bounded memory, spilling to disk."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.errors import ArithmeticOverflow, ResourceExhausted
from omnigraph.relational.connections import ConnectionPool

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY_SHARE = 0.5
"""The part of the machine's memory that queries may hold before they spill."""

_databases: dict[int, Any] = {}
"""By process: a forked child opens its own, and leaves its parent's alone."""


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _open() -> Any:
    import duckdb

    process = os.getpid()
    if process not in _databases:
        config = {
            "memory_limit": f"{int(_memory_bytes() * MEMORY_SHARE) // 2**20}MiB",
            "temp_directory": os.path.join(tempfile.gettempdir(), f"omnigraph-spill-{process}"),
            "preserve_insertion_order": "false",
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
        }
        _databases.setdefault(process, duckdb.connect(":memory:", config=config))
    return _databases[process].cursor()


_connections = ConnectionPool(_open)


def run(sql: str, arguments: Mapping[str, object], relations: Mapping[str, Any]) -> pa.Table:
    """Run one query over Arrow relations."""
    import duckdb

    try:
        with _connections.borrow() as engine:
            return _run(engine, sql, arguments, relations)
    except duckdb.OutOfMemoryException as error:
        raise ResourceExhausted("the query does not fit in this process", hint='run it with engine="spark"') from error
    except (duckdb.OutOfRangeException, duckdb.ConversionException) as error:
        raise ArithmeticOverflow from error


def _run(engine: Any, sql: str, arguments: Mapping[str, object], relations: Mapping[str, Any]) -> pa.Table:
    registered: list[str] = []
    try:
        for name, relation in relations.items():
            engine.register(name, relation)
            registered.append(name)
        found = engine.sql(sql, params=dict(arguments)) if arguments else engine.sql(sql)
        return found.to_arrow_table()
    finally:
        for name in registered:
            engine.unregister(name)
