"""The Model Context Protocol: the tools of a graph, and those of the server, as their caller may use them."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import httpx
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.types import Message

from omnigraph.api.reads import QueryJson
from omnigraph.errors import PolicyDenied
from omnigraph.mcp.serving import ToolServer
from omnigraph.mcp.tools import HttpBackend, ToolOperation
from omnigraph.policy.ask import ACTIONS, AccessRequest, Action, ask_on, is_allowed
from omnigraph.server.calls import MAIN, HandlerResult, RouteCall
from omnigraph.server.operations import operations
from omnigraph.server.route import JSON

_FOREIGN_BRANCH = "\u2042"
"""A name that no branch has: what is allowed on branches that nothing protects."""
_PASSED_ON = ("authorization", "host", "x-request-id", "traceparent")


@lru_cache(1)
def _operations() -> Mapping[str, ToolOperation]:
    return operations()


async def exchange(call: RouteCall) -> HandlerResult:
    """One exchange. Every tool is carried out by its own route, with the caller's token: it answers as the route does."""
    headers = {name: value for name in _PASSED_ON if (value := call.request.headers.get(name)) is not None}
    assert call.service.application is not None, "a request has come through it"
    transport = httpx.ASGITransport(app=call.service.application, raise_app_exceptions=False)
    async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None) as client:
        graph = None if call.target is None else call.target.id
        backend = _InProcess(client, _operations(), graph, {**headers, "x-request-id": call.request_id}, call)
        desk = ToolServer(
            backend,
            _operations(),
            scopes=frozenset({"server"} if graph is None else {"graph"}),
            allows_text=call.target is None or call.target.allows_adhoc,
        )
        if graph is not None and not await desk.tools():
            raise PolicyDenied(f"no tool of graph '{graph}' is for this actor", action="read", branch=MAIN)
        return await _exchanged(desk, call)


@dataclass(frozen=True)
class _InProcess(HttpBackend):
    """Asks the policies themselves what the caller may."""

    request: RouteCall

    async def may(self, action: str, query: str | None = None) -> bool:
        call, named = self.request, _action(action)
        if ACTIONS[named] == "server":
            return is_allowed(call.served.server_gate, call.actor_id, AccessRequest(named))
        gate = None if call.target is None else call.target.gate
        if gate is None:
            return True
        is_of_branch = ACTIONS[named] in ("branch", "target_branch")
        asks = [ask_on(named, branch, query) for branch in (await self._branches() if is_of_branch else [None])]
        return any(is_allowed(gate, call.actor_id, ask) for ask in asks)

    async def _branches(self) -> list[str]:
        """Main, the other branches if the caller may know them, and one that nothing is said about."""
        graph = self.request.graph
        try:
            names = await self.request.run("read", lambda: [branch.name for branch in graph.branches.list()])
        except PolicyDenied:
            names = []
        return [MAIN, *names, _FOREIGN_BRANCH]

    async def stored_queries(self) -> list[Mapping[str, Any]]:
        call = self.request
        shown: list[Mapping[str, Any]] = []
        for name, stored in call.of_graph.queries.items():
            gate = call.of_graph.gate
            may_invoke = gate is None or is_allowed(gate, call.actor_id, AccessRequest("invoke_query", query=name))
            if may_invoke and await self.may("change" if stored.is_mutation else "read", name):
                shown.append(QueryJson.to_json(stored.plan))
        return shown


def _action(text: str) -> Action:
    return next(action for action in ACTIONS if action == text)


async def _exchanged(desk: ToolServer, call: RouteCall) -> HandlerResult:
    """The protocol's own answer to one message: status, headers and JSON."""
    status = 500
    headers: dict[str, str] = {}
    pieces: list[bytes] = []
    is_body_read = False
    data = json.dumps(call.body).encode()

    async def receive() -> Message:
        nonlocal is_body_read
        if is_body_read:
            return await call.request.receive()
        is_body_read = True
        return {"type": "http.request", "body": data, "more_body": False}

    async def send(message: Message) -> None:
        nonlocal status, headers
        if message["type"] == "http.response.start":
            status = message["status"]
            headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in message["headers"]}
        elif message["type"] == "http.response.body":
            pieces.append(message.get("body", b""))

    manager = StreamableHTTPSessionManager(desk.server(), json_response=True, stateless=True)
    async with manager.run():
        await manager.handle_request(call.request.scope, receive, send)
    kept = {name: value for name, value in headers.items() if name.lower().startswith("mcp-")}
    return HandlerResult(b"".join(pieces), status, headers.get("content-type", JSON), kept)
