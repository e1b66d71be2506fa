"""Times: `datetime` in UTC for callers, whole microseconds since the epoch in records; and how much time has passed."""

from __future__ import annotations

import datetime as dt
import threading
import time
from collections.abc import Callable

from omnigraph.errors import UsageError

EPOCH = dt.datetime.fromtimestamp(0, dt.UTC)


def to_microseconds(time: dt.datetime) -> int:
    """Computed with integers: a float cannot represent today's instants to the microsecond."""
    return (time - EPOCH) // dt.timedelta(microseconds=1)


def from_microseconds(microseconds: int) -> dt.datetime:
    return EPOCH + dt.timedelta(microseconds=microseconds)


def parse_time(text: str) -> dt.datetime | None:
    """An ISO 8601 date or time; without a zone it is UTC."""
    try:
        time = dt.datetime.fromisoformat(text)
    except ValueError:
        return None
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def time_of(as_of: str | dt.datetime) -> dt.datetime:
    """A time that a caller passed, as an instant; without a zone it is UTC."""
    time = parse_time(as_of) if isinstance(as_of, str) else as_of
    if not isinstance(time, dt.datetime):
        raise UsageError(f"{as_of!r} is not a time", hint="write 2026-07-01 or 2026-07-01T12:00:00Z")
    return time if time.tzinfo else time.replace(tzinfo=dt.UTC)


def uptime() -> float:
    """Seconds since the machine was started, including those in which it was suspended. Nobody can set this clock."""
    return time.clock_gettime(getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC))


class SteadyClock:
    """A clock for differences of times: between two calls, it advances by as much as the wall clock or the uptime, whichever says
    more, and never goes back.

    The wall clock may be set, and the uptime of a virtual machine may stand still while the machine is paused. Who believes that
    more time has passed than has only asks the store once more.
    """

    def __init__(self, wall: Callable[[], float], uptime: Callable[[], float]) -> None:
        self._sources = wall, uptime
        self._last = wall(), uptime()
        self._time = self._last[0]
        self._lock = threading.Lock()

    def __call__(self) -> float:
        wall, uptime = self._sources
        with self._lock:
            now = wall(), uptime()
            self._time += max(0.0, now[0] - self._last[0], now[1] - self._last[1])
            self._last = now
            return self._time
