"""Thread pools for the engine, with a bounded number of threads for each kind of work.

Python runs one thread at a time. Short reads in several threads spend more time on switching than on reading, so they run one after
another; a task that turns out to be long makes room for the next one.

Owners who want more than there is share it equally. Threads: each has at most its part of them, one of five owners one of eight;
a lone reader has half, so that endless reads leave the other half to whoever comes. Places: the owner whose tasks had them for the
shortest time goes first, so it does not matter how many requests an owner sends.
"""

from __future__ import annotations

import asyncio
import contextvars
import math
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from queue import SimpleQueue
from typing import Any, TypeVar

from omnigraph.server.route import Pool

T = TypeVar("T")

READ_THREADS = min(32, 4 * (os.cpu_count() or 1))
WRITE_THREADS = 16
BULK_THREADS = 2
SHORT_READS = 1
"""So many reads run at once as long as they are short: `bench_server.py` counts 2,000 a second over 32 connections, and 1,000 with
eight at once."""
LOOK_S = 0.005
"""While work waits for a thread, the loop looks at this interval: it delivers answers together, because each delivery interrupts the
thread that works, and what it sees at work twice takes long."""

MAX_AHEAD_S = 0.1
"""An owner whose tasks had places for so much longer than those of another, or longer still, is behind it for so long and no longer."""

_Outcome = tuple[Any, BaseException | None]


class Pools:
    """`observe` is called with the seconds that each task waited for a thread."""

    def __init__(
        self,
        observe: Callable[[str, float], None] = lambda _pool, _seconds: None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._observe = observe
        self._clock = clock
        self._pools = {
            "read": _Threads("omnigraph-read", READ_THREADS, SHORT_READS, READ_THREADS // 2, clock),
            "write": _Threads("omnigraph-write", WRITE_THREADS, WRITE_THREADS, WRITE_THREADS, clock),
            "bulk": _Threads("omnigraph-bulk", BULK_THREADS, BULK_THREADS, BULK_THREADS, clock),
        }

    async def run(self, pool: Pool, work: Callable[[], T], owner: str = "") -> T:
        """Run work in a thread of the pool and return its result; `none` runs it directly. `owner`: whose work it is."""
        if pool == "none":
            return work()
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[T] = loop.create_future()
        started = partial(self._started, pool, self._clock(), contextvars.copy_context(), work)
        self._pools[pool].add(_Task(started, loop, answer, owner))
        try:
            return await answer
        finally:
            del answer  # an error holds this frame, which must not hold the error

    def _started(self, pool: str, queued_at: float, context: contextvars.Context, work: Callable[[], T]) -> T:
        self._observe(pool, self._clock() - queued_at)
        return context.run(work)

    def close(self) -> None:
        """Accept no new tasks. Running tasks continue; the process does not wait for them."""
        for pool in self._pools.values():
            pool.end()


@dataclass(eq=False)
class _Task:
    work: Callable[[], Any]
    loop: asyncio.AbstractEventLoop
    answer: asyncio.Future[Any]
    owner: str
    was_seen: bool = False
    """At work, by a look before."""
    is_long: bool = False
    """Its place was given to another task."""
    begun_at: float = 0.0

    def settle(self, outcome: _Outcome) -> None:
        """Runs on the loop. A cancelled task has no waiter any more."""
        result, error = outcome
        if self.answer.cancelled():
            return
        if error is None:
            self.answer.set_result(result)
        else:
            self.answer.set_exception(error)


class _Threads:
    """At most `size` threads, which do at most `places` tasks at once, long ones not counted, and at most `share` of one owner. They
    end with this object, or when it is told to."""

    def __init__(self, name: str, size: int, places: int, share: int, clock: Callable[[], float]) -> None:
        self._name = name
        self._tasks = _Tasks(name, size, places, share, clock)
        self._looking: asyncio.AbstractEventLoop | None = None
        """The loop that will look."""
        self.end = weakref.finalize(self, self._tasks.close)

    def add(self, task: _Task) -> None:
        """On the loop."""
        if not self.end.alive:
            raise RuntimeError(f"{self._name} takes no more work")
        self._tasks.add(task)
        if self._tasks.has_waiting and self._looking is not task.loop:
            self._looking = task.loop
            task.loop.call_later(LOOK_S, self._look, task.loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        """While tasks wait, deliver results and find tasks that take long."""
        self._tasks.make_room()
        has_waiting = self._tasks.has_waiting
        self._tasks.deliver()  # last: a task that ended while another waited counts on this look
        if has_waiting:
            loop.call_later(LOOK_S, self._look, loop)
        elif self._looking is loop:
            self._looking = None


class _Tasks:
    """The tasks of a pool, and the threads that do them. A thread does tasks as long as it has a place, and then waits to be woken."""

    def __init__(self, name: str, size: int, places: int, share: int, clock: Callable[[], float]) -> None:
        self._name = name
        self._share = share
        self._clock = clock
        self._lock = threading.Lock()
        self._waiting: dict[str, deque[_Task]] = {}
        """By owner; those of one in the order in which they came."""
        self._running: set[_Task] = set()
        self._running_of: Counter[str] = Counter()
        self._turns: dict[str, float] = {}
        """When an owner is next: the seconds for which its tasks had places, counted from the turn of whoever was next when it came."""
        self._done: deque[tuple[_Task, _Outcome]] = deque()
        self._free_places = places
        self._idle_threads = 0
        self._coming_threads = 0
        """They are started or woken, and have not taken their task yet."""
        self._size = size
        self._started_threads = 0
        self._wakes: SimpleQueue[bool] = SimpleQueue()

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def add(self, task: _Task) -> None:
        with self._lock:
            if task.owner not in self._waiting and not self._running_of[task.owner]:
                self._come(task.owner)
            self._waiting.setdefault(task.owner, deque()).append(task)
            self._fill()

    def _come(self, owner: str) -> None:
        """An owner without work has some: it is owed nothing for the time before, and owes what it has used more than the others.
        The lock is held."""
        at_work = self._with_work
        first = min((self._turns[name] for name in at_work), default=math.inf)
        self._turns = {name: turn for name, turn in self._turns.items() if turn > first or name in at_work}
        self._turns.setdefault(owner, first if at_work else 0.0)

    @property
    def _with_work(self) -> set[str]:
        return self._waiting.keys() | self._running_of.keys()

    def make_room(self) -> None:
        """Long tasks give up their slots, so that they keep no others waiting. Elapsed time alone is not enough: a thread may have waited for the loop itself."""
        with self._lock:
            for task in self._running:
                if task.was_seen and not task.is_long:
                    self._charge(task)
                    task.is_long = True
                    self._free_places += 1
                task.was_seen = True
            self._fill()

    def _charge(self, task: _Task) -> None:
        """The task gives up its place. The lock is held."""
        first = min(self._turns[name] for name in self._with_work)
        taken = self._clock() - task.begun_at
        self._turns[task.owner] = min(self._turns[task.owner] + taken, first + MAX_AHEAD_S)

    def _fill(self) -> None:
        """Provide a thread for each free slot and waiting task. The lock is held."""
        for _ in range(min(self._ready() - self._coming_threads, self._free_places)):
            if self._idle_threads:
                self._idle_threads -= 1
                self._wakes.put(True)
            elif self._started_threads < self._size:
                self._started_threads += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
            else:
                return
            self._free_places -= 1
            self._coming_threads += 1

    def _ready(self) -> int:
        """How many waiting tasks may run now: no more of one owner than its part. The lock is held."""
        part = self._part()
        return sum(max(min(len(tasks), part - self._running_of[name]), 0) for name, tasks in self._waiting.items())

    def _part(self) -> int:
        """Of the threads, for each owner with work. The lock is held."""
        return max(min(self._share, self._size // max(len(self._with_work), 1)), 1)

    def _work(self) -> None:
        """The main loop of a thread, which is started and woken with a slot."""
        is_open = True
        while is_open:
            with self._lock:
                self._coming_threads -= 1
                task = self._next(has_place=True)
            while task is not None:
                task = self._do(task)
            is_open = self._wakes.get()

    def _next(self, *, has_place: bool) -> _Task | None:
        """The thread's next task; without one it waits. The lock is held."""
        part = self._part()
        owners = [owner for owner in self._waiting if self._running_of[owner] < part]
        if has_place and owners:
            owner = min(owners, key=self._turns.__getitem__)
            task = self._waiting[owner].popleft()
            if not self._waiting[owner]:
                del self._waiting[owner]
            task.begun_at = self._clock()
            self._running.add(task)
            self._running_of[owner] += 1
            return task
        self._free_places += has_place
        self._idle_threads += 1
        return None

    def _do(self, task: _Task) -> _Task | None:
        """The next task. It is taken before this one's end is told: who then asks for more finds the thread where it is."""
        outcome = _outcome(task.work)
        with self._lock:
            if not task.is_long:
                self._charge(task)
            self._running.discard(task)
            self._running_of[task.owner] -= 1
            if not self._running_of[task.owner]:
                del self._running_of[task.owner]
            self._done.append((task, outcome))
            is_awaited = task.is_long or not self._ready()  # otherwise it is delivered with others, at the next look
            has_place = not task.is_long or self._free_places > 0
            if task.is_long and has_place:
                self._free_places -= 1
            following = self._next(has_place=has_place)
        if is_awaited:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits
                task.loop.call_soon_threadsafe(self.deliver)
        del task, outcome  # as in `run`
        return following

    def deliver(self) -> None:
        """Runs on a loop: deliver the results of tasks to their waiters."""
        loop = asyncio.get_running_loop()
        while self._done:
            task, outcome = self._done.popleft()
            if task.loop is loop:
                task.settle(outcome)
            else:
                with suppress(RuntimeError):
                    task.loop.call_soon_threadsafe(task.settle, outcome)

    def close(self) -> None:
        """Drop tasks that have not started; threads end when they are idle."""
        with self._lock:
            self._waiting.clear()
            for _ in range(self._started_threads):
                self._wakes.put(False)


def _outcome(work: Callable[[], Any]) -> _Outcome:
    """The result, or the error, which is raised where the task is awaited."""
    try:
        return work(), None
    except BaseException as error:
        return None, error
