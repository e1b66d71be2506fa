"""A store on local disk, plain files below one folder.

`create` is a hard link from a finished file that has a temporary name or none, `put` a rename: both atomic for every reader and for any
number of processes. With durability "disk" a write returns only after the file, then its name, then the folders
that lead to it are on the disk. With "process" it survives the process but not a power failure.
"""

from __future__ import annotations

import builtins
import contextlib
import fcntl
import heapq
import itertools
import os
import re
import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from queue import SimpleQueue

from omnigraph.errors import ObjectExists, ObjectMissing, StoragePermanent
from omnigraph.metering import metered
from omnigraph.storage.os_errors import typed_os_error
from omnigraph.storage.store import TEMPORARY_PREFIX, Lock, ObjectInfo, Store, checked_key, checked_prefix
from omnigraph.storage.syncing import Durability, sync_before_create, sync_folders, sync_if_there, sync_in_background

# Spare files, created before they are needed.
#
# Some file systems take longer to create a file than to write and sync it. While a store that creates one object after the other in
# a folder waits for a sync, a thread creates the file for the next object. It has no name yet, so a process that dies leaves
# nothing behind; on file systems without unnamed files there are no spares.

MAX_SPARES = 64


class SpareFiles:
    """At most one file for each of the folders that were written to last. Thread-safe: one thread makes them, and each is taken
    only once."""

    def __init__(self) -> None:
        self.forget()

    def forget(self) -> None:
        """Start empty in a forked process: the files and the thread belong to its parent."""
        for handle in getattr(self, "_spares", {}).values():
            os.close(handle)
        self._spares: OrderedDict[str, int] = OrderedDict()
        self._wanted: SimpleQueue[str] = SimpleQueue()
        self._thread: threading.Thread | None = None

    def take(self, folder: str) -> int | None:
        """The handle of a spare file for this folder, for the caller to link and close; None if there is none."""
        return self._spares.pop(folder, None)

    def prepare(self, folder: str) -> None:
        """Have a spare made, if the system supports unnamed files."""
        if not hasattr(os, "O_TMPFILE"):
            return
        if self._thread is None:
            self._thread = threading.Thread(
                target=self._make, args=(self._wanted,), name="omnigraph-spares", daemon=True
            )
            self._thread.start()
        self._wanted.put(folder)

    def _make(self, wanted: SimpleQueue[str]) -> None:
        while True:
            folder = wanted.get()
            if folder in self._spares:
                continue
            try:
                self._spares[folder] = os.open(folder, os.O_WRONLY | os.O_TMPFILE, 0o666)
            except OSError:
                continue
            if len(self._spares) > MAX_SPARES:
                os.close(self._spares.popitem(last=False)[1])


spare_files = SpareFiles()
os.register_at_fork(after_in_child=spare_files.forget)


def link_spare(handle: int, path: str) -> bool:
    """Give an unnamed file this name. FileExistsError if it is taken; False if it cannot be given."""
    try:
        # Passing src_dir_fd, which an absolute path does not need, makes Python follow the link in /proc.
        os.link(f"/proc/self/fd/{handle}", path, src_dir_fd=handle, follow_symlinks=True)
    except FileExistsError:
        raise
    except OSError:
        return False
    return True


_TEMPORARY = re.compile(rf"{re.escape(TEMPORARY_PREFIX)}[0-9a-f]{{16}}")
_FOLDER_ATTEMPTS = 20
"""How often a write creates its folder again if concurrent deletes keep removing the empty folder."""


CHUNK_BYTES = 8 * 1024 * 1024


class FolderLock(Lock):
    """An advisory lock on an open folder."""

    def __init__(self, handle: int) -> None:
        self._handle = handle

    def acquire(self, *, waits: bool) -> bool:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_EX if waits else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return False
        return True

    def is_taken(self) -> bool:
        try:
            fcntl.flock(self._handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        except OSError:
            return False
        finally:
            os.close(self._handle)
        return False

    def release(self) -> None:
        # A child that was forked meanwhile has the handle too, and would keep the lock if ours were only closed.
        with contextlib.suppress(OSError):
            fcntl.flock(self._handle, fcntl.LOCK_UN)
        os.close(self._handle)


@metered(
    "get",
    "find",
    "has",
    "get_ranges",
    "put",
    "create",
    "chunks",
    "fill",
    "list",
    "list_folders",
    "info",
    "delete",
    "delete_many",
    "delete_prefix",
)
class LocalStore(Store):
    """Files below `root`. The folder is created by the first write, not by opening the store."""

    def __init__(self, root: str | os.PathLike[str], *, durability: Durability = "disk") -> None:
        self.root = os.path.abspath(root)
        self.uri = self.root
        self.durability: Durability = durability
        self._created_in = ""
        """The folder of the last object that was created."""

    def get(self, key: str) -> bytes:
        try:
            with open(self._path(key), "rb") as file:
                return file.read()
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise self._missing(key) from error
        except OSError as error:
            raise typed_os_error(error, "read", key, self.uri) from error

    def find(self, key: str) -> bytes | None:
        # Most calls ask for a commit that does not exist yet: stat is the cheapest way to find out.
        return super().find(key) if self.has(key) else None

    def has(self, key: str) -> bool | None:
        try:
            os.stat(self._path(key))
        except (FileNotFoundError, NotADirectoryError):
            return False
        except OSError as error:
            raise typed_os_error(error, "read", key, self.uri) from error
        return True

    def lock(self, folder: str) -> Lock | None:
        try:
            return FolderLock(os.open(self._path(folder), os.O_RDONLY))
        except OSError:
            return None

    def get_ranges(self, key: str, spans: Sequence[tuple[int, int]]) -> builtins.list[bytes]:
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                return [os.pread(file.fileno(), length, offset) for offset, length in spans]
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise self._missing(key) from error
        except OSError as error:
            raise typed_os_error(error, "read", key, self.uri) from error

    def put(self, key: str, data: bytes) -> None:
        with self._typed("write", key):
            self._write(key, data, os.replace)

    def create(self, key: str, data: bytes, *, sync_first: Sequence[str] = ()) -> None:
        path = self._path(key)
        try:
            if not self._create_from_spare(path, data, sync_first):
                self._write(key, data, _link_and_drop, sync_first)
        except FileExistsError as error:
            if os.path.isdir(path):
                raise StoragePermanent(
                    f"cannot create '{key}' in {self.uri}: a folder has this name",
                    key=key,
                    hint="the folder was not made by omnigraph; move it away",
                ) from error
            raise ObjectExists(f"'{key}' already exists in {self.uri}", key=key) from error
        except OSError as error:
            raise typed_os_error(error, "create", key, self.uri) from error

    def chunks(self, key: str) -> Iterator[bytes]:
        try:
            with open(self._path(key), "rb", buffering=0) as file:
                while chunk := file.read(CHUNK_BYTES):
                    yield chunk
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError) as error:
            raise self._missing(key) from error
        except OSError as error:
            raise typed_os_error(error, "read", key, self.uri) from error

    def fill(self, key: str, chunks: Iterator[bytes]) -> None:
        with self._typed("write", key):
            self._write(key, chunks, os.replace)

    def list(self, prefix: str, *, limit: int | None = None) -> list[ObjectInfo]:
        folder = checked_prefix(prefix)
        if limit == 0:
            return []
        with self._typed("list", folder):
            while True:
                keys = itertools.islice(self._keys(folder, limit), limit)
                infos = [self._info_if_there(key) for key in keys]
                listed = [info for info in infos if info is not None]
                # With a limit, other files may take the place of one that was deleted after its folder was read.
                if limit is None or len(listed) == len(infos):
                    return listed

    def _info_if_there(self, key: str) -> ObjectInfo | None:
        try:
            return self._info(key)
        except FileNotFoundError:
            return None

    def list_folders(self, prefix: str) -> builtins.list[str]:
        folder = checked_prefix(prefix)
        with self._typed("list", folder):
            names = sorted(entry.name for entry in _entries(self._folder(folder)) if entry.is_dir())
            # Empty folders, left by a crash between making a folder and filling it, do not count.
            return [name for name in names if any(True for _ in self._keys(_joined(folder, name), 1))]

    def info(self, key: str) -> ObjectInfo:
        checked_key(key)
        try:
            if os.path.isdir(self._path(key)):
                raise self._missing(key)
            return self._info(key)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise self._missing(key) from error
        except OSError as error:
            raise typed_os_error(error, "look at", key, self.uri) from error

    def delete(self, key: str) -> None:
        with self._typed("delete", key):
            self._remove(self._path(key))

    def delete_many(self, keys: Sequence[str]) -> None:
        for key in keys:
            self.delete(key)

    def delete_prefix(self, prefix: str) -> int:
        folder = checked_prefix(prefix)
        keys = list(self._keys(folder, None))
        self.delete_many(keys)
        # Including folders that were empty before.
        for path, _, _ in os.walk(self._folder(folder), topdown=False):
            if path != self.root:
                with contextlib.suppress(OSError):
                    os.rmdir(path)
        return len(keys)

    def list_temporary(self) -> builtins.list[ObjectInfo]:
        """Half-written files that a process left behind or is writing now. No key can have such a name."""
        infos: builtins.list[ObjectInfo] = []
        for folder, _, names in os.walk(self.root):
            for name in names:
                if _TEMPORARY.fullmatch(name):
                    path = os.path.join(folder, name)
                    with contextlib.suppress(FileNotFoundError):
                        status = os.stat(path)
                        modified = datetime.fromtimestamp(status.st_mtime, UTC)
                        infos.append(ObjectInfo(os.path.relpath(path, self.root), status.st_size, modified))
        return infos

    def delete_temporary(self, infos: Iterable[ObjectInfo]) -> None:
        """Remove files that `list_temporary` returned."""
        for info in infos:
            if _TEMPORARY.fullmatch(info.key.rsplit("/", 1)[-1]):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(os.path.join(self.root, info.key))

    def _path(self, key: str) -> str:
        return os.path.join(self.root, checked_key(key))

    def _folder(self, prefix: str) -> str:
        return self._path(prefix) if prefix else self.root

    def _info(self, key: str) -> ObjectInfo:
        status = os.stat(self._path(key))
        return ObjectInfo(key, status.st_size, datetime.fromtimestamp(status.st_mtime, UTC))

    def _keys(self, folder: str, limit: int | None) -> Iterator[str]:
        """Keys below `folder` in key order, lazily; only names are read, no files.

        A folder sorts as its name with a slash, which is how its keys compare with its siblings'.
        """
        named = (entry.name + "/" if entry.is_dir() else entry.name for entry in _entries(self._folder(folder)))
        for name in _in_order(named, limit):
            if name.endswith("/"):
                yield from self._keys(_joined(folder, name[:-1]), limit)
            else:
                yield _joined(folder, name)

    def _write(
        self,
        key: str,
        data: bytes | Iterator[bytes],
        finish: Callable[[str, str], None],
        sync_first: Sequence[str] = (),
    ) -> None:
        path = self._path(key)
        temporary, handle, new_entries = self._open_temporary(os.path.dirname(path))
        try:
            try:
                for chunk in (data,) if isinstance(data, bytes) else data:
                    _write_all(handle, chunk)
                if self.durability == "disk":
                    self._sync(handle, sync_first)
            finally:
                os.close(handle)
            finish(temporary, path)
        except BaseException:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(temporary)
            raise
        if self.durability == "disk":
            sync_folders(os.path.dirname(path), self.root, new_entries)

    def _create_from_spare(self, path: str, data: bytes, sync_first: Sequence[str]) -> bool:
        """Write to a spare file and give it its name. False if there is no spare, or it cannot have this name."""
        folder = os.path.dirname(path)
        is_next, self._created_in = self._created_in == folder, folder
        if not is_next or self.durability != "disk":
            return False
        handle = spare_files.take(folder)
        if handle is None:
            spare_files.prepare(folder)
            return False
        try:
            _write_all(handle, data)
            spare_files.prepare(folder)  # while this one is synced
            self._sync(handle, sync_first)
            is_linked = link_spare(handle, path)
            if is_linked:
                # It was synced while it had no name: without a journal, or on Btrfs, a crash now would delete it.
                os.fsync(handle)
        finally:
            os.close(handle)
        if is_linked:
            sync_folders(folder, self.root)
        return is_linked

    def _sync(self, handle: int, others: Sequence[str]) -> None:
        """Sync an open file, and the other files at the same time."""
        if not others:
            os.fsync(handle)
            return
        syncing = sync_in_background(handle)
        try:
            sync_before_create(others, self.root)
        finally:
            syncing.result()

    def _open_temporary(self, folder: str) -> tuple[str, int, tuple[str, ...]]:
        """A new temporary file in `folder`, and the folders above the root that got a new entry for it."""
        new_entries: tuple[str, ...] = ()
        for attempt in range(_FOLDER_ATTEMPTS):
            temporary = os.path.join(folder, TEMPORARY_PREFIX + secrets.token_hex(8))
            try:
                return temporary, os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), new_entries
            except FileNotFoundError:
                if attempt == _FOLDER_ATTEMPTS - 1:
                    raise
                new_entries = _parents_to_make(self.root) or new_entries
                # A concurrent delete may remove a folder that makedirs has just found or created.
                with contextlib.suppress(FileNotFoundError, FileExistsError):
                    os.makedirs(folder, exist_ok=True)
        raise AssertionError("unreachable: the last attempt raises")

    def _remove(self, path: str) -> None:
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError, IsADirectoryError):
            return
        folder = os.path.dirname(path)
        if self.durability == "disk":
            sync_if_there(folder)
        # rmdir refuses a folder that has anything in it, so a concurrent writer's file keeps its folder.
        with contextlib.suppress(OSError):
            while folder != self.root:
                os.rmdir(folder)
                folder = os.path.dirname(folder)

    def _missing(self, key: str) -> ObjectMissing:
        return ObjectMissing(f"'{key}' is not in {self.uri}", key=key)

    @contextlib.contextmanager
    def _typed(self, doing: str, key: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise typed_os_error(error, doing, key, self.uri) from error


def _write_all(handle: int, data: bytes) -> None:
    written = os.write(handle, data)
    while written < len(data):
        written += os.write(handle, memoryview(data)[written:])


def _link_and_drop(temporary: str, path: str) -> None:
    os.link(temporary, path)
    os.unlink(temporary)


def _parents_to_make(root: str) -> tuple[str, ...]:
    """The folders above `root` that get a new entry when `root` is made."""
    parents = []
    path = Path(root)
    while not path.exists():
        path = path.parent
        parents.append(str(path))
    return tuple(parents)


def _entries(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if not entry.name.startswith(TEMPORARY_PREFIX)]
    except (FileNotFoundError, NotADirectoryError):
        return []


def _in_order(names: Iterable[str], limit: int | None) -> Iterator[str]:
    """Names in order. With a limit, the rest is sorted only if the first ones turn out to be empty folders."""
    if limit is None:
        yield from sorted(names)
        return
    everything = list(names)
    first = heapq.nsmallest(limit, everything)
    yield from first
    if len(first) < len(everything):
        yield from sorted(everything)[len(first) :]


def _joined(folder: str, name: str) -> str:
    return f"{folder}/{name}" if folder else name
