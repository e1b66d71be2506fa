"""A server inside this process, for one graph: what `omnigraph mcp --store` runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import httpx

from omnigraph.mcp.tools import HttpBackend
from omnigraph.server.app import Application
from omnigraph.server.auth import Actor
from omnigraph.server.operations import operations
from omnigraph.server.startup import NamedGraphs, graph_id_of

_TOKEN = "local"


@dataclass(frozen=True)
class _Everybody:
    """Whoever asks is this actor."""

    actor: str

    def verify(self, _token: str) -> Actor | None:
        return Actor(self.actor)


@dataclass(frozen=True)
class StoreBackend(HttpBackend):
    """A graph in storage: whoever can read its files may do everything."""

    async def may(self, action: str) -> bool:
        return True

    async def stored_queries(self) -> list[Mapping[str, Any]]:
        listed = (await self.call(self.operations["cluster_list_queries"], {})).json()
        return list(listed["queries"])


def store_backend(uri: str, queries: Path | None, actor: str | None) -> StoreBackend:
    """The graph at an address, with the stored queries of a folder. Everything that cannot be opened is an error here."""
    source = NamedGraphs([uri], {}, queries, requires_all=True)
    served = source.load()
    if actor is not None:
        served = replace(served, verifiers=(_Everybody(actor),))
    transport = httpx.ASGITransport(app=Application(source, served), raise_app_exceptions=False)
    client = httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=None)
    return StoreBackend(client, operations(), graph_id_of(uri), {"Authorization": f"Bearer {_TOKEN}"})
