"""New ids for many rows at once: ULIDs that count up from one random start.

Row number n of a part of a source gets start + n, so reading the part again gives the same ids: a violation found later leads
back to its line, and a task that is repeated, or runs twice at once, writes the same rows.

Whoever plans the tasks of a load draws its range once, and gives every part the next subrange, so no two rows of a load share an
id, whatever the clock and however many tasks, threads and machines. The ranges of two loads meet with probability
(m + n - 1) / 2**45, where m and n are their numbers of parts, if both began in the same millisecond of their clocks. For two
loads of 10**10 rows in 10**6 parts each that is 6e-8; for 10**6 loads of one part, spread over a day, 2e-10 for all of
them together; for 1,000 loads of one part while the clock stands still, 1e-8. Loads of different milliseconds meet only if the
parts of one run past the end of its millisecond, for 10**6 parts each less than once in 10**14 loads.

The weak spot is very many loads in one millisecond: a million, which takes a clock that stands still, meet with probability 1.4 %.
Such a pair is not refused, since ids of different loads are not compared; `verify --deep` finds it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import UnreadableInput

if TYPE_CHECKING:
    import pyarrow as pa

_ALPHABET = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ"
_WIDTH = 26
_ROW_DIGITS = 7
_ROW_BITS = 5 * _ROW_DIGITS
MAX_ROWS = 2**_ROW_BITS
"""How many rows of one part can get ids."""
_RANDOM_BITS = 80 - _ROW_BITS
# The system's generator, not one of this process: a process that was forked or copied must not repeat what another draws.
_random = random.SystemRandom()


@dataclass(frozen=True)
class FreshIds:
    """The ids of one part of a load. `prefix`: their upper bits, 48 of the time and 45 at random; the row's number follows."""

    prefix: int

    @classmethod
    def new(cls, clock: Callable[[], float] = time.time) -> FreshIds:
        """The first part of a new load."""
        return cls(int(clock() * 1_000) << _RANDOM_BITS | _random.getrandbits(_RANDOM_BITS))

    def part(self, number: int) -> FreshIds:
        """The part that comes this many after this one."""
        return FreshIds(self.prefix + number)

    def for_row(self, number: int) -> str:
        if number >= MAX_ROWS:
            raise _too_many_rows()
        value = self.prefix << _ROW_BITS | number
        return "".join(chr(_ALPHABET[value >> shift & 31]) for shift in range(5 * _WIDTH - 5, -1, -5))

    def for_rows(self, numbers: pa.Int64Array) -> pa.StringArray:
        """The ids of these rows, in the same order."""
        import numpy as np
        import pyarrow as pa

        values = numbers.to_numpy(zero_copy_only=False)
        if values.max(initial=0) >= MAX_ROWS:
            raise _too_many_rows()
        head = np.frombuffer(self.for_row(0)[:-_ROW_DIGITS].encode(), dtype=np.uint8)
        text = np.empty((len(values), _WIDTH), dtype=np.uint8)
        text[:, : len(head)] = head
        alphabet = np.frombuffer(_ALPHABET, dtype=np.uint8)
        for index, shift in enumerate(range(_ROW_BITS - 5, -1, -5)):
            text[:, len(head) + index] = alphabet[(values >> shift) & 31]
        offsets = np.arange(0, (len(values) + 1) * _WIDTH, _WIDTH, dtype=np.int32)
        return pa.StringArray.from_buffers(len(values), pa.py_buffer(offsets), pa.py_buffer(text))


def _too_many_rows() -> UnreadableInput:
    return UnreadableInput(
        f"it has more rows without ids than the {MAX_ROWS:,} that one file or partition can have",
        hint="cut it into several, or give every record an id",
    )
