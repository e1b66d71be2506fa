"""What the graphs of a process may share: one cache, with one budget, of what is derived from immutable versions.

Every graph that is opened has a runtime: one of its own, or one that several graphs were given.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Any, Protocol, TypeVar

from omnigraph.errors import UsageError

DEFAULT_MEMORY = "1GiB"


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
        held = self.find(key)
        if held is not None:
            return held  # type: ignore[no-any-return]  # values are stored under keys of their own kind
        with self._lock:
            building = self._building.setdefault(key, threading.Lock())
        try:
            with building:
                held = self.find(key)
                if held is not None:
                    return held  # type: ignore[no-any-return]  # as above
                value = make()
                self.put(key, value)
                return value
        finally:
            with self._lock:
                self._building.pop(key, None)

    def find(self, key: Hashable) -> Any:
        """The value, if it is held."""
        with self._lock:
            held = self._values.get(key)
            if held is None:
                return None
            self._values.move_to_end(key)
            return held[0]

    def put(self, key: Hashable, value: Sized) -> None:
        """Hold a value; the one that is held already stays."""
        size = value.nbytes
        with self._lock:
            if size > self.capacity or key in self._values:
                return
            self._values[key] = (value, size)
            self._bytes += size
            while self._bytes > self.capacity:
                _, (_, dropped) = self._values.popitem(last=False)
                self._bytes -= dropped

    def replace(self, key: Hashable, value: Sized) -> None:
        """Hold a value in place of the one that is held."""
        with self._lock:
            held = self._values.pop(key, None)
            self._bytes -= 0 if held is None else held[1]
        self.put(key, value)

    def drop(self, is_unwanted: Callable[[Hashable], bool]) -> None:
        with self._lock:
            for key in [key for key in self._values if is_unwanted(key)]:
                self._bytes -= self._values.pop(key)[1]

    def forget(self, root: str) -> None:
        """Drop what belongs to one graph. The second member of every key is the address that it belongs to."""
        self.drop(lambda key: _is_below(key, root))

    def held(self, root: str) -> int:
        """How many bytes belong to one graph."""
        with self._lock:
            return sum(size for key, (_, size) in self._values.items() if _is_below(key, root))

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._bytes = 0


def _is_below(key: Hashable, root: str) -> bool:
    owner = key[1] if isinstance(key, tuple) and len(key) > 1 else None
    return isinstance(owner, str) and (owner == root or owner.startswith(f"{root}/"))


class Runtime:
    """Memory that graphs share. Without one, a graph that is opened has a runtime of its own.

    `memory` limits what is cached in total: adjacency, key columns, columns in frequent use, statistics of texts. What was used
    least recently is dropped first, and read again when it is needed: answers do not depend on it.

    >>> runtime = og.Runtime(memory="256MiB")
    >>> with og.open("./people", runtime=runtime) as people:
    ...     assert people.query("query n() { match { $p: Person } return { count($p) as n } }").num_rows == 1
    >>> assert runtime.held_bytes <= runtime.memory_bytes == 256 * 1024 * 1024
    """

    def __init__(self, memory: str | int = DEFAULT_MEMORY) -> None:
        self.memory_bytes = size_in_bytes(memory)
        self.cache = ByteCache(self.memory_bytes)

    @property
    def held_bytes(self) -> int:
        """What is held now."""
        return self.cache.nbytes

    def __repr__(self) -> str:
        return f"<runtime: {self.held_bytes:,} of {self.memory_bytes:,} bytes held>"


_SIZE = re.compile(r"([0-9]{1,18})\s*(B|KiB|MiB|GiB|TiB|KB|MB|GB|TB)?", re.IGNORECASE)
_UNITS = {"b": 1, "kib": 2**10, "mib": 2**20, "gib": 2**30, "tib": 2**40}
_UNITS |= {"kb": 10**3, "mb": 10**6, "gb": 10**9, "tb": 10**12}


def size_in_bytes(size: str | int) -> int:
    """`"512MiB"`, `"2GB"` or a number of bytes. UsageError for anything else."""
    parsed = _SIZE.fullmatch(size.strip()) if isinstance(size, str) else None
    if parsed is not None:
        return int(parsed[1]) * _UNITS[(parsed[2] or "B").lower()]
    if isinstance(size, int) and not isinstance(size, bool) and size >= 0:
        return size
    shown = repr(size[:40]) if isinstance(size, str) else f"such a {type(size).__name__}"
    raise UsageError(f"{shown} is not a size of memory", hint='write "512MiB", "2GiB" or a number of bytes')
