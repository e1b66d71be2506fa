"""The JVM that a session on this machine runs in: it never outlives this process.

While this process lives, the JVM's standard input is a pipe from it. When the pipe closes, however this process ended, the
JVM ends. Only a JVM that is still starting can miss that, so one whose start is given up is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import signal
import subprocess
import warnings
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from omnigraph.spark.runner import interruptible

T = TypeVar("T")

END_PATIENCE_S = 10.0
"""How long a JVM may take to end by itself before it is killed."""


def started(start: Callable[[], T]) -> T:
    """What `start` gives, which is a session in a JVM of its own. Interrupted or failed, no JVM is left."""
    processes: list[subprocess.Popen[bytes]] = []
    with _launches(processes):
        try:
            result = interruptible(start, lambda: _kill(processes))
        except BaseException:
            _kill(processes)
            raise
    for process in processes:
        atexit.register(end, process)
    return result


@contextlib.contextmanager
def _launches(processes: list[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Note every process that PySpark launches, from the moment on that it exists, and give it a process group."""
    from pyspark import java_gateway

    class Launched(subprocess.Popen[bytes]):
        def __init__(self, *args: Any, **options: Any) -> None:
            with warnings.catch_warnings():
                # The JVM is started by a fork that only calls exec: nothing of this process runs in it.
                warnings.filterwarnings("ignore", message="lance is not fork-safe")
                super().__init__(*args, process_group=0, **options)
            processes.append(self)

    launch = java_gateway.Popen
    java_gateway.Popen = Launched
    try:
        yield
    finally:
        java_gateway.Popen = launch


def end(process: subprocess.Popen[bytes]) -> None:
    """Ask a JVM to end, and wait until it has."""
    _expect_its_end()
    if process.stdin is not None:
        with contextlib.suppress(OSError):
            process.stdin.close()
    try:
        process.wait(END_PATIENCE_S)
    except subprocess.TimeoutExpired:
        _kill([process])


def _expect_its_end() -> None:
    """PySpark would print a traceback when the JVM hangs up, because it does not know that this is the end."""
    from pyspark import SparkContext

    server = getattr(SparkContext._active_spark_context, "_accumulatorServer", None)
    if server is not None:
        server.handle_error = lambda *_: None


def _kill(processes: list[subprocess.Popen[bytes]]) -> None:
    for process in processes:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
