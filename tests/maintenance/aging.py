"""Files of a graph on disk, made older than they are: what cleanup sees hours later."""

from __future__ import annotations

import os
from pathlib import Path

HOURS = 3_600.0


def age(folder: Path, seconds: float = 3 * HOURS) -> None:
    """Every file becomes so much older than it is by now."""
    for file in folder.rglob("*"):
        if file.is_file():
            status = file.stat()
            os.utime(file, (status.st_atime, status.st_mtime - seconds))


def files_of(folder: Path) -> set[str]:
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}
