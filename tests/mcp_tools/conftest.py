"""A small graph behind tools, copied for each test."""

from __future__ import annotations

import asyncio
import json
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp_tools.kinds import SCHEMA, write_queries

import omnigraph as og
from omnigraph.mcp.serving import ToolServer
from omnigraph.server.in_process import store_backend


@pytest.fixture(scope="session")
def things_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("things")
    graph = og.init(folder / "things", SCHEMA, durability="process")
    with graph.transaction() as tx:
        for name in ("a", "b", "c"):
            tx.insert("Thing", name=name)
    write_queries(folder / "queries")
    return folder


@pytest.fixture
def folder(tmp_path: Path, things_template: Path) -> Path:
    """A folder with a graph, `things`, and its stored queries."""
    return Path(shutil.copytree(things_template, tmp_path / "work"))


Conversation = Callable[[Callable[[mcp.Client], Awaitable[None]]], None]


@pytest.fixture
def talk(folder: Path) -> Conversation:
    """Run a conversation with the tools of the graph in this process."""

    def run(conversation: Callable[[mcp.Client], Awaitable[None]]) -> None:
        async def connected() -> None:
            backend = store_backend(str(folder / "things"), folder / "queries", "ada")
            async with mcp.Client(ToolServer(backend, backend.operations).server()) as client:
                await conversation(client)

        asyncio.run(connected())

    return run


async def answer(client: mcp.Client, tool: str, /, **arguments: Any) -> Any:
    """What a tool answers; its text is the same JSON."""
    result = await client.call_tool(tool, arguments)
    text = result.content[0].text  # type: ignore[union-attr]
    assert not result.is_error, text
    value = dict(result.structured_content or {})
    value.pop("truncated", None)
    assert json.loads(text) == value
    return result.structured_content


async def failure(client: mcp.Client, tool: str, /, **arguments: Any) -> Any:
    """The error body of a call that fails."""
    result = await client.call_tool(tool, arguments)
    assert result.is_error
    return json.loads(result.content[0].text)  # type: ignore[union-attr]
