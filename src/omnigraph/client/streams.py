"""Answers that are written to a file as they arrive. The file appears once it is complete."""

from __future__ import annotations

import json
from collections.abc import Iterator

from omnigraph.changes import Baseline
from omnigraph.client import decoding
from omnigraph.errors import ServerUnavailable
from omnigraph.storage.outputs import Target, outputs

MAX_LAST_LINE = 64 * 1024


def write_export(pieces: Iterator[bytes], target: Target, *, force: bool) -> int:
    """Write an export; returns the number of lines."""
    lines = 0
    with outputs([target], {}, replace=force) as (file,), file.open() as out:
        for piece in pieces:
            out.write(piece)
            lines += piece.count(b"\n")
    return lines


def write_baseline(pieces: Iterator[bytes], target: Target, *, force: bool) -> Baseline:
    """Write a baseline and return what its last line says. ServerUnavailable if that line is missing."""
    lines = 0
    tail = b""
    with outputs([target], {}, replace=force) as (file,), file.open() as out:
        for piece in pieces:
            out.write(piece)
            lines += piece.count(b"\n")
            tail = (tail + piece)[-MAX_LAST_LINE:]
        return decoding.baseline(_last(tail), lines - 1)


def _last(tail: bytes) -> dict[str, str]:
    try:
        last: dict[str, str] = json.loads(tail.splitlines()[-1])["baseline"]
        return last
    except (IndexError, KeyError, TypeError, ValueError):
        raise ServerUnavailable("the baseline broke off before its last line") from None
