"""Threads in which the engine works, a bounded number for each kind of work."""

from __future__ import annotations

import asyncio
import contextvars
import os
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from omnigraph.server.route import Pool

T = TypeVar("T")

WRITE_THREADS = 16
BULK_THREADS = 2


class Pools:
    """`observe` is told how many seconds each piece of work waited for a thread."""

    def __init__(self, observe: Callable[[str, float], None] = lambda _pool, _seconds: None) -> None:
        sizes = {"read": min(32, 4 * (os.cpu_count() or 1)), "write": WRITE_THREADS, "bulk": BULK_THREADS}
        self._observe = observe
        self._pools = {name: ThreadPoolExecutor(size, f"omnigraph-{name}") for name, size in sizes.items()}

    async def run(self, pool: Pool, work: Callable[[], T]) -> T:
        """The result of the work, done in a thread of the pool; `none` is done here and now."""
        if pool == "none":
            return work()
        context = contextvars.copy_context()
        started = partial(self._started, pool, time.perf_counter(), partial(context.run, work))
        return await asyncio.get_running_loop().run_in_executor(self._pools[pool], started)

    def _started(self, pool: str, queued_at: float, work: Callable[[], T]) -> T:
        self._observe(pool, time.perf_counter() - queued_at)
        return work()

    def close(self) -> None:
        """Take nothing new. What runs goes on: the process does not wait for it."""
        for pool in self._pools.values():
            pool.shutdown(wait=False, cancel_futures=True)
