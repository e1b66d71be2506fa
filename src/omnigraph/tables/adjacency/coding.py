"""How the values of an array are stored: as they are, or non-negative integers in as few bits as the largest needs.

A packed block has the low 16 bits of each integer first, then the remaining bits of each: none, four or eight. Each block is
decoded independently, in whole or in part.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np

BLOCK_BYTES = 64 * 1024
PACKED = {"packed-16": 0, "packed-20": 4, "packed-24": 8}
"""Name -> bits per value above the low sixteen."""


@dataclass(frozen=True)
class Coding:
    """The stored form of one array. `name`: a NumPy type, or a packing of 32-bit integers."""

    name: str
    bits: int
    """Per value."""

    @classmethod
    def named(cls, name: str) -> Coding:
        """Raises ValueError or TypeError if the name is unknown."""
        import numpy as np

        return cls(name, 16 + PACKED[name] if name in PACKED else 8 * np.dtype(name).itemsize)

    @classmethod
    def of(cls, array: np.ndarray) -> Coding:
        """The shortest coding for these values."""
        import numpy as np

        if array.dtype == np.int32 and len(array) and int(array.min()) >= 0:
            largest = int(array.max())
            for name, bits in PACKED.items():
                if largest < 1 << (16 + bits):
                    return cls.named(name)
        return cls.named(array.dtype.newbyteorder("<").str)

    def none(self) -> np.ndarray:
        """An empty array."""
        import numpy as np

        return np.zeros(0, np.int32 if self.name in PACKED else self.name)

    @property
    def block_values(self) -> int:
        """Values per block: a multiple of 8, so that a block ends on a byte boundary."""
        return BLOCK_BYTES * 8 // self.bits // 8 * 8

    def size(self, count: int) -> int:
        """Bytes that `count` values take, from the beginning of a block."""
        whole, rest = divmod(count, self.block_values)
        return whole * self.block_values * self.bits // 8 + -(-rest * self.bits // 8)

    def block_size(self) -> int:
        return self.size(self.block_values)

    def encode(self, array: np.ndarray) -> list[memoryview]:
        """One buffer per block."""
        import numpy as np

        step = self.block_values
        blocks = [array[start : start + step] for start in range(0, len(array), step)]
        if self.name not in PACKED:
            return [np.ascontiguousarray(block, self.name).data.cast("B") for block in blocks]
        return [memoryview(_packed(block, PACKED[self.name])) for block in blocks]

    def decode(self, block: bytes | memoryview, count: int, first: int = 0, last: int | None = None) -> np.ndarray:
        """Values [first, last) of a block of `count` values."""
        import numpy as np

        last = count if last is None else last
        if self.name not in PACKED:
            type_ = np.dtype(self.name)
            return np.frombuffer(block, type_, last - first, first * type_.itemsize)
        low = np.frombuffer(block, "<u2", last - first, 2 * first).astype(np.int32)
        if PACKED[self.name] == 8:
            low |= np.frombuffer(block, np.uint8, last - first, 2 * count + first).astype(np.int32) << 16
        elif PACKED[self.name] == 4 and last > first:
            even = first // 2
            pairs = np.frombuffer(block, np.uint8, -(-last // 2) - even, 2 * count + even)
            high = np.empty((len(pairs), 2), np.int32)
            np.bitwise_and(pairs, 15, out=high[:, 0], casting="unsafe")
            np.right_shift(pairs, 4, out=high[:, 1], casting="unsafe")
            low |= high.reshape(-1)[first % 2 : first % 2 + last - first] << 16
        return low


def _packed(block: np.ndarray, bits: int) -> bytes:
    import numpy as np

    low = (block & 0xFFFF).astype("<u2").tobytes()
    high = (block >> 16).astype(np.uint8)
    if bits == 4:
        high = np.append(high, np.uint8(0)) if len(high) % 2 else high
        high = high[::2] | high[1::2] << np.uint8(4)
    return low + high.tobytes() if bits else low
