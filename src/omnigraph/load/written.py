"""The files that one load has written. Those that no commit will name are removed when the load ends."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass

from omnigraph.errors import StorageError
from omnigraph.metering import Threads
from omnigraph.storage.local import LocalStore
from omnigraph.storage.store import Store
from omnigraph.tables.addresses import Fragment
from omnigraph.tables.staging import FOLD_WIDTH, MAX_FOLD_ROWS, ROWS_PER_FRAGMENT, Staged
from omnigraph.tables.table import Table
from omnigraph.tasks.runner import Runner
from omnigraph.tasks.target import TableVersion, Target

_REMOTE_THREADS = 16


class LoadStopped(Exception):
    """The load was cancelled while this task ran; it should write nothing more."""


class WrittenFiles:
    """What the tasks of a load in this process have written, by table. Thread-safe.

    Only files noted here are removed, and none once they are `claimed`: a prepared plan then names them, or did, and another process
    may have published it.
    """

    def __init__(self, stopping: threading.Event | None = None) -> None:
        self.claimed = False
        self._stopping = stopping
        self._lock = threading.Lock()
        self._files: dict[str, None] = {}
        """Keys in the store, in the order of removal: a version before the files that it names."""

    def refuse_when_stopped(self) -> None:
        """Raises LoadStopped in a task whose load was cancelled."""
        if self._stopping is not None and self._stopping.is_set():
            raise LoadStopped

    def note_fragments(self, table: str, fragments: Iterable[str]) -> None:
        with self._lock:
            for file in data_files(fragments):
                self._files[f"{table}/{file}"] = None

    def note_version(self, staged: Staged) -> None:
        keys = [f"{staged.path}/{file}" for file in staged.files]
        versions = [key for key in keys if key.endswith(".manifest")]
        with self._lock:
            self._files = dict.fromkeys([*versions, *self._files, *keys])

    @contextlib.contextmanager
    def noting(self, staged: Sequence[Staged]) -> Iterator[None]:
        """Note the versions that are in the list when the block ends, even with an error."""
        try:
            yield
        finally:
            for version in staged:
                self.note_version(version)

    def remove(self, store: Store, *, only: Collection[str] | None = None) -> None:
        """Remove all files, or only some. Files that the store fails to delete are left for a cleanup of the graph."""
        with self._lock:
            keys = [key for key in self._files if only is None or key in only]
            for key in keys:
                del self._files[key]
        if isinstance(store, LocalStore):
            for key in keys:
                # Not through the store, which would also remove a folder that another writer needs the next moment.
                with contextlib.suppress(OSError):
                    os.unlink(os.path.join(store.root, key))
        elif keys:
            with Threads(_REMOTE_THREADS) as pool:
                list(pool.map(lambda key: _delete(store, key), keys))


def superseded_files(old: Staged, new: Staged) -> set[str]:
    """Files of a version that another one, with the same rows, does without."""
    return {f"{old.path}/{file}" for file in old.files} - {f"{new.path}/{file}" for file in new.files}


def data_files(fragments: Iterable[str]) -> list[str]:
    """The files of fragments, relative to their table."""
    return [f"data/{file['path']}" for text in fragments for file in json.loads(text)["files"]]


def _delete(store: Store, key: str) -> None:
    with contextlib.suppress(StorageError):
        store.delete(key)


# Fragments of a good size whatever the partitioning: small fragments of a load are written again, several as one, by tasks.
#
# A load of many types from many splits leaves a small fragment per type and split. The next small write would have to fold them
# all; so the load does it, where it is spread over the machines.


@dataclass(frozen=True)
class PackTask:
    target: Target
    place: TableVersion
    fragments: tuple[int, ...]
    written: WrittenFiles | None = None


def pack_fragments(task: PackTask) -> tuple[str, ...]:
    table = task.target.open(task.place)
    fragments = task.target.tables.write_fragments(table, table.read(fragments=task.fragments))
    if task.written is not None:
        task.written.note_fragments(table.path, fragments)
    return fragments


def merge_small_fragments(
    target: Target, table: Table, fragments: tuple[str, ...], runner: Runner, written: WrittenFiles | None
) -> tuple[str, ...] | None:
    """The fragments of a table that holds exactly them, with the small ones joined; None when they are good as they are."""
    small = [fragment for fragment in table.fragments if fragment.rows < MAX_FOLD_ROWS]
    if len(small) < FOLD_WIDTH:
        return None
    tasks = [PackTask(target, TableVersion.of(table), group, written) for group in _groups(small)]
    joined = {file for fragment in small for file in fragment.files}
    kept = [text for text in fragments if not joined & {file["path"] for file in json.loads(text)["files"]}]
    return (*kept, *(text for texts in runner.map("pack", pack_fragments, tasks) for text in texts))


def _groups(fragments: list[Fragment]) -> list[tuple[int, ...]]:
    groups: list[list[int]] = []
    rows = 0
    for fragment in fragments:
        if not groups or rows + fragment.rows > ROWS_PER_FRAGMENT:
            groups.append([])
            rows = 0
        groups[-1].append(fragment.id)
        rows += fragment.rows
    return [tuple(group) for group in groups]
