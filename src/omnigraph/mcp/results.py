"""Answers shortened to a size that an agent can read, with a note of what was left out."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MAX_TEXT = 64 * 1024
"""Maximum size of an answer, in bytes of JSON."""

_TEXT_LENGTHS = (4096, 512, 64, 8)
"""Lengths to which texts and lists inside a value are shortened, tried in order until the whole fits."""


@dataclass(frozen=True)
class Fitted:
    """A value of allowed size, and how much of its list is left out."""

    value: dict[str, Any]
    shown: int = 0
    left_out: int = 0
    has_cut_texts: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.left_out and not self.has_cut_texts


def json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size_of(value: object) -> int:
    return len(json_text(value).encode())


def fitted(value: Mapping[str, Any], rows: str | None, limit: int) -> Fitted:
    """The value with at most `limit` members in the list `rows`, or fewer if it would be too large."""
    listed = value.get(rows) if rows is not None else None
    if rows is None or not isinstance(listed, list):
        return _with_short_texts(dict(value), 0, 0)
    shown = min(limit, len(listed))
    while True:
        part = {**value, rows: listed[:shown]}
        size = size_of(part)
        if size <= MAX_TEXT or shown <= 1:
            return _with_short_texts(part, shown, len(listed) - shown)
        shown = max(1, min(shown - 1, shown * MAX_TEXT // size))


def _with_short_texts(value: dict[str, Any], shown: int, left_out: int) -> Fitted:
    if size_of(value) <= MAX_TEXT:
        return Fitted(value, shown, left_out)
    for length in _TEXT_LENGTHS:
        short = _shortened(value, length)
        if size_of(short) <= MAX_TEXT:
            return Fitted(short, shown, left_out, has_cut_texts=True)
    return Fitted({}, 0, left_out + shown, has_cut_texts=True)


def _shortened(value: Any, length: int) -> Any:
    match value:
        case str() if len(value) > length:
            return f"{value[:length]}… ({len(value) - length} more characters)"
        case list():
            cut = [_shortened(item, length) for item in value[:length]]
            return [*cut, f"… ({len(value) - length} more)"] if len(value) > length else cut
        case dict():
            return {name: _shortened(item, length) for name, item in value.items()}
    return value


def cut_text(text: str) -> tuple[str, int]:
    """The beginning of a text, up to the maximum size, and how many bytes are left out."""
    data = text.encode()
    kept = data[:MAX_TEXT].decode("utf-8", "ignore")
    return kept, len(data) - len(kept.encode())
