"""New ids for many rows at once: ULIDs that count up from one random start.

Row number n of a source gets start + n, so reading a source again gives the same ids: a violation found later leads back to its
line, and a repeated task writes the same rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_ALPHABET = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_LOW_CHARACTERS = 7
_LOW_BITS = 5 * _LOW_CHARACTERS


@dataclass(frozen=True)
class FreshIds:
    """`start` is a ULID with its low bits cleared, which leaves room for 2**35 rows."""

    start: str

    @classmethod
    def after(cls, ulid: str) -> FreshIds:
        return cls(ulid[:-_LOW_CHARACTERS] + "0" * _LOW_CHARACTERS)

    def for_row(self, number: int) -> str:
        low = "".join(chr(_ALPHABET[number >> shift & 31]) for shift in range(_LOW_BITS - 5, -1, -5))
        return self.start[:-_LOW_CHARACTERS] + low

    def for_rows(self, numbers: pa.Int64Array) -> pa.StringArray:
        """The ids of these rows, in the same order."""
        import numpy as np
        import pyarrow as pa

        values = numbers.to_numpy(zero_copy_only=False)
        head = np.frombuffer(self.start[:-_LOW_CHARACTERS].encode(), dtype=np.uint8)
        width = len(self.start)
        text = np.empty((len(values), width), dtype=np.uint8)
        text[:, : len(head)] = head
        alphabet = np.frombuffer(_ALPHABET, dtype=np.uint8)
        for index, shift in enumerate(range(_LOW_BITS - 5, -1, -5)):
            text[:, len(head) + index] = alphabet[(values >> shift) & 31]
        offsets = np.arange(0, (len(values) + 1) * width, width, dtype=np.int32)
        return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(text))
