"""Clusters: a folder declares the graphs, schemas, stored queries and policies that there should be; a ledger records those that
were applied."""

from omnigraph.cluster.applied import Applied, AppliedGraph, books_of, read_applied, root_of
from omnigraph.cluster.applying import Applying, apply
from omnigraph.cluster.approving import approve
from omnigraph.cluster.config import ClusterConfig, read_config
from omnigraph.cluster.ledger import Ledger, LedgerStore
from omnigraph.cluster.observing import import_state, refresh, status
from omnigraph.cluster.planning import Operation, Plan, plan
from omnigraph.cluster.policies import broken_queries, cluster_policies, stored_queries

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
