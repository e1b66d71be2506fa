"""DuckDB in process: every database that this process opens, its memory limit, and running SQL on them.

There are four kinds, because these settings belong to a database and not to a connection: `queries` gives up the order of rows for
speed; `RULES` keeps it; `SMALL` works on one core, which is faster for a few rows; `users_sql` runs SQL that users write, with access
to nothing but the relations it is given. A user's database file that is loaded is a fifth while it is read. Those of reads have the
limit that the graph's memory leaves them, and graphs with the same limit share one; the others have a share of the machine's memory.
All spill to disk beyond. A forked child opens its own and leaves its parent's alone.
"""

from __future__ import annotations

import atexit
import contextlib
import fcntl
import itertools
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from omnigraph._internal.lazy_imports import pa
from omnigraph._internal.runtime import WorkingMemory
from omnigraph.relational.sql import exp, to_sql

# DuckDB connections, lent for one call at a time.
#
# The process holds them, not its threads: thread-local connections are destroyed in every child that is forked while the thread
# lives, and DuckDB, whose own threads do not exist there, crashes the child (Spark, for one, starts its JVM by such a fork).


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


RULES_SHARE = 0.1
SMALL_SHARE = 0.025
FILE_SHARE = 0.075
"""Shares of the machine's memory."""
BATCH_ROWS = 122_880
"""Rows of a result that are made at a time: as many as the engine's own groups of rows have."""
MIN_BATCH_ROWS = 2_048
BATCH_CELLS = 2_000_000
"""A batch of many columns has fewer rows."""


# Where queries spill: one folder for each process, which is removed when the process ends.
#
# A process that is killed leaves its folder, of any size. So each holds the lock of a file in its own, and removes those of its user whose
# lock it can take: by the number of a process nobody can tell whether it lives, if containers share the folder of temporary files.

SPILL_PREFIX = "omnigraph-spill-"
SPILL_LOCK = "lock"
_numbers = itertools.count()


@cache
def _spill_folder(process: int) -> Path:
    """That of this process, which has this number."""
    sweep_spills(Path(tempfile.gettempdir()))
    while True:
        folder = Path(tempfile.mkdtemp(prefix=SPILL_PREFIX))
        lock = os.open(folder / SPILL_LOCK, os.O_RDWR | os.O_CREAT, 0o600)  # held until the process ends
        if _is_taken(lock) and (folder / SPILL_LOCK).exists():
            break
        os.close(lock)  # another process has found the file before it was locked, and removes the folder
    atexit.register(_remove_spill_folder, folder, process)
    return folder


def _is_taken(lock: int) -> bool:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:  # a file system without locks: nobody can take this one, so nobody removes the folder
        return True
    return True


def _remove_spill_folder(folder: Path, process: int) -> None:
    if os.getpid() == process:
        shutil.rmtree(folder, ignore_errors=True)


def sweep_spills(parent: Path) -> None:
    """Remove the folders of processes of this user that have ended."""
    for folder in parent.glob(f"{SPILL_PREFIX}*"):
        with contextlib.suppress(OSError):
            if folder.is_symlink() or folder.stat().st_uid != os.getuid():
                continue
            lock = os.open(folder / SPILL_LOCK, os.O_RDWR | os.O_NOFOLLOW)
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)  # OSError: its process lives
                shutil.rmtree(folder, ignore_errors=True)
            finally:
                os.close(lock)


class Database:
    """One database of the process. Connections are borrowed, one per query at a time."""

    def __init__(self, name: str, memory_bytes: int, *, is_locked: bool = False, **settings: str) -> None:
        """With `is_locked` it has no access to files, extensions or other databases, and SQL cannot change its settings."""
        self._name = name
        self.memory_limit = f"{memory_bytes >> 20}MiB"
        self._is_locked = is_locked
        self._settings = settings
        self._opened: dict[int, Any] = {}
        self.connections = ConnectionPool(self._connect)

    def open(self) -> Any:
        """Another database with the same settings for the caller's own use; it is empty."""
        import duckdb

        config = {
            "memory_limit": self.memory_limit,
            "temp_directory": str(_spill_folder(os.getpid()) / f"{self._name}-{next(_numbers)}"),
            "python_enable_replacements": "false",
            "autoinstall_known_extensions": "false",
            **self._settings,
        }
        opened = duckdb.connect(":memory:", config=config)
        opened.execute("SET GLOBAL TimeZone = 'UTC'")
        if self._is_locked:
            opened.execute("SET enable_external_access = false")
            opened.execute("SET lock_configuration = true")
        return opened

    def _connect(self) -> Any:
        process = os.getpid()
        if process not in self._opened:
            self._opened.setdefault(process, self.open())
        return self._opened[process].cursor()


def _of_machine(share: float) -> int:
    return int(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * share)


RULES = Database("rules", _of_machine(RULES_SHARE))
SMALL = Database("small", _of_machine(SMALL_SHARE), threads="1")


@cache
def queries(memory_bytes: int) -> Database:
    return Database("queries", memory_bytes, preserve_insertion_order="false")


@cache
def users_sql(memory_bytes: int) -> Database:
    return Database("users-sql", memory_bytes, is_locked=True)


def open_file(path: str) -> Any:
    """A user's database file, opened for reading."""
    import duckdb

    opened = duckdb.connect(path, read_only=True)
    opened.execute(f"SET memory_limit = '{_of_machine(FILE_SHARE) >> 20}MiB'")
    opened.execute("SET TimeZone = 'UTC'")
    return opened


def run(tree: exp.Expr, relations: Mapping[str, pa.Table]) -> pa.Table:
    """The result of a query over the given relations; rows keep their order unless the query changes it."""
    with RULES.connections.borrow() as connection:
        return execute(connection, to_sql(tree, "duckdb"), relations)


def run_text(text: str, relations: Mapping[str, pa.Table], *, one_core: bool = True) -> pa.Table:
    """Like `run`, for a query whose text is cached. For a few rows, one core is faster than several."""
    with (SMALL if one_core else RULES).connections.borrow() as connection:
        return execute(connection, text, relations)


def execute(
    connection: Any,
    text: str,
    relations: Mapping[str, Any],
    arguments: Mapping[str, object] | None = None,
    shaped: Callable[[Any], Any] | None = None,
    memory: WorkingMemory | None = None,
) -> pa.Table:
    """Run one query on a connection, over Arrow relations bound by name. `shaped` may wrap the result in another query. With
    `memory`, raises ResourceExhausted for a result that does not fit in it."""
    registered: list[str] = []
    try:
        for name, relation in relations.items():
            connection.register(name, relation)
            registered.append(name)
        result = connection.sql(text, params=dict(arguments)) if arguments else connection.sql(text)
        result = result if shaped is None else shaped(result)
        return result.to_arrow_table() if memory is None else _counted(result, memory)
    finally:
        for name in registered:
            connection.unregister(name)


def _counted(result: Any, memory: WorkingMemory) -> pa.Table:
    """The rows of a result, read in batches: it is not known before how many there are."""
    rows = max(MIN_BATCH_ROWS, min(BATCH_ROWS, BATCH_CELLS // max(len(result.columns), 1)))
    with result.to_arrow_reader(rows) as reader, memory.counted(reader) as batches:
        return pa.Table.from_batches(list(batches), reader.schema)
