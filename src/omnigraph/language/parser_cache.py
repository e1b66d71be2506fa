"""Where built parsers are cached between processes: loading one is much faster than building it.

A cached parser is checked against the grammar when it is loaded, so a stale one is never used. Without a cache folder it is built
each time.
"""

from __future__ import annotations

import os

from omnigraph.user_cache import is_own_file, user_cache


def parser_cache(name: str) -> str | bool:
    """The file for a parser in the user's cache folder, or False if there is no such folder."""
    folder = user_cache()
    if folder is None:
        return False
    path = folder / f"{name}.parser"
    return str(path) if is_own_file(path) or not os.path.lexists(path) else False
