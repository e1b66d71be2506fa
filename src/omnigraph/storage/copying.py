"""Objects copied from one store to another. They never change, so a copy that is there is the right one if its size is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from omnigraph.errors import Damaged, HistoryGap, ObjectExists, ObjectMissing
from omnigraph.failpoints import Failpoint, reach
from omnigraph.storage.opening import open_store
from omnigraph.storage.store import Store
from omnigraph.storage.syncing import Durability

COPY_THREADS = 16
MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""An object up to this size is copied in one piece, and created only if it is not there; a larger one as a stream."""
MAX_AGE_S = 1_200.0
"""An object that was there already, is older than this and is named by no commit yet may be taken for garbage: it is written
again. Cleanup never takes one that is younger than an hour."""


@dataclass(frozen=True)
class Copied:
    """How many objects and bytes travelled, and how many objects were there already."""

    objects: int = 0
    bytes: int = 0
    present: int = 0

    def __add__(self, other: Copied) -> Copied:
        return Copied(self.objects + other.objects, self.bytes + other.bytes, self.present + other.present)


def copy_object(source: Store, target: Store, key: str, size: int, *, old_before: float) -> Copied:
    """Make an object of one store one of the other. Unless it is there, with this size, and written at `old_before` (a time of
    the target's own clock) or later.

    Damaged when there is another object under the key. HistoryGap when the source no longer has it.
    """
    try:
        if size <= MAX_WHOLE_BYTES:
            return _copy_whole(source, target, key, old_before)
        if _is_there(target, key, size, old_before):
            return Copied(present=1)
        target.fill(key, source.chunks(key))
    except ObjectMissing as error:
        raise HistoryGap(
            f"'{key}' was removed from {source.uri} while it was copied", hint="run the command again"
        ) from error
    finally:
        reach(Failpoint.COPY_AFTER_OBJECT)
    return Copied(1, size)


def _copy_whole(source: Store, target: Store, key: str, old_before: float) -> Copied:
    data = source.get(key)
    try:
        target.create(key, data)
    except ObjectExists:
        if _is_there(target, key, len(data), old_before):
            return Copied(present=1)
        target.put(key, data)
    return Copied(1, len(data))


def _is_there(target: Store, key: str, size: int, old_before: float) -> bool:
    try:
        found = target.info(key)
    except ObjectMissing:
        return False
    if found.size != size:
        raise Damaged(key, f"it has {found.size} bytes in {target.uri}, and should have {size}")
    return found.modified.timestamp() >= old_before


@dataclass(frozen=True)
class Place:
    """A store as a value that travels."""

    uri: str
    options: tuple[tuple[str, str], ...]
    durability: Durability = "disk"

    @classmethod
    def of(cls, uri: str, options: Mapping[str, str], durability: Durability = "disk") -> Place:
        return cls(uri, tuple(sorted(options.items())), durability)

    def open(self) -> Store:
        return open_store(self.uri, storage_options=dict(self.options) or None, durability=self.durability)


@dataclass(frozen=True)
class CopyTask:
    """Objects to copy, with their sizes."""

    source: Place
    target: Place
    objects: tuple[tuple[str, int], ...]
    old_before: float


def copy_objects(task: CopyTask) -> Copied:
    """All of them, side by side."""
    return copy_between(task.source.open(), task.target.open(), task.objects, old_before=task.old_before)


def copy_between(source: Store, target: Store, objects: Sequence[tuple[str, int]], *, old_before: float) -> Copied:
    if not objects:
        return Copied()
    with ThreadPoolExecutor(min(COPY_THREADS, len(objects)), thread_name_prefix="omnigraph-copy") as pool:
        copies = [pool.submit(copy_object, source, target, key, size, old_before=old_before) for key, size in objects]
        try:
            return sum((copy.result() for copy in copies), Copied())
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise
