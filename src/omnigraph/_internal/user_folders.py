"""The user's folders: the configuration, and a cache for files that can be made again. Programs are run from the cache, so no
other user may write there."""

from __future__ import annotations

import os
import stat
from pathlib import Path

_PROBE_BYTES = 4096


def config_folder() -> Path | None:
    """`~/.omnigraph`, or OMNIGRAPH_HOME; None if the user has no home."""
    if named := os.environ.get("OMNIGRAPH_HOME"):
        return Path(named)
    try:
        return Path.home() / ".omnigraph"
    except RuntimeError:
        return None


def user_cache() -> Path | None:
    """The folder, made if it is missing; None if it cannot be made or written, or is not a real folder that belongs to this user
    alone."""
    import tempfile

    root = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(root) if root else Path.home() / ".cache") / "omnigraph"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = folder.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
            return None
        if stat.S_IMODE(status.st_mode) != 0o700:
            folder.chmod(0o700)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:  # the disk may be full
            probe.write(bytes(_PROBE_BYTES))
    except (OSError, RuntimeError):  # no home, or one that cannot be written
        return None
    return folder


def is_own_file(path: Path) -> bool:
    """Whether it is a regular file of this user, not one that another user put there while the folder was open to others."""
    try:
        status = path.lstat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid()
