"""DuckDB connections, lent for one call at a time.

The process keeps them, not its threads: what a thread keeps for itself is taken down in every child that is forked while
it lives, and DuckDB, whose own threads are not there, crashes the child (Spark, for one, starts its JVM by such a fork).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any


class ConnectionPool:
    """Thread-safe. As many are open as were ever in use at once; the one given back last is lent first."""

    def __init__(self, open: Callable[[], Any]) -> None:
        self._open = open
        self._opened: list[Any] = []
        """All of them, so that none is taken down, in a child least of all."""
        self._idle: dict[int, list[Any]] = {}
        """By process: a child must not use what its parent opened."""

    @contextlib.contextmanager
    def borrow(self) -> Iterator[Any]:
        idle = self._idle.setdefault(os.getpid(), [])
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._open()
            self._opened.append(connection)
        try:
            yield connection
        finally:
            idle.append(connection)
