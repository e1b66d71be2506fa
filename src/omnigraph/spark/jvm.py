"""The JVM that a session on this machine runs in: it never outlives this process. And the way back to it from a process that it starts.

While this process lives, the JVM's standard input is a pipe from it. When the pipe closes, however this process ended, the
JVM ends. Only a JVM that is still starting can miss that, so one whose start is given up is killed.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import signal
import subprocess
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph._internal.user_folders import is_own_file
from omnigraph.spark import java
from omnigraph.spark.runner import interruptible

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

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


# Spark runs the commit of a data source in a Python process of its own, which knows nothing of the session. So the program that has the
# session leaves word in a file that only its user may read, under the number of the JVM's process, from which the other one descends.


def share(session: SparkSession) -> None:
    """Let processes that the session's JVM starts use the session. Does nothing over Spark Connect."""
    gateway = getattr(getattr(session, "_sc", None), "_gateway", None)
    if gateway is None or session._sc._jvm is None:
        return
    path = _shared_file(session._sc._jvm.java.lang.ProcessHandle.current().pid())
    known = gateway.java_parameters if hasattr(gateway, "java_parameters") else gateway.gateway_parameters
    text, owner = json.dumps({"port": known.port, "secret": known.auth_token}), os.getpid()
    if path.exists() and path.read_text() == text:
        return

    def remove() -> None:
        if os.getpid() == owner:
            path.unlink(missing_ok=True)

    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
        with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            file.write(text)
        atexit.register(remove)


def shared_session() -> SparkSession | None:
    """The session of the JVM that has started this process; None if nobody has shared it."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes with PySpark, without types
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway
    from pyspark.sql import SparkSession

    if SparkContext._active_spark_context is not None:
        return SparkSession.getActiveSession()
    path = next((path for pid in _ancestors() if is_own_file(path := _shared_file(pid))), None)
    if path is None:
        return None
    shared = json.loads(path.read_text())
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ |= {"PYSPARK_GATEWAY_PORT": str(shared["port"]), "PYSPARK_GATEWAY_SECRET": shared["secret"]}
    try:
        gateway = launch_gateway()
        jsession = gateway.jvm.org.apache.spark.sql.classic.SparkSession.getDefaultSession().get()
    except (Py4JError, OSError):  # Of a JVM that had this number before.
        return None
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    jsc = gateway.jvm.JavaSparkContext(jsession.sparkContext())
    conf = SparkConf(_jvm=gateway.jvm, _jconf=jsc.getConf())
    return SparkSession(SparkContext(gateway=gateway, jsc=jsc, conf=conf), jsession)


def _shared_file(pid: int) -> Path:
    return java.folder() / f"gateway-{pid}.json"


def _ancestors() -> Iterator[int]:
    """The processes that this one descends from, where the system tells."""
    pid = os.getppid()
    while pid > 1:
        yield pid
        try:
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            return
