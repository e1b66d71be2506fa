"""Where built parsers are kept between processes: building one takes a quarter of a second, loading it a tenth of that.

Derived from the grammar and checked against it when loaded, so a stale one is never used; without a place to keep it,
it is built each time.
"""

from __future__ import annotations

import os

from omnigraph.user_cache import is_own_file, user_cache


def parser_cache(name: str) -> str | bool:
    """The file for a parser in the user's own cache folder, or False when there can be none."""
    folder = user_cache()
    if folder is None:
        return False
    path = folder / f"{name}.parser"
    return str(path) if is_own_file(path) or not os.path.lexists(path) else False
