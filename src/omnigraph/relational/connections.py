"""DuckDB connections, lent for one call at a time.

The process holds them, not its threads: thread-local connections are destroyed in every child that is forked while the thread
lives, and DuckDB, whose own threads do not exist there, crashes the child (Spark, for one, starts its JVM by such a fork).
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Iterator
from typing import Any


class ConnectionPool:
    """Thread-safe. As many connections are open as were ever in use at once; the one returned last is lent first."""

    def __init__(self, open: Callable[[], Any]) -> None:
        self._open = open
        self._opened: list[Any] = []
        """All connections, so that none is ever destroyed, least of all in a child."""
        self._idle: dict[int, list[Any]] = {}
        """By process: a child must not use connections that its parent opened."""

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
