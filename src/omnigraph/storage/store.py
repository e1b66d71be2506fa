"""The contract every store keeps: a flat space of immutable-or-replaced byte objects under one root.

Keys are relative to the graph's root, `/`-separated, and never start or end with `/`. A folder exists exactly when
an object lies below it. Every error is one of `ObjectMissing`, `ObjectExists`, `StorageDenied`,
`StorageTransient`, `StoragePermanent`; after `StorageTransient` a write may or may not have been applied.
"""

from __future__ import annotations

import abc
import builtins
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from datetime import datetime

from omnigraph.errors import ObjectMissing, UsageError

TEMPORARY_PREFIX = ".tmp-"
"""Names of half-written local files start with this; no key may, so a listing can always leave them out."""


@dataclass(frozen=True)
class ObjectInfo:
    """What a listing tells of one object. `modified` is in UTC and is the store's own clock, not the writer's."""

    key: str
    size: int
    modified: datetime


class Store(abc.ABC):
    """One graph's bytes. Every method is synchronous and may be called from any thread."""

    uri: str
    """Where the root is: an absolute path for local disk, otherwise `scheme://...` without a trailing slash."""

    @abc.abstractmethod
    def get(self, key: str) -> bytes:
        """The whole object. `ObjectMissing` when there is none."""

    @abc.abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write or replace, atomically: a reader sees the old bytes or the new ones."""

    @abc.abstractmethod
    def create(self, key: str, data: bytes, *, sync_first: Sequence[str] = ()) -> None:
        """Write only if the key is free, atomically: of any number of callers exactly one succeeds.

        `sync_first` are local files, below the root, that must be durable before the object may be seen. If one of them cannot
        be made so, that is `StoragePermanent` and nothing is created: a sync that failed may not be believed when it is repeated.

        `ObjectExists` otherwise. When an answer was lost on the way and the request was repeated below, the caller
        can meet `ObjectExists` for its own object: only reading it back tells.
        """

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """The bytes at each (offset, length); fewer where the object ends before. `ObjectMissing` when there is none."""
        data = self.get(key)
        return [data[offset : offset + length] for offset, length in spans]

    def find(self, key: str) -> bytes | None:
        """The object; None when there is none."""
        try:
            return self.get(key)
        except ObjectMissing:
            return None

    def chunks(self, key: str) -> Iterator[bytes]:
        """The object as a stream of pieces. `ObjectMissing` when there is none, at the first piece."""
        yield self.get(key)

    def fill(self, key: str, chunks: Iterator[bytes]) -> None:
        """Write an object from a stream: it appears whole, in the end, or not at all. It may replace one: whoever uses this
        gives a key the same bytes every time."""
        self.put(key, b"".join(chunks))

    def has(self, key: str) -> bool | None:
        """Whether there is such an object; None where asking costs as much as reading it."""
        return None

    def turn(self, folder: str, wait: Callable[[], bool]) -> AbstractContextManager[bool]:
        """One's turn among the processes that write to a folder, where the store has a way to queue: else False at once. Nothing may
        rely on it: a turn is given up when `wait`, which is called again and again, says so, and a killed process loses its own."""
        return nullcontext(False)

    @abc.abstractmethod
    def list(self, prefix: str, *, limit: int | None = None) -> list[ObjectInfo]:
        """Objects below the folder `prefix` (the root when empty), at any depth, in the order of their keys.

        With `limit`, that many at most, the first ones; up to 1,000 cost one request on an object store.
        """

    @abc.abstractmethod
    def list_folders(self, prefix: str) -> builtins.list[str]:
        """Names of the immediate sub-folders of `prefix`, sorted."""

    @abc.abstractmethod
    def info(self, key: str) -> ObjectInfo:
        """Size and time of one object. `ObjectMissing` when there is none."""

    @abc.abstractmethod
    def delete(self, key: str) -> None:
        """Remove the object; nothing happens when it is not there."""

    @abc.abstractmethod
    def delete_many(self, keys: Sequence[str]) -> None:
        """Remove these objects, as far as they are there. Up to 1,000 of them cost one request where the store has one for it.

        After an error some of them may be gone.
        """

    @abc.abstractmethod
    def delete_prefix(self, prefix: str) -> int:
        """Remove every object below the folder `prefix`; the number of objects found."""


def checked_key(key: str) -> str:
    """The key itself, or `UsageError`: refused here, a key means the same on every store."""
    for segment in key.split("/"):
        if segment in ("", ".", "..") or "\0" in segment or segment.startswith(TEMPORARY_PREFIX):
            raise UsageError(
                f"'{key}' is not a usable storage key",
                hint="keys are non-empty names joined by single slashes, without '.', '..' or a leading '.tmp-'",
            )
    return key


def checked_prefix(prefix: str) -> str:
    """The folder named by `prefix` without its trailing slash; empty for the root."""
    folder = prefix.removesuffix("/")
    return checked_key(folder) if folder else ""
