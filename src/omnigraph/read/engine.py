"""DuckDB in process: one database for the process, one connection per thread, bounded memory, spilling to disk."""

from __future__ import annotations

import os
import tempfile
import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from omnigraph.errors import ResourceExhausted, UsageError

if TYPE_CHECKING:
    import pyarrow as pa

MEMORY_SHARE = 0.5
"""The part of the machine's memory that queries may hold before they spill."""

_lock = threading.Lock()
_local = threading.local()
_database: Any = None


def _memory_bytes() -> int:
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def _open() -> Any:
    import duckdb

    global _database
    with _lock:
        if _database is None:
            folder = os.path.join(tempfile.gettempdir(), f"omnigraph-spill-{os.getpid()}")
            config = {
                "memory_limit": f"{int(_memory_bytes() * MEMORY_SHARE) // 2**20}MiB",
                "temp_directory": folder,
                "preserve_insertion_order": "false",
                "python_enable_replacements": "false",
                "autoinstall_known_extensions": "false",
            }
            _database = duckdb.connect(":memory:", config=config)
        return _database.cursor()


def connection() -> Any:
    """This thread's connection. Relations registered on it are seen by this thread only."""
    if getattr(_local, "connection", None) is None:
        _local.connection = _open()
    return _local.connection


def run(sql: str, arguments: Mapping[str, object], relations: Mapping[str, Any]) -> pa.Table:
    """Run one query over Arrow relations."""
    import duckdb

    engine = connection()
    registered: list[str] = []
    try:
        for name, relation in relations.items():
            engine.register(name, relation)
            registered.append(name)
        found = engine.sql(sql, params=dict(arguments)) if arguments else engine.sql(sql)
        return found.to_arrow_table()
    except duckdb.OutOfMemoryException as error:
        raise ResourceExhausted("the query does not fit in this process", hint='run it with engine="spark"') from error
    except (duckdb.OutOfRangeException, duckdb.ConversionException) as error:
        raise UsageError(f"a value is out of range: {str(error).splitlines()[0]}") from error
    finally:
        for name in registered:
            engine.unregister(name)
