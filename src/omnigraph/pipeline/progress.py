"""Progress of a long action: its stage, how many of the stage's tasks are done, rows so far, and rows per second."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import Any, Protocol, TextIO


@dataclass(frozen=True)
class Status:
    """`rows` are those of the tasks that have ended."""

    stage: str
    done: int
    tasks: int
    rows: int
    seconds: float

    @property
    def rate(self) -> float:
        return self.rows / self.seconds if self.seconds > 0 else 0.0

    def text(self) -> str:
        parts = [f"{self.stage}: {self.done}/{self.tasks} tasks"]
        if self.rows:
            parts.append(f"{self.rows:,} rows, {self.rate:,.0f} rows/s")
        return ", ".join(parts)


class Progress(Protocol):
    def update(self, status: Status) -> None: ...

    def close(self) -> None: ...


class Silent:
    def update(self, status: Status) -> None:
        """Shows nothing."""

    def close(self) -> None:
        """Nothing to close."""


class PlainProgress:
    """Lines of text: one when a stage starts, one when it ends, and in between at most one every few seconds. Nothing during
    the first seconds, because a short action needs no progress."""

    def __init__(self, out: TextIO | None = None, every_seconds: float = 5.0, after_seconds: float = 2.0) -> None:
        self._out = out or sys.stderr
        self._every = every_seconds
        self._from = time.monotonic() + after_seconds
        self._last: tuple[str, float] = ("", 0.0)
        self._ended: tuple[str, int] = ("", 0)

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
        print(status.text(), file=self._out, flush=True)

    def close(self) -> None:
        """Nothing to close."""


class RichProgress:
    """Bars on a terminal, one per stage."""

    def __init__(self, console: Any = None) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
        from rich.progress import Progress as Bars

        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[rows]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._ids: dict[str, Any] = {}
        self._bars.start()

    def update(self, status: Status) -> None:
        rows = f"{status.rows:,} rows, {status.rate:,.0f}/s" if status.rows else ""
        if status.stage not in self._ids:
            self._ids[status.stage] = self._bars.add_task(status.stage, total=status.tasks, rows=rows)
        self._bars.update(self._ids[status.stage], completed=status.done, total=status.tasks, rows=rows)

    def close(self) -> None:
        self._bars.stop()


def progress_for(out: TextIO) -> Progress:
    """Bars when a person watches, lines otherwise."""
    if not out.isatty():
        return PlainProgress(out)
    from rich.console import Console

    return RichProgress(Console(file=out))
