"""Row ids that compaction gives to the fragments it writes.

Lance numbers rows from 0 when they are added to a version. A text or vector index refers to rows by these numbers, so an index
over fragments that are not in a published version yet would become invalid when they are put on another one. So compaction brings
its own numbers, from ranges that Lance never reaches: a random start, then consecutive numbers. The range also tells a reader of
a manifest whether a fragment is sorted.

    2^60 to 2^61        rows in their original order
    2^61 to 3 * 2^60    rows sorted by the column that the table is clustered by
"""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

_IN_ORDER = 1 << 60
_CLUSTERED = 1 << 61
_RANDOM_BITS = 59
_RANGE = b"\x0a"
"""Tag in Lance's protobuf: a sequence of segments, whose first kind is a range of `start` and `end`."""


def new_row_ids(*, clustered: bool) -> int:
    """The first of a run of fresh ids."""
    return (_CLUSTERED if clustered else _IN_ORDER) + secrets.randbits(_RANDOM_BITS)


def row_id_range(start: int, rows: int) -> dict[str, list[int]]:
    """The ids `start`, `start + 1` and so on, in the form of Lance's fragment descriptions."""
    members = b"\x08" + _varint(start) + b"\x10" + _varint(start + rows)
    segment = _RANGE + _varint(len(members)) + members
    return {"Inline": list(_RANGE + _varint(len(segment)) + segment)}


def is_clustered(fragment: Any) -> bool:
    """Whether the row ids in Lance's description of a fragment say that it is sorted."""
    start = _first_id(fragment.to_json()["row_id_meta"])
    return start is not None and _CLUSTERED <= start < _CLUSTERED + (1 << _RANDOM_BITS)


def _first_id(row_ids: dict[str, list[int]] | None) -> int | None:
    """The start of a single range; None for any other sequence."""
    data = iter((row_ids or {}).get("Inline", ()))
    try:
        for mark in (_RANGE[0], _RANGE[0]):
            if next(data) != mark:
                return None
            _read_varint(data)
        return _read_varint(data) if next(data) == 0x08 else None
    except StopIteration:
        return None


def _varint(number: int) -> bytes:
    data = bytearray()
    while number > 0x7F:
        data.append(number & 0x7F | 0x80)
        number >>= 7
    data.append(number)
    return bytes(data)


def _read_varint(data: Iterator[int]) -> int:
    number = shift = 0
    while True:
        byte = next(data)
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return number
