"""Changes as they come: a poll that waits, and a stream of events."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.api.changes import FeedJson
from omnigraph.api.structs import JsonObject
from omnigraph.errors import HistoryGap, LimitExceeded, OmnigraphError, UsageError
from omnigraph.server.auth import TICKET_SECONDS, check_target
from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.streams import note_lag, page_limit
from omnigraph.server.problems import error_json
from omnigraph.server.route import EVENTS

if TYPE_CHECKING:
    from omnigraph.changes.feed import FeedPage

MAX_WAIT_SECONDS = 60
COMMENT_SECONDS = 15.0
"""So often a stream says something, however quiet the branch is."""


@handles("cluster_pollChanges")
async def poll_changes(call: RouteCall) -> HandlerResult:
    """With `wait`, a reader that is caught up waits for the head to move."""
    query = call.query
    seconds: int = query.get("wait", 0)
    if seconds > MAX_WAIT_SECONDS:
        raise LimitExceeded(
            f"a poll waits at most {MAX_WAIT_SECONDS} seconds",
            resource="wait_seconds",
            limit=MAX_WAIT_SECONDS,
            actual=seconds,
        )
    end = time.monotonic() + seconds
    cursor, start, token = query.get("cursor"), query.get("start"), query.get("page_token")
    while True:
        head, page = await call.run("read", partial(_poll, call, cursor, start, token, page_limit(call)))
        left = end - time.monotonic()
        is_quiet = page.caught_up and not page.blocks
        if not is_quiet or left <= 0 or call.cancellation.is_cancelled or call.service.is_draining:
            return HandlerResult(
                FeedJson.to_json(page), commit=head, rows=sum(len(block.changes) for block in page.blocks)
            )
        cursor, start, token = page.cursor, None, None
        await _moved_or_gone(call, head, left)


async def _moved_or_gone(call: RouteCall, head: str, seconds: float) -> None:
    moved = call.service.watches.moved(call.graph, call.branch, head)
    gone = asyncio.ensure_future(call.gone())
    try:
        await asyncio.wait([moved, gone], timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        gone.cancel()


def _poll(
    call: RouteCall, cursor: str | None, start: str | None, token: str | None, limit: int, max_commits: int = 128
) -> tuple[str, FeedPage]:
    """A page, and the head before it was made: what comes after that head is not missed."""
    query, graph = call.query, call.graph
    head = graph.show(call.existing_branch()).id
    page = graph.changes(
        call.branch,
        cursor,
        start=start,
        page_token=token,
        limit=limit,
        max_commits=max_commits,
        types=query.get("type"),
        kinds=query.get("kind"),
        ops=query.get("op"),
    )
    note_lag(call, page)
    return head, page


@handles("streamChanges")
async def stream_changes(call: RouteCall) -> HandlerResult:
    """The first page is made before the answer begins: what is refused is refused with a status."""
    cursor = call.request.headers.get("last-event-id") or call.query.get("cursor")
    start = None if cursor is not None else call.query.get("start")
    if call.query.get("cursor") is not None and call.query.get("start") is not None:
        raise UsageError("give one of cursor and start")
    reader = _FeedReader(call, cursor, start)
    await reader.read()
    return HandlerResult(reader.events(), media_type=EVENTS, headers={"X-Accel-Buffering": "no"}, commit=reader.head)


class _FeedReader:
    """Goes on commit by commit: each has a cursor of its own."""

    def __init__(self, call: RouteCall, cursor: str | None, start: str | None) -> None:
        self._call = call
        self._cursor, self._start = cursor, start
        self._token: str | None = None
        self.head = ""
        """The branch's when the last page was read."""
        self._page: FeedPage | None = None

    async def read(self) -> None:
        call = self._call
        work = partial(_poll, call, self._cursor if self._token is None else None, self._start, self._token, 1_000, 1)
        self.head, page = await call.service.pools.run("read", work)
        self._page, self._start, self._token = page, None, page.next_page_token
        if page.cursor is not None:
            self._cursor = page.cursor

    async def events(self) -> AsyncIterator[bytes]:
        was_told = False
        while not self._call.service.is_draining:
            page = self._page
            assert page is not None, "a page was read"
            for block in FeedJson.to_json(page)["blocks"]:
                # A page has one commit; while there is more of it, it has no cursor.
                yield event("block", block, page.cursor)
            if page.blocks or not page.caught_up:
                was_told = False
            else:
                if not was_told:
                    yield event("caught_up", {"cursor": page.cursor}, page.cursor)
                    was_told = True
                done, _ = await asyncio.wait(
                    [self._call.service.watches.moved(self._call.graph, self._call.branch, self.head)],
                    timeout=COMMENT_SECONDS,
                )
                if not done:
                    yield b": still here\n\n"
                    continue
            try:
                await self.read()
            except HistoryGap as error:
                yield event("gap", error_json(error), None)
                return
            except OmnigraphError as error:
                yield event("error", error_json(error), None)
                return


def event(name: str, data: JsonObject, id: str | None) -> bytes:
    """One event of a stream; JSON has no line breaks of its own."""
    lines = [f"event: {name}", *([] if id is None else [f"id: {id}"]), f"data: {json.dumps(data, ensure_ascii=False)}"]
    return ("\n".join(lines) + "\n\n").encode("utf-8", "replace")


@handles("createTicket")
async def create_ticket(call: RouteCall) -> HandlerResult:
    """The path itself is asked for when the ticket is used, with the rights that the caller has then."""
    call.ask_graph()
    target = check_target(call.body["path"], call.of_graph.id)
    ticket = call.service.tickets.issue(call.actor, target)
    return HandlerResult({"ticket": ticket, "expires_in": TICKET_SECONDS})
