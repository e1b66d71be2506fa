"""Threads in which the engine works, a bounded number for each kind of work."""

from __future__ import annotations

import asyncio
import contextvars
import os
import threading
import time
import weakref
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from omnigraph.server.route import Pool

T = TypeVar("T")

WRITE_THREADS = 16
BULK_THREADS = 2

_Tasks = SimpleQueue[Callable[[], None] | None]
_Outcome = tuple[Any, BaseException | None]


class Pools:
    """`observe` is told how many seconds each piece of work waited for a thread."""

    def __init__(self, observe: Callable[[str, float], None] = lambda _pool, _seconds: None) -> None:
        sizes = {"read": min(32, 4 * (os.cpu_count() or 1)), "write": WRITE_THREADS, "bulk": BULK_THREADS}
        self._observe = observe
        self._pools = {name: _Threads(f"omnigraph-{name}", size) for name, size in sizes.items()}

    async def run(self, pool: Pool, work: Callable[[], T]) -> T:
        """The result of the work, done in a thread of the pool; `none` is done here and now."""
        if pool == "none":
            return work()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        started = partial(self._started, pool, time.perf_counter(), contextvars.copy_context(), work)
        self._pools[pool].add(started, partial(_tell, loop, answer))
        try:
            return await answer
        finally:
            del answer  # an error holds this frame, which must not hold the error

    def _started(self, pool: str, queued_at: float, context: contextvars.Context, work: Callable[[], T]) -> T:
        self._observe(pool, time.perf_counter() - queued_at)
        return context.run(work)

    def close(self) -> None:
        """Take nothing new. What runs goes on: the process does not wait for it."""
        for pool in self._pools.values():
            pool.end()


def _tell(loop: asyncio.AbstractEventLoop, answer: asyncio.Future[Any], outcome: _Outcome) -> None:
    with suppress(RuntimeError):  # the loop has ended, and nobody waits
        loop.call_soon_threadsafe(_settle, answer, *outcome)


def _settle(answer: asyncio.Future[Any], result: object, error: BaseException | None) -> None:
    """Nobody waits for an answer that was cancelled."""
    if answer.cancelled():
        return
    if error is None:
        answer.set_result(result)
    else:
        answer.set_exception(error)


def _outcome(work: Callable[[], Any]) -> _Outcome:
    """The result, or the error, which is raised where the work is awaited."""
    try:
        return work(), None
    except BaseException as error:
        return None, error


class _Threads:
    """At most `size` threads, each started when all others have work. They end with this object, or when it is told to."""

    def __init__(self, name: str, size: int) -> None:
        self._name, self._size = name, size
        self._tasks: _Tasks = SimpleQueue()
        self._lock = threading.Lock()
        self._open_tasks = 0
        self._started = 0
        self.end = weakref.finalize(self, _end, self._tasks, size)

    def add(self, work: Callable[[], Any], tell: Callable[[_Outcome], None]) -> None:
        """Do work in a thread, and tell what came of it."""
        if not self.end.alive:
            raise RuntimeError(f"{self._name} takes no more work")
        with self._lock:
            self._open_tasks += 1
            is_short = self._open_tasks > self._started < self._size
            self._started += is_short
        self._tasks.put(partial(self._do, work, tell))
        if is_short:
            threading.Thread(target=_work, args=(self._tasks,), name=self._name, daemon=True).start()

    def _do(self, work: Callable[[], Any], tell: Callable[[_Outcome], None]) -> None:
        outcome = _outcome(work)
        with self._lock:
            self._open_tasks -= 1  # before it is told: what is asked for next finds this thread
        tell(outcome)
        del outcome, tell  # as in `run`


def _work(tasks: _Tasks) -> None:
    while (task := tasks.get()) is not None:
        task()
        del task  # or the thread would keep the last answer while it waits


def _end(tasks: _Tasks, threads: int) -> None:
    with suppress(Empty):
        while True:
            tasks.get_nowait()
    for _ in range(threads):
        tasks.put(None)
