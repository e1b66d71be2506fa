"""Files that are written for a user: an export, a baseline, the rejected records of a load.

A file appears only when everything is written. An existing file is kept unless the caller says to replace it. Links are followed:
their target is written, and the link stays. Pipes and terminals are written to directly; anything else is refused.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import re
import secrets
import stat
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Protocol

from omnigraph.errors import AlreadyExists, ObjectExists, ObjectMissing, OmnigraphError, StorageError, UsageError
from omnigraph.storage.options import open_store, options_shared_with, scheme_of
from omnigraph.storage.os_errors import typed_os_error
from omnigraph.storage.store import TEMPORARY_PREFIX

Target = str | Path | IO[bytes]
"""A path, an address in an object store, "-" for standard output, or an open stream."""

_DESCRIPTOR = re.compile(r"/dev/(?:fd/(\d+)|stdout|stderr)|/proc/self/fd/(\d+)")
_KINDS = {stat.S_IFBLK: "a block device", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


class OutputFile(Protocol):
    """One file to write: check that it may be written, open it, and name it at the end."""

    def check(self, *, replace: bool) -> None: ...

    def open(self) -> contextlib.AbstractContextManager[IO[bytes]]: ...

    def finish(self, *, replace: bool) -> None: ...

    def discard(self) -> None: ...


@contextlib.contextmanager
def outputs(targets: list[Target], options: Mapping[str, str], *, replace: bool) -> Iterator[list[OutputFile]]:
    """The files to write, in order. They get their names when the block ends without an error; otherwise nothing is left.
    `options` are the storage options of addresses. AlreadyExists, before anything is written, if one of them exists.
    """
    files = [output_at(target, options) for target in targets]
    for file in files:
        file.check(replace=replace)
    try:
        yield files
        for file in files:
            file.finish(replace=replace)
    finally:
        for file in files:
            file.discard()


def is_folder(target: str | Path) -> bool:
    """Whether a path or address names a folder: it ends with a slash, or the folder exists."""
    text = str(target)
    return text.endswith("/") or (scheme_of(text) == "file" and os.path.isdir(local_path(text)))


def is_special(target: str | Path) -> bool:
    """Whether the path is neither a file nor a folder but, for example, a pipe or a terminal."""
    text = str(target)
    if text == "-" or scheme_of(text) != "file":
        return text == "-"
    path = local_path(text)
    return _descriptor(path) is not None or (os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)))


def local_path(text: str) -> str:
    return text.removeprefix("file://")


def output_at(target: Target, options: Mapping[str, str]) -> OutputFile:
    """The file to write at a target. UsageError if the target cannot be written."""
    if not isinstance(target, str | Path):
        return _Stream("the stream", target)
    text = str(target)
    if text == "-":
        return _Stream("standard output", sys.stdout.buffer)
    if scheme_of(text) != "file":
        return _RemoteObject(text, options)
    path = local_path(text)
    descriptor = _descriptor(path)
    if descriptor is not None:
        return _Special(path, descriptor)
    with _typed(path):
        kind = stat.S_IFMT(os.stat(path).st_mode) if os.path.exists(path) else stat.S_IFREG
    if kind in (stat.S_IFIFO, stat.S_IFCHR):
        return _Special(path, None)
    if kind != stat.S_IFREG:
        raise UsageError(f"'{path}' is {_KINDS.get(kind, 'not a file')}", hint="give the path of a file")
    return _LocalFile(path)


def _descriptor(path: str) -> int | None:
    """The descriptor behind /dev/stdout and similar paths. Opened by name, a file behind it would be truncated first."""
    descriptor = _DESCRIPTOR.fullmatch(os.path.normpath(path))
    if descriptor is None:
        return None
    return int(descriptor[1] or descriptor[2] or (1 if path.endswith("stdout") else 2))


@contextlib.contextmanager
def _typed(path: str) -> Iterator[None]:
    """Within the block, errors of the operating system are raised as ours, for the file at `path`."""
    try:
        yield
    except OSError as error:
        raise typed_os_error(error, "write", os.path.basename(path), os.path.dirname(path) or ".") from error


def _exists(path: str) -> OmnigraphError:
    return AlreadyExists(f"'{path}' exists", hint="replace it with overwrite=True, or write to another name")


@dataclass
class _Stream:
    """A stream that the caller opened and will close."""

    name: str
    stream: IO[bytes]

    def check(self, *, replace: bool) -> None:
        """Does nothing: the caller decided to write to it."""

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        with _typed(self.name):
            yield self.stream
            self.stream.flush()

    def finish(self, *, replace: bool) -> None:
        """Nothing to do: every byte was passed on as it was written."""

    def discard(self) -> None:
        """Nothing to do: what was written cannot be undone."""


@dataclass
class _Special:
    """A pipe, a terminal, or an open descriptor by its number."""

    path: str
    descriptor: int | None

    def check(self, *, replace: bool) -> None:
        """Writing into it replaces nothing."""

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        sys.stdout.flush()
        with _typed(self.path):
            handle = os.open(self.path, os.O_WRONLY) if self.descriptor is None else os.dup(self.descriptor)
            with os.fdopen(handle, "wb") as stream:
                yield stream

    def finish(self, *, replace: bool) -> None:
        """Nothing to do: every byte was passed on as it was written."""

    def discard(self) -> None:
        """Nothing to do: what was written cannot be undone."""


class _LocalFile:
    """A file on disk, written under a temporary name next to it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self._real = os.path.realpath(path)
        self._partial = os.path.join(os.path.dirname(self._real), TEMPORARY_PREFIX + secrets.token_hex(8))

    def check(self, *, replace: bool) -> None:
        if not replace and os.path.exists(self._real):
            raise _exists(self.path)

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        with _typed(self.path):
            with contextlib.suppress(FileExistsError):  # a file in the way: opening gives a better error
                os.makedirs(os.path.dirname(self._real), exist_ok=True)
            with open(self._partial, "xb") as stream:
                yield stream
                stream.flush()
                os.fsync(stream.fileno())

    def finish(self, *, replace: bool) -> None:
        with _typed(self.path):
            if replace:
                self._replace()
            else:
                self._create()
            folder = os.open(os.path.dirname(self._real), os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def _replace(self) -> None:
        if os.path.exists(self._real):
            mode = os.stat(self._real).st_mode
            if not stat.S_ISREG(mode):
                raise UsageError(f"'{self.path}' is no longer a file", hint="give the path of a file")
            os.chmod(self._partial, stat.S_IMODE(mode))
        os.replace(self._partial, self._real)

    def _create(self) -> None:
        """Unlike a rename, a hard link cannot replace a file that another process created meanwhile."""
        try:
            os.link(self._partial, self._real)
        except FileExistsError:
            raise _exists(self.path) from None
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            self.check(replace=False)
            os.rename(self._partial, self._real)

    def discard(self) -> None:
        with contextlib.suppress(OSError):
            os.unlink(self._partial)


class _RemoteObject:
    """An object in a store, written to a local file first and uploaded as a whole."""

    def __init__(self, address: str, options: Mapping[str, str]) -> None:
        self.address = address
        folder, _, self._name = address.rpartition("/")
        self._store = open_store(folder, storage_options=options_shared_with(folder, options))
        self._gathered: IO[bytes] | None = None

    def check(self, *, replace: bool) -> None:
        if replace:
            return
        with contextlib.suppress(ObjectMissing):
            self._store.info(self._name)
            raise _exists(self.address)

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        with _typed(os.path.join(tempfile.gettempdir(), self._name)):
            self._gathered = tempfile.TemporaryFile()  # noqa: SIM115  # `discard` closes it
            yield self._gathered

    def finish(self, *, replace: bool) -> None:
        assert self._gathered is not None, "opened before"
        self._gathered.seek(0)
        data = self._gathered.read()
        if replace:
            self._store.put(self._name, data)
            return
        try:
            self._store.create(self._name, data)
        except StorageError as error:
            # The request may have been repeated because its answer was lost: then its own object is there, whatever the error says.
            with contextlib.suppress(StorageError):
                if self._store.find(self._name) == data:
                    return
            if isinstance(error, ObjectExists):
                raise _exists(self.address) from None
            raise

    def discard(self) -> None:
        if self._gathered is not None:
            self._gathered.close()


class AppendOnly(io.RawIOBase):
    """A file that is only appended to, and that counts its bytes itself, so that its content may be removed while it is written."""

    def __init__(self, stream: IO[bytes]) -> None:
        self._stream = stream
        self._written = 0

    def writable(self) -> bool:
        return True

    def write(self, data: object) -> int:
        count: int = self._stream.write(data)  # type: ignore[call-overload]  # Arrow gives buffers
        self._written += count
        return count

    def tell(self) -> int:
        return self._written
