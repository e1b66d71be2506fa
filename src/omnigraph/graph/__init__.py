"""The public interface: init, open, and everything one can do with a graph."""

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
