"""Queries: the first strategy that accepts a typed read answers it, on node numbers or as one SQL tree in DuckDB."""

from typing import TYPE_CHECKING

from omnigraph.lazy_names import names_of

if TYPE_CHECKING:
    from omnigraph.maintenance.indexes import IndexState, index_specs, index_state
    from omnigraph.read.blame import blame_of
    from omnigraph.read.blobs import Blob, blob
    from omnigraph.read.entities import entity
    from omnigraph.read.execution import matched_rows, run_read
    from omnigraph.read.explaining import Explanation, InputColumns, explain
    from omnigraph.read.pictures.picture import Picture, PictureEdge, PictureNode, node_picture, schema_picture
    from omnigraph.read.result import Result, Rows, Timing
    from omnigraph.read.sql.compiler import compile_read
    from omnigraph.read.sql.shapes import HopInput, NodeInput, RelationalQuery
    from omnigraph.read.sql_query import SqlColumn, SqlResult, open_duckdb, run_sql
    from omnigraph.read.steps import Step
    from omnigraph.read.strategies.strategy import InputChoice, Mode
    from omnigraph.read.versions import EntityVersion, history_of

_HOMES = {
    "omnigraph.maintenance.indexes": (
        "IndexState",
        "index_specs",
        "index_state",
    ),
    "omnigraph.read.blame": ("blame_of",),
    "omnigraph.read.blobs": (
        "Blob",
        "blob",
    ),
    "omnigraph.read.entities": ("entity",),
    "omnigraph.read.execution": (
        "matched_rows",
        "run_read",
    ),
    "omnigraph.read.explaining": (
        "Explanation",
        "InputColumns",
        "explain",
    ),
    "omnigraph.read.pictures.picture": (
        "Picture",
        "PictureEdge",
        "PictureNode",
        "node_picture",
        "schema_picture",
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
    "omnigraph.read.versions": (
        "EntityVersion",
        "history_of",
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
    "Picture",
    "PictureEdge",
    "PictureNode",
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
    "node_picture",
    "open_duckdb",
    "run_read",
    "run_sql",
    "schema_picture",
]

__getattr__ = names_of(__name__, _HOMES)
"""Imported on first use: a short read needs few of the modules, and no engine."""
