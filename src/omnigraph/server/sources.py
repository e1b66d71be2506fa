"""Opens the graphs that are named on the command line."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from omnigraph.embedding import EmbeddingSettings
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.graph import Graph
from omnigraph.graph import open as open_graph
from omnigraph.graph.stored_queries import compile_stored, read_query_files
from omnigraph.policy import ACTIONS, Action, Gate
from omnigraph.runtime import DEFAULT_MEMORY, Runtime
from omnigraph.server.auth import StaticTokens, TokenEntry
from omnigraph.server.registry import Allowing, Served, ServedGraph, check_graph_id
from omnigraph.server.tokens import tokens_of

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
    gate: Gate | None,
    sources: Mapping[str, str],
    *,
    runtime: Runtime,
    is_in_cluster: bool = False,
    embedding: EmbeddingSettings | None = None,
) -> ServedGraph:
    """A graph with its queries checked against its schema. `embedding`: how its texts are embedded, where
    not as the environment says."""
    graph = open_graph(uri, runtime=runtime)
    queries = compile_stored(sources, graph.schema)
    guarded = graph if gate is None else open_graph(uri, runtime=runtime, policy=gate)
    guarded._repository.embedding = embedding
    return ServedGraph(graph_id, guarded, gate, queries, is_in_cluster, warm=partial(_warm, graph))


def _warm(graph: Graph) -> None:
    """Load what the first query would otherwise wait for."""
    for name in list(graph.schema.nodes)[:1]:
        graph.query(f"query warm() {{ match {{ $x: {name} }} return {{ $x.id as id }} limit 1 }}")
