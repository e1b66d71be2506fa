"""Which function carries out which operation of the table."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from omnigraph.server.calls import HandlerResult, RouteCall

Handler = Callable[[RouteCall], HandlerResult | Awaitable[HandlerResult]]
"""An ordinary function runs in the pool of its route; a coroutine function on the event loop, and must not wait for storage."""

HANDLERS: dict[str, Handler] = {}

H = TypeVar("H", bound=Handler)


def handles(*operation_ids: str) -> Callable[[H], H]:
    """Bind a function to operations of the table."""

    def bind(handler: H) -> H:
        for operation_id in operation_ids:
            if operation_id in HANDLERS:
                raise ValueError(f"two handlers for {operation_id}")
            HANDLERS[operation_id] = handler
        return handler

    return bind
