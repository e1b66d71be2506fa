"""Queries: the first strategy that accepts a typed read answers it, on node numbers or as one SQL tree in DuckDB."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.indexing.indexes import IndexState, index_specs, index_state
    from omnigraph.read.entities import Blob, blob, entity
    from omnigraph.read.entity_history import EntityVersion, blame_of, history_of
    from omnigraph.read.execution import matched_rows, run_read
    from omnigraph.read.explaining import Explanation, InputColumns, explain
    from omnigraph.read.result import Result, Rows, Timing
    from omnigraph.read.sql.compiler import compile_read
    from omnigraph.read.sql.shapes import HopInput, NodeInput, RelationalQuery
    from omnigraph.read.sql_query import SqlColumn, SqlResult, open_duckdb, run_sql
    from omnigraph.read.steps import Step
    from omnigraph.read.strategies.strategy import InputChoice, Mode

_EXPORTS = {
    "omnigraph.indexing.indexes": (
        "IndexState",
        "index_specs",
        "index_state",
    ),
    "omnigraph.read.entity_history": (
        "blame_of",
        "EntityVersion",
        "history_of",
    ),
    "omnigraph.read.entities": (
        "Blob",
        "blob",
        "entity",
    ),
    "omnigraph.read.execution": (
        "matched_rows",
        "run_read",
    ),
    "omnigraph.read.explaining": (
        "Explanation",
        "InputColumns",
        "explain",
    ),
    "omnigraph.read.result": (
        "Result",
        "Rows",
        "Timing",
    ),
    "omnigraph.read.sql.compiler": ("compile_read",),
    "omnigraph.read.sql.shapes": (
        "HopInput",
        "NodeInput",
        "RelationalQuery",
    ),
    "omnigraph.read.sql_query": (
        "SqlColumn",
        "SqlResult",
        "open_duckdb",
        "run_sql",
    ),
    "omnigraph.read.steps": ("Step",),
    "omnigraph.read.strategies.strategy": (
        "InputChoice",
        "Mode",
    ),
}

__all__ = [
    "Blob",
    "EntityVersion",
    "Explanation",
    "HopInput",
    "IndexState",
    "InputChoice",
    "InputColumns",
    "Mode",
    "NodeInput",
    "RelationalQuery",
    "Result",
    "Rows",
    "SqlColumn",
    "SqlResult",
    "Step",
    "Timing",
    "blame_of",
    "blob",
    "compile_read",
    "entity",
    "explain",
    "history_of",
    "index_specs",
    "index_state",
    "matched_rows",
    "open_duckdb",
    "run_read",
    "run_sql",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
"""Imported on first use: a short read needs few of the modules, and no engine."""
