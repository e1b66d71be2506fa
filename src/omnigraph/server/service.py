"""State that all requests of a process share."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from starlette.types import ASGIApp

from omnigraph.errors import TooManyRequests
from omnigraph.server.jobs import Jobs
from omnigraph.server.logs import RequestLog
from omnigraph.server.metrics import Metrics
from omnigraph.server.pools import Pools
from omnigraph.server.registry import Served, ServedSource
from omnigraph.server.replays import Replays
from omnigraph.server.settings import Limits, ServerSettings
from omnigraph.server.tickets import Tickets
from omnigraph.server.tracing import Traces
from omnigraph.server.watches import Watches


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
        """End streams at their next event, answer waiting polls, and cancel jobs."""
        self.is_draining = True
        self.watches.stop()
        self.jobs.cancel()

    def close(self) -> None:
        self.watches.stop()
        self.jobs.close()
        self.pools.close()
