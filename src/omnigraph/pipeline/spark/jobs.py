"""Work on Spark that Ctrl-C can stop.

Talking to the JVM must not be interrupted half-way: the connection would be lost, and a traceback printed for it. So the
work runs in a thread of its own, and the thread that signals reach only waits.
"""

from __future__ import annotations

import threading
import uuid
from collections.abc import Callable
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.errors import PipelineFailed

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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
