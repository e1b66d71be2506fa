"""Running SQL trees on DuckDB in process, over Arrow relations bound by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from sqlglot import exp

from omnigraph.relational.connections import ConnectionPool
from omnigraph.relational.sql import to_sql

if TYPE_CHECKING:
    import pyarrow as pa


def run(tree: exp.Expr, relations: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over the given relations."""
    with _wide.borrow() as database:
        return _run(database, to_sql(tree, "duckdb"), relations)


def run_text(text: str, relations: Mapping[str, pa.Table], *, one_core: bool = True) -> pa.Table:
    """The same for a query whose text is kept. Over a few rows one core answers sooner than several."""
    with (_narrow if one_core else _wide).borrow() as database:
        return _run(database, text, relations)


def _connect() -> Any:
    import duckdb

    made = duckdb.connect(":memory:", config={"python_enable_replacements": "false"})
    made.execute("SET TimeZone = 'UTC'")
    return made


def _connect_narrow() -> Any:
    made = _connect()
    made.execute("SET threads = 1")
    return made


_wide, _narrow = ConnectionPool(_connect), ConnectionPool(_connect_narrow)


def _run(database: Any, text: str, relations: Mapping[str, pa.Table]) -> pa.Table:
    for name, table in relations.items():
        database.register(name, table)
    try:
        return database.sql(text).to_arrow_table()
    finally:
        for name in relations:
            database.unregister(name)
