"""Errors of the operating system as errors of the store contract."""

from __future__ import annotations

import errno

from omnigraph.errors import StorageDenied, StorageError, StoragePermanent, StorageTransient

_DENIED = {errno.EACCES, errno.EROFS}
_TRANSIENT = {
    errno.EAGAIN, errno.EBUSY, errno.EINTR, errno.EMFILE, errno.ENFILE, errno.ENOMEM,
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
    if number in _TRANSIENT:
        return StorageTransient(message, key=key, hint="try again")
    return StoragePermanent(message, key=key, hint=_HINTS.get(number or 0))
