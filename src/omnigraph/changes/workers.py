"""Where rows are read and compared: here, one chunk after the other, or elsewhere, many at once.

A merge and a diff hold ids and addresses; the rows themselves are looked at in chunks. A chunk is a task: a function of
this room and one value that can travel. Whoever can run tasks (the pipeline's runners can) may be given the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Protocol):
    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The result of each task, in order."""


class InProcess:
    """In this process and thread."""

    def map(self, _stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        return [function(task) for task in tasks]


IN_PROCESS = InProcess()


class OnSpark:
    """Work of several tasks goes to other workers; a single task is done here, where it is done before they start."""

    def __init__(self, others: Workers) -> None:
        self.others = others

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        chosen: Workers = IN_PROCESS if len(tasks) < 2 else self.others
        return chosen.map(stage, function, tasks)
