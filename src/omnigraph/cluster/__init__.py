"""Clusters: a folder declares the graphs, schemas, stored queries and policies that there should be; a ledger records those that
were applied."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.cluster.applying import Applying, apply, approve, import_state, refresh, status
    from omnigraph.cluster.config import ClusterConfig, read_config
    from omnigraph.cluster.ledger import Ledger, LedgerStore
    from omnigraph.cluster.planning import Operation, Plan, plan
    from omnigraph.cluster.policies import (
        Applied,
        AppliedGraph,
        books_of,
        broken_queries,
        cluster_policies,
        read_applied,
        root_of,
        stored_queries,
    )

_EXPORTS = {
    "omnigraph.cluster.policies": (
        "Applied",
        "AppliedGraph",
        "books_of",
        "read_applied",
        "root_of",
        "broken_queries",
        "cluster_policies",
        "stored_queries",
    ),
    "omnigraph.cluster.applying": (
        "Applying",
        "apply",
        "approve",
        "import_state",
        "refresh",
        "status",
    ),
    "omnigraph.cluster.config": (
        "ClusterConfig",
        "read_config",
    ),
    "omnigraph.cluster.ledger": (
        "Ledger",
        "LedgerStore",
    ),
    "omnigraph.cluster.planning": (
        "Operation",
        "Plan",
        "plan",
    ),
}

__all__ = [
    "Applied",
    "AppliedGraph",
    "Applying",
    "ClusterConfig",
    "Ledger",
    "LedgerStore",
    "Operation",
    "Plan",
    "apply",
    "approve",
    "books_of",
    "broken_queries",
    "cluster_policies",
    "import_state",
    "plan",
    "read_applied",
    "read_config",
    "refresh",
    "root_of",
    "status",
    "stored_queries",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
