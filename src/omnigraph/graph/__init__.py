"""The public interface: init, open, and everything one can do with a graph."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.graph.arguments import Distance
    from omnigraph.graph.branches import Branch, GraphBranches, GraphTags, Tag
    from omnigraph.graph.graph import Graph, GraphSchema, clone
    from omnigraph.graph.importing import Imported, import_data, infer_schema
    from omnigraph.graph.maintenance import GraphMaintenance, GraphRecovery, PreparedWrite
    from omnigraph.graph.opening import init, open, record_spark_start
    from omnigraph.graph.reading import GraphSnapshot, TypeState
    from omnigraph.graph.texts import lint, lint_schema
    from omnigraph.graph.transactions import Transaction
    from omnigraph.tasks.engines import Lost

_EXPORTS = {
    "omnigraph.graph.branches": (
        "Branch",
        "GraphBranches",
        "GraphTags",
        "Tag",
    ),
    "omnigraph.graph.texts": (
        "lint",
        "lint_schema",
    ),
    "omnigraph.graph.graph": (
        "clone",
        "Graph",
        "GraphSchema",
    ),
    "omnigraph.graph.arguments": ("Distance",),
    "omnigraph.graph.importing": (
        "Imported",
        "import_data",
        "infer_schema",
    ),
    "omnigraph.graph.opening": (
        "init",
        "open",
        "record_spark_start",
    ),
    "omnigraph.graph.maintenance": (
        "GraphMaintenance",
        "GraphRecovery",
        "PreparedWrite",
    ),
    "omnigraph.graph.reading": (
        "GraphSnapshot",
        "TypeState",
    ),
    "omnigraph.graph.transactions": ("Transaction",),
    "omnigraph.tasks.engines": ("Lost",),
}

__all__ = [
    "Branch",
    "Distance",
    "Graph",
    "GraphBranches",
    "GraphMaintenance",
    "GraphRecovery",
    "GraphSchema",
    "GraphSnapshot",
    "GraphTags",
    "Imported",
    "Lost",
    "PreparedWrite",
    "Tag",
    "Transaction",
    "TypeState",
    "clone",
    "import_data",
    "infer_schema",
    "init",
    "lint",
    "lint_schema",
    "open",
    "record_spark_start",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
