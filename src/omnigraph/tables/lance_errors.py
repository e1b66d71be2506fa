"""Translates Lance's errors to ours. Lance says what went wrong only in words, so words decide; an unknown error is permanent."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.errors import StorageDenied, StorageError, StoragePermanent, StorageTransient
from omnigraph.storage.os_errors import MORE_FILES, is_out_of_files

# No bare numbers: file names are full of digits.
_DENIED = ("permission denied", "access denied", "accessdenied", "forbidden", "unauthenticated", "status code: 403")
_FULL = ("no space left", "os error 28", "file too large", "os error 27", "quota exceeded", "os error 122")
_TRANSIENT = (
    "error sending request",
    "timed out",
    "timeout",
    "connection",
    "service unavailable",
    "status code: 503",
    "slow down",
    "retries",
    "reset by peer",
)


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Raise Lance's errors about the table at `path` as storage errors. Whatever they say, nothing that was staged is visible."""
    try:
        yield
    except OSError as error:
        raise _translated(path, error) from error
    except ValueError as error:
        # Lance raises ValueError for what it does not find.
        if "not found" not in str(error).lower():
            raise
        raise _translated(path, error) from error


def _translated(path: str, error: OSError | ValueError) -> StorageError:
    words = str(error)
    folded = words.lower()
    reason = words.split(", /", 1)[0].splitlines()[0][:300] if words else type(error).__name__
    message = f"the table at {path} could not be reached: {reason}"
    if is_out_of_files(error):
        return StorageTransient(message, key=path, hint=MORE_FILES)
    if isinstance(error, PermissionError) or any(word in folded for word in _DENIED):
        return StorageDenied(message, key=path, hint="check the credentials and the permissions of the store")
    if any(word in folded for word in _FULL):
        reason = f"the table at {path} could not be written: {reason}"
        return StoragePermanent(reason, key=path, hint="free some space on the disk and write again")
    if isinstance(error, TimeoutError | ConnectionError) or any(word in folded for word in _TRANSIENT):
        return StorageTransient(message, key=path, hint="the store did not answer; nothing was published, so try again")
    return StoragePermanent(message, key=path, hint="check that the store is reachable, complete and has space left")
