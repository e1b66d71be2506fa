"""Refusals that only a Blob's headers can meet."""

from __future__ import annotations

from omnigraph.errors import RequestRefused


class BlobChanged(RequestRefused):
    """A Blob is not the one that If-Match names."""


class RangeNotSatisfiable(RequestRefused):
    """The range begins beyond the end of the Blob."""

    def __init__(self, start: int, end: int, length: int) -> None:
        super().__init__(f"the Blob has {length} bytes, and the range begins at {start}")
        self.start = start
        self.end = end
        self.length = length
