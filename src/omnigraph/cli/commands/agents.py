"""mcp: a graph as tools for agents."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli.options import command
from omnigraph.cli.output import Output
from omnigraph.cli.settings import ServerTarget, Settings
from omnigraph.errors import UsageError


def register(cli: click.Group) -> None:
    @command(cli, "mcp", served=True, writes=True)
    @click.option(
        "--queries", metavar="DIR", help="Stored queries, each as a tool: a folder of .gq files, or one file."
    )
    def mcp(settings: Settings, out: Output, queries: str | None) -> None:
        """Serve a graph to an agent over the Model Context Protocol, on standard input and output, until the input ends.

        On storage the agent may do everything that the user who starts it may; through a server, what the token may.

        \b
        omnigraph mcp --store ./people --queries ./queries --as assistant
        omnigraph mcp --server production --graph people

        \b
        JSON: messages of the protocol
        """
        from omnigraph._internal.lazy_imports import load_extra

        load_extra("mcp", "mcp", extra="server")
        target = settings.target()
        if isinstance(target, ServerTarget):
            _relay(settings, target, queries)
            return
        from omnigraph.mcp.relay import serve_stdio
        from omnigraph.mcp.serving import ToolServer
        from omnigraph.server.in_process import store_backend

        backend = store_backend(target.uri, None if queries is None else Path(queries), settings.actor)
        serve_stdio(ToolServer(backend, backend.operations))


def _relay(settings: Settings, target: ServerTarget, queries: str | None) -> None:
    if queries is not None:
        raise UsageError("--queries is for storage", hint="a server has its own stored queries")
    if settings.as_actor is not None:
        raise UsageError("--as is for storage", hint="a server knows the actor by the token")
    if target.graph is None:
        raise UsageError("no graph of the server was named", hint="pass --graph ID")
    from omnigraph.client.credentials import token_for
    from omnigraph.mcp.relay import relay_stdio

    relay_stdio(f"{target.uri}/mcp", token_for(target.url, settings.config.servers))
