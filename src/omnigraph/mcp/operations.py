"""What a tool calls: an operation of the server, and the backend that carries it out.

Tools know operations only. The server carries them out itself, `omnigraph mcp --store` with a server in its own process,
`omnigraph mcp --server` over the network; so a tool answers, refuses and fails exactly as its route does.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

Schema = Mapping[str, Any]
"""A JSON schema."""


@dataclass(frozen=True)
class ToolOperation:
    """A route as tools see it. `members` are the schemas of its arguments, by name, wherever they are in the request."""

    id: str
    method: str
    path: str
    action: str | None
    """The action that a policy must allow; None if everybody may do it."""
    in_path: tuple[str, ...] = ()
    in_query: tuple[str, ...] = ()
    in_body: tuple[str, ...] = ()
    members: Mapping[str, Schema] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    takes_key: bool = False
    """Whether it accepts an Idempotency-Key."""
    answer: Schema | None = None
    """The self-contained schema of its JSON answer."""


@dataclass(frozen=True)
class OperationResult:
    """The answer to an operation."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return json.loads(self.data)


class Backend(Protocol):
    """Carries out operations on behalf of one caller, on one graph."""

    async def call(
        self, operation: ToolOperation, arguments: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> OperationResult: ...

    async def may(self, action: str) -> bool:
        """Whether the caller may do this on any branch."""

    async def stored_queries(self) -> list[Mapping[str, Any]]:
        """The stored queries that the caller may run, as the server lists them."""
