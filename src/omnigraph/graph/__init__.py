"""The public interface: init, open, and everything one can do with a graph."""

from typing import TYPE_CHECKING

from omnigraph.lazy_names import names_of

if TYPE_CHECKING:
    from omnigraph.graph.branches import Branch, GraphBranches
    from omnigraph.graph.checks import lint, lint_schema
    from omnigraph.graph.copies import clone
    from omnigraph.graph.distances import Distance
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.importing import Imported, import_data, infer_schema
    from omnigraph.graph.opening import init, open
    from omnigraph.graph.recovery import GraphRecovery, PreparedWrite
    from omnigraph.graph.snapshots import GraphSnapshot, TypeState
    from omnigraph.graph.spark_start import record_spark_start
    from omnigraph.graph.tags import GraphTags, Tag
    from omnigraph.graph.transactions import Transaction
    from omnigraph.pipeline.choices import Lost

_HOMES = {
    "omnigraph.graph.branches": ("Branch", "GraphBranches"),
    "omnigraph.graph.checks": ("lint", "lint_schema"),
    "omnigraph.graph.copies": ("clone",),
    "omnigraph.graph.distances": ("Distance",),
    "omnigraph.graph.graph": ("Graph",),
    "omnigraph.graph.importing": ("Imported", "import_data", "infer_schema"),
    "omnigraph.graph.opening": ("init", "open"),
    "omnigraph.graph.recovery": ("GraphRecovery", "PreparedWrite"),
    "omnigraph.graph.snapshots": ("GraphSnapshot", "TypeState"),
    "omnigraph.graph.spark_start": ("record_spark_start",),
    "omnigraph.graph.tags": ("GraphTags", "Tag"),
    "omnigraph.graph.transactions": ("Transaction",),
    "omnigraph.pipeline.choices": ("Lost",),
}

__all__ = [
    "Branch",
    "Distance",
    "Graph",
    "GraphBranches",
    "GraphRecovery",
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

__getattr__ = names_of(__name__, _HOMES)
