"""The Spark session: the active one, or a new one on this machine with settings that suit the work."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.errors import MissingExtra, PipelineFailed, UsageError
from omnigraph.spark import java, jvm, start_cache
from omnigraph.tasks.engines import PREFIX

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TASK_ATTEMPTS = 3
MIN_MEMORY_MB = 1_024
MAX_MEMORY_MB = 4_096
PIPE_BYTES = 1024 * 1024
"""What the JVM and a Python worker exchange at a time. Rows come as batches of megabytes."""


def spark_session(
    master: str | None = None,
    memory: str | None = None,
    app_name: str = "omnigraph",
    conf: Mapping[str, str] | None = None,
    *,
    has_pages: bool = False,
) -> SparkSession:
    """The active session, or a new one: SPARK_REMOTE or `sc://` connects, spark-submit's own settings are kept,
    another `master` names a cluster, and otherwise Spark runs in this machine's cores.

    `memory` is for the JVM on this machine ("4g"); the work on rows happens beside it, in Python. `conf`: settings of a session that
    is started; UsageError when the active one has others. `has_pages`: whether a JVM that is started here shows its jobs as web pages.
    """
    require_pyspark()
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None and master is None:
        check_conf(active, conf or {})
        return active
    remote = master if master and master.startswith("sc://") else os.environ.get("SPARK_REMOTE")
    builder = SparkSession.builder.appName(app_name)
    if remote and (master is None or master == remote):
        return _connected(builder, remote, conf or {})
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        return _configured(builder, {**_SQL, **(conf or {})}).getOrCreate()
    chosen = master or f"local[{os.cpu_count() or 1},{TASK_ATTEMPTS}]"
    cache = start_cache.find() if chosen.startswith("local") else None
    pages = _PAGES if has_pages else {}
    return start(chosen, memory, app_name, cache.options() if cache else (), {**pages, **(conf or {})})


def check_conf(session: SparkSession, conf: Mapping[str, str]) -> None:
    """UsageError for a setting that the session does not have: it was made with others. Those of tasks are not the session's."""
    for name, value in conf.items():
        if not name.startswith(PREFIX) and session.conf.get(name, None) != value:
            raise UsageError(
                f"the Spark session has {name}={session.conf.get(name, None)}, and {value} was asked for",
                hint="set it where the session is made, or load without that session",
            )


def start(
    master: str, memory: str | None, app_name: str, java_options: Sequence[str], conf: Mapping[str, str] | None = None
) -> SparkSession:
    """A new session with a JVM on this machine, which gets these options besides its own."""
    from pyspark.sql import SparkSession

    _prepare_environment(local=master.startswith("local"))
    settings = {**_SQL, **_driver_settings(memory, java_options), **(conf or {})}

    def make() -> SparkSession:
        builder = SparkSession.builder.appName(app_name).master(master)
        session: SparkSession = _configured(builder, settings).getOrCreate()
        session.sparkContext.setLogLevel("ERROR")
        return session

    with _typed_start(f"Spark did not start ({master})", "look at its log: " + str(java.log_file())):
        session = jvm.started(make)
    # Made in another thread, where it is active; here it shall be too.
    SparkSession._get_j_spark_session_class(session._jvm).setActiveSession(session._jsparkSession)
    return session


def require_pyspark() -> None:
    if not _can_import("pyspark"):
        raise MissingExtra(
            "PySpark is not installed",
            hint="pip install 'omnigraph[spark]', or work in this process: engine='local'",
        )


@contextlib.contextmanager
def _typed_start(message: str, hint: str) -> Iterator[None]:
    """What keeps a session from starting, as one sentence."""
    from py4j.protocol import Py4JError  # type: ignore[import-untyped]  # comes with PySpark, without types
    from pyspark.errors import PySparkException

    try:
        yield
    except (PySparkException, Py4JError, OSError) as error:
        lines = str(error).strip().splitlines()
        raise PipelineFailed(f"{message}: {lines[0] if lines else type(error).__name__}", hint=hint) from None


def _connected(builder: Any, remote: str, conf: Mapping[str, str]) -> SparkSession:
    """A session of Spark Connect: at a server (`sc://host`), or in a JVM that is started here (`local[2]`)."""
    missing = [package for module, package in _CONNECT.items() if not _can_import(module)]
    if missing:
        # PySpark itself would end the program without a word, or name one of them only.
        raise UsageError(
            f"Spark Connect needs packages that are not installed: {', '.join(missing)}",
            hint="pip install 'pyspark[connect]', or use Spark without SPARK_REMOTE",
        )
    if remote.startswith("local"):
        _prepare_environment(local=True)
    hint = "check the address in SPARK_REMOTE, and that a Spark Connect server runs there"
    with _typed_start(f"no Spark session at '{remote}'", hint):
        session: SparkSession = jvm.started(lambda: _configured(builder.remote(remote), {**_SQL, **conf}).getOrCreate())
    return session


_CONNECT = {
    "grpc": "grpcio",
    "grpc_status": "grpcio-status",
    "google.rpc": "googleapis-common-protos",
    "zstandard": "zstandard",
}
"""Modules that PySpark's Connect client imports, and the packages they come in."""


def _can_import(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


_SQL = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100000",
    "spark.sql.adaptive.enabled": "true",
}


_PAGES = {"spark.ui.enabled": "true", "spark.ui.port": "0"}
"""On a free port of this machine's loopback address."""


def _driver_settings(memory: str | None, java_options: Sequence[str]) -> dict[str, str]:
    cores = os.cpu_count() or 1
    options = [f"-Dlog4j2.configurationFile={java.logging_file()}", "-XX:+ExitOnOutOfMemoryError", *java_options]
    return {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": str(2 * cores),
        "spark.driver.memory": memory or _memory(),
        "spark.driver.maxResultSize": "0",
        "spark.driver.extraJavaOptions": " ".join(f'"{option}"' for option in options),
        "spark.python.worker.reuse": "true",
        "spark.buffer.size": str(PIPE_BYTES),
        "spark.task.maxFailures": str(TASK_ATTEMPTS),
    }


def _memory() -> str:
    """A sixth of the machine, within bounds: rows live in the Python workers, not in the JVM."""
    total_mb = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") // (1024 * 1024)
    return f"{max(MIN_MEMORY_MB, min(MAX_MEMORY_MB, total_mb // 6))}m"


def _prepare_environment(*, local: bool) -> None:
    """Set what the JVM's launcher reads, unless the user has."""
    os.environ["JAVA_HOME"] = java.java_home()
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    os.environ.setdefault("PYSPARK_DRIVER_PYTHON", sys.executable)
    if local:
        os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")


def _configured(builder: Any, settings: dict[str, str]) -> Any:
    for name, value in settings.items():
        builder = builder.config(name, value)
    return builder


def cores_of(session: SparkSession) -> int:
    """How many tasks run at once; 4 where the session does not say."""
    try:
        return max(1, int(session.sparkContext.defaultParallelism))
    except AttributeError:  # a Connect session has no context
        return max(1, int(session.conf.get("spark.default.parallelism", "4") or 4))
