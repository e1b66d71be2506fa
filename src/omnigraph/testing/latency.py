"""A store with a latency, and a limit of concurrent requests."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable

from omnigraph.storage.store import Store
from omnigraph.testing.wrapping import Operation, T, WrappedStore


class LatencyStore(WrappedStore):
    """Delays each request by `seconds` before it is applied; at most `concurrency` run at once."""

    def __init__(
        self,
        inner: Store,
        *,
        seconds: float,
        concurrency: int | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(inner)
        self._seconds = seconds
        self._sleep = sleep
        self._gate: contextlib.AbstractContextManager[object] = (
            contextlib.nullcontext() if concurrency is None else threading.BoundedSemaphore(concurrency)
        )

    def _around(self, operation: Operation, key: str, data: bytes, call: Callable[[], T]) -> T:
        with self._gate:
            self._sleep(self._seconds)
            return call()
