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
        import duckdb

        found = _local.connection = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
        found.execute("SET TimeZone = 'UTC'")
    return found


def run(tree: exp.Expr, relations: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over the given relations."""
    database = connection()
    for name, table in relations.items():
        database.register(name, table)
    try:
        return database.sql(to_sql(tree, "duckdb")).to_arrow_table()
    finally:
        for name in relations:
            database.unregister(name)
