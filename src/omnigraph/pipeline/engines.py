"""Which engine does the work: a name ("local", "spark"), the address of a Spark master, or a Spark session."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeAlias, Union

from omnigraph.errors import UsageError
from omnigraph.storage.options import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.pipeline.progress import Progress
    from omnigraph.pipeline.runner import Runner
    from omnigraph.workers import Workers

Engine: TypeAlias = Union[str, "SparkSession"]  # Spark is not imported
"""Where work is done: "local" (this process), "spark", the address of a Spark master, or a Spark session."""

_MASTER = re.compile(r"local\[.+\]|yarn|(spark|k8s|mesos|sc)://.+")


def session_of(engine: Engine, graph: str) -> SparkSession | None:
    """The Spark session that an engine names for a graph (its address), started if need be; None: the work is done in
    this process."""
    is_name = isinstance(engine, str)
    if is_name and engine == "local":
        return None
    is_master = is_name and _MASTER.fullmatch(engine) is not None
    if not (is_master or (is_name and engine == "spark") or hasattr(engine, "createDataFrame")):
        raise UsageError(
            f"{engine!r} is not an engine" if is_name else f"{type(engine).__name__} is not an engine",
            hint="local (this process), spark, a Spark master such as local[4] or spark://host:7077, or a Spark session",
        )
    refuse_memory(graph)
    if not is_name:
        return engine
    from omnigraph.pipeline.spark.session import spark_session

    return spark_session(engine if is_master else None)


def refuse_memory(graph: str) -> None:
    if scheme_of(graph) == "memory":
        raise UsageError(
            f"{graph} lives in the memory of one process, where Spark's workers cannot reach it",
            hint='use engine="local", or a graph on disk or in an object store',
        )


def workers_of(engine: Engine, graph: str, progress: Progress | None = None) -> Workers:
    """Who compares rows for a merge or a diff, writes fragments again, or copies objects."""
    from omnigraph.pipeline.progress import TaskProgress
    from omnigraph.workers import IN_PROCESS, InProcess, OnSpark

    session = session_of(engine, graph)
    if session is None:
        return IN_PROCESS if progress is None else InProcess(TaskProgress(progress))
    from omnigraph.pipeline.spark.runner import SparkRunner
    from omnigraph.pipeline.spark.session import cores_of

    return OnSpark(SparkRunner(session, cores_of(session), progress))


def runner_of(engine: Engine, graph: str, progress: Progress) -> Runner:
    """Who runs the tasks of a job: threads of this process, or Spark's workers."""
    session = session_of(engine, graph)
    if session is None:
        from omnigraph.pipeline.runner import LocalRunner

        return LocalRunner(progress)
    from omnigraph.pipeline.spark.runner import SparkRunner
    from omnigraph.pipeline.spark.session import cores_of

    return SparkRunner(session, cores_of(session), progress)
