"""Making files on local disk durable: their bytes, their names, and the names of the folders that lead to them.

The file system merges concurrent syncs into few flushes; one after the other, each pays for its own. And the name of a folder has
to be made durable only once, not at every write into it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Literal

from omnigraph.errors import ObjectMissing, StoragePermanent, StorageTransient
from omnigraph.storage.os_errors import typed_os_error

if TYPE_CHECKING:
    from concurrent.futures import Future, ThreadPoolExecutor

Durability = Literal["disk", "process"]

_THREADS = 16
_FOLDERS_HELD = 256


def sync_files(
    paths: Iterable[str | os.PathLike[str]],
    *,
    root: str | os.PathLike[str] | None = None,
    durability: Durability = "disk",
) -> None:
    """Make files that were written elsewhere durable: each file, and each distinct folder once, all concurrently.

    With `root`, the folders from each file up to `root` are included, unless their names are known to be durable: pass it
    whenever one of those folders may be new. Does nothing with durability "process".
    """
    if durability == "process":
        return
    files = [os.path.abspath(path) for path in paths]
    parents = dict.fromkeys(os.path.dirname(path) for path in files)
    if root is None:
        _side_by_side(_sync_typed, [*files, *parents])
        return
    with _new_names(parents, os.path.abspath(root)) as folders:
        _side_by_side(_sync_typed, [*files, *folders])


def sync_before_create(paths: Sequence[str], root: str | None = None) -> None:
    """Make files durable that an object is about to name. StoragePermanent if that fails for any reason.

    The system forgets what it could not write: a second sync would succeed although the bytes are lost.
    """
    try:
        sync_files(paths, root=root)
    except StorageTransient as error:
        raise StoragePermanent(error.message, key=error.key, hint="write again; nothing was committed") from error


def sync_folders(folder: str, root: str, more: Sequence[str] = ()) -> None:
    """Make the names in `folder` and its own name durable. Folders may be missing: deleting the last file removes its folder."""
    handle = None if more else _durable.duplicate(folder, root)
    if handle is not None:
        _sync_and_close(handle)
        return
    with _new_names([folder], root) as folders:
        _side_by_side(sync_if_there, [*folders, *more])


def sync_if_there(folder: str) -> None:
    """Sync a folder, unless it was removed meanwhile."""
    with contextlib.suppress(FileNotFoundError):
        _sync(folder)


def sync_in_background(handle: int) -> Future[None]:
    """Start to sync an open file."""
    return _threads().submit(os.fsync, handle)


# ---------------------------------------------------------------- folders


class _HeldFolders:
    """Folders whose names, up to the root, are durable.

    Any process may delete a folder and create it again, and then its new name is not durable. An open handle tells the two apart:
    as long as it is held, no other folder can have the same inode number.
    """

    def __init__(self) -> None:
        self._held: OrderedDict[tuple[str, str], tuple[int, tuple[int, int]]] = OrderedDict()
        self._lock = threading.Lock()

    def knows(self, path: str, root: str) -> bool:
        with self._lock:
            return self._known(path, root) is not None

    def duplicate(self, path: str, root: str) -> int | None:
        """Another handle of a folder that is held, for the caller to close; None if it is not held."""
        with self._lock:
            handle = self._known(path, root)
            return None if handle is None else os.dup(handle)

    def _known(self, path: str, root: str) -> int | None:
        held = self._held.get((path, root))
        if held is None:
            return None
        if held[1] == _number(path):
            self._held.move_to_end((path, root))
            return held[0]
        os.close(self._held.pop((path, root))[0])
        return None

    def hold(self, path: str, root: str, handle: int) -> None:
        """Takes over the handle, which was opened before the names of `path` and of all folders above it were synced."""
        number = _number(handle)
        with self._lock:
            if (path, root) in self._held or number is None or number != _number(path):
                os.close(handle)
                return
            self._held[path, root] = (handle, number)
            while len(self._held) > _FOLDERS_HELD:
                os.close(self._held.popitem(last=False)[1][0])


_durable = _HeldFolders()


@contextlib.contextmanager
def _new_names(folders: Iterable[str], root: str) -> Iterator[list[str]]:
    """What the block has to sync so that the entries of these folders, and their own names up to `root`, are durable.

    The parent of an unknown folder is included even if the folder is old: another process may have created it and not have synced
    the parent yet.
    """
    wanted: dict[str, None] = {}
    opened: dict[str, int] = {}
    try:
        for folder in folders:
            wanted[folder] = None
            while len(folder) > len(root) and folder not in opened and not _durable.knows(folder, root):
                with contextlib.suppress(FileNotFoundError):
                    opened[folder] = os.open(folder, os.O_RDONLY)
                folder = os.path.dirname(folder)
                wanted[folder] = None
        yield list(wanted)
        while opened:
            folder, handle = opened.popitem()
            _durable.hold(folder, root, handle)
    finally:
        for handle in opened.values():
            os.close(handle)


def _number(path: str | int) -> tuple[int, int] | None:
    """The device and inode of what is at a path, or of an open handle; None if there is nothing."""
    try:
        status = os.stat(path)
    except OSError:
        return None
    return status.st_dev, status.st_ino


# ---------------------------------------------------------------- syncing


def _side_by_side(sync: Callable[[str], None], paths: Sequence[str]) -> None:
    """Sync all paths concurrently, the last one in the calling thread."""
    others = [_threads().submit(sync, path) for path in paths[:-1]]
    try:
        for path in paths[-1:]:
            sync(path)
    finally:
        for other in others:
            other.result()


@functools.cache
def _threads() -> ThreadPoolExecutor:
    from concurrent.futures import ThreadPoolExecutor

    return ThreadPoolExecutor(_THREADS, thread_name_prefix="omnigraph-sync")


os.register_at_fork(after_in_child=_threads.cache_clear)


def _sync_typed(path: str) -> None:
    try:
        _sync(path)
    except FileNotFoundError as error:
        raise ObjectMissing(f"'{path}' is not there to be made durable", key=path) from error
    except OSError as error:
        raise typed_os_error(error, "make durable", os.path.basename(path), os.path.dirname(path)) from error


def _sync(path: str) -> None:
    """Sync a file or a folder."""
    _sync_and_close(os.open(path, os.O_RDONLY))


def _sync_and_close(handle: int) -> None:
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
