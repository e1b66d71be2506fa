"""Files that are written for a user: an export, a baseline, the rejected records of a load.

A name appears when everything is written, and only then. A file that is there already is kept unless the caller says to
replace it. Links are followed: the file they lead to is written, and the link stays. Pipes and terminals are written
into; what is neither a file, a pipe nor a terminal is refused.
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

from omnigraph.errors import AlreadyExists, ObjectExists, ObjectMissing, OmnigraphError, UsageError
from omnigraph.storage import open_store
from omnigraph.storage.options import options_shared_with, scheme_of
from omnigraph.storage.os_errors import typed_os_error
from omnigraph.storage.store import TEMPORARY_PREFIX

Target = str | Path | IO[bytes]
"""A path, an address in an object store, "-" for standard output, or a stream of the caller's."""

_DESCRIPTOR = re.compile(r"/dev/(?:fd/(\d+)|stdout|stderr)|/proc/self/fd/(\d+)")
_KINDS = {stat.S_IFBLK: "a block device", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
_NO_HARD_LINKS = {errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.ENOSYS}


class OutputFile(Protocol):
    """One file to write: look whether it may be, open it, and give it its name at the end."""

    def check(self, *, replace: bool) -> None: ...

    def open(self) -> contextlib.AbstractContextManager[IO[bytes]]: ...

    def finish(self, *, replace: bool) -> None: ...

    def discard(self) -> None: ...


@contextlib.contextmanager
def outputs(targets: list[Target], options: Mapping[str, str], *, replace: bool) -> Iterator[list[OutputFile]]:
    """The files to write, in order. They get their names when the block ends without an error; otherwise nothing is left.

    `options` are the storage options of addresses. AlreadyExists, before anything is written, when one is there.
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
    """Whether a path or address names a folder: by its last slash, or because one is there."""
    text = str(target)
    return text.endswith("/") or (scheme_of(text) == "file" and os.path.isdir(local_path(text)))


def is_special(target: str | Path) -> bool:
    """Whether there is something at the path that is neither a file nor a folder: a pipe, a terminal."""
    text = str(target)
    if text == "-" or scheme_of(text) != "file":
        return text == "-"
    path = local_path(text)
    return _descriptor(path) is not None or (os.path.exists(path) and not (os.path.isfile(path) or os.path.isdir(path)))


def local_path(text: str) -> str:
    return text.removeprefix("file://")


def output_at(target: Target, options: Mapping[str, str]) -> OutputFile:
    """What to write at a target. UsageError when it is nothing that can be written."""
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
    """The number behind /dev/stdout and its like. Opened by name, a file behind it would be emptied first."""
    descriptor = _DESCRIPTOR.fullmatch(os.path.normpath(path))
    if descriptor is None:
        return None
    return int(descriptor[1] or descriptor[2] or (1 if path.endswith("stdout") else 2))


@contextlib.contextmanager
def _typed(path: str) -> Iterator[None]:
    """Errors of the operating system as ours, for the file at `path`."""
    try:
        yield
    except OSError as error:
        raise typed_os_error(error, "write", os.path.basename(path), os.path.dirname(path) or ".") from error


def _exists(path: str) -> OmnigraphError:
    return AlreadyExists(f"'{path}' exists", hint="replace it with --force (force=True), or write to another name")


@dataclass
class _Stream:
    """What somebody else opened and will close."""

    name: str
    stream: IO[bytes]

    def check(self, *, replace: bool) -> None:
        """Whoever opened it decided."""

    @contextlib.contextmanager
    def open(self) -> Iterator[IO[bytes]]:
        with _typed(self.name):
            yield self.stream
            self.stream.flush()

    def finish(self, *, replace: bool) -> None:
        """Every byte went out as it was written."""

    def discard(self) -> None:
        """Nothing can be taken back."""


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
        """Every byte went out as it was written."""

    def discard(self) -> None:
        """Nothing can be taken back."""


class _LocalFile:
    """A file on disk, written under another name beside it."""

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
            with contextlib.suppress(FileExistsError):  # a file in the way: opening says so better
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
        """A hard link, unlike a rename, cannot replace what somebody put there meanwhile."""
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
    """An object in a store, gathered on disk and put as a whole."""

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
        except ObjectExists:
            # A request that was repeated because its answer was lost meets its own object.
            if self._store.get(self._name) != data:
                raise _exists(self.address) from None

    def discard(self) -> None:
        if self._gathered is not None:
            self._gathered.close()


class AppendOnly(io.RawIOBase):
    """A file that is only ever appended to, and knows how much was: its bytes may be taken away meanwhile."""

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
