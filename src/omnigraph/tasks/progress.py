"""Progress of a long action: its stage, how many of the stage's tasks are done, rows or bytes so far, and how many a second."""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol, TextIO

from omnigraph.errors import UsageError

# What the stages of a job did: how many tasks and rows, how long, and on Spark what was shuffled, spilled and tried again.


@dataclass(frozen=True)
class Stage:
    """One stage of a load. Numbers of Spark are 0 in process, and in a session of Spark Connect, which does not tell them.

    >>> (reading, *_) = loaded.stages
    >>> assert reading.stage == "read" and reading.rows == 4
    """

    stage: str
    tasks: int
    rows: int
    """Entities that the tasks have found; 0 where a stage does not count."""
    seconds: float
    rejected: int = 0
    shuffled_bytes: int = 0
    spilled_bytes: int = 0
    """What Spark moved between tasks, and to disk because it did not fit in memory."""
    failed_tasks: int = 0
    """Tasks that were tried again."""

    def __add__(self, other: Stage) -> Stage:
        return replace(
            self,
            tasks=self.tasks + other.tasks,
            rows=self.rows + other.rows,
            seconds=self.seconds + other.seconds,
            rejected=self.rejected + other.rejected,
            shuffled_bytes=self.shuffled_bytes + other.shuffled_bytes,
            spilled_bytes=self.spilled_bytes + other.spilled_bytes,
            failed_tasks=self.failed_tasks + other.failed_tasks,
        )


def sum_stages(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Stages of the same name as one, in the order in which they began."""
    joined: dict[str, Stage] = {}
    for stage in stages:
        joined[stage.stage] = joined[stage.stage] + stage if stage.stage in joined else stage
    return tuple(joined.values())


@dataclass(frozen=True)
class Status:
    """How far a long action is: how many of the tasks of a stage are done. `rows` and `bytes` are those of the tasks that have ended.

    >>> heard = []
    >>> g.load("people.jsonl", mode="merge", engine="local", progress=heard.append)
    >>> assert all(status.done <= status.tasks for status in heard)
    """

    stage: str
    done: int
    tasks: int
    rows: int
    seconds: float
    bytes: int = 0
    unit: str = "tasks"

    @property
    def amount(self) -> str:
        """What was done, and how much of it a second; "" if nothing tells."""
        seconds = self.seconds if self.seconds > 0 else float("inf")
        if self.rows:
            return f"{self.rows:,} rows, {self.rows / seconds:,.0f} rows/s"
        if self.bytes:
            return f"{self.bytes / 1e6:,.1f} MB, {self.bytes / 1e6 / seconds:,.1f} MB/s"
        return ""

    def text(self) -> str:
        """In words: the stage, its tasks, the amount; of a step without tasks how long it has taken."""
        if not self.unit:
            return f"{self.stage}: {self.seconds:.0f} s"
        done = f"{self.stage}: {self.done:,}/{self.tasks:,} {self.unit}"
        return f"{done}, {self.amount}" if self.amount else done


class Progress(Protocol):
    def update(self, status: Status) -> None: ...

    def close(self) -> None: ...


class Silent:
    def update(self, status: Status) -> None:
        """Shows nothing."""

    def close(self) -> None:
        """Nothing to close."""


class Reported:
    """Tells a function of the caller's. What that raises ends the action."""

    def __init__(self, tell: Callable[[Status], None]) -> None:
        if not callable(tell) or isinstance(tell, type):
            raise UsageError(f"'progress' must be True, False or a function of a Status, got {type(tell).__name__}")
        self._tell = tell

    def update(self, status: Status) -> None:
        self._tell(status)

    def close(self) -> None:
        """Nothing to close."""


class PlainProgress:
    """Lines of text: one when a stage starts, one when it ends, and in between at most one every few seconds. Nothing during
    the first second, because a short action needs no progress, and no line twice in a row."""

    def __init__(self, out: TextIO | None = None, every_seconds: float = 5.0, after_seconds: float = 1.0) -> None:
        self._out = out or sys.stderr
        self._every = every_seconds
        self._from = time.monotonic() + after_seconds
        self._last: tuple[str, float] = ("", 0.0)
        self._ended: tuple[str, int] = ("", 0)
        self._text = ""

    def update(self, status: Status) -> None:
        stage, at = self._last
        now = time.monotonic()
        ended = status.done == status.tasks
        if now < self._from or (ended and self._ended == (status.stage, status.rows)):
            return
        if stage == status.stage and not ended and now - at < self._every:
            return
        self._last = (status.stage, now)
        if ended:
            self._ended = (status.stage, status.rows)
        if status.text() != self._text:
            self._text = status.text()
            print(self._text, file=self._out, flush=True)

    def close(self) -> None:
        """Nothing to close."""


class RichProgress:
    """Bars on a terminal, one per stage."""

    def __init__(self, console: Any = None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress as Bars, TextColumn, TimeElapsedColumn

        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[amount]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._ids: dict[str, Any] = {}
        self._bars.start()

    def update(self, status: Status) -> None:
        amount = status.amount
        if status.stage not in self._ids:
            self._ids[status.stage] = self._bars.add_task(status.stage, total=status.tasks, amount=amount)
        self._bars.update(self._ids[status.stage], completed=status.done, total=status.tasks, amount=amount)

    def close(self) -> None:
        self._bars.stop()


@contextlib.contextmanager
def shown_on(out: TextIO, progress: bool | Callable[[Status], None]) -> Iterator[Progress]:
    """The progress of an action, told to a function, on a stream or nowhere; closed when the action ends."""
    shown = (progress_for(out) if progress else Silent()) if isinstance(progress, bool) else Reported(progress)
    try:
        yield shown
    finally:
        shown.close()


def progress_for(out: TextIO) -> Progress:
    """Bars when a person watches, lines otherwise."""
    if not out.isatty():
        return PlainProgress(out)
    from rich.console import Console

    return RichProgress(Console(file=out))


@contextlib.contextmanager
def waiting_for(stage: str, progress: Progress) -> Iterator[None]:
    """Shows from the first second on, again and again, that a step without tasks is at work."""
    if isinstance(progress, Silent):
        yield
        return
    started = time.monotonic()
    progress.update(Status(stage, 0, 1, 0, 0.0, unit=""))
    with repeating(
        lambda: progress.update(Status(stage, 0, 1, 0, time.monotonic() - started, unit="")), _WAIT_SHOWN_EVERY_S
    ):
        yield
    progress.update(Status(stage, 1, 1, 0, time.monotonic() - started, unit=""))


@contextlib.contextmanager
def repeating(action: Callable[[], None], every_s: float) -> Iterator[None]:
    """Does something from time to time, in a thread, as long as the block runs."""
    ended = threading.Event()

    def run() -> None:
        while not ended.wait(every_s):
            action()

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ended.set()
        thread.join()


_WAIT_SHOWN_EVERY_S = 1.0


class TaskProgress:
    """Shows tasks that are done one after the other (`workers.Watch`)."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._started: dict[str, float] = {}

    def __call__(self, stage: str, done: int, tasks: int) -> None:
        now = time.monotonic()
        self._progress.update(Status(stage, done, tasks, 0, now - self._started.setdefault(stage, now)))


class CopyProgress:
    """Shows a copy (`storage.copying.Watch`): objects, and bytes that travelled."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._started: dict[str, float] = {}

    def __call__(self, stage: str, done: int, objects: int, bytes: int = 0) -> None:
        now = time.monotonic()
        seconds = now - self._started.setdefault(stage, now)
        self._progress.update(Status(stage, done, objects, 0, seconds, bytes, "objects"))
