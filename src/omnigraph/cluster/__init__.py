"""Clusters: a folder declares the graphs, schemas, stored queries and policies that there should be; a ledger records those that
were applied."""

from typing import TYPE_CHECKING

from omnigraph.lazy_names import names_of

if TYPE_CHECKING:
    from omnigraph.cluster.applied import Applied, AppliedGraph, books_of, read_applied, root_of
    from omnigraph.cluster.applying import Applying, apply
    from omnigraph.cluster.approving import approve
    from omnigraph.cluster.config import ClusterConfig, read_config
    from omnigraph.cluster.ledger import Ledger, LedgerStore
    from omnigraph.cluster.observing import import_state, refresh, status
    from omnigraph.cluster.planning import Operation, Plan, plan
    from omnigraph.cluster.policies import broken_queries, cluster_policies, stored_queries

_HOMES = {
    "omnigraph.cluster.applied": ("Applied", "AppliedGraph", "books_of", "read_applied", "root_of"),
    "omnigraph.cluster.applying": ("Applying", "apply"),
    "omnigraph.cluster.approving": ("approve",),
    "omnigraph.cluster.config": ("ClusterConfig", "read_config"),
    "omnigraph.cluster.ledger": ("Ledger", "LedgerStore"),
    "omnigraph.cluster.observing": ("import_state", "refresh", "status"),
    "omnigraph.cluster.planning": ("Operation", "Plan", "plan"),
    "omnigraph.cluster.policies": ("broken_queries", "cluster_policies", "stored_queries"),
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

__getattr__ = names_of(__name__, _HOMES)
