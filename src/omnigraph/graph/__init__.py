"""The front door: init, open, and everything one can do with a graph."""

from omnigraph.graph.branches import Branch, GraphBranches
from omnigraph.graph.graph import FileFormat, Graph, LoadMode, init, open
from omnigraph.graph.recovery import GraphRecovery, PreparedWrite
from omnigraph.graph.snapshots import GraphSnapshot, TypeState
from omnigraph.graph.tags import GraphTags, Tag
from omnigraph.graph.texts import read_source
from omnigraph.graph.transactions import Transaction

__all__ = [
    "Branch",
    "FileFormat",
    "Graph",
    "GraphBranches",
    "GraphRecovery",
    "GraphSnapshot",
    "GraphTags",
    "LoadMode",
    "PreparedWrite",
    "Tag",
    "Transaction",
    "TypeState",
    "init",
    "open",
    "read_source",
]
