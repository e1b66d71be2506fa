"""Runs tasks in this process (here), or as tasks of a Spark job (`spark.runner`). A task is a function and one value."""

from __future__ import annotations

import contextlib
import os
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from omnigraph._internal.lazy_imports import pa
from omnigraph.metering import Threads
from omnigraph.storage.os_errors import typed_os_error
from omnigraph.tasks.engines import DEFAULT_SETTINGS, TaskSettings
from omnigraph.tasks.progress import Progress, Silent, Stage, Status

# Where tasks run: in this process, one after the other, or on Spark's workers, many at once.
#
# A task is a module-level function and one value that can be pickled: a chunk of rows to compare, fragments to write again, an
# index to build. Anything that maps functions over tasks, like the pipeline's runners, can run them.

Task = TypeVar("Task")
Result = TypeVar("Result")

Piece = tuple[int, int, bytes]
"""The bucket, the number of the source, and the data."""
Join = Callable[[int, Iterable[tuple[int, Any]]], Result]
"""Combines the pieces of a bucket: each is the number of its source and its data, as a bytes-like object."""


@dataclass(frozen=True)
class Exchange(Generic[Task, Result]):
    """Cut every task into pieces, and join all pieces of each bucket."""

    stage: str
    cut: Callable[[Task], Iterable[Piece]]
    tasks: Sequence[Task]
    buckets: int
    join: Join[Result]


class Workers(Protocol):
    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The result of each task, in order."""


class ExchangingWorkers(Workers, Protocol):
    def exchange_in_order(self, exchange: Exchange[Task, Result]) -> Iterator[Result]:
        """Yield the result of each bucket that has a piece, in the order of the buckets and one at a time, so that this process
        never holds all of them."""


Watch = Callable[[str, int, int], None]
"""Called with a stage, how many of its tasks are done, and how many there are."""


class InProcess:
    """Runs tasks in this process and thread."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch or (lambda _stage, _done, _tasks: None)

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results: list[Result] = []
        for task in tasks:
            self._watch(stage, len(results), len(tasks))
            results.append(function(task))
        self._watch(stage, len(results), len(tasks))
        return results

    def exchange_in_order(self, exchange: Exchange[Task, Result]) -> Iterator[Result]:
        """A bucket is joined when its result is consumed."""
        with ExchangeFiles() as files:
            self.map(exchange.stage, lambda task: files.put(exchange.cut(task)), exchange.tasks)
            for bucket in files.buckets():
                yield exchange.join(bucket, files.pieces(bucket))


IN_PROCESS = InProcess()


class OnSpark:
    """Runs several tasks on Spark's workers; a single one runs in this process, which takes less time than to start them."""

    def __init__(self, runner: ExchangingWorkers) -> None:
        self.runner = runner

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        chosen: Workers = IN_PROCESS if len(tasks) < 2 else self.runner
        return chosen.map(stage, function, tasks)

    def exchange_in_order(self, exchange: Exchange[Task, Result]) -> Iterator[Result]:
        return self.runner.exchange_in_order(exchange)


_PIECE = struct.Struct("<iq")


class ExchangeFiles:
    """The pieces of an exchange in temporary files of this machine, one per bucket."""

    def __init__(self) -> None:
        with _typed_writes(tempfile.gettempdir()):
            self._folder = tempfile.TemporaryDirectory(prefix="omnigraph-")
        self._lock = threading.Lock()

    def __enter__(self) -> ExchangeFiles:
        return self

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()

    def put(self, pieces: Iterable[Piece]) -> None:
        """Add pieces. Thread-safe."""
        for bucket, source, data in pieces:
            with self._lock, _typed_writes(self._folder.name), self._path(bucket).open("ab") as file:
                file.write(_PIECE.pack(source, len(data)))
                file.write(data)

    def buckets(self) -> list[int]:
        """The buckets that have a piece, in order."""
        return sorted(int(path.name) for path in Path(self._folder.name).iterdir())

    def pieces(self, bucket: int) -> Iterator[tuple[int, bytes]]:
        with self._path(bucket).open("rb") as file:
            while head := file.read(_PIECE.size):
                source, size = _PIECE.unpack(head)
                yield source, file.read(size)

    def _path(self, bucket: int) -> Path:
        return Path(self._folder.name) / str(bucket)


@contextlib.contextmanager
def _typed_writes(folder: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise typed_os_error(error, "write", "a temporary file", folder) from error


def to_ipc(rows: pa.Table) -> bytes:
    """Rows as bytes, in Arrow's stream format."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    data: bytes = sink.getvalue().to_pybytes()
    return data


def unpacked(data: Any) -> pa.Table:
    return pa.ipc.open_stream(data).read_all()


MAX_LOCAL_THREADS = 4
_SHOWN_EVERY_S = 1.0
"""How often progress is shown while a task runs."""


class Runner(Protocol):
    parallelism: int
    settings: TaskSettings
    stages: list[Stage]
    """What was done so far."""

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The result of each task, in order."""

    def exchange(self, exchange: Exchange[Task, Result]) -> list[Result]:
        """The result of each bucket that has a piece."""


def rows_in(result: object) -> int:
    """The number of rows in a result, for the progress."""
    types = getattr(result, "types", None)
    return sum(report.rows for report in types.values()) if isinstance(types, dict) else 0


class LocalRunner:
    """Threads of this process: Arrow, Lance and DuckDB work outside Python's lock."""

    def __init__(self, progress: Progress | None = None, settings: TaskSettings = DEFAULT_SETTINGS) -> None:
        self.settings = settings
        self.parallelism = self.settings.parallelism or min(os.cpu_count() or 1, MAX_LOCAL_THREADS)
        self.stopping = threading.Event()
        """Set when a task has failed or the wait was interrupted; long tasks may check it and stop."""
        self.stages: list[Stage] = []
        self._progress = progress or Silent()

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Even a single task runs in a thread: an interrupt then reaches the waiting thread and never breaks a task."""
        started, rows = time.monotonic(), 0
        with Threads(self.parallelism) as pool:
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

    def exchange(self, exchange: Exchange[Task, Result]) -> list[Result]:
        """Exchanges pieces through temporary files."""
        stage, join = exchange.stage, exchange.join
        with ExchangeFiles() as files:
            self.map(stage, lambda task: files.put(exchange.cut(task)), exchange.tasks)
            return self.map(stage, lambda bucket: join(bucket, files.pieces(bucket)), files.buckets())
