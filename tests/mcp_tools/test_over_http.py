"""Tools of a server: who sees which, and that nothing else is told."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from io import StringIO
from pathlib import Path
from typing import Any

import httpx2
import mcp
import pytest
from mcp.client.streamable_http import streamable_http_client
from serving import SCHEMA, Fixed, make_people, tokens

from omnigraph.mcp.tools import TOOLS
from omnigraph.policy.ask import AccessRequest, denied
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog
from omnigraph.server.registry import Allowing

ACTORS = {
    "reader": "t-reader",
    "writer": "t-writer",
    "agent": "t-agent",
    "reviewer": "t-reviewer",
    "nobody": "t-nobody",
}
READS = {tool.name for tool in TOOLS if tool.scope == "graph" and tool.hint == "reads"} - {"merge_preview"}
VISIBLE = {
    "reader": READS,
    "writer": READS | {"mutate", "load"},
    "agent": READS | {"everyone"},
    "reviewer": READS | {"branches_create", "branches_merge", "merge_preview"},
}
"""Tool by actor. The reviewer may change branches that nothing protects only."""


class Rules:
    """What each actor may."""

    def check(self, actor: str | None, ask: AccessRequest, /) -> None:
        allowed = {
            "reader": ask.action == "read",
            "writer": ask.action in ("read", "change"),
            "agent": ask.action == "read" or (ask.action == "invoke_query" and ask.query in (None, "everyone")),
            "reviewer": ask.action == "read"
            or (ask.action in ("branch_create", "branch_merge") and ask.target_branch != "main"),
        }
        if not allowed.get(actor or "", False):
            raise denied(actor, ask)


@pytest.fixture(scope="module")
def app(tmp_path_factory: pytest.TempPathFactory) -> Application:
    folder = tmp_path_factory.mktemp("served")
    places = {name: make_people(folder / name) for name in ("people", "others")}
    source = Fixed(places, (tokens(**ACTORS),), Rules(), Allowing(frozenset({"graph_list"})))
    return Application(source, source.load(), log=RequestLog("json", StringIO()))


def http(app: Application, token: str | None) -> httpx2.AsyncClient:
    headers = {} if token is None else {"Authorization": f"Bearer {token}"}
    return httpx2.AsyncClient(transport=httpx2.ASGITransport(app=app), base_url="http://localhost", headers=headers)


def talk(
    app: Application, actor: str, path: str, conversation: Callable[[mcp.Client], Awaitable[Any]], mode: str = "auto"
) -> Any:
    async def connected() -> Any:
        async with http(app, ACTORS[actor]) as client:
            transport = streamable_http_client(f"http://localhost{path}", http_client=client)
            async with mcp.Client(transport, mode=mode) as session:  # type: ignore[arg-type]
                return await conversation(session)

    return asyncio.run(connected())


async def names(client: mcp.Client) -> set[str]:
    return {tool.name for tool in (await client.list_tools()).tools}


@pytest.mark.parametrize("actor", VISIBLE)
def test_an_actor_sees_the_tools_that_the_policy_allows_and_no_other_is_known(app: Application, actor: str) -> None:
    stored = {"everyone", "by_name", "add"}

    async def conversation(client: mcp.Client) -> None:
        assert await names(client) == VISIBLE[actor]
        hidden = ({tool.name for tool in TOOLS} | stored) - VISIBLE[actor]
        for name in [*sorted(hidden), "no_such_tool"]:
            with pytest.raises(mcp.MCPError) as unknown:
                await client.call_tool(name, {})
            assert (unknown.value.code, unknown.value.message, unknown.value.data) == (-32602, "unknown tool", None)

    talk(app, actor, "/graphs/people/mcp", conversation)


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_both_generations_of_the_protocol_are_spoken(app: Application, mode: str) -> None:
    async def conversation(client: mcp.Client) -> None:
        result = await client.call_tool("everyone", {})
        assert [row["name"] for row in result.structured_content["rows"]] == ["Ada", "Bo"]  # type: ignore[index]

    talk(app, "agent", "/graphs/people/mcp", conversation, mode)


def test_what_is_allowed_on_some_branches_is_asked_again_for_the_branch(app: Application) -> None:
    async def conversation(client: mcp.Client) -> None:
        made = await client.call_tool("branches_create", {"name": "mine"})
        assert not made.is_error
        with pytest.raises(mcp.MCPError, match="unknown tool"):
            await client.call_tool("branches_merge", {"source": "mine", "target": "main"})

    talk(app, "reviewer", "/graphs/people/mcp", conversation)


def test_the_actor_of_a_write_is_that_of_the_token(app: Application) -> None:
    async def conversation(client: mcp.Client) -> None:
        add = "query add($name: String) { insert Person { name: $name } }"
        made = await client.call_tool("mutate", {"query": add, "params": {"name": "Cy"}})
        assert made.structured_content["commit"]["actor_id"] == "writer"  # type: ignore[index]

    talk(app, "writer", "/graphs/others/mcp", conversation)


def test_graphs_do_not_list_each_others_tools(tmp_path: Path) -> None:
    async def listed(client: mcp.Client) -> set[str]:
        return await names(client)

    places = {"people": make_people(tmp_path / "people"), "others": make_people(tmp_path / "others")}
    source = Fixed(places, (tokens(**ACTORS),))
    served = source.load()
    hidden = type(served.graphs["others"])("others", served.graphs["others"].graph)
    served = type(served)({**served.graphs, "others": hidden}, served.verifiers, served.server_gate)
    app = Application(source, served, log=RequestLog("json", StringIO()))
    assert {"everyone", "by_name", "add"} <= talk(app, "reader", "/graphs/people/mcp", listed)
    assert talk(app, "reader", "/graphs/others/mcp", listed).isdisjoint({"everyone", "by_name", "add"})
    assert talk(app, "reader", "/mcp", listed) == {"health", "graphs_list"}


def test_an_actor_without_grants_learns_nothing(app: Application) -> None:
    messages = [
        {"method": "initialize", "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {}}},
        {"method": "tools/list"},
        {"method": "resources/list"},
        *({"method": "tools/call", "params": {"name": tool.name, "arguments": {}}} for tool in TOOLS),
        {"method": "resources/read", "params": {"uri": "omnigraph://schema"}},
    ]

    async def exchange() -> list[httpx2.Response]:
        async with http(app, ACTORS["nobody"]) as client:
            return [
                await client.post("/graphs/people/mcp", json={"jsonrpc": "2.0", "id": number, **message})
                for number, message in enumerate(messages)
            ]

    for response in asyncio.run(exchange()):
        assert response.status_code == 403
        assert not [word for word in ("Person", "Ada", "everyone", SCHEMA.split()[1]) if word in response.text]


def test_a_token_comes_before_the_protocol(app: Application) -> None:
    async def exchange() -> list[httpx2.Response]:
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
        async with http(app, None) as client:
            return [
                await client.post("/graphs/people/mcp", json=message),
                await client.post("/mcp", json=message),
                await client.post("/graphs/people/mcp", json=message, headers={"Authorization": "Bearer wrong"}),
                await client.get("/graphs/people/mcp"),
            ]

    *refused, get = asyncio.run(exchange())
    for response in refused:
        assert (response.status_code, response.headers["www-authenticate"]) == (401, 'Bearer realm="omnigraph"')
    assert (get.status_code, get.headers["allow"]) == (405, "POST")


def test_a_tool_and_its_exchange_are_logged_under_one_request_id_without_their_content(tmp_path: Path) -> None:
    log = StringIO()
    source = Fixed({"people": make_people(tmp_path / "people")}, (tokens(**ACTORS),))
    app = Application(source, source.load(), log=RequestLog("json", log))

    async def exchange() -> None:
        call = {"name": "by_name", "arguments": {"name": "Ada"}}
        async with http(app, ACTORS["reader"]) as client:
            headers = {"X-Request-Id": "of-the-client", "Accept": "application/json, text/event-stream"}
            message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
            response = await client.post("/graphs/people/mcp", json=message, headers=headers)
            assert response.json()["result"]["structuredContent"]["rows"] == [{"age": 36}]

    asyncio.run(exchange())
    lines = [json.loads(line) for line in log.getvalue().splitlines()]
    assert {line["request_id"] for line in lines} == {"of-the-client"}
    assert {line["route"] for line in lines} == {"/graphs/{graph_id}/queries/{name}", "/graphs/{graph_id}/mcp"}
    assert not [word for word in ("Ada", ACTORS["reader"], "by_name") if word in log.getvalue()]
