"""A stream of bytes that are converted while they are read."""

from __future__ import annotations

import io
from abc import abstractmethod
from typing import Any


class ConvertedBytes(io.RawIOBase):
    def __init__(self) -> None:
        self._ready = b""

    @abstractmethod
    def _read(self, size: int) -> bytes:
        """The next bytes of the source, about this many; none at its end."""

    @abstractmethod
    def _converted(self, chunk: bytes) -> bytes:
        """What a chunk becomes. It may keep some for the next one; after the last one it is asked once more, with none."""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        while not self._ready:
            chunk = self._read(len(buffer))
            self._ready = self._converted(chunk)
            if not chunk:
                break
        taken = self._ready[: len(buffer)]
        self._ready = self._ready[len(taken) :]
        buffer[: len(taken)] = taken
        return len(taken)
