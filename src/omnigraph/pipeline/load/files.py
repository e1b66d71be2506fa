"""Files to read from and write to: local paths and object-store addresses alike, in the driver and in tasks."""

from __future__ import annotations

import contextlib
import glob
import io
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from omnigraph.errors import ObjectMissing, UsageError
from omnigraph.storage import open_store
from omnigraph.storage.options import scheme_of, storage_options_for

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

    def open(self, start: int = 0) -> IO[bytes]:
        """Read from byte `start` on."""
        if scheme_of(self.address) == "file":
            file = open(_local(self.address), "rb")  # noqa: SIM115  # the caller closes it
            file.seek(start)
            return file
        return io.BufferedReader(_Remote(self, start), _READ_AHEAD)

    def whole(self) -> Any:
        """Something pyarrow can read at any place: a path, or a buffer of a remote object."""
        import pyarrow as pa

        if scheme_of(self.address) == "file":
            return str(_local(self.address))
        with self.open() as file:
            return pa.BufferReader(file.read())


def find_files(source: str, options: Mapping[str, str] | None = None) -> list[InputFile]:
    """The files a path, glob, folder or address names, sorted. UsageError when there is none."""
    found = _find_local(source) if scheme_of(source) == "file" else _find_remote(source, options)
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
        names = [path]
    files = [name for name in names if os.path.isfile(name) and not os.path.basename(name).startswith((".", "_"))]
    return [InputFile(name, os.path.abspath(name), os.path.getsize(name), {}) for name in files]


def _find_remote(source: str, options: Mapping[str, str] | None) -> list[InputFile]:
    import fnmatch

    resolved = storage_options_for(source, options)
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
        import obstore
        from obstore.store import from_url

        scheme, _, rest = file.address.partition("://")
        bucket, _, self._key = rest.partition("/")
        options = {name: value for name, value in file.options.items() if name != "allow_http"}
        client = {"allow_http": True} if file.options.get("allow_http") == "true" else None
        self._store = from_url(f"{scheme}://{bucket}", config=options or None, client_options=client)
        self._obstore = obstore
        self._at = start
        self._size = file.size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        data = self._obstore.get_range(self._store, self._key, start=self._at, length=length)
        buffer[:length] = memoryview(data)
        self._at += length
        return length
