"""Copying objects from one store to another. They never change, so an existing copy is correct if its size is."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Protocol

from omnigraph._internal.failpoints import Failpoint, reach
from omnigraph.errors import Damaged, HistoryGap, ObjectExists, ObjectMissing
from omnigraph.metering import Threads
from omnigraph.storage.options import open_store
from omnigraph.storage.store import Store
from omnigraph.storage.syncing import Durability

COPY_THREADS = 16
MAX_WHOLE_BYTES = 16 * 1024 * 1024
"""An object up to this size is copied in one piece, and created only if it does not exist; a larger one is streamed."""
REPORT_S = 0.5
"""How often progress is reported, at least."""
MAX_AGE_S = 1_200.0
"""An existing object that is older than this, and that no commit names yet, may be removed as garbage, so it is written again.
Cleanup never removes one that is younger than an hour."""


@dataclass(frozen=True)
class Copied:
    """How many objects and bytes were copied, and how many objects existed already."""

    objects: int = 0
    bytes: int = 0
    present: int = 0

    def __add__(self, other: Copied) -> Copied:
        return Copied(self.objects + other.objects, self.bytes + other.bytes, self.present + other.present)


class CopyListener(Protocol):
    """Called with the progress of a copy: the number of objects that are done in this stage, and the bytes copied."""

    def __call__(self, stage: str, done: int, objects: int, bytes: int = 0) -> None: ...


def unwatched(stage: str, done: int, objects: int, bytes: int = 0) -> None:
    """A listener that does nothing."""


class _ByteCounter:
    """Counts the bytes read from the source, including those of objects that are not done."""

    def __init__(self) -> None:
        self.bytes = 0
        self._lock = threading.Lock()

    def count(self, chunks: Iterable[bytes]) -> Iterator[bytes]:
        for chunk in chunks:
            with self._lock:
                self.bytes += len(chunk)
            yield chunk


def copy_object(
    source: Store, target: Store, key: str, size: int, counter: _ByteCounter, *, old_before: float
) -> Copied:
    """Copy an object, unless it exists with this size and was written at `old_before` (a time of the target's clock) or later.

    Damaged if there is an object of another size under the key. HistoryGap if the source no longer has it.
    """
    try:
        if size <= MAX_WHOLE_BYTES:
            return _copy_whole(source, target, key, counter, old_before)
        if _is_there(target, key, size, old_before):
            return Copied(present=1)
        target.fill(key, counter.count(source.chunks(key)))
    except ObjectMissing as error:
        raise HistoryGap(
            f"'{key}' was removed from {source.uri} while it was copied", hint="run the command again"
        ) from error
    finally:
        reach(Failpoint.COPY_AFTER_OBJECT)
    return Copied(1, size)


def _copy_whole(source: Store, target: Store, key: str, counter: _ByteCounter, old_before: float) -> Copied:
    (data,) = counter.count([source.get(key)])
    try:
        target.create(key, data)
    except ObjectExists:
        if _is_there(target, key, len(data), old_before):
            return Copied(present=1)
        target.put(key, data)
    return Copied(1, len(data))


def _is_there(target: Store, key: str, size: int, old_before: float) -> bool:
    try:
        info = target.info(key)
    except ObjectMissing:
        return False
    if info.size != size:
        raise Damaged(key, f"it has {info.size} bytes in {target.uri}, and should have {size}")
    return info.modified.timestamp() >= old_before


@dataclass(frozen=True)
class StoreAddress:
    """The address of a store, as a value that can be sent to another process."""

    uri: str
    options: tuple[tuple[str, str], ...]
    durability: Durability = "disk"

    @classmethod
    def of(cls, uri: str, options: Mapping[str, str], durability: Durability = "disk") -> StoreAddress:
        return cls(uri, tuple(sorted(options.items())), durability)

    def open(self) -> Store:
        return open_store(self.uri, storage_options=dict(self.options) or None, durability=self.durability)


@dataclass(frozen=True)
class CopyTask:
    """Objects to copy, with their sizes."""

    source: StoreAddress
    target: StoreAddress
    objects: tuple[tuple[str, int], ...]
    old_before: float


def copy_objects(task: CopyTask) -> Copied:
    """Copy all objects of a task, concurrently."""
    return copy_between(task.source.open(), task.target.open(), task.objects, old_before=task.old_before)


def copy_between(
    source: Store,
    target: Store,
    objects: Sequence[tuple[str, int]],
    *,
    old_before: float,
    watch: CopyListener = unwatched,
) -> Copied:
    if not objects:
        return Copied()
    counter, ended = _ByteCounter(), queue.SimpleQueue[Future[Copied]]()
    with Threads(min(COPY_THREADS, len(objects)), thread_name_prefix="omnigraph-copy") as pool:
        for key, size in objects:
            copy = pool.submit(copy_object, source, target, key, size, counter, old_before=old_before)
            copy.add_done_callback(ended.put)
        try:
            return _total(ended, len(objects), counter, watch)
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def _total(
    ended: queue.SimpleQueue[Future[Copied]], objects: int, counter: _ByteCounter, watch: CopyListener
) -> Copied:
    """The sum of all copies, as they end."""
    total, done = Copied(), 0
    while done < objects:
        watch("copy", done, objects, counter.bytes)
        try:
            copy = ended.get(timeout=REPORT_S)
        except queue.Empty:
            continue
        total += copy.result()
        done += 1
    watch("copy", done, objects, counter.bytes)
    return total
