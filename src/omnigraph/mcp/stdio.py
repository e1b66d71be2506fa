"""The protocol over standard input and output, for agents that start their tools as programs."""

from __future__ import annotations

import anyio
from mcp.server.stdio import stdio_server

from omnigraph.mcp.serving import Desk


def serve_stdio(desk: Desk) -> None:
    """Answer until standard input ends."""
    anyio.run(_serve, desk)


async def _serve(desk: Desk) -> None:
    server = desk.server()
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())
