"""Files to read from and write to: local paths and object-store addresses alike, in the driver and in tasks."""

from __future__ import annotations

import contextlib
import glob
import io
import os
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO, Any
from urllib.parse import unquote

from omnigraph.errors import ObjectMissing, UnreadableInput, UsageError
from omnigraph.storage.options import open_store, options_shared_with, scheme_of, storage_options_for

_GLOB = set("*?[")
_READ_AHEAD = 8 * 1024 * 1024
STDIN = "-"
STDIN_NAME = "standard input"
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".zstd": "zstd"}
_NULL_PARTITION = "__HIVE_DEFAULT_PARTITION__"
"""How a folder is called that holds the rows whose partition column is null."""


class ConfinedPath(str):
    """A path or pattern from someone who may read nothing outside of `root`, wherever symbolic links lead."""

    root: str

    def __new__(cls, path: str, root: str) -> ConfinedPath:
        confined = super().__new__(cls, path)
        confined.root = root
        return confined


@dataclass(frozen=True)
class InputFile:
    """`name` is what messages say; `address` is what opens it; `options` are resolved, so a worker elsewhere can.

    `folders` are those between what was asked for and the file. `root` is the folder that the file must really lie below.
    """

    name: str
    address: str
    size: int
    options: Mapping[str, str]
    folders: tuple[str, ...] = ()
    root: str | None = None

    @property
    def is_stdin(self) -> bool:
        return self.name == STDIN_NAME

    @property
    def compression(self) -> str | None:
        """How the text in the file is compressed, by the file's name."""
        return COMPRESSIONS.get(os.path.splitext(self.address)[1].lower())

    @property
    def suffix(self) -> str:
        """That of the text, when the file is compressed."""
        return os.path.splitext(self._inner_name)[1].lower()

    @property
    def stem(self) -> str:
        return os.path.splitext(self._inner_name)[0]

    @property
    def _inner_name(self) -> str:
        name = self.address.rsplit("/", 1)[-1]
        return name if self.compression is None else os.path.splitext(name)[0]

    @property
    def partitions(self) -> dict[str, str | None]:
        """The columns that folders like `dt=2026-11-15` stand for."""
        pairs = [folder.split("=", 1) for folder in self.folders if "=" in folder.lstrip("=")]
        return {unquote(name): None if value == _NULL_PARTITION else unquote(value) for name, value in pairs}

    def open(self, start: int = 0, end: int | None = None) -> io.BufferedReader:
        """Read from byte `start` on, up to `end`. UnreadableInput when it cannot be opened."""
        if scheme_of(self.address) != "file":
            return io.BufferedReader(_Remote(self, start, end), _READ_AHEAD)
        try:
            file = open(_local(self.address), "rb")  # noqa: SIM115  # the caller closes it
        except OSError as error:
            raise UnreadableInput(
                f"the file cannot be opened: {error.strerror}",
                hint="check that it exists on every machine that reads it, with the right to read it",
            ) from None
        if self.root is not None and not _is_really_below(self.root, self.address, file.fileno()):
            file.close()
            raise UnreadableInput("a symbolic link leads to another place", hint=_NO_LINKS)
        file.seek(start)
        return file if end is None else io.BufferedReader(_Part(file, end - start), _READ_AHEAD)

    def open_anywhere(self) -> IO[bytes]:
        """For a reader that jumps about in the file: each of its reads of a remote one is one request."""
        return self.open() if scheme_of(self.address) == "file" else _Remote(self, 0)  # type: ignore[return-value]  # raw


def find_files(source: str, options: Mapping[str, str] | None = None) -> list[InputFile]:
    """The files a path, glob, folder or address names, sorted. UsageError when there is none.

    Folders are searched to any depth. Below them, and where a pattern is followed, files and folders whose names begin with a
    dot or an underscore are left out.
    """
    try:
        files = _find_local(source) if scheme_of(source) == "file" else _find_remote(source, options)
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(
            f"cannot look for files at {source!r}: {reason}", hint="check the path or the pattern"
        ) from None
    if not files:
        raise UsageError(f"there is nothing to load at '{source}'", hint="check the path or the pattern")
    if isinstance(source, ConfinedPath):
        files = [replace(file, root=source.root) for file in files]
        if not all(_is_really_below(source.root, file.address) for file in files):
            raise UsageError(f"a symbolic link at '{source}' leads to another place", hint=_NO_LINKS)
    return sorted(files, key=lambda file: file.address)


_NO_LINKS = "only files that really lie there are loaded; upload the others"


def _is_really_below(root: str, address: str, descriptor: int | None = None) -> bool:
    """Whether a file lies below a folder once all links are followed; with `descriptor`, whether it is also the file that is open."""
    place = os.path.realpath(address)
    if not place.startswith(os.path.join(os.path.realpath(_local(root)), "")):
        return False
    return descriptor is None or os.path.samestat(os.stat(place), os.fstat(descriptor))


def _local(address: str) -> Path:
    return Path(address.removeprefix("file://"))


def spooled(descriptor: int, folder: str) -> InputFile:
    """What an open stream holds, as a file in a folder that the caller removes: it is read more than once."""
    path = os.path.join(folder, "standard-input")
    with open(descriptor, "rb", closefd=False) as stream, open(path, "wb") as file:
        shutil.copyfileobj(stream, file, _READ_AHEAD)
    return InputFile(STDIN_NAME, path, os.path.getsize(path), {})


def _find_local(source: str) -> list[InputFile]:
    path = str(_local(source))
    if os.path.isfile(path):
        return [_local_file(path, os.path.dirname(path))]
    if _GLOB & set(path) and not os.path.exists(path):
        root = path[: min(path.index(sign) for sign in _GLOB if sign in path)].rpartition("/")[0]
        names = [name for match in glob.glob(path, recursive=True) for name in _files_below(match)]
    elif os.path.isdir(path):
        root, names = path, list(_files_below(path))
    elif os.path.exists(path):
        raise UsageError(f"'{source}' is neither a file nor a folder", hint="write it to a file first")
    else:
        return []
    files = [_local_file(name, root) for name in dict.fromkeys(names)]
    return [file for file in files if not _is_hidden(file)]


def _files_below(path: str) -> Iterator[str]:
    if os.path.isfile(path):
        yield path
    for folder, _, names in os.walk(path, followlinks=True):
        yield from (name for name in (os.path.join(folder, file) for file in names) if os.path.isfile(name))


def _local_file(path: str, root: str) -> InputFile:
    below = os.path.relpath(os.path.dirname(path) or ".", root or ".")
    folders = tuple(part for part in below.split(os.sep) if part != ".")
    return InputFile(path, os.path.abspath(path), os.path.getsize(path), {}, folders)


def _is_hidden(file: InputFile) -> bool:
    names = (*file.folders, file.address.rsplit("/", 1)[-1])
    return any(name.startswith((".", "_")) for name in names)


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
            info = store.info(key)
            return [InputFile(f"{root}/{info.key}", f"{root}/{info.key}", info.size, resolved)]
    files = []
    for info in listed:
        folders = tuple(info.key.removeprefix(folder).strip("/").split("/")[:-1])
        if cut is None or fnmatch.fnmatch(info.key, key):
            files.append(InputFile(f"{root}/{info.key}", f"{root}/{info.key}", info.size, resolved, folders))
    return [file for file in files if not _is_hidden(file)]


class _Part(io.RawIOBase):
    """So many bytes of a file, from where it stands."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file = file
        self._left = size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._file.read(min(len(buffer), self._left))
        self._left -= len(data)
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._file.close()
        super().close()


class _Remote(io.RawIOBase):
    """A remote object as a stream, up to `end`."""

    def __init__(self, file: InputFile, start: int, end: int | None = None) -> None:
        from omnigraph.storage.objects import open_object_store

        scheme, _, rest = file.address.partition("://")
        bucket, _, self._key = rest.partition("/")
        self._store = open_object_store(f"{scheme}://{bucket}", file.options)
        self._at = start
        self._size = file.size if end is None else min(end, file.size)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        start = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._size}[whence]
        self._at = max(0, start + offset)
        return self._at

    def readall(self) -> bytes:
        return self.read(max(0, self._size - self._at)) or b""

    def readinto(self, buffer: Any) -> int:
        length = min(len(buffer), self._size - self._at)
        if length <= 0:
            return 0
        data = self._store.get_range(self._key, self._at, length)
        buffer[: len(data)] = data
        self._at += len(data)
        return len(data)
