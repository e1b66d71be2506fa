"""Where tasks are done: in this process, one after the other, or by Spark's workers, many at once.

A task is a module-level function and one value that can be pickled: a chunk of rows to compare, fragments to write again, an
index to build. Anything that maps functions over tasks (the pipeline's runners do) can do the work.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

Task = TypeVar("Task")
Result = TypeVar("Result")


class Workers(Protocol):
    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        """The result of each task, in order."""


Watch = Callable[[str, int, int], None]
"""Is told the stage, how many of its tasks are done, and how many there are."""


class InProcess:
    """In this process and thread."""

    def __init__(self, watch: Watch | None = None) -> None:
        self._watch = watch or (lambda _stage, _done, _tasks: None)

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        results: list[Result] = []
        for task in tasks:
            self._watch(stage, len(results), len(tasks))
            results.append(function(task))
        self._watch(stage, len(results), len(tasks))
        return results


IN_PROCESS = InProcess()


class OnSpark:
    """Several tasks go to Spark's workers; a single one is done in this process before they would have started."""

    def __init__(self, runner: Workers) -> None:
        self.runner = runner

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        chosen: Workers = IN_PROCESS if len(tasks) < 2 else self.runner
        return chosen.map(stage, function, tasks)
