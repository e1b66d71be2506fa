"""Which engine does the work: a name ("auto", "local", "spark"), the address of a Spark master, or a Spark session."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias, Union

from omnigraph.errors import UsageError
from omnigraph.storage.options import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.pipeline.progress import Progress
    from omnigraph.pipeline.runner import Runner
    from omnigraph.workers import ExchangingWorkers

Engine: TypeAlias = Union[str, "SparkSession"]  # Spark is not imported
"""Where work is done: "local" (this process), "spark", the address of a Spark master, or a Spark session. A load also takes
"auto": OMNIGRAPH_ENGINE if that is set, and otherwise by the size of its input."""

AUTO = "auto"
MAX_IN_PROCESS_BYTES = 500_000_000
"""How much input a load reads in this process when nobody has chosen. One machine does that faster than Spark (bench/bench_load.py,
both engines); what is larger is worth Spark's start, and may need more machines."""

_MASTER = re.compile(r"local\[.+\]|yarn|(spark|k8s|mesos|sc)://.+")


def session_of(engine: Engine, graph: str, conf: Mapping[str, str] | None = None) -> SparkSession | None:
    """The Spark session that an engine names for a graph (its address), started if need be, with these settings; None: the work
    is done in this process."""
    check_engine(engine)
    if isinstance(engine, str) and engine == "local":
        return None
    refuse_memory(graph)
    from omnigraph.pipeline.spark.session import check_conf, spark_session

    if not isinstance(engine, str):
        check_conf(engine, conf or {})
        return engine
    return spark_session(None if engine == "spark" else engine, conf=conf)


def check_engine(engine: Engine) -> None:
    """UsageError unless it names an engine, "auto" apart, or is a Spark session."""
    is_name = isinstance(engine, str)
    if is_name and (engine in ("local", "spark") or _MASTER.fullmatch(engine)):
        return
    if is_name or not hasattr(engine, "createDataFrame"):
        raise UsageError(
            f"{engine!r} is not an engine" if is_name else f"{type(engine).__name__} is not an engine",
            hint="auto (of a load), local (this process), spark, a Spark master such as local[4] or spark://host:7077, or a Spark session",
        )


@dataclass(frozen=True)
class EngineChoice:
    """The engine of a load, and in a few words why it is that one."""

    engine: Engine
    reason: str


def choose_engine(engine: Engine, graph: str, input_bytes: int, session: SparkSession | None) -> EngineChoice:
    """`session`: that of the DataFrames which are loaded, if they are Spark's."""
    if not isinstance(engine, str) or engine != AUTO:
        return EngineChoice(engine, "as chosen")
    if (wanted := (os.environ.get("OMNIGRAPH_ENGINE") or AUTO)) != AUTO:
        return EngineChoice(wanted, "OMNIGRAPH_ENGINE")
    if session is not None:
        return EngineChoice(session, "the session of the DataFrame")
    if scheme_of(graph) == "memory":
        return EngineChoice("local", "the graph is in memory")
    if "SPARK_REMOTE" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ:
        return EngineChoice("spark", "this program runs with Spark")
    amount = f"{amount_of(input_bytes)} of input"
    limit = amount_of(MAX_IN_PROCESS_BYTES)
    if input_bytes <= MAX_IN_PROCESS_BYTES:
        return EngineChoice("local", f"{amount}; Spark from {limit} on")
    if importlib.util.find_spec("pyspark") is None:
        return EngineChoice("local", f"{amount}; Spark, which is for more than {limit}, is not installed")
    return EngineChoice("spark", f"{amount}, more than {limit}")


def engine_with_reader(engine: Engine, format: str) -> EngineChoice:
    """The engine of a load from a format that only Spark reads."""
    chosen = (os.environ.get("OMNIGRAPH_ENGINE") or AUTO) if isinstance(engine, str) and engine == AUTO else engine
    if isinstance(chosen, str) and chosen == "local":
        raise UsageError(
            f"'{format}' is read by Spark, and the engine is local",
            hint="--engine spark; this process reads jsonl, csv and parquet",
        )
    if isinstance(chosen, str) and chosen == AUTO:
        return EngineChoice("spark", f"Spark reads {format}")
    return EngineChoice(chosen, "as chosen" if chosen is engine else "OMNIGRAPH_ENGINE")


def amount_of(size: int) -> str:
    """Bytes in words."""
    return f"{size:,} bytes" if size < 1_000_000 else f"{size / 1_000_000:,.0f} MB"


def refuse_memory(graph: str) -> None:
    if scheme_of(graph) == "memory":
        raise UsageError(
            f"{graph} lives in the memory of one process, where Spark's workers cannot reach it",
            hint='use engine="local", or a graph on disk or in an object store',
        )


def workers_of(engine: Engine, graph: str, progress: Progress | None = None) -> ExchangingWorkers:
    """Who compares rows for a merge or a diff, writes fragments again, or copies objects."""
    from omnigraph.pipeline.progress import TaskProgress
    from omnigraph.workers import IN_PROCESS, InProcess, OnSpark

    session = session_of(engine, graph)
    if session is None:
        return IN_PROCESS if progress is None else InProcess(TaskProgress(progress))
    from omnigraph.pipeline.spark.runner import SparkRunner
    from omnigraph.pipeline.spark.session import cores_of

    return OnSpark(SparkRunner(session, cores_of(session), progress))


def runner_of(
    engine: Engine, graph: str, progress: Progress, work: str, conf: Mapping[str, str] | None = None
) -> Runner:
    """Who runs the tasks of a job: threads of this process, or Spark's workers, which show `work` and the graph's name. `conf`:
    settings of a session that is started for it, and of the tasks."""
    from omnigraph.pipeline.progress import waiting_for
    from omnigraph.pipeline.task_settings import TaskSettings, settings_of_session

    task_settings = TaskSettings.of(conf or {})
    if isinstance(engine, str) and engine != "local":
        with waiting_for("starting Spark", progress):
            session = session_of(engine, graph, conf)
    else:
        session = session_of(engine, graph, conf)
    if session is None:
        from omnigraph.pipeline.runner import LocalRunner

        return LocalRunner(progress, task_settings)
    from omnigraph.pipeline.spark.runner import SparkRunner
    from omnigraph.pipeline.spark.session import cores_of

    name = graph.rstrip("/").rpartition("/")[2]
    settings = settings_of_session(session, conf or {})
    cores = settings.parallelism or cores_of(session)
    return SparkRunner(session, cores, progress, f"omnigraph {work} {name}", settings)
