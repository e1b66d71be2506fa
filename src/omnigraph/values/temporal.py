"""Dates and instants as text: strict ISO 8601, nothing guessed, nothing shifted."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime

_DATE = re.compile(r"\d{4}-\d{2}-\d{2}", re.ASCII)
_DATETIME = re.compile(
    r"(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2})(?::(\d{2})(?:\.(\d{1,9}))?)?(Z|z|[+-]\d{2}:?\d{2})?", re.ASCII
)


def parse_date(text: str) -> date:
    """`YYYY-MM-DD` and nothing else: a date-time has no day of its own without a time zone, so it is refused.

    Raises ValueError.
    """
    if not _DATE.fullmatch(text):
        raise ValueError("a date is written YYYY-MM-DD")
    try:
        return date.fromisoformat(text)
    except ValueError:
        raise ValueError("there is no such day") from None


def parse_datetime(text: str) -> datetime:
    """`YYYY-MM-DDTHH:MM[:SS[.fff]]` with `Z`, an offset, or neither (UTC); cut to milliseconds. Raises ValueError."""
    match = _DATETIME.fullmatch(text)
    if match is None:
        raise ValueError("an instant is written YYYY-MM-DDTHH:MM:SS with Z or an offset")
    day, minute, second, fraction, zone = match.groups()
    milliseconds = (fraction or "")[:3].ljust(3, "0")
    offset = "+00:00" if zone in (None, "Z", "z") else zone
    try:
        return datetime.fromisoformat(f"{day}T{minute}:{second or '00'}.{milliseconds}{offset}").astimezone(UTC)
    except (ValueError, OverflowError):
        raise ValueError("there is no such day or time") from None


def datetime_text(instant: datetime) -> str:
    """RFC 3339 in UTC with milliseconds and `Z`."""
    return instant.astimezone(UTC).replace(tzinfo=None).isoformat(timespec="milliseconds") + "Z"
