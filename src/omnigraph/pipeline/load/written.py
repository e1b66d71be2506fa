"""The files that one load has written. Those that no commit will name are removed when the load ends."""

from __future__ import annotations

import contextlib
import json
import os
import threading
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

from omnigraph.errors import StorageError
from omnigraph.storage import Store
from omnigraph.storage.local import LocalStore
from omnigraph.tables import Staged

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
            with ThreadPoolExecutor(_REMOTE_THREADS) as pool:
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
