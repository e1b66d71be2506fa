"""What a server needs to be told before it may start: who may ask."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from pathlib import Path

from omnigraph.errors import UsageError
from omnigraph.runtime import DEFAULT_MEMORY, size_in_bytes
from omnigraph.server.registry import ServedSource
from omnigraph.server.sources import NamedGraphs, graph_id_of
from omnigraph.server.tokens import tokens_of


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
        from omnigraph.server.cluster_graphs import ClusterGraphs

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
