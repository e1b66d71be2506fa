"""The base of the wrappers: a store that sends every call through one function."""

from __future__ import annotations

import abc
import builtins
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Literal, TypeVar

from omnigraph.storage.store import ObjectInfo, Store

Operation = Literal["get", "put", "create", "list", "list_folders", "info", "delete", "delete_many", "delete_prefix"]
T = TypeVar("T")


class WrappedStore(Store):
    """Passes each call on to `inner` through `_around`, which may count it, delay it or break it."""

    def __init__(self, inner: Store) -> None:
        self.inner = inner
        self.uri = inner.uri

    @abc.abstractmethod
    def _around(self, operation: Operation, key: str, data: bytes, call: Callable[[], T]) -> T:
        """Make `call`, which is `operation` on `key` (or prefix); `data` is what a write writes, and otherwise empty."""

    def get(self, key: str) -> bytes:
        return self._around("get", key, b"", lambda: self.inner.get(key))

    def put(self, key: str, data: bytes) -> None:
        self._around("put", key, data, lambda: self.inner.put(key, data))

    def create(self, key: str, data: bytes, *, sync_first: Sequence[str] = ()) -> None:
        self._around("create", key, data, lambda: self.inner.create(key, data, sync_first=sync_first))

    def list(self, prefix: str, *, limit: int | None = None) -> builtins.list[ObjectInfo]:
        return self._around("list", prefix, b"", lambda: self.inner.list(prefix, limit=limit))

    def list_folders(self, prefix: str) -> builtins.list[str]:
        return self._around("list_folders", prefix, b"", lambda: self.inner.list_folders(prefix))

    def has(self, key: str) -> bool | None:
        return self.inner.has(key)

    def turn(self, folder: str, wait: Callable[[], bool]) -> AbstractContextManager[bool]:
        return self.inner.turn(folder, wait)

    def info(self, key: str) -> ObjectInfo:
        return self._around("info", key, b"", lambda: self.inner.info(key))

    def delete(self, key: str) -> None:
        self._around("delete", key, b"", lambda: self.inner.delete(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        self._around("delete_many", keys[0] if keys else "", b"", lambda: self.inner.delete_many(keys))

    def delete_prefix(self, prefix: str) -> int:
        return self._around("delete_prefix", prefix, b"", lambda: self.inner.delete_prefix(prefix))
