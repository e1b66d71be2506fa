"""Where tasks run: in this process (here), or as the tasks of a Spark job (`spark.runner`). A task is a function and one value."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from pathlib import Path
from typing import Any, Protocol, TypeVar

from omnigraph.pipeline.progress import Progress, Silent, Status
from omnigraph.pipeline.stages import Stage
from omnigraph.pipeline.task_settings import AS_FOUND_GOOD, TaskSettings
from omnigraph.storage.os_errors import typed_os_error

Task = TypeVar("Task")
Result = TypeVar("Result")

MAX_LOCAL_THREADS = 4
_SHOWN_EVERY_S = 1.0
"""A task that takes long is seen to be at work."""

Piece = tuple[int, int, bytes]
"""Bucket, number of its source, and data that travels."""
Join = Callable[[int, Iterable[tuple[int, Any]]], Result]
"""What is done with a bucket and its pieces: number of the source, and data as something like bytes."""


class Runner(Protocol):
    parallelism: int
    settings: TaskSettings
    stages: list[Stage]
    """What was done so far."""

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The result of each task, in order."""

    def exchange(
        self,
        stage: str,
        cut: Callable[[Task], Iterable[Piece]],
        tasks: Sequence[Task],
        buckets: int,
        join: Join[Result],
    ) -> list[Result]:
        """Every task gives pieces; all pieces of a bucket come together. The result of each bucket that has any."""


def rows_in(result: object) -> int:
    """How many rows a result speaks of, for the progress."""
    types = getattr(result, "types", None)
    return sum(report.rows for report in types.values()) if isinstance(types, dict) else 0


class LocalRunner:
    """Threads of this process: Arrow, Lance and DuckDB work outside Python's lock."""

    def __init__(self, progress: Progress | None = None, settings: TaskSettings = AS_FOUND_GOOD) -> None:
        self.settings = settings
        self.parallelism = self.settings.parallelism or min(os.cpu_count() or 1, MAX_LOCAL_THREADS)
        self.stopping = threading.Event()
        """Set when a task has failed or the wait was interrupted; a long task may look, and give up."""
        self.stages: list[Stage] = []
        self._progress = progress or Silent()

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """All in threads, a single one too: an interrupt reaches the thread that waits, and never breaks a task."""
        started, rows = time.monotonic(), 0
        with ThreadPoolExecutor(self.parallelism) as pool:
            futures = [pool.submit(function, task) for task in tasks]
            waiting = set(futures)
            try:
                while waiting:
                    done = len(futures) - len(waiting)
                    self._progress.update(Status(stage, done, len(futures), rows, time.monotonic() - started))
                    ended, waiting = wait(waiting, timeout=_SHOWN_EVERY_S, return_when=FIRST_COMPLETED)
                    rows += sum(rows_in(future.result()) for future in ended)
                seconds = time.monotonic() - started
                self._progress.update(Status(stage, len(futures), len(futures), rows, seconds))
                if futures:
                    self.stages.append(Stage(stage, len(futures), rows, seconds))
            except BaseException:
                self.stopping.set()
                for future in futures:
                    future.cancel()
                raise
            return [future.result() for future in futures]

    def exchange(
        self,
        stage: str,
        cut: Callable[[Task], Iterable[Piece]],
        tasks: Sequence[Task],
        buckets: int,
        join: Join[Result],
    ) -> list[Result]:
        """Through files that are gone afterwards."""
        with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
            lock = threading.Lock()

            def put(task: Task) -> None:
                for bucket, source, data in cut(task):
                    with lock, _typed_writes(folder), (Path(folder) / str(bucket)).open("ab") as file:
                        file.write(_PIECE.pack(source, len(data)))
                        file.write(data)

            self.map(stage, put, tasks)
            return self.map(stage, lambda path: join(int(path.name), _pieces_in(path)), sorted(Path(folder).iterdir()))


@contextlib.contextmanager
def _typed_writes(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise typed_os_error(error, "write", "a temporary file", folder) from error


_PIECE = struct.Struct("<iq")


def _pieces_in(path: Path) -> Iterator[tuple[int, bytes]]:
    with path.open("rb") as file:
        while head := file.read(_PIECE.size):
            source, size = _PIECE.unpack(head)
            yield source, file.read(size)
