"""Timeouts and cancellation of calls. Work that may take long calls `Deadline.check` from time to time."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from omnigraph.errors import Cancelled, QueryTimeout, UsageError


class Cancellation:
    """Ends a call from another thread: give it to the call, then `cancel()` it. The call raises Cancelled.

    Several calls may share one. Once cancelled, it stays cancelled.

    >>> stop = og.Cancellation()
    >>> stop.cancel()
    >>> try:
    ...     g.query(Path("people.gq"), name="everyone", cancel=stop)
    ... except og.errors.Cancelled as error:
    ...     assert error.outcome == "not_committed"
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._wakes: dict[object, Callable[[], None]] = {}
        self._is_cancelled = False

    def __repr__(self) -> str:
        return f"<Cancellation{', cancelled' * self._is_cancelled}>"

    @property
    def is_cancelled(self) -> bool:
        """Whether `cancel` was called."""
        return self._is_cancelled

    def cancel(self) -> None:
        """End every call that has this cancellation, and every later one. Does not wait for them."""
        with self._lock:
            self._is_cancelled = True
            wakes = list(self._wakes.values())
        for wake in wakes:
            wake()

    @contextmanager
    def _waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Within the block, `wake` is called when this is cancelled; at once, if it is already."""
        mark = object()
        with self._lock:
            self._wakes[mark] = wake
        try:
            if self._is_cancelled:
                wake()
            yield
        finally:
            with self._lock:
                del self._wakes[mark]


class Deadline:
    def __init__(
        self,
        timeout_s: float | None = None,
        clock: Callable[[], float] = time.monotonic,
        cancellation: Cancellation | None = None,
    ) -> None:
        """`timeout_s` from now; None means no timeout. The cancellation ends the call at any time."""
        if timeout_s is not None and not 0 < timeout_s < math.inf:
            raise UsageError(f"a timeout is a number of seconds above zero, not {timeout_s}")
        if not isinstance(cancellation, Cancellation | None):
            raise UsageError(
                f"'cancel' must be a Cancellation, got {type(cancellation).__name__}", hint="og.Cancellation()"
            )
        self._timeout_s = timeout_s
        self._clock = clock
        self._cancellation = cancellation
        self._end = math.inf if timeout_s is None else clock() + timeout_s

    @property
    def is_never(self) -> bool:
        """Whether there is neither a timeout nor a cancellation."""
        return self._timeout_s is None and self._cancellation is None

    def remaining_s(self) -> float | None:
        """Seconds left, at least 0; None if there is no timeout."""
        return None if self._timeout_s is None else max(self._end - self._clock(), 0.0)

    def check(self) -> None:
        """Raises Cancelled once the call is cancelled, QueryTimeout once the time is over."""
        if self._is_cancelled or (self._timeout_s is not None and self._clock() >= self._end):
            raise self.error()

    @contextmanager
    def waking(self, wake: Callable[[], None]) -> Iterator[None]:
        """Within the block, `wake` is called when the call is cancelled, to end a wait; the waiter then calls `check`."""
        if self._cancellation is None:
            yield
        else:
            with self._cancellation._waking(wake):
                yield

    def error(self) -> Cancelled | QueryTimeout:
        """Why the call ended."""
        return Cancelled() if self._is_cancelled else QueryTimeout(self._timeout_s or 0.0)

    @property
    def _is_cancelled(self) -> bool:
        return self._cancellation is not None and self._cancellation.is_cancelled


NEVER = Deadline()
