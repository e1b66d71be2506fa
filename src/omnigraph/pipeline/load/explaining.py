"""What a load would do, before it does anything: which engine, why, and how its input is cut into tasks."""

from __future__ import annotations

import os
import re
import sys
from dataclasses import dataclass

from omnigraph.pipeline.engines import (
    MAX_IN_PROCESS_BYTES,
    Engine,
    check_engine,
    choose_engine,
    engine_with_reader,
)
from omnigraph.pipeline.load.base import LoadBase
from omnigraph.pipeline.load.inputs import Sources, find_inputs
from omnigraph.pipeline.load.options import LoadOptions
from omnigraph.pipeline.load.session_readers import SessionReader
from omnigraph.pipeline.runner import LocalRunner
from omnigraph.pipeline.task_settings import TaskSettings
from omnigraph.records.fresh_ids import FreshIds
from omnigraph.views import Repository


@dataclass(frozen=True)
class LoadExplanation:
    """Where a load would run, and in how many tasks.

    >>> explained = g.explain_load("people.jsonl")
    >>> assert (explained.engine, explained.files, explained.tasks) == ("in process", 1, 1)
    """

    engine: str
    """"in process" or "on Spark"."""
    reason: str
    input_bytes: int
    """What the files hold, counted as text."""
    max_in_process_bytes: int
    """With how much input a load runs in process when no engine was chosen."""
    files: int
    parallelism: int | None
    """How many tasks run at once; None: what the Spark session says when it is there."""
    tasks: int | None
    """Tasks that read; None for what Spark reads and cuts itself, and where the parallelism is not known."""
    task_bytes: int | None
    """Input of one of them, at most, counted as text."""


def explain_load(
    repository: Repository,
    sources: Sources,
    options: LoadOptions,
) -> LoadExplanation:
    """Nothing is read but the names and sizes of files and the metadata of large Parquet files; Spark is not started.
    Standard input is refused: it could be read only once."""
    settings = TaskSettings.of(options.conf or {})
    reader = SessionReader.of(sources, options)
    if reader is not None:
        choice = engine_with_reader(options.engine, reader.format)
        check_engine(choice.engine)
        return LoadExplanation("on Spark", choice.reason, 0, MAX_IN_PROCESS_BYTES, 0, None, None, None)
    catalog = LoadBase.of(repository, options.branch, options.from_).view.catalog
    located = find_inputs(sources, catalog, options, repository.tables.options or None)
    choice = choose_engine(options.engine, repository.store.uri, located.text_bytes, located.session)
    check_engine(choice.engine)
    is_local = isinstance(choice.engine, str) and choice.engine == "local"
    parallelism = LocalRunner(settings=settings).parallelism if is_local else _parallelism(choice.engine, settings)
    inputs = None if parallelism is None else located.cut(parallelism, FreshIds.new(), settings)
    return LoadExplanation(
        "in process" if is_local else "on Spark",
        choice.reason,
        located.text_bytes,
        MAX_IN_PROCESS_BYTES,
        len({rows.file.address for rows in located.files}),
        parallelism,
        None if inputs is None or located.frames else len(inputs.bundles()),
        None if inputs is None or located.frames else inputs.task_bytes,
    )


def _parallelism(engine: Engine, settings: TaskSettings) -> int | None:
    """Tasks at a time on Spark, as far as it is known without starting it."""
    if settings.parallelism is not None:
        return settings.parallelism
    session = engine
    if isinstance(engine, str):
        if local := re.fullmatch(r"local\[(\d+|\*).*\]", engine):
            return (os.cpu_count() or 1) if local[1] == "*" else int(local[1])
        if engine != "spark" or "SPARK_REMOTE" in os.environ or "PYSPARK_GATEWAY_PORT" in os.environ:
            return None
        module = sys.modules.get("pyspark.sql")
        session = None if module is None else module.SparkSession.getActiveSession()
        if session is None:
            return os.cpu_count() or 1
    from omnigraph.pipeline.spark.session import cores_of

    return cores_of(session)
