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
        """The next bytes of the source, about this many; empty at its end."""

    @abstractmethod
    def _converted(self, chunk: bytes) -> bytes:
        """The converted chunk. It may hold some bytes back for the next call; after the last chunk it is called once more, with
        an empty one."""

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
