"""The contract every store keeps: a flat space of immutable-or-replaced byte objects under one root.

Keys are relative to the graph's root, `/`-separated, and never start or end with `/`. A folder exists exactly if there is an
object below it. Every error is one of `ObjectMissing`, `ObjectExists`, `StorageDenied`, `StorageTransient`, `StoragePermanent`;
after `StorageTransient` a write may or may not have been applied.
"""

from __future__ import annotations

import abc
import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime

from omnigraph.errors import ObjectMissing, UsageError

TEMPORARY_PREFIX = ".tmp-"
"""The prefix of the names of half-written local files. No key may have it, so a listing can leave them out."""


@dataclass(frozen=True)
class ObjectInfo:
    """One object in a listing. `modified` is in UTC, by the store's clock, not the writer's."""

    key: str
    size: int
    modified: datetime


class Lock(abc.ABC):
    """A lock that can be held once. A process that is killed loses it."""

    @abc.abstractmethod
    def acquire(self, *, waits: bool) -> bool:
        """Whether it was acquired. Those that wait get it in the order in which they came; a system may refuse to lock."""

    @abc.abstractmethod
    def is_taken(self) -> bool:
        """Whether it is held now, by whomever; it is not acquired, and need not be released."""

    @abc.abstractmethod
    def release(self) -> None:
        """Release it, for good."""


class Store(abc.ABC):
    """One graph's bytes. Every method is synchronous and may be called from any thread."""

    uri: str
    """Where the root is: an absolute path for local disk, otherwise `scheme://...` without a trailing slash."""

    @abc.abstractmethod
    def get(self, key: str) -> bytes:
        """The whole object. `ObjectMissing` if there is none."""

    @abc.abstractmethod
    def put(self, key: str, data: bytes) -> None:
        """Write or replace, atomically: a reader sees the old bytes or the new ones."""

    @abc.abstractmethod
    def create(self, key: str, data: bytes, *, sync_first: Sequence[str] = ()) -> None:
        """Write only if the key is free, atomically: of any number of callers exactly one succeeds.

        `sync_first` are local files, below the root, that must be durable before the object is visible. If one cannot be made
        durable, that is `StoragePermanent` and nothing is created: after a failed sync, a second one that succeeds proves
        nothing.

        `ObjectExists` if the key is taken. If an answer was lost and the request was repeated internally, the caller can get
        `ObjectExists` for its own object: it has to read it back to find out.
        """

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        """The bytes at each (offset, length); fewer where the object ends earlier. `ObjectMissing` if there is none."""
        data = self.get(key)
        return [data[offset : offset + length] for offset, length in spans]

    def find(self, key: str) -> bytes | None:
        """The object, or None if there is none."""
        try:
            return self.get(key)
        except ObjectMissing:
            return None

    def find_many(self, keys: Sequence[str]) -> builtins.list[bytes | None]:
        """`find` of each key, in their order; all at the same time where a request takes long."""
        return [self.find(key) for key in keys]

    def chunks(self, key: str) -> Iterator[bytes]:
        """The object as a stream of pieces. `ObjectMissing`, at the first piece, if there is none."""
        yield self.get(key)

    def fill(self, key: str, chunks: Iterator[bytes]) -> None:
        """Write an object from a stream: it appears complete at the end, or not at all. It may replace an object, so callers must
        always give a key the same bytes."""
        self.put(key, b"".join(chunks))

    def has(self, key: str) -> bool | None:
        """Whether there is such an object; None if asking costs as much as reading it."""
        return None

    def lock(self, folder: str) -> Lock | None:
        """A lock on a folder among all processes, if the store has such locks and the folder exists."""
        return None

    @abc.abstractmethod
    def list(self, prefix: str, *, limit: int | None = None) -> list[ObjectInfo]:
        """Objects below the folder `prefix` (the root when empty), at any depth, in the order of their keys.

        With `limit`, at most the first that many; up to 1,000 take one request on an object store.
        """

    @abc.abstractmethod
    def list_folders(self, prefix: str) -> builtins.list[str]:
        """Names of the immediate sub-folders of `prefix`, sorted."""

    @abc.abstractmethod
    def info(self, key: str) -> ObjectInfo:
        """Size and time of one object. `ObjectMissing` if there is none."""

    @abc.abstractmethod
    def delete(self, key: str) -> None:
        """Delete the object, if it exists."""

    @abc.abstractmethod
    def delete_many(self, keys: Sequence[str]) -> None:
        """Delete those of these objects that exist. Up to 1,000 take one request, if the store supports that. After an error,
        some of them may be deleted.
        """

    @abc.abstractmethod
    def delete_prefix(self, prefix: str) -> int:
        """Delete every object below the folder `prefix`; returns how many were found."""


def checked_key(key: str) -> str:
    """The key, or `UsageError` if it would not mean the same on every store."""
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
