"""Running SQL trees on DuckDB in process, over Arrow relations bound by name."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from omnigraph.relational.expressions import to_sql

if TYPE_CHECKING:
    import pyarrow as pa

_local = threading.local()


def connection() -> Any:
    """This thread's own in-memory database; it holds no rows between calls."""
    found = getattr(_local, "connection", None)
    if found is None:
        found = _local.connection = _connect()
    return found


def run(tree: exp.Expr, relations: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over the given relations."""
    return _run(connection(), to_sql(tree, "duckdb"), relations)


def run_text(text: str, relations: Mapping[str, pa.Table]) -> pa.Table:
    """The same for a query whose text is kept, over relations of a few rows: on one core, which answers sooner."""
    found = getattr(_local, "narrow", None)
    if found is None:
        found = _local.narrow = _connect()
        found.execute("SET threads = 1")
    return _run(found, text, relations)


def _connect() -> Any:
    import duckdb

    made = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
    made.execute("SET TimeZone = 'UTC'")
    return made


def _run(database: Any, text: str, relations: Mapping[str, pa.Table]) -> pa.Table:
    for name, table in relations.items():
        database.register(name, table)
    try:
        return database.sql(text).to_arrow_table()
    finally:
        for name in relations:
            database.unregister(name)
