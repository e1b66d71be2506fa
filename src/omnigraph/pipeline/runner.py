"""Runs tasks in this process (here), or as tasks of a Spark job (`spark.runner`). A task is a function and one value."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, ThreadPoolExecutor, wait
from typing import Protocol

from omnigraph.pipeline.progress import Progress, Silent, Status
from omnigraph.pipeline.stages import Stage
from omnigraph.pipeline.task_settings import AS_FOUND_GOOD, TaskSettings
from omnigraph.workers import Exchange, ExchangeFiles, Result, Task

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

    def __init__(self, progress: Progress | None = None, settings: TaskSettings = AS_FOUND_GOOD) -> None:
        self.settings = settings
        self.parallelism = self.settings.parallelism or min(os.cpu_count() or 1, MAX_LOCAL_THREADS)
        self.stopping = threading.Event()
        """Set when a task has failed or the wait was interrupted; long tasks may check it and stop."""
        self.stages: list[Stage] = []
        self._progress = progress or Silent()

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """Even a single task runs in a thread: an interrupt then reaches the waiting thread and never breaks a task."""
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

    def exchange(self, exchange: Exchange[Task, Result]) -> list[Result]:
        """Exchanges pieces through temporary files."""
        stage, join = exchange.stage, exchange.join
        with ExchangeFiles() as files:
            self.map(stage, lambda task: files.put(exchange.cut(task)), exchange.tasks)
            return self.map(stage, lambda bucket: join(bucket, files.pieces(bucket)), files.buckets())
