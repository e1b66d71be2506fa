"""`omnigraph mcp` as an agent starts it: a program that speaks over standard input and output."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Mapping
from io import StringIO
from pathlib import Path

import mcp
import pytest
from client.conftest import serving
from mcp_tools.conftest import answer
from serving import Fixed, make_people, tokens

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog


def program(*arguments: str, environment: Mapping[str, str] | None = None) -> mcp.StdioServerParameters:
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("OMNIGRAPH_")}
    return mcp.StdioServerParameters(
        command=sys.executable,
        args=["-m", "omnigraph.cli.main", "mcp", *arguments],
        env={**inherited, **(environment or {})},
    )


def test_a_graph_in_storage_is_asked_and_changed(folder: Path) -> None:
    async def conversation() -> None:
        server = program("--store", str(folder / "things"), "--queries", str(folder / "queries"), "--as", "assistant")
        async with mcp.Client(server) as client:
            assert {"query", "mutate", "all", "graphs_list"} <= {
                tool.name for tool in (await client.list_tools()).tools
            }
            assert (await answer(client, "add", name="d"))["commit"]["actor_id"] == "assistant"
            assert len((await answer(client, "all"))["rows"]) == 4

    asyncio.run(conversation())
    assert og.open(folder / "things").head().actor == "assistant"


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--store", "nothing"], "nothing"),
        (["--server", "http://127.0.0.1:1", "--graph", "people", "--as", "ada"], "--as is for storage"),
        (["--server", "http://127.0.0.1:1", "--graph", "people", "--queries", "."], "--queries is for storage"),
        (["--server", "http://127.0.0.1:1"], "no graph of the server was named"),
    ],
)
def test_what_cannot_be_served_is_said_before_anything_else(
    arguments: list[str], said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert run(["mcp", *arguments]) != 0
    found = capsys.readouterr()
    assert said in found.err
    assert found.out == ""


def test_a_graph_of_a_server_is_asked_through_it(tmp_path: Path) -> None:
    source = Fixed({"people": make_people(tmp_path / "people")}, (tokens(ada="token-of-ada"),))

    async def conversation(address: str) -> None:
        environment = {"OMNIGRAPH_BEARER_TOKEN": "token-of-ada", "OMNIGRAPH_HOME": str(tmp_path)}
        server = program("--server", address, "--graph", "people", environment=environment)
        async with mcp.Client(server) as client:
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert {"query", "everyone"} <= names
            assert "graphs_list" not in names
            assert (await answer(client, "add", name="Cy"))["commit"]["actor_id"] == "ada"
            with pytest.raises(mcp.MCPError, match="unknown tool"):
                await client.call_tool("no_such_tool", {})
            assert "node Person" in (await client.read_resource("omnigraph://schema")).contents[0].text  # type: ignore[union-attr]

    with serving(Application(source, source.load(), log=RequestLog("json", StringIO()))) as address:
        asyncio.run(conversation(address))
    assert og.open(tmp_path / "people").head().actor == "ada"
