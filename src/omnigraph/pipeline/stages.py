"""What the stages of a job did: how many tasks and rows, how long, and on Spark what was shuffled, spilled and tried again."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace


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


def by_name(stages: Iterable[Stage]) -> tuple[Stage, ...]:
    """Stages of the same name as one, in the order in which they began."""
    joined: dict[str, Stage] = {}
    for stage in stages:
        joined[stage.stage] = joined[stage.stage] + stage if stage.stage in joined else stage
    return tuple(joined.values())
