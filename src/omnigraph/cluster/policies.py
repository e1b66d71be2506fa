"""The policies of a cluster and its stored queries, from its folder or as they were applied."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.cluster.applied import read_applied
from omnigraph.cluster.config import CLUSTER_SCOPE, ClusterConfig, read_config
from omnigraph.errors import GraphNotFound, NotFound, UsageError
from omnigraph.graph import open as open_graph
from omnigraph.graph.stored_queries import StoredQuery
from omnigraph.policy import Policy, policy_of


def cluster_policies(place: str, graph: str | None = None) -> dict[str, Policy]:
    """The policies by name: of a folder as they are now, or of an address of storage as they were applied.

    With a graph, only those of the graph and of the cluster.
    """
    bound = _of_storage(place) if "://" in place else _of_folder(read_config(place))
    scopes = {scope for _, scope in bound}
    if graph is not None and graph not in scopes:
        raise NotFound(f"no policy applies to graph '{graph}'", hint="'applies_to' in the cluster file binds one")
    policies: dict[str, Policy] = {}
    for (name, scope), files in bound.items():
        if graph is None or scope in (graph, CLUSTER_SCOPE):
            policies.setdefault(name, policy_of(files, None if scope == CLUSTER_SCOPE else scope))
    if not policies:
        raise NotFound("the cluster has no policies", hint="'policies' in the cluster file names them")
    return policies


def _of_folder(config: ClusterConfig) -> dict[tuple[str, str], Mapping[str, str]]:
    return {(policy.name, scope): policy.files for policy in config.policies.values() for scope in policy.applies_to}


def _of_storage(root: str) -> dict[tuple[str, str], Mapping[str, str]]:
    applied = read_applied(root)
    policies = {
        (str(graph.policy_name), graph.id): graph.policy
        for graph in applied.graphs.values()
        if graph.policy is not None
    }
    if applied.policy is not None:
        policies[str(applied.policy_name), CLUSTER_SCOPE] = applied.policy
    return policies


def stored_queries(config: ClusterConfig, graph: str | None = None) -> dict[str, dict[str, StoredQuery]]:
    """The stored queries of the graphs of a folder, or of one of them."""
    if graph is not None and graph not in config.graphs:
        raise UsageError(f"the cluster has no graph '{graph}'", hint=f"its graphs: {', '.join(config.graphs)}")
    return {id: dict(declared.queries) for id, declared in config.graphs.items() if graph in (None, id)}


def broken_queries(config: ClusterConfig, graph: str | None = None) -> tuple[list[dict[str, str]], list[str]]:
    """The stored queries that do not fit the current schema of their graph, and warnings for graphs that do not exist yet."""
    broken: list[dict[str, str]] = []
    warnings: list[str] = []
    for id, queries in stored_queries(config, graph).items():
        try:
            live = open_graph(config.graphs[id].uri)
        except GraphNotFound:
            warnings.append(f"graph '{id}' does not exist yet: its queries fit the schema of the folder")
            continue
        for query in queries.values():
            (linted,) = [report for report in live.lint(query.text).queries if report.name == query.name]
            if linted.error is not None:
                broken.append({"graph": id, "query": query.name, "message": linted.error.message})
    return broken, warnings
