"""A relay between an agent on standard input and output and the tools of a graph of a server. The server decides what its caller
sees: messages are passed on unchanged.
"""

from __future__ import annotations

from typing import Any

import anyio
import httpx2
import mcp.types as protocol
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from mcp.server import Server
from mcp.server.stdio import stdio_server

from omnigraph.mcp.serving import ToolServer
from omnigraph.version import VERSION

# The protocol over standard input and output, for agents that start their tools as programs.


def serve_stdio(desk: ToolServer) -> None:
    """Answer until standard input ends."""
    anyio.run(_serve, desk)


async def _serve(desk: ToolServer) -> None:
    server = desk.server()
    async with stdio_server() as (received, sent):
        await server.run(received, sent, server.create_initialization_options())


TIMEOUT_S = 300.0


def relay_stdio(url: str, token: str | None) -> None:
    """Pass messages on to the server at a URL, and its answers back, until standard input ends."""
    anyio.run(_relay, url, token)


async def _relay(url: str, token: str | None) -> None:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=TIMEOUT_S) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
        stdio_server() as (received, sent),
    ):
        server = _server(client)
        await server.run(received, sent, server.create_initialization_options())


def _server(client: Client) -> Server[Any]:
    async def list_tools(_context: Any, _params: Any) -> protocol.ListToolsResult:
        return await client.list_tools()

    async def call_tool(_context: Any, params: protocol.CallToolRequestParams) -> protocol.CallToolResult:
        return await client.call_tool(params.name, params.arguments)

    async def list_resources(_context: Any, _params: Any) -> protocol.ListResourcesResult:
        return await client.list_resources()

    async def read_resource(_context: Any, params: protocol.ReadResourceRequestParams) -> protocol.ReadResourceResult:
        return await client.read_resource(str(params.uri))

    async def list_prompts(_context: Any, _params: Any) -> protocol.ListPromptsResult:
        return await client.list_prompts()

    async def get_prompt(_context: Any, params: protocol.GetPromptRequestParams) -> protocol.GetPromptResult:
        return await client.get_prompt(params.name, params.arguments)

    return Server(
        "omnigraph",
        version=VERSION,
        instructions=client.instructions,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
        on_list_resources=list_resources,
        on_read_resource=read_resource,
        on_list_prompts=list_prompts,
        on_get_prompt=get_prompt,
    )
