"""Operations carried out by a server: over the network, or in this process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from omnigraph.errors import UsageError
from omnigraph.mcp.operations import OperationResult, ToolOperation

if TYPE_CHECKING:
    import httpx


@dataclass(frozen=True)
class HttpBackend:
    """Calls operations on one graph of a server, on behalf of the caller whom the headers name.

    Permissions are left to subclasses.
    """

    client: httpx.AsyncClient
    operations: Mapping[str, ToolOperation]
    graph: str | None
    headers: Mapping[str, str] = field(repr=False)

    async def call(
        self, operation: ToolOperation, arguments: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> OperationResult:
        response = await self.client.request(
            operation.method,
            self._path(operation, arguments),
            params=[pair for name in operation.in_query for pair in _pairs(name, arguments.get(name))],
            json={name: arguments[name] for name in operation.in_body if name in arguments}
            if operation.in_body
            else None,
            headers={**self.headers, **(headers or {})},
        )
        return OperationResult(response.status_code, dict(response.headers), response.content)

    def _path(self, operation: ToolOperation, arguments: Mapping[str, Any]) -> str:
        path = operation.path.replace("{graph_id}", quote(self.graph or "", safe=""))
        for name in operation.in_path:
            value = arguments.get(name)
            if not isinstance(value, str) or not value or value in (".", ".."):
                raise UsageError(f"'{name}' must be a non-empty name")
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        return path


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    return [(name, _text(item)) for item in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)
