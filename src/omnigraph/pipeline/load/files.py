"""Files to read from and write to: local paths and object-store addresses alike, in the driver and in tasks."""

from __future__ import annotations

import contextlib
import glob
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from omnigraph.errors import ObjectMissing, UnreadableInput, UsageError
from omnigraph.storage import open_store
from omnigraph.storage.options import options_shared_with, scheme_of, storage_options_for

if TYPE_CHECKING:
    import pyarrow as pa

_GLOB = set("*?[")
_READ_AHEAD = 8 * 1024 * 1024


@dataclass(frozen=True)
class InputFile:
    """`name` is what messages say; `address` is what opens it; `options` are resolved, so a worker elsewhere can."""

    name: str
    address: str
    size: int
    options: Mapping[str, str]

    @property
    def suffix(self) -> str:
        return os.path.splitext(self.address)[1].lower()

    @property
    def stem(self) -> str:
        return os.path.splitext(self.address.rsplit("/", 1)[-1])[0]

    def open(self, start: int = 0) -> io.BufferedReader:
        """Read from byte `start` on. UnreadableInput when it cannot be opened."""
        if scheme_of(self.address) != "file":
            return io.BufferedReader(_Remote(self, start), _READ_AHEAD)
        try:
            file = open(_local(self.address), "rb")  # noqa: SIM115  # the caller closes it
        except OSError as error:
            raise UnreadableInput(
                f"the file cannot be opened: {error.strerror}",
                hint="check that it exists on every machine that reads it, with the right to read it",
            ) from None
        file.seek(start)
        return file

    def open_anywhere(self) -> IO[bytes] | pa.BufferReader:
        """For a reader that jumps about in the file: a remote one is fetched whole."""
        if scheme_of(self.address) == "file":
            return self.open()
        import pyarrow as pa

        with self.open() as file:
            return pa.BufferReader(file.read())


def find_files(source: str, options: Mapping[str, str] | None = None) -> list[InputFile]:
    """The files a path, glob, folder or address names, sorted. UsageError when there is none.

    Names that begin with a dot or an underscore are left out of folders and globs.
    """
    try:
        found = _find_local(source) if scheme_of(source) == "file" else _find_remote(source, options)
    except (OSError, ValueError) as error:
        said = getattr(error, "strerror", None) or error
        raise UsageError(f"cannot look for files at {source!r}: {said}", hint="check the path or the pattern") from None
    if not found:
        raise UsageError(f"there is nothing to load at '{source}'", hint="check the path or the pattern")
    return sorted(found, key=lambda file: file.address)


def _local(address: str) -> Path:
    return Path(address.removeprefix("file://"))


def _find_local(source: str) -> list[InputFile]:
    path = str(_local(source))
    if _GLOB & set(path) and not os.path.exists(path):
        names = glob.glob(path, recursive=True)
    elif os.path.isdir(path):
        names = [os.path.join(path, name) for name in os.listdir(path)]
    else:
        names = []
        if os.path.exists(path) and not os.path.isfile(path):
            raise UsageError(f"'{source}' is neither a file nor a folder", hint="write it to a file first")
    files = [name for name in names if os.path.isfile(name) and not os.path.basename(name).startswith((".", "_"))]
    if os.path.isfile(path):
        files.append(path)
    return [InputFile(name, os.path.abspath(name), os.path.getsize(name), {}) for name in files]


def _find_remote(source: str, options: Mapping[str, str] | None) -> list[InputFile]:
    import fnmatch

    resolved = storage_options_for(source, options_shared_with(source, options or {}))
    scheme, _, rest = source.partition("://")
    bucket, _, key = rest.partition("/")
    root = f"{scheme}://{bucket}"
    store = open_store(root, storage_options=resolved)
    cut = min((key.index(sign) for sign in _GLOB if sign in key), default=None)
    folder = key.rstrip("/") if cut is None else key[:cut].rpartition("/")[0]
    listed = store.list(folder) if cut is not None or not os.path.splitext(key)[1] else []
    if not listed and cut is None:
        with contextlib.suppress(ObjectMissing):
            listed = [store.info(key)]
    chosen = [info for info in listed if cut is None or fnmatch.fnmatch(info.key, key)]
    return [InputFile(f"{root}/{info.key}", f"{root}/{info.key}", info.size, resolved) for info in chosen]


class _Remote(io.RawIOBase):
    """A remote object as a stream."""

    def __init__(self, file: InputFile, start: int) -> None:
        from omnigraph.storage.objects import open_object_store

        scheme, _, rest = file.address.partition("://")
        bucket, _, self._key = rest.partition("/")
        self._store = open_object_store(f"{scheme}://{bucket}", file.options)
        self._at = start
        self._size = file.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        data = self._store.get_range(self._key, self._at, length)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
