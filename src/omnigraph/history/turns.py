"""Turns among the processes that write to one branch, where the store has locks. Correctness never depends on them.

A process that has lost a race queues before each of its writes for a while. It gets its turn in the order in which it came, and keeps
it for its next writes if they follow at once: whenever a turn is passed on, the next process has to read what the others wrote, which
takes as long as two or three commits.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial

from omnigraph.history.chain import Chain, folder_of
from omnigraph.metering import current_meter
from omnigraph.storage.store import Lock

CONTENDED_S = 1.0
"""For this long after it lost a race, or waited for a turn and got it, a process queues before it tries."""
KEPT_S = 0.04
"""After this long a turn is passed on: of twelve processes that never pause, each waits eleven times as long."""
FIRST_SHARE = 1 / 8
"""Of that time, for the first turn that a process has waited for. Each one after it lasts twice as long, up to KEPT_S: where each process
has few writes to make, all of them are done at about the same time."""
IDLE_S = 0.002
"""A turn is kept without a write for this long, by a process whose writes follow each other as closely."""
LOOK_S = 0.005
"""How often a process that writes without queueing looks whether another has a turn: those that queue lose against it, and it would
be done before they begin."""
STALLED_S = 1.0
"""A process does not queue for longer than this while the branch stands still."""


class Turn:
    """A turn that this process waits for or has. A thread waits for the lock, because that wait cannot be limited, and gives it up
    if the turn is kept in vain."""

    def __init__(self, lock: Lock, share: float = 1.0) -> None:
        """`share`: of KEPT_S."""
        self._lock = lock
        self._share = share
        self._guard = threading.Lock()
        self._answered, self._over = threading.Event(), threading.Event()
        self._is_ours = self._is_used = self._is_watched = self._is_kept = False
        self._began = self._rested = 0.0
        self.has_waited = False
        self.is_new = True
        """Whether others may have written since this process has looked."""

    def take(self, goes_on: Callable[[], bool]) -> bool:
        """Wait until it is our turn. False if nothing can be locked, or as soon as `goes_on`, which is asked now and then, says so."""
        self._is_ours = self._lock.acquire(waits=False)
        if not self._is_ours:
            self.has_waited = True
            self._start(self._acquire)
            try:
                while not self._answered.wait(STALLED_S) and goes_on():
                    pass
            except BaseException:
                self.end()
                raise
        with self._guard:
            self._is_used, self._began = self._is_ours, time.monotonic()
        if not self._is_ours:
            self.end()
        return self._is_used

    def resume(self) -> bool:
        """Whether it is still our turn, for another write."""
        with self._guard:
            self._is_used = not self._over.is_set()
            self.is_new = False
            return self._is_used

    def rest(self, *, is_kept: bool) -> None:
        """After a write: keep the turn for another one, unless it has lasted for long, or pass it on."""
        if not is_kept or time.monotonic() - self._began >= self._share * KEPT_S:
            self.end()
            return
        with self._guard:
            self._is_used, self._rested = False, time.monotonic()
        if not self._is_watched:
            self._start(self._watch)
        if not self._is_kept:
            self._is_kept = True
            # A process that ends may take long to do so, and its threads do not run by then.
            atexit.register(self.end)

    def _start(self, work: Callable[[], None]) -> None:
        self._is_watched = True
        threading.Thread(target=work, name="omnigraph-turn", daemon=True).start()

    def _acquire(self) -> None:
        is_granted = self._lock.acquire(waits=True)
        with self._guard:
            self._is_ours = is_granted and not self._over.is_set()
            if not self._is_ours:
                self._lock.release()
            self._is_used = True
            self._answered.set()
        self._watch()

    def _watch(self) -> None:
        while not self._over.wait(IDLE_S):
            with self._guard:
                if not self._is_used and time.monotonic() - self._rested >= IDLE_S:
                    self._pass_on()

    def end(self) -> None:
        """Pass it on if it is ours, and wait for it no longer if it is not."""
        with self._guard:
            self._pass_on()

    def _pass_on(self) -> None:
        if not self._over.is_set():
            self._over.set()
            if self._is_ours:
                self._lock.release()
            if self._is_kept:
                atexit.unregister(self.end)


class _Queue:
    """What a process knows of one branch. Its threads use a turn one after the other."""

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.contended_until = 0.0
        """In the time of the chain's clock."""
        self.turn: Turn | None = None
        self.share = FIRST_SHARE
        """Of KEPT_S, for its next turn."""
        self.wrote_at = self.looked_at = float("-inf")
        self.looks = True
        """Whether a turn of another process is a reason to queue. It is none where a process stands still during its turn."""


class Turns:
    """The turns of one process, by branch."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._queues: dict[str, _Queue] = {}
        self._process = os.getpid()

    def crowded(self, branch: str) -> None:
        """Note that another process writes to the branch: its entry was first, or it had the turn."""
        queue = self._queue(branch)
        queue.contended_until, queue.looks = self._chain.clock() + CONTENDED_S, True

    @contextlib.contextmanager
    def taken(self, branch: str) -> Iterator[Turn | None]:
        """Wait for a turn on a branch on which this process has recently lost a race; None if there is none. During a turn the head
        does not move, unless a process writes that has not lost a race yet. It only saves work: if the branch stands still for too
        long, the write continues without one."""
        queue, began = self._queue(branch), time.monotonic()
        if self._chain.clock() >= queue.contended_until and not self._is_other_first(branch, queue, began):
            yield None
            return
        has_mutex = queue.mutex.acquire(timeout=STALLED_S)
        try:
            yield self._turn(branch, queue) if has_mutex else None
        finally:
            if has_mutex:
                if queue.turn is not None:
                    queue.turn.rest(is_kept=began - queue.wrote_at < IDLE_S)
                queue.wrote_at = time.monotonic()
                queue.mutex.release()

    def _is_other_first(self, branch: str, queue: _Queue, now: float) -> bool:
        """Whether another process has a turn, though this one has lost no race; looked at now and then."""
        queue.share = FIRST_SHARE
        if not queue.looks or now - queue.looked_at < LOOK_S:
            return False
        queue.looked_at = now
        if queue.turn is not None:
            queue.turn.end()
        lock = self._chain.store.lock(folder_of(branch))
        if lock is None or not lock.is_taken():
            return False
        self.crowded(branch)
        return True

    def _turn(self, branch: str, queue: _Queue) -> Turn | None:
        if queue.turn is not None and queue.turn.resume():
            return queue.turn
        queue.turn, lock = None, self._chain.store.lock(folder_of(branch))
        if lock is None:
            return None
        turn, began = Turn(lock, queue.share), time.monotonic()
        is_ours = turn.take(partial(self._has_moved, branch))
        if turn.has_waited and (meter := current_meter()) is not None:
            meter.waited_s += time.monotonic() - began
        if not is_ours:
            queue.contended_until, queue.looks = 0.0, False
            return None
        queue.turn = turn
        if turn.has_waited:
            queue.share = min(1.0, 2 * queue.share)
            self.crowded(branch)
        return turn

    def _has_moved(self, branch: str) -> bool:
        """Whether the branch is not any more where this process has last seen it."""
        cached, newest = self._chain.cached_head(branch), self._chain.newest(branch)
        return cached is None or newest is None or cached[0].position != newest.position

    def _queue(self, branch: str) -> _Queue:
        if self._process != os.getpid():
            # Turns of the process that forked this one are not ours.
            self._queues, self._process = {}, os.getpid()
        return self._queues.setdefault(branch, _Queue())
