"""Finding keys in a column of strings by binary search.

The first eight bytes of a string, read as one big-endian number, sort as the string does. So most of a search is a search among
numbers, for all wanted keys at once; only strings that share their first bytes are compared themselves.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa

PREFIX_BYTES = 8
"""How many bytes of a string make up the number."""


@dataclass(frozen=True)
class SortedKeys:
    """A column, the positions of its strings in ascending order, and for each position the string's prefix."""

    column: pa.Array
    order: np.ndarray
    prefixes: np.ndarray

    @classmethod
    def of(cls, column: pa.Array) -> SortedKeys:
        import numpy as np
        import pyarrow.compute as pc

        order = np.asarray(pc.sort_indices(column)).astype(np.int32)
        return cls(column, order, prefixes(column)[order])

    @property
    def nbytes(self) -> int:
        """Without the column, which is cached separately."""
        return int(self.order.nbytes + self.prefixes.nbytes)

    def runs(self, wanted: Sequence[str]) -> list[tuple[int, int]]:
        """For each wanted key the range (from, to) in `order` of the rows that have it; empty if there are none."""
        import numpy as np

        first = np.array([prefix(key.encode()) for key in wanted], np.uint64)
        lows = np.searchsorted(self.prefixes, first, "left").tolist()
        highs = np.searchsorted(self.prefixes, first, "right").tolist()
        return [self._run(*bounds) for bounds in zip(wanted, lows, highs, strict=True)]

    def _run(self, key: str, low: int, high: int) -> tuple[int, int]:
        """Like `runs`, for one key within a range of strings that share their prefix."""
        if low == high or (self._text(self.order[low]) == key and self._text(self.order[high - 1]) == key):
            return low, high
        low = bisect_left(self.order, key, low, high, key=self._text)
        return low, bisect_right(self.order, key, low, high, key=self._text)

    def _text(self, place: int) -> str:
        text: str = self.column[place].as_py()
        return text

    def find(self, wanted: Sequence[str]) -> np.ndarray:
        """Positions of rows that have one of these keys, ascending."""
        import numpy as np

        runs = [self.order[low:high] for low, high in self.runs(wanted) if low < high]
        return np.sort(np.concatenate(runs)) if runs else self.order[:0]


def prefix(key: bytes) -> int:
    """The first eight bytes of a string as one big-endian number; missing bytes count as zero."""
    return int.from_bytes(key[:8].ljust(8, b"\0"), "big")


def prefixes(column: pa.Array, skipped: int = 0) -> np.ndarray:
    """`prefix` of each string of a column, after the first `skipped` bytes, which all of them have."""
    import numpy as np
    import pyarrow as pa

    assert column.type == pa.utf8(), "keys are texts"
    _, offsets, data = column.buffers()
    if len(column) == 0 or data is None:
        return np.zeros(len(column), np.uint64)
    ends = np.frombuffer(offsets, np.int32)[column.offset : column.offset + len(column) + 1].astype(np.int64)
    padded = np.concatenate([np.frombuffer(data, np.uint8)[: ends[-1]], np.zeros(8, np.uint8)])
    begins = ends[:-1] + skipped
    words = np.lib.stride_tricks.sliding_window_view(padded, 8)[begins].view(">u8").astype(np.uint64).ravel()
    missing = (8 * (8 - np.minimum(ends[1:] - begins, 8))).astype(np.uint64)
    # A shift by 64 bits is undefined; an empty string has no bytes to keep.
    kept = np.where(missing < 64, words >> np.minimum(missing, 63), 0)
    return np.asarray(kept << np.minimum(missing, 63), np.uint64)
