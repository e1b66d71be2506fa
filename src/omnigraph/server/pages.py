"""Pages of what does not shift: a token pins the commits that the first page was made of, and what was asked."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import LimitExceeded, UsageError

if TYPE_CHECKING:
    from omnigraph.server.calls import RouteCall

_DIGEST_CHARACTERS = 16


@dataclass(frozen=True)
class PagePosition:
    """Where a page begins: so many items in, of what these commits hold."""

    commits: tuple[str, ...]
    offset: int

    def token(self, call: RouteCall, items: int) -> str:
        """Of the page after one with so many items."""
        value = [list(self.commits), self.offset + items, _request_text(call)]
        return base64.urlsafe_b64encode(json.dumps(value, separators=(",", ":")).encode()).decode().rstrip("=")


def place_of(call: RouteCall) -> PagePosition | None:
    """What the request's page token says; None without one. UsageError for one of another graph, route or question."""
    token = call.query.get("page_token")
    if token is None:
        return None
    try:
        commits, offset, request = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
        place = PagePosition(tuple(map(str, commits)), int(offset))
    except (binascii.Error, ValueError, TypeError, OverflowError, RecursionError):
        raise _rejected("it is none") from None
    if request != _request_text(call) or not 0 <= place.offset < 2**53:
        raise _rejected("it is of another request")
    return place


def _rejected(why: str) -> UsageError:
    return UsageError(f"page token rejected: {why}", hint="repeat the request that gave it, and change nothing else")


def _request_text(call: RouteCall) -> str:
    """What a page is of: the graph, the route and every other parameter."""
    rest = {name: value for name, value in call.query.items() if name not in ("page_token", "limit")}
    request = json.dumps([call.route.operation_id, dict(call.path), rest], sort_keys=True, default=list)
    return hashlib.sha256(request.encode()).hexdigest()[:_DIGEST_CHARACTERS]


def limit_of(call: RouteCall, default: int, most: int) -> int:
    """How many items a page may have."""
    limit: int = call.query.get("limit", default)
    if limit < 1:
        raise UsageError("'limit' must be at least 1")
    if limit > most:
        raise LimitExceeded(f"a page has at most {most} items", resource="page_items", limit=most, actual=limit)
    return limit


def pinned(call: RouteCall, revisions: Sequence[str]) -> PagePosition:
    """Where the page begins: as the token says, or at the first item of what these revisions are now."""
    place = place_of(call)
    if place is not None and len(place.commits) == len(revisions):
        return place
    if place is not None:
        raise _rejected("it is of another request")
    at = call.query.get("at")
    return PagePosition(tuple(call.graph.show(revision, as_of=at).id for revision in revisions), 0)
