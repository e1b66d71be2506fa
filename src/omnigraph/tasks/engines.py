"""Which engine does the work: a name ("auto", "local", "spark"), the address of a Spark master, or a Spark session."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, Union

from omnigraph.errors import UsageError
from omnigraph.storage.options import scheme_of

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from omnigraph.tasks.progress import Progress
    from omnigraph.tasks.runner import ExchangingWorkers, Runner


# The words that arguments of bulk work take.

LoadMode = Literal["append", "merge", "patch", "delete", "overwrite"]
FileFormat = Literal["jsonl", "csv", "parquet"]
StreamFormat = Literal["jsonl", "csv", "parquet", "arrow"]
Missing = Literal["refuse", "skip", "stub"]
"""What a load does about edges that name nodes which there are not."""
Lost = Literal["report", "reset", "drop"]
"""What repair does about a branch whose head cannot be read in full."""


# What can be set about the tasks of a load, under names that Spark's configuration takes.
#
# In a session they may stand wherever its other settings do; without Spark they are given to the load.

PREFIX = "spark.omnigraph."
SPLIT_BYTES = f"{PREFIX}splitBytes"
PARALLELISM = f"{PREFIX}parallelism"
TASK_MEMORY = f"{PREFIX}taskMemory"
NAMES = (SPLIT_BYTES, PARALLELISM, TASK_MEMORY)

MIN_TASK_MEMORY_BYTES = 64 * 1024 * 1024
HELD_SHARE = 4
"""Of its memory a task fills this part with rows before it writes them: while it sorts and encodes them it holds them twice more."""
CHECKED_VALUE_BYTES = 128
"""What a value takes that a rule compares, with the tables in which it is looked up."""

_UNITS = {"": 1, "b": 1, "k": 1024, "m": 1024**2, "g": 1024**3, "t": 1024**4}
_AMOUNT = re.compile(r"(\d+)\s*([bkmgt]?)b?", re.IGNORECASE)


@dataclass(frozen=True)
class TaskSettings:
    """None: as was found to be good."""

    split_bytes: int | None = None
    """Input that one task reads."""
    parallelism: int | None = None
    """How many tasks run at once."""
    task_memory_bytes: int | None = None
    """What a task may take for the rows it works on."""

    @classmethod
    def of(cls, conf: Mapping[str, str]) -> TaskSettings:
        """UsageError for a name that is not one of ours below our prefix, and for what is not an amount."""
        for name in conf:
            if not name.startswith("spark."):
                raise UsageError(
                    f"'{name}' is not a setting", hint=f"settings of Spark begin with spark.; ours are {_listed()}"
                )
            if name.startswith(PREFIX) and name not in NAMES:
                raise UsageError(f"there is no setting '{name}'", hint=f"the settings are {_listed()}")
        memory = _amount(conf, TASK_MEMORY)
        if memory is not None and memory < MIN_TASK_MEMORY_BYTES:
            raise UsageError(f"{TASK_MEMORY} is {conf[TASK_MEMORY]}, which is too little", hint="64m is the least")
        return cls(_amount(conf, SPLIT_BYTES), _amount(conf, PARALLELISM), memory)

    def held_bytes(self, otherwise: int) -> int:
        """Typed rows that a task holds before it writes some."""
        return otherwise if self.task_memory_bytes is None else self.task_memory_bytes // HELD_SHARE

    def checked_values(self, otherwise: int) -> int:
        """Values that a task compares at once."""
        return otherwise if self.task_memory_bytes is None else self.task_memory_bytes // CHECKED_VALUE_BYTES


DEFAULT_SETTINGS = TaskSettings()


def settings_of_session(session: SparkSession, conf: Mapping[str, str]) -> TaskSettings:
    """What was given to the load, and otherwise what the session says."""
    settings = {name: value for name in NAMES if (value := session.conf.get(name, None)) is not None}
    return TaskSettings.of({**settings, **conf})


def _amount(conf: Mapping[str, str], name: str) -> int | None:
    text = conf.get(name)
    if text is None:
        return None
    match = _AMOUNT.fullmatch(text.strip())
    amount = 0 if match is None else int(match[1]) * _UNITS[match[2].lower()]
    if amount < 1:
        raise UsageError(f"{name} cannot be '{text}'", hint="give a whole number, of bytes also like 64m or 1g")
    return amount


def _listed() -> str:
    return ", ".join(NAMES)


Engine: TypeAlias = Union[str, "SparkSession"]  # Spark is not imported
"""Where work is done: "local" (this process), "spark", the address of a Spark master, or a Spark session. A load also takes
"auto": OMNIGRAPH_ENGINE if that is set, and otherwise by the size of its input."""

AUTO = "auto"
MAX_IN_PROCESS_BYTES = 500_000_000
"""How much input a load reads in this process when nobody has chosen. One machine does that faster than Spark (bench/bench_load.py,
both engines); what is larger is worth Spark's start, and may need more machines."""

_MASTER = re.compile(r"local\[.+\]|yarn|(spark|k8s|mesos|sc)://.+")


def open_session(engine: Engine, graph: str, conf: Mapping[str, str] | None = None) -> SparkSession | None:
    """The Spark session that an engine names for a graph (its address), started if need be, with these settings; None: the work
    is done in this process."""
    check_engine(engine)
    if isinstance(engine, str) and engine == "local":
        return None
    refuse_memory(graph)
    from omnigraph.spark.sessions import check_conf, spark_session

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
            hint="engine='spark'; this process reads jsonl, csv and parquet",
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


def make_workers(engine: Engine, graph: str, progress: Progress | None = None) -> ExchangingWorkers:
    """Who compares rows for a merge or a diff, writes fragments again, or copies objects."""
    from omnigraph.tasks.progress import TaskProgress
    from omnigraph.tasks.runner import IN_PROCESS, InProcess, OnSpark

    session = open_session(engine, graph)
    if session is None:
        return IN_PROCESS if progress is None else InProcess(TaskProgress(progress))
    from omnigraph.spark.runner import SparkRunner
    from omnigraph.spark.sessions import cores_of

    return OnSpark(SparkRunner(session, cores_of(session), progress))


def make_runner(
    engine: Engine, graph: str, progress: Progress, work: str, conf: Mapping[str, str] | None = None
) -> Runner:
    """Who runs the tasks of a job: threads of this process, or Spark's workers, which show `work` and the graph's name. `conf`:
    settings of a session that is started for it, and of the tasks."""
    from omnigraph.tasks.progress import waiting_for

    task_settings = TaskSettings.of(conf or {})
    if isinstance(engine, str) and engine != "local":
        with waiting_for("starting Spark", progress):
            session = open_session(engine, graph, conf)
    else:
        session = open_session(engine, graph, conf)
    if session is None:
        from omnigraph.tasks.runner import LocalRunner

        return LocalRunner(progress, task_settings)
    from omnigraph.spark.runner import SparkRunner
    from omnigraph.spark.sessions import cores_of

    name = graph.rstrip("/").rpartition("/")[2]
    settings = settings_of_session(session, conf or {})
    cores = settings.parallelism or cores_of(session)
    return SparkRunner(session, cores, progress, f"omnigraph {work} {name}", settings)
