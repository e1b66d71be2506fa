"""Routes of the Model Context Protocol: the third part of the table."""

from __future__ import annotations

from omnigraph.server.route import NOTHING, Body, Response, Route, of_graph

_ANSWERS = {
    200: Response("McpMessage", "The answer to a request."),
    202: Response(None, "A notification was taken.", NOTHING),
    **{
        status: Response("McpRefusal", text)
        for status, text in (
            (400, "The message is wrong, or of a version that is not spoken here."),
            (404, "There is no such graph, or no such method."),
            (406, "The client does not take JSON."),
        )
    },
}
_MESSAGE = Body("McpMessage")

MCP: tuple[Route, ...] = (
    Route("POST", of_graph("/mcp"), "cluster_mcp", "The tools of a graph, for agents.", "read",
          _ANSWERS, body=_MESSAGE, takes_large_body=True, tag="ours"),
    Route("POST", "/mcp", "mcp", "The tools of the server, for agents.", "graph_list",
          _ANSWERS, body=_MESSAGE, tag="ours"),
)  # fmt: skip
