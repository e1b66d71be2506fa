"""Errors of the operating system as errors of the store contract."""

from __future__ import annotations

import contextlib
import errno
import os

from omnigraph.errors import (
    OmnigraphError,
    StorageDenied,
    StorageError,
    StoragePermanent,
    StorageTransient,
    UnreadableInput,
)

_DENIED = {errno.EACCES, errno.EROFS}
_TRANSIENT = {
    errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.ENOMEM,
    errno.ESTALE, errno.ETIMEDOUT, errno.EHOSTUNREACH, errno.ENETUNREACH,
}  # fmt: skip
_HINTS = {
    errno.ENOSPC: "free some space on the disk and write again",
    errno.EDQUOT: "the disk quota is used up; free some space and write again",
    errno.ENOTDIR: "a file stands where a folder is needed; choose another path",
    errno.EISDIR: "a folder stands where a file is needed; choose another path",
    errno.ENAMETOOLONG: "use a shorter name or path",
    errno.EIO: "the disk reports a fault; check it before writing again",
}
_OUT_OF_FILES = {errno.EMFILE, errno.ENFILE}
MORE_FILES = "raise the limit of open files of this process (ulimit -n), or do less at once, and try again"
FILES_TO_START = 32
"""Free descriptors without which an engine is not started: several times what Lance's threads need, which need the most."""
_NO_HARD_LINKS = "the file system needs hard links and has none here; put the graph on another disk or an object store"


def typed_os_error(error: OSError, doing: str, key: str, uri: str) -> StorageError:
    """The error to raise instead of `error`, met while `doing` something with `key` in the store at `uri`."""
    number = error.errno
    message = f"cannot {doing} '{key}' in {uri}: {error.strerror or error}"
    if number == errno.ENOENT:
        # A write gets this only if its folder is removed again and again.
        return StorageTransient(message, key=key, hint="try again")
    if doing == "create" and number in (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.EMLINK, errno.EXDEV):
        return StoragePermanent(message, key=key, hint=_NO_HARD_LINKS)
    if number in _DENIED or number == errno.EPERM:
        return StorageDenied(message, key=key, hint=f"give this user the right to {doing} below {uri}")
    if number in _OUT_OF_FILES:
        return StorageTransient(message, key=key, hint=MORE_FILES)
    if number in _TRANSIENT:
        return StorageTransient(message, key=key, hint="try again")
    return StoragePermanent(message, key=key, hint=_HINTS.get(number or 0))


def is_disk_fault(error: StorageError) -> bool:
    """Whether a disk reported a fault other than a name that is taken. An object that it shows all the same may not be durable."""
    cause = error.__cause__
    return isinstance(cause, OSError) and cause.errno not in (None, errno.EEXIST)


def is_out_of_files(error: BaseException | None) -> bool:
    """Whether an error, or what it comes from, says that no more files may be open. Engines say it only in words."""
    if error is None:
        return False
    # Most of our own errors quote what the caller wrote.
    quotes_system = isinstance(error, StorageError | UnreadableInput) or not isinstance(error, OmnigraphError)
    return (
        (isinstance(error, OSError) and error.errno in _OUT_OF_FILES)
        or (quotes_system and "Too many open files" in str(error))
        or is_out_of_files(error.__cause__ or error.__context__)
    )


def raise_out_of_files(error: BaseException) -> None:
    """Raise StorageTransient for an error of an engine that could not open a file; give one of ours the advice to raise the limit."""
    if not is_out_of_files(error):
        return
    if not isinstance(error, OmnigraphError):
        raise StorageTransient("this process has too many files open", key="", hint=MORE_FILES) from error
    if MORE_FILES not in (error.hint or ""):
        error.hint = f"{MORE_FILES}; {error.hint}" if error.outcome == "unknown" and error.hint else MORE_FILES


def check_free_files() -> None:
    """StorageTransient if few more files can be opened. An engine that starts without them never works again in the process."""
    with contextlib.ExitStack() as opened:
        try:
            for _ in range(FILES_TO_START):
                opened.callback(os.close, os.open(os.devnull, os.O_RDONLY))
        except OSError as error:
            raise typed_os_error(error, "open", os.devnull, "this process") from error
