"""Times: `datetime` in UTC for callers, whole microseconds since the epoch in records."""

from __future__ import annotations

import datetime as dt

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
