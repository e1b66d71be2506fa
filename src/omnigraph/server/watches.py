"""Waiting for heads of branches to move: one thread for all readers that have seen the same head."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

from omnigraph.deadlines import Cancellation

if TYPE_CHECKING:
    from omnigraph.graph import Graph

WATCH_THREADS = 32
WATCH_SECONDS = 20.0
"""A wait that nobody waits for any more ends then."""


class Watches:
    """Asked on the event loop only."""

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(WATCH_THREADS, "omnigraph-watch")
        self._waits: dict[tuple[str, str, str], asyncio.Future[Any]] = {}
        self._stop = Cancellation()

    def moved(self, graph: Graph, branch: str, since: str) -> asyncio.Future[Any]:
        """Done when the branch's head is another commit, or after some seconds: whoever waits looks again. It never raises."""
        key = (graph.uri, branch, since)
        wait = self._waits.get(key)
        if wait is None or wait.done() or wait.get_loop() is not asyncio.get_running_loop():
            work = partial(graph.wait_for_change, branch, since=since, timeout=WATCH_SECONDS, cancel=self._stop)
            wait = asyncio.get_running_loop().run_in_executor(self._pool, work)
            wait.add_done_callback(partial(self._ended, key))
            self._waits[key] = wait
        return wait

    def _ended(self, key: tuple[str, str, str], wait: asyncio.Future[Any]) -> None:
        if not wait.cancelled():
            wait.exception()  # Why it ended, the next look tells.
        if self._waits.get(key) is wait:
            del self._waits[key]

    def stop(self) -> None:
        """End every wait, and those that begin."""
        self._stop.cancel()
        self._pool.shutdown(wait=False, cancel_futures=True)
