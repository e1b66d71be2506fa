"""Tasks as the tasks of a Spark job: a function and one value each, which travel to the workers.

A task that finds the data wrong raises an OmnigraphError: it comes back as it is and is not tried again. Anything else
is trouble of the machine: Spark tries the task again, and what still fails becomes a PipelineFailed without a Java stack.
"""

from __future__ import annotations

import contextlib
import gc
import pickle
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph._internal.lazy_imports import pa
from omnigraph.errors import OmnigraphError, PipelineFailed
from omnigraph.tasks.engines import DEFAULT_SETTINGS, TaskSettings
from omnigraph.tasks.progress import Progress, Silent, Stage, Status, repeating
from omnigraph.tasks.runner import Exchange, Join, Piece, Result, Task, rows_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


# Work on Spark that Ctrl-C can stop.
#
# Talking to the JVM must not be interrupted half-way: the connection would be lost, and a traceback printed for it. So the
# work runs in a thread of its own, and the thread that signals reach only waits.

T = TypeVar("T")

STOP_PATIENCE_S = 5.0
"""How long work that was told to stop is waited for."""


def run_job(session: SparkSession, description: str, action: Callable[[], T], group: str | None = None) -> T:
    """The result of an action on Spark, whose jobs are one job group. When the wait is interrupted, they are cancelled. Whatever
    fails there, a JVM that is gone too, is a PipelineFailed."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes with PySpark, without types
    from pyspark import InheritableThread
    from pyspark.errors import PySparkException

    name = group or new_group()
    context = getattr(session, "_sc", None)

    def grouped() -> T:
        if context is not None:
            context.setJobGroup(name, description, True)
        else:  # a Connect session has no context
            session.addTag(name)
        return action()

    def thread(target: Callable[[], None]) -> threading.Thread:
        thread: threading.Thread = InheritableThread(target, session=session)
        return thread

    try:
        return interruptible(grouped, lambda: cancel_group(session, name), thread)
    except (PySparkException, Py4JError, ConnectionError) as error:
        raise _failure(error) from None


def cancel_group(session: SparkSession, name: str) -> None:
    context = getattr(session, "_sc", None)
    if context is not None:
        context.cancelJobGroup(name)
    else:
        session.interruptTag(name)


def new_group() -> str:
    return f"omnigraph-{uuid.uuid4().hex}"


def interruptible(
    work: Callable[[], T],
    stop: Callable[[], None],
    thread: Callable[[Callable[[], None]], threading.Thread] = lambda target: threading.Thread(target=target),
) -> T:
    """The result of work in another thread. When the wait is interrupted, `stop` must make the work end, soon and somehow."""
    outcome: Future[Any] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:  # the waiting thread raises it
            outcome.set_exception(error)

    worker = thread(run)
    worker.daemon = True
    worker.start()
    try:
        result: T = outcome.result()
        return result
    except KeyboardInterrupt:
        # In a thread as well: the second Ctrl-C of somebody in a hurry may end the wait, but not garble the talk.
        stopper = threading.Thread(target=stop, daemon=True)
        stopper.start()
        stopper.join(STOP_PATIENCE_S)
        worker.join(STOP_PATIENCE_S)
        raise


def _failure(error: BaseException) -> PipelineFailed:
    """What a failed Spark job says to a person: the last line of the worker's own words, no stack."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    if type(error).__name__ == "PythonException" and lines:
        reason = lines[-1]
    else:
        reason = next((line for line in lines if "Exception" in line or "Error" in line), lines[0] if lines else "")
        reason = reason.split("; Recent", 1)[0]
    return PipelineFailed(
        f"the work on Spark stopped: {reason[:500]}",
        hint="nothing was changed; the Spark log has more, then run it again",
    )


# The memory of a Python worker of Spark between two tasks.

_modules_frozen = 0


def freeze_loaded_modules() -> None:
    """Called in a worker at the end of a task. Spark collects garbage after every task, and a collection that looks at Lance, DuckDB,
    pandas and us takes longer than a small task: what is loaded for good is looked at no more."""
    global _modules_frozen
    if len(sys.modules) != _modules_frozen:
        _modules_frozen = len(sys.modules)
        gc.collect()
        gc.freeze()


_POLL_SECONDS = 0.2
_RESULT = "task long, result binary"
_PIECES = "bucket int, source int, data binary"


class SparkRunner:
    """Tasks of one Spark job, one value each."""

    def __init__(
        self,
        session: SparkSession,
        parallelism: int,
        progress: Progress | None = None,
        work: str = "omnigraph",
        settings: TaskSettings = DEFAULT_SETTINGS,
    ) -> None:
        """`work`: what its jobs are called in Spark's own pages, with the stage of each."""
        self.session = session
        self._work = work
        self.parallelism = parallelism
        self.settings = settings
        self.stages: list[Stage] = []
        self._progress = progress or Silent()

    def map(self, stage: str, function: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
        if not tasks:
            return []
        values = [pickle.dumps(task) for task in tasks]
        frame = self.session.range(0, len(tasks), 1, len(tasks)).mapInArrow(_mapped(function, values), _RESULT)
        results = self.collect(stage, frame, len(tasks))
        return [result for _, result in sorted(results, key=lambda pair: pair[0])]

    def exchange(self, exchange: Exchange[Task, Result]) -> list[Result]:
        """Through Spark's shuffle, in which a piece is one row."""
        count = len(exchange.tasks) + exchange.buckets
        return [result for _, result in self.collect(exchange.stage, self._joined(exchange), count)]

    def exchange_in_order(self, exchange: Exchange[Task, Result]) -> Iterator[Result]:
        """All buckets are joined at once, and their results wait on the disks of the workers until they are asked for."""
        from pyspark import StorageLevel

        joined = self._joined(exchange).persist(StorageLevel.DISK_ONLY)
        try:
            self.collect(exchange.stage, joined.filter("task < 0"), len(exchange.tasks) + exchange.buckets)
            rows = run_job(self.session, self._work, joined.toLocalIterator)
            while (row := run_job(self.session, self._work, lambda: next(rows, None))) is not None:
                answer: Result | _Raised = pickle.loads(bytes(row[1]))
                if isinstance(answer, _Raised):
                    raise answer.error
                yield answer
        finally:
            joined.unpersist()

    def _joined(self, exchange: Exchange[Task, Result]) -> DataFrame:
        """A row for each bucket that has a piece, in the partition of its number."""
        values = [pickle.dumps(task) for task in exchange.tasks]
        tasks = self.session.range(0, len(values), 1, len(values))
        pieces = tasks.mapInArrow(_cutting(exchange.cut, values), _PIECES)
        return pieces.repartitionById(exchange.buckets, "bucket").mapInArrow(_joining(exchange.join), _RESULT)

    def map_frame(self, stage: str, function: Callable[[int, Iterator[Any]], Result], frame: DataFrame) -> list[Result]:
        """One task per partition of a data frame; the function gets its number and its Arrow batches."""
        results = self.collect(stage, frame.mapInArrow(_over_batches(function), _RESULT), 0)
        return [result for _, result in results]

    def collect(self, stage: str, frame: DataFrame, tasks: int) -> list[tuple[int, Any]]:
        started = time.monotonic()
        if tasks:
            self._progress.update(Status(stage, 0, tasks, 0, 0.0))
        group = new_group()
        with self._watched(group, stage, tasks):
            rows = _collected(self.session, f"{self._work}: {stage}", frame, group)
        answers = [(row[0], pickle.loads(bytes(row[1]))) for row in rows]
        for _, answer in sorted(answers, key=lambda pair: pair[0]):
            if isinstance(answer, _Raised):
                raise answer.error
        total = sum(rows_in(answer) for _, answer in answers)
        seconds = time.monotonic() - started
        self._progress.update(Status(stage, len(answers), len(answers), total, seconds))
        self.stages.append(_measured(self.session, group, Stage(stage, len(answers), total, seconds)))
        return answers

    @contextlib.contextmanager
    def _watched(self, group: str, stage: str, tasks: int) -> Iterator[None]:
        """Report progress from a thread while the job runs. A Connect session has no tracker: only its end is reported."""
        context = getattr(self.session, "_sc", None)
        if context is None or isinstance(self._progress, Silent):
            yield
            return
        started, tracker = time.monotonic(), context.statusTracker()

        def show() -> None:
            done = total = 0
            for job in tracker.getJobIdsForGroup(group):
                info = tracker.getJobInfo(job)
                for number in info.stageIds if info else ():
                    running = tracker.getStageInfo(number)
                    if running is not None:
                        done += running.numCompletedTasks
                        total += running.numTasks
            self._progress.update(Status(stage, done, max(total, tasks), 0, time.monotonic() - started))

        with repeating(show, _POLL_SECONDS):
            yield


def _measured(session: SparkSession, group: str, stage: Stage) -> Stage:
    """With what Spark knows of the jobs of a group. It may forget them, or not have counted the last task yet."""
    from py4j.protocol import Py4JError

    context = getattr(session, "_sc", None)
    if context is None:
        return stage
    tasks = shuffled = spilled = failed = 0
    try:
        known = context._jsc.sc().statusStore()
        tracker = context.statusTracker()
        for job in tracker.getJobIdsForGroup(group):
            info = tracker.getJobInfo(job)
            for number in info.stageIds if info else ():
                attempt = known.lastStageAttempt(number)
                tasks += attempt.numCompleteTasks()
                shuffled += attempt.shuffleWriteBytes()
                spilled += attempt.diskBytesSpilled()
                failed += attempt.numFailedTasks()
    except Py4JError:
        return stage
    return replace(
        stage, tasks=max(tasks, stage.tasks), shuffled_bytes=shuffled, spilled_bytes=spilled, failed_tasks=failed
    )


def _collected(session: SparkSession, description: str, frame: DataFrame, group: str) -> list[Any]:
    rows: list[Any] = run_job(session, description, frame.collect, group)
    return rows


@dataclass(frozen=True)
class _Raised:
    """An error of ours on its way back from a task."""

    error: OmnigraphError


def _answer(number: int, work: Callable[[], Any]) -> Any:
    try:
        result = work()
    except OmnigraphError as error:
        if error.retry:
            raise
        result = _Raised(error)
    freeze_loaded_modules()
    return pa.RecordBatch.from_pydict(
        {"task": pa.array([number], pa.int64()), "result": pa.array([pickle.dumps(result)], pa.binary())}
    )


def _mapped(function: Callable[[Any], Any], values: Sequence[bytes]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                yield _answer(number, lambda n=number: function(pickle.loads(values[n])))  # type: ignore[misc]

    return run


def _cutting(
    cut: Callable[[Any], Iterable[Piece]], values: Sequence[bytes]
) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                for bucket, source, data in cut(pickle.loads(values[number])):
                    yield pa.RecordBatch.from_arrays(
                        [pa.array([bucket], pa.int32()), pa.array([source], pa.int32()), pa.array([data], pa.binary())],
                        names=["bucket", "source", "data"],
                    )
        freeze_loaded_modules()

    return run


def _joining(join: Join[Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        held = list(batches)
        pieces = [
            (number.as_py(), data.as_buffer())
            for batch in held
            for number, data in zip(batch.column("source"), batch.column("data"), strict=True)
        ]
        if pieces:
            bucket: int = next(batch.column("bucket")[0].as_py() for batch in held if batch.num_rows)
            yield _answer(0, lambda: join(bucket, pieces))

    return run


def _over_batches(function: Callable[[int, Iterator[Any]], Any]) -> Callable[[Iterator[Any]], Iterator[Any]]:
    def run(batches: Iterator[Any]) -> Iterator[Any]:
        from pyspark import TaskContext

        yield _answer(0, lambda: function(TaskContext.get().partitionId(), batches))

    return run
