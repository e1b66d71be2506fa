"""A bounded memory of things derived from immutable versions: least recently used goes first. Thread-safe."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


Value = TypeVar("Value", bound=Sized)


class ByteCache:
    """Holds values up to a number of bytes in all. What is larger than that by itself is not kept."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self._values: OrderedDict[Hashable, tuple[Any, int]] = OrderedDict()
        self._building: dict[Hashable, threading.Lock] = {}
        self._bytes = 0
        self._lock = threading.Lock()

    def __contains__(self, key: Hashable) -> bool:
        with self._lock:
            return key in self._values

    @property
    def nbytes(self) -> int:
        return self._bytes

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        """The value for a key; made once, even when several threads ask at the same time."""
        found = self._find(key)
        if found is not None:
            return found[0]  # type: ignore[no-any-return]  # values are stored under keys of their own kind
        with self._lock:
            building = self._building.setdefault(key, threading.Lock())
        try:
            with building:
                found = self._find(key)
                if found is not None:
                    return found[0]  # type: ignore[no-any-return]  # as above
                value = make()
                self._keep(key, value)
                return value
        finally:
            with self._lock:
                self._building.pop(key, None)

    def _find(self, key: Hashable) -> tuple[Any, int] | None:
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def _keep(self, key: Hashable, value: Sized) -> None:
        size = value.nbytes
        with self._lock:
            if size > self.capacity:
                return
            self._values[key] = (value, size)
            self._bytes += size
            while self._bytes > self.capacity:
                _, (_, dropped) = self._values.popitem(last=False)
                self._bytes -= dropped

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._bytes = 0


memory = ByteCache(1024 * 1024 * 1024)
"""The process's own: whatever a room derives from an immutable version shares this one bound."""
