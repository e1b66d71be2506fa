"""The graphs of a cluster: those of the newest revision that was applied, with its queries and policies."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial

from omnigraph.cluster import AppliedGraph, read_applied, root_of
from omnigraph.embedding import EmbeddingSettings
from omnigraph.errors import UsageError
from omnigraph.policy import Gate, policy_of
from omnigraph.runtime import DEFAULT_MEMORY, Runtime
from omnigraph.server.registry import Allowing, Served, ServedGraph
from omnigraph.server.settings import ServerSettings
from omnigraph.server.sources import OnlyReads, opened, serve_graph
from omnigraph.server.tokens import tokens_of


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


def _served(graph: AppliedGraph, *, without_policy: Gate | None, runtime: Runtime, allows_adhoc: bool) -> ServedGraph:
    gate = without_policy if graph.policy is None else policy_of(graph.policy, graph.id)
    embedding = None if graph.embedding is None else EmbeddingSettings.of_provider(graph.embedding)
    served = serve_graph(
        graph.id, graph.uri, gate, graph.queries, runtime=runtime, is_in_cluster=True, embedding=embedding
    )
    return replace(served, allows_adhoc=allows_adhoc)
