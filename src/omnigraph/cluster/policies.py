"""The policies of a cluster and its stored queries, from its folder or as they were applied."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.cluster.config import CLUSTER_SCOPE, ClusterConfig, read_config, read_root
from omnigraph.cluster.ledger import Ledger, LedgerStore, Record
from omnigraph.errors import ConfigurationError, GraphNotFound, NotFound, Problem, UsageError
from omnigraph.graph.opening import open as open_graph
from omnigraph.graph.stored_queries import StoredQuery
from omnigraph.policy.bundle import Policy, policy_of
from omnigraph.storage.options import open_store

# The applied revision of a cluster, with its texts: what a server serves.


@dataclass(frozen=True)
class AppliedGraph:
    """A graph with its stored queries by file, and the files of its policy, if it has one."""

    id: str
    uri: str
    queries: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, str] | None = None
    policy_name: str | None = None
    embedding: Mapping[str, str] | None = None
    """The settings of its embedding provider, as the cluster file declares them."""


@dataclass(frozen=True)
class Applied:
    """One revision of a cluster."""

    graphs: Mapping[str, AppliedGraph]
    policy: Mapping[str, str] | None
    """The files of the policy of the cluster itself."""
    policy_name: str | None
    server: Mapping[str, Any]
    digest: str
    revision: int
    token: str


def root_of(place: str) -> str:
    """Where a cluster's ledger is: `place` is the address of the storage, or a folder whose cluster file names it."""
    return place if "://" in place else read_root(place)


def books_of(place: str) -> LedgerStore:
    """The ledger of a cluster."""
    return LedgerStore(open_store(root_of(place)))


def read_applied(root: str) -> Applied:
    """The newest revision. ConfigurationError if nothing was applied, or a text is missing or damaged."""
    held = LedgerStore(open_store(root))
    ledger = held.read()
    if not ledger.is_there:
        raise ConfigurationError(
            [Problem("cluster_state_missing", f"nothing was applied to the cluster at {root}")],
            hint="'omnigraph cluster apply DIR' first",
        )
    graphs = {
        address.partition(".")[2]: record
        for address, record in ledger.resources.items()
        if address.startswith("graph.")
    }
    if not graphs:
        raise ConfigurationError([Problem("cluster_empty", "the cluster has no graphs")])
    policies = _policies(ledger)
    texts = {scope: _texts(held, record) for scope, (_, record) in policies.items()}
    names = {scope: name for scope, (name, _) in policies.items()}
    return Applied(
        {
            id: AppliedGraph(
                id, record["uri"], _queries(held, ledger, id), texts.get(id), names.get(id), _embedding(ledger, record)
            )
            for id, record in graphs.items()
        },
        texts.get(CLUSTER_SCOPE),
        names.get(CLUSTER_SCOPE),
        ledger.server,
        ledger.config_digest,
        ledger.revision,
        ledger.token,
    )


def _embedding(ledger: Ledger, graph: Record) -> Mapping[str, str] | None:
    name = graph.get("settings", {}).get("embedding_provider")
    provider = ledger.resources.get(f"provider.embedding.{name}")
    return None if provider is None else provider["settings"]


def _policies(ledger: Ledger) -> dict[str, tuple[str, Record]]:
    """The name and the record of each policy, by what it applies to."""
    return {
        scope: (address.partition(".")[2], record)
        for address, record in ledger.resources.items()
        if address.startswith("policy.")
        for scope in record["applies_to"]
    }


def _texts(books: LedgerStore, record: Record) -> dict[str, str]:
    return {file: books.payload(digest) for file, digest in record["files"].items()}


def _queries(books: LedgerStore, ledger: Ledger, id: str) -> dict[str, str]:
    files = {
        record["file"]: record["digest"]
        for address, record in ledger.resources.items()
        if address.startswith(f"query.{id}.")
    }
    return {file: books.payload(digest) for file, digest in sorted(files.items())}


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
