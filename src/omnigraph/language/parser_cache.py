"""Where built parsers are kept between processes: building one takes a quarter of a second, loading it a tenth of that.

Derived from the grammar and checked against it when loaded, so a stale one is never used; without a place to keep it,
it is built each time.
"""

from __future__ import annotations

import os
from pathlib import Path


def parser_cache(name: str) -> str | bool:
    """The file for a parser in the user's own cache folder, or False when there can be none."""
    root = os.environ.get("XDG_CACHE_HOME")
    try:
        folder = (Path(root) if root else Path.home() / ".cache") / "omnigraph"
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        usable = os.access(folder, os.W_OK) and folder.stat().st_uid == os.getuid()
    except (OSError, RuntimeError):
        return False
    return str(folder / f"{name}.parser") if usable else False
