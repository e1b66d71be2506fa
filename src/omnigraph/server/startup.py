"""What a server needs to be told before it may start: who may ask."""

from __future__ import annotations

import hashlib
import re
import secrets
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from omnigraph._internal.runtime import DEFAULT_MEMORY, Runtime, size_in_bytes
from omnigraph.cluster.policies import AppliedGraph, read_applied, root_of
from omnigraph.embedding.settings import EmbeddingSettings
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.graph.graph import Graph
from omnigraph.graph.opening import open as open_graph
from omnigraph.graph.stored_queries import compile_stored, read_query_files
from omnigraph.policy.ask import ACTIONS, Action, Authorizer
from omnigraph.policy.bundle import policy_of
from omnigraph.server.auth import StaticTokens, TokenEntry, tokens_of
from omnigraph.server.registry import Allowing, Served, ServedGraph, ServedSource, check_graph_id
from omnigraph.server.settings import ServerSettings

# Opens the graphs that are named on the command line.

OPENED_AT_ONCE = 4
LOCAL_ACTOR = "local"
"""Whoever has the token that was printed at the start."""

OnlyReads = Allowing(frozenset({"read"}))
"""What a graph without a policy allows to those who have a token."""


@dataclass(frozen=True)
class NamedGraphs:
    """Graphs by address. Listing them is allowed; tokens come from the environment."""

    uris: Sequence[str]
    environment: Mapping[str, str] = field(repr=False)
    queries: Path | None = None
    start_token: str | None = field(default=None, repr=False)
    """Printed at the start: its holder may do everything. None without one."""
    requires_all: bool = False
    memory: str | int = DEFAULT_MEMORY
    """What all graphs together may hold in memory to answer faster."""

    def load(self) -> Served:
        ids = [graph_id_of(uri) for uri in self.uris]
        for graph_id in ids:
            if ids.count(graph_id) > 1:
                raise UsageError(f"two graphs would be called '{graph_id}'", hint="serve them from a cluster file")
        tokens = tokens_of(self.environment)
        gate = OnlyReads if tokens is not None else None
        server_actions: frozenset[Action] = frozenset({"graph_list"})
        if tokens is None and self.start_token is not None:
            tokens = StaticTokens([TokenEntry(LOCAL_ACTOR, hashlib.sha256(self.start_token.encode()).digest())])
            server_actions = frozenset(action for action, scope in ACTIONS.items() if scope == "server")
        sources = {} if self.queries is None else read_query_files(self.queries)
        named, runtime = zip(ids, self.uris, strict=True), Runtime(self.memory)
        makers = {
            graph_id: partial(serve_graph, graph_id, uri, gate, sources, runtime=runtime) for graph_id, uri in named
        }
        graphs, set_aside = opened(makers, requires_all=self.requires_all)
        digest = hashlib.sha256("\0".join([*self.uris, *sources, *sources.values()]).encode()).hexdigest()
        return Served(
            graphs, () if tokens is None else (tokens,), Allowing(server_actions), set_aside, digest, 0, digest[:16]
        )


def graph_id_of(uri: str) -> str:
    """The folder's name, with hyphens for characters that a path segment cannot have."""
    name = uri.rstrip("/").rpartition("/")[2].removesuffix(".omni")
    name = Path(uri).resolve().name if name in ("", ".", "..") else name
    return check_graph_id(re.sub(r"[^a-zA-Z0-9-]+", "-", name).strip("-")[:64])


def opened(
    makers: Mapping[str, Callable[[], ServedGraph]], *, requires_all: bool
) -> tuple[dict[str, ServedGraph], dict[str, str]]:
    """The graphs that can be served, and why the others cannot. Raises UsageError if none can, or if all must and one cannot."""
    graphs: dict[str, ServedGraph] = {}
    set_aside: dict[str, str] = {}
    with ThreadPoolExecutor(OPENED_AT_ONCE) as pool:
        pending = {graph_id: pool.submit(make) for graph_id, make in makers.items()}
    for graph_id, future in pending.items():
        try:
            graphs[graph_id] = future.result()
        except OmnigraphError as error:
            set_aside[graph_id] = error.message
    if set_aside and (requires_all or not graphs):
        reasons = "; ".join(f"graph '{graph_id}': {reason}" for graph_id, reason in set_aside.items())
        raise UsageError(f"cannot serve {reasons}")
    return graphs, set_aside


def serve_graph(
    graph_id: str,
    uri: str,
    gate: Authorizer | None,
    sources: Mapping[str, str],
    *,
    runtime: Runtime,
    is_in_cluster: bool = False,
    embedding: EmbeddingSettings | None = None,
) -> ServedGraph:
    """A graph with its queries checked against its schema. `embedding`: how its texts are embedded, where
    not as the environment says."""
    graph = open_graph(uri, runtime=runtime)
    queries = compile_stored(sources, graph.schema.catalog)
    guarded = graph if gate is None else open_graph(uri, runtime=runtime, policy=gate)
    guarded._repository.embedding = embedding
    return ServedGraph(graph_id, guarded, gate, queries, is_in_cluster, warm=partial(_warm, graph))


def _warm(graph: Graph) -> None:
    """Load what the first query would otherwise wait for."""
    for name in list(graph.schema.catalog.nodes)[:1]:
        graph.query(f"query warm() {{ match {{ $x: {name} }} return {{ $x.id as id }} limit 1 }}")


# The graphs of a cluster: those of the newest revision that was applied, with its queries and policies.


@dataclass(frozen=True)
class ClusterGraphs:
    """A cluster by its folder, or by the address of its storage."""

    place: str
    environment: Mapping[str, str] = field(repr=False)
    requires_all: bool = False
    memory: str | int = DEFAULT_MEMORY
    """What all graphs together may hold in memory to answer faster."""

    def load(self) -> Served:
        """What was applied last. UsageError when there are policies and nobody could have a name."""
        applied = read_applied(root_of(self.place))
        tokens = tokens_of(self.environment)
        has_policy = applied.policy is not None or any(graph.policy is not None for graph in applied.graphs.values())
        if tokens is None and has_policy:
            raise UsageError(
                "the cluster has policies, and there are no tokens: nobody could be allowed anything",
                hint="set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE",
            )
        without_policy = None if tokens is None else OnlyReads
        runtime = Runtime(self.memory)
        allows_adhoc = applied.server.get("mcp", {}).get("adhoc", True)
        serve = partial(_served, without_policy=without_policy, runtime=runtime, allows_adhoc=allows_adhoc)
        makers = {id: partial(serve, graph) for id, graph in applied.graphs.items()}
        graphs, set_aside = opened(makers, requires_all=self.requires_all)
        return Served(
            graphs,
            () if tokens is None else (tokens,),
            Allowing() if applied.policy is None else policy_of(applied.policy, None),
            set_aside,
            applied.digest,
            applied.revision,
            applied.token,
            tuple(applied.server.get("load_sources", ())),
            self.place,
        )

    def settings(self, command_line: ServerSettings) -> ServerSettings:
        """What the cluster file says of the server, added to what the command line says."""
        declared = read_applied(root_of(self.place)).server
        return replace(
            command_line,
            cors_origins=command_line.cors_origins | frozenset(declared.get("cors", ())),
            limits=replace(command_line.limits, **declared.get("limits", {})),
        )


def _served(
    graph: AppliedGraph, *, without_policy: Authorizer | None, runtime: Runtime, allows_adhoc: bool
) -> ServedGraph:
    gate = without_policy if graph.policy is None else policy_of(graph.policy, graph.id)
    embedding = None if graph.embedding is None else EmbeddingSettings.of_provider(graph.embedding)
    served = serve_graph(
        graph.id, graph.uri, gate, graph.queries, runtime=runtime, is_in_cluster=True, embedding=embedding
    )
    return replace(served, allows_adhoc=allows_adhoc)


def source_of(
    uris: Sequence[str],
    cluster: str | None,
    environment: Mapping[str, str],
    *,
    queries: Path | None,
    is_loopback: bool,
    is_open: bool,
    requires_all: bool,
    memory: str | int = DEFAULT_MEMORY,
) -> tuple[ServedSource, str | None]:
    """Where the graphs come from, and the token to print at the start, if there is one.

    Without tokens a server starts only when it is told to be open, or when it is for this machine alone: then it makes a token
    of its own.
    """
    if (cluster is None) == (not uris):
        raise UsageError("name the graphs to serve, or a cluster", hint="omnigraph serve ./people, or --cluster DIR")
    has_tokens = tokens_of(environment) is not None
    if has_tokens and is_open:
        raise UsageError("--unauthenticated and tokens exclude each other", hint="leave one of them out")
    if cluster is not None:
        if queries is not None:
            raise UsageError("--queries is for graphs that are named", hint="the cluster file names those of a cluster")
        if not has_tokens and not is_open:
            raise _no_tokens()

        return ClusterGraphs(cluster, environment, requires_all, size_in_bytes(memory)), None
    for uri in uris:
        graph_id_of(uri)
    start_token = None
    if not has_tokens and not is_open:
        if not is_loopback:
            raise _no_tokens()
        start_token = secrets.token_urlsafe(32)
    source = NamedGraphs(tuple(uris), environment, queries, start_token, requires_all, size_in_bytes(memory))
    return source, start_token


def _no_tokens() -> UsageError:
    return UsageError(
        "nobody could be told from anybody else: there are no tokens",
        hint="set OMNIGRAPH_SERVER_BEARER_TOKENS_FILE, or pass --unauthenticated to let everybody in",
    )
