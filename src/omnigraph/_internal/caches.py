"""A small cache of recent results."""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeVar

# Properties of immutable values that are computed once.

if TYPE_CHECKING or sys.version_info >= (3, 12):
    from functools import cached_property
else:

    class cached_property:  # named like the original
        """As in Python 3.12. The one of Python 3.11 computes every value under a lock shared by all objects of a class; here, two
        threads may compute the same value, and one of the results stays."""

        def __init__(self, compute: Any) -> None:
            self._compute = compute
            self.__doc__ = compute.__doc__

        def __set_name__(self, owner: type, name: str) -> None:
            self._name = name

        def __get__(self, instance: Any, owner: type | None = None) -> Any:
            if instance is None:
                return self
            value = self._compute(instance)
            object.__setattr__(
                instance, self._name, value
            )  # `instance.__dict__` would create a dictionary for each instance.
            return value


__all__ = ["cached_property"]


Value = TypeVar("Value")


class LruCache(Generic[Value]):
    """The results that were used last, by key. A call that raises is not cached. Thread-safe."""

    def __init__(self, size: int) -> None:
        self._size = size
        self._kept: OrderedDict[Hashable, Value] = OrderedDict()
        self._lock = Lock()

    def get(self, key: Hashable, make: Callable[[], Value]) -> Value:
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
        value = make()
        self.put(key, value)
        return value

    def find(self, key: Hashable) -> Value | None:
        with self._lock:
            return self._kept.get(key)

    def put(self, key: Hashable, value: Value) -> None:
        with self._lock:
            self._kept[key] = value
            while len(self._kept) > self._size:
                self._kept.popitem(last=False)

    def __len__(self) -> int:
        return len(self._kept)
