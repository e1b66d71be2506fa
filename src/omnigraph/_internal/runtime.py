"""A cache that the graphs of a process may share, with one budget, of data derived from immutable versions.

Every open graph has a runtime: its own, or one that it shares with other graphs.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from omnigraph.errors import ResourceExhausted, UsageError

DEFAULT_MEMORY = "1GiB"
FREED_ONCE_BYTES = 8 * 2**20
"""The allocator of glibc returns memory to the system at once beyond twice the largest block that was freed so far. A query over whole
tables would then have a page fault for every 4 KiB of its arrays, each time it runs: half of its time at 500,000 edges."""


class Sized(Protocol):
    @property
    def nbytes(self) -> int: ...


Value = TypeVar("Value", bound=Sized)
Array = TypeVar("Array", bound=Sized)


class ByteCache:
    """Holds values of up to `capacity` bytes in total; the least recently used go first. A value larger than that is not held."""

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
        """The value for a key, which `make` computes if it is not held: once, even if several threads ask at the same time."""
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
        """The value, or None if it is not held."""
        with self._lock:
            held = self._values.get(key)
            if held is None:
                return None
            self._values.move_to_end(key)
            return held[0]

    def put(self, key: Hashable, value: Sized) -> None:
        """Hold a value, unless one is held for the key already."""
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
        """Hold a value in place of the one held for the key, if any."""
        with self._lock:
            held = self._values.pop(key, None)
            self._bytes -= 0 if held is None else held[1]
        self.put(key, value)

    def drop(self, is_unwanted: Callable[[Hashable], bool]) -> None:
        with self._lock:
            for key in [key for key in self._values if is_unwanted(key)]:
                self._bytes -= self._values.pop(key)[1]

    def forget(self, root: str) -> None:
        """Drop all values of one graph. The second member of a key is the address that the value belongs to."""
        self.drop(lambda key: _is_below(key, root))

    def held(self, root: str) -> int:
        """How many bytes are held for one graph."""
        with self._lock:
            return sum(size for key, (_, size) in self._values.items() if _is_below(key, root))

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._bytes = 0


def _is_below(key: Hashable, root: str) -> bool:
    owner = key[1] if isinstance(key, tuple) and len(key) > 1 else None
    return isinstance(owner, str) and (owner == root or owner.startswith(f"{root}/"))


MIN_WORKING_BYTES = 256 * 2**20
"""No query would run in less."""


MORE_MEMORY = 'ask for less, give the graph more memory (og.Runtime(memory=...), --memory), or use engine="spark"'
"""What to do when a read does not fit."""


class WorkingMemory:
    """What reads that are under way may use together: half for their rows and arrays, the rest for the engines."""

    def __init__(self, capacity: int) -> None:
        self.capacity = max(capacity, MIN_WORKING_BYTES)
        self.array_bytes = self.capacity // 2
        self.query_bytes = self.capacity // 8 * 3
        """For the engine of queries, which spills to disk beyond."""
        self.sql_bytes = self.capacity // 8
        """For the engine of users' SQL, which spills too."""
        self._lock = threading.Lock()
        self._taken = 0

    def take(self, size: int) -> None:
        """Raises ResourceExhausted if reads would then hold more than they may."""
        with self._lock:
            if self._taken + size > self.array_bytes:
                raise ResourceExhausted(
                    f"the rows of the reads under way take more than {self.array_bytes >> 20} MiB of memory",
                    hint=f"export, or {MORE_MEMORY}",
                )
            self._taken += size

    def give_back(self, size: int) -> None:
        with self._lock:
            self._taken -= size

    @contextmanager
    def holding(self, size: int) -> Iterator[None]:
        """`take` this much for the block."""
        self.take(size)
        try:
            yield
        finally:
            self.give_back(size)

    @contextmanager
    def counted(self, arrays: Iterable[Array]) -> Iterator[Iterator[Array]]:
        """The arrays, or batches of them, each taken as it comes, and all given back after the block."""
        taken = 0

        def count() -> Iterator[Array]:
            nonlocal taken
            for array in arrays:
                self.take(array.nbytes)
                taken += array.nbytes
                yield array

        try:
            yield count()
        finally:
            self.give_back(taken)


class Runtime:
    """Memory that graphs share. A graph that is opened without one has its own.

    `memory` limits what is cached in total: adjacency, key columns, columns in frequent use, statistics of texts. What was used
    least recently is dropped first, and read again when it is needed; answers stay the same. Reads that are under way may use as
    much again, and at least 256 MiB: beyond, they spill to disk or raise ResourceExhausted.

    >>> runtime = og.Runtime(memory="256MiB")
    >>> with og.open("./people", runtime=runtime) as people:
    ...     assert people.query("query n() { match { $p: Person } return { count($p) as n } }").num_rows == 1
    >>> assert runtime.held_bytes <= runtime.memory_bytes == 256 * 1024 * 1024
    """

    def __init__(self, memory: str | int = DEFAULT_MEMORY) -> None:
        self.memory_bytes = size_in_bytes(memory)
        self.cache = ByteCache(self.memory_bytes)
        self.work = WorkingMemory(self.memory_bytes)
        bytes(FREED_ONCE_BYTES)  # Never touched, so it costs no memory.

    @property
    def held_bytes(self) -> int:
        """How many bytes are cached now."""
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
