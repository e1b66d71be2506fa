"""The Model Context Protocol: tools for agents."""

from __future__ import annotations

from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles


@handles("cluster_mcp", "mcp")
async def serve_mcp(call: RouteCall) -> HandlerResult:
    """The protocol's packages are loaded when somebody speaks it: a server starts without them."""
    from omnigraph.server.mcp_exchange import exchange

    return await exchange(call)
