"""Tickets: links that work once, within a minute, for one path, with the rights of the actor who requested them.

A browser cannot put a token on a link.
"""

from __future__ import annotations

import secrets
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import parse_qsl, urlsplit

from omnigraph.errors import TooManyRequests, Unauthorized, UsageError
from omnigraph.server.auth import Actor

TICKET_SECONDS = 60
MAX_TICKETS = 10_000
PARAMETER = "ticket"


@dataclass(frozen=True)
class _Ticket:
    actor: Actor | None
    target: tuple[object, ...]
    expires: float


class Tickets:
    """Used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._tickets: OrderedDict[str, _Ticket] = OrderedDict()

    def issue(self, actor: Actor | None, target: str) -> str:
        """A ticket for a path with its query string."""
        self._forget_old()
        if len(self._tickets) >= MAX_TICKETS:
            raise TooManyRequests("too many tickets wait to be used", hint="try again in a minute")
        ticket = secrets.token_urlsafe(32)
        self._tickets[ticket] = _Ticket(actor, _target(target), self._clock() + TICKET_SECONDS)
        return ticket

    def redeem(self, ticket: str, target: str) -> Actor | None:
        """Redeem a ticket: returns its actor, once. Raises Unauthorized if it is unknown, expired or for another path."""
        self._forget_old()
        held = self._tickets.get(ticket)
        if held is None or held.target != _target(target):
            raise Unauthorized("the ticket is not valid here", hint="ask for another one")
        del self._tickets[ticket]
        return held.actor

    def _forget_old(self) -> None:
        now = self._clock()
        while self._tickets and next(iter(self._tickets.values())).expires <= now:
            self._tickets.popitem(last=False)


def check_target(path: str, graph_id: str) -> str:
    """Raises UsageError unless it is just a path below the graph."""
    try:
        parts = urlsplit(path)
    except ValueError:
        raise UsageError("a ticket is for a path below its graph") from None
    if parts.scheme or parts.netloc or parts.fragment or not parts.path.startswith(f"/graphs/{graph_id}/"):
        raise UsageError("a ticket is for a path below its graph", hint=f"/graphs/{graph_id}/blob?type=...")
    return path


def _target(path: str) -> tuple[object, ...]:
    parts = urlsplit(path)
    query = [pair for pair in parse_qsl(parts.query, keep_blank_values=True) if pair[0] != PARAMETER]
    return (parts.path, tuple(sorted(query)))
