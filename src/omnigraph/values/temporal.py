"""Dates and instants: strict ISO 8601 text and back, nothing guessed, nothing cut.

Both range over the years 1 to 9999, which every engine and Python support. An instant is in UTC, in whole microseconds; a column
holds it without a zone, callers get it with one.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta

DAYS = (-719_162, 2_932_896)
"""The first and the last day, counted from 1970-01-01."""
MICROSECONDS = (-62_135_596_800_000_000, 253_402_300_799_999_999)
"""The first and the last instant, counted from 1970-01-01T00:00:00Z."""

TOO_FINE = "an instant has microseconds at most"

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|z|[+-]([01]\d|2[0-3]):?[0-5]\d)?", re.ASCII
)
_EPOCH_DAY = date(1970, 1, 1)
_EPOCH = datetime(1970, 1, 1)
_MICROSECOND = timedelta(microseconds=1)


def parse_date(text: str) -> date:
    """`YYYY-MM-DD` only: which day a date-time is on depends on the time zone, so it is refused. Raises ValueError."""
    if not _DATE.fullmatch(text):
        raise ValueError("a date is written YYYY-MM-DD")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("there is no such day") from None


def parse_datetime(text: str) -> datetime:
    """`YYYY-MM-DDTHH:MM[:SS[.ffffff]]` with `Z`, an offset, or neither (UTC), as an instant in UTC. Raises ValueError."""
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError("an instant is written YYYY-MM-DDTHH:MM:SS with Z or an offset")
    day, minute, second, fraction, zone, _ = match.groups()
    fraction = (fraction or "").ljust(6, "0")
    if fraction[6:].strip("0"):
        raise ValueError(TOO_FINE)
    offset = "+00:00" if zone in (None, "Z", "z") else zone
    try:
        return datetime.fromisoformat(f"{day}T{minute}:{second or '00'}.{fraction[:6]}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("there is no such day or time") from None


def instant_text(instant: datetime) -> str:
    """RFC 3339 in UTC with `Z`: with milliseconds, or microseconds if there are any. Without a zone, UTC is meant."""
    moment = utc_without_zone(instant)
    return moment.isoformat(timespec="microseconds" if moment.microsecond % 1000 else "milliseconds") + "Z"


def utc_without_zone(instant: datetime) -> datetime:
    """The instant as a column holds it. Without a zone, UTC is meant. Raises OverflowError."""
    return instant if instant.tzinfo is None else instant.astimezone(UTC).replace(tzinfo=None)


def days_since_1970(day: date) -> int:
    return (day - _EPOCH_DAY).days


def day_at(days: int) -> date:
    """The day this many days after 1970-01-01. Raises OverflowError."""
    return _EPOCH_DAY + timedelta(days=days)


def microseconds_since_1970(instant: datetime) -> int:
    return (utc_without_zone(instant) - _EPOCH) // _MICROSECOND


def instant_at(microseconds: int) -> datetime:
    """The instant this many microseconds after 1970, without a zone. Raises OverflowError."""
    return _EPOCH + timedelta(microseconds=microseconds)
