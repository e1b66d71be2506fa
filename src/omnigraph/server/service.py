"""State that all requests of a process share."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter, OrderedDict
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from starlette.types import ASGIApp

from omnigraph._internal.deadlines import Cancellation
from omnigraph.errors import TooManyRequests, WriteKeyReused
from omnigraph.server.auth import Tickets
from omnigraph.server.calls import HandlerResult
from omnigraph.server.jobs import Jobs
from omnigraph.server.logs import RequestLog
from omnigraph.server.maintaining import Maintenance
from omnigraph.server.pools import Pools
from omnigraph.server.registry import Served, ServedSource
from omnigraph.server.settings import Limits, ServerSettings
from omnigraph.server.telemetry import Metrics, Traces

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph


# Answers to writes that have an idempotency key and no commit of their own, remembered in this process for a day.
#
# What makes a commit under its key needs no memory: the commit is found in the branch, by any process.

KEPT_SECONDS = 24 * 3600
MAX_KEPT = 10_000


@dataclass(frozen=True)
class _Kept:
    digest: str
    answer: asyncio.Future[HandlerResult]
    at: float


class Replays:
    """Used on the event loop only."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[str, _Kept] = OrderedDict()

    async def once(
        self, identity: str, digest: str, work: Callable[[], Awaitable[HandlerResult]]
    ) -> tuple[HandlerResult, bool]:
        """The answer of the work, and whether it is one from before. One that failed may be tried again."""
        known = self._kept.get(identity)
        if known is not None and self._clock() - known.at < KEPT_SECONDS:
            if known.digest != digest:
                raise WriteKeyReused(None)
            return await asyncio.shield(known.answer), True
        kept = _Kept(digest, asyncio.get_running_loop().create_future(), self._clock())
        self._kept[identity] = kept
        while len(self._kept) > MAX_KEPT:
            self._kept.popitem(last=False)
        try:
            answer = await work()
        except BaseException as error:
            self._kept.pop(identity, None)
            kept.answer.set_exception(error)
            kept.answer.exception()  # somebody has looked at it
            raise
        kept.answer.set_result(answer)
        return answer, False


# Waiting for heads of branches to move: one thread for all readers that have seen the same head.

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


class Admission:
    """The reads and writes of each actor in flight. Used on the event loop only."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._reads: Counter[str] = Counter()
        self._writes: Counter[str] = Counter()
        self._bytes: Counter[str] = Counter()

    @contextmanager
    def reading(self, actor: str) -> Iterator[None]:
        """A slot for one read. Raises TooManyRequests if none is free."""
        if self._reads[actor] >= self._limits.actor_reads:
            raise TooManyRequests(
                f"{self._limits.actor_reads} reads of this actor are in flight", hint="wait for one of them to end"
            )
        self._reads[actor] += 1
        try:
            yield
        finally:
            self._reads[actor] -= 1
            if not self._reads[actor]:
                del self._reads[actor]

    @contextmanager
    def admitted(self, actor: str, size: int) -> Iterator[None]:
        """A slot for one write of this many bytes. Raises TooManyRequests if none is free."""
        if self._writes[actor] >= self._limits.actor_writes:
            raise TooManyRequests(
                f"{self._limits.actor_writes} writes of this actor are in flight", hint="wait for one of them to end"
            )
        if self._bytes[actor] + size > self._limits.actor_bytes:
            raise TooManyRequests(
                f"the writes of this actor in flight would have more than {self._limits.actor_bytes} bytes",
                hint="wait for one of them to end",
            )
        self._writes[actor] += 1
        self._bytes[actor] += size
        try:
            yield
        finally:
            self._writes[actor] -= 1
            self._bytes[actor] -= size
            if not self._writes[actor]:
                del self._writes[actor], self._bytes[actor]


class Service:
    def __init__(
        self, source: ServedSource, served: Served, settings: ServerSettings, tracer: Traces | None, log: RequestLog
    ) -> None:
        self.settings = settings
        self.tracer = tracer
        self.metrics = Metrics()
        self.pools = Pools(self.metrics.waited)
        self.admission = Admission(settings.limits)
        self.replays = Replays()
        self.watches = Watches()
        self.tickets = Tickets()
        self.jobs = Jobs(log)
        self.maintenance = None if settings.maintenance is None else Maintenance(self, settings.maintenance, log)
        self.is_draining = False
        self.application: ASGIApp | None = None
        """The whole server, for routes that call other routes."""
        self.served = served
        self.metrics.serving(served)
        self._source = source
        self._reloading = threading.Lock()

    def reload(self) -> Served:
        """Reload everything and swap it in. If that fails, the current state stays in service, and the error says why."""
        with self._reloading:
            self.served = self._source.load()
            self.metrics.serving(self.served)
            return self.served

    def drain(self) -> None:
        """End streams at their next event, answer waiting polls, cancel jobs, and begin no more maintenance."""
        self.is_draining = True
        if self.maintenance is not None:
            self.maintenance.stop()
        self.watches.stop()
        self.jobs.cancel()

    def close(self) -> None:
        self.watches.stop()
        self.jobs.close()
        self.pools.close()
