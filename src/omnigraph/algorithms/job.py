"""Running an algorithm: in this process when the graph fits, otherwise as tasks, of Spark or of this process."""

from __future__ import annotations

import importlib.util
import time
from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import pa
from omnigraph.algorithms.in_process import run_in_process
from omnigraph.algorithms.on_tasks import parts_for, run_on_tasks
from omnigraph.algorithms.projection import (
    Algorithm,
    ConnectedComponents,
    EdgeProjection,
    LabelPropagation,
    LocalClustering,
    PageRank,
    ShortestPaths,
)
from omnigraph.algorithms.result import AlgorithmResult, RowFiles
from omnigraph.algorithms.scratch import Scratch
from omnigraph.snapshot import View
from omnigraph.spark.runner import SparkRunner
from omnigraph.tasks.engines import AUTO, Engine, make_runner
from omnigraph.tasks.progress import Progress, Silent
from omnigraph.tasks.runner import LocalRunner
from omnigraph.tasks.target import Address

if TYPE_CHECKING:
    from omnigraph.spark.frames import SparkSession

MAX_IN_PROCESS_EDGES = 20_000_000
"""Up to here arrays of one process are faster than tasks (bench/bench_algorithms.py) and take less than 4 GB."""


def run_algorithm(
    view: View,
    algorithm: Algorithm,
    edge: str,
    weight: str | None = None,
    *,
    engine: Engine = AUTO,
    session: SparkSession | None = None,
    progress: Progress | None = None,
) -> AlgorithmResult:
    """`session`: for the result as a DataFrame, and for the work when it is large and nobody has chosen an engine."""
    began = time.monotonic()
    projection = EdgeProjection.of(view, edge, weight)
    commit = view.snapshot.commit
    is_auto = isinstance(engine, str) and engine == AUTO
    if (is_auto or engine == "local") and fits(projection):
        rows, steps = run_in_process(projection, algorithm)
        seconds = time.monotonic() - began
        return AlgorithmResult(algorithm, commit, "in process", steps, seconds, rows.num_rows, rows, session)
    chosen = (session or _large_engine(projection)) if is_auto else engine
    runner = make_runner(chosen, view.repository.store.uri, progress or Silent(), "run")
    history = view.repository.history
    scratch = Scratch(Address.of_graph(view.repository), f"staging/{history.new_id()}")
    try:
        with history.leases.hold(commit.ref):
            names, steps = run_on_tasks(projection, algorithm, scratch, runner, parts_for(projection, runner))
    except BaseException:
        scratch.remove()
        raise
    for folder in scratch.store.list_folders(scratch.folder):
        if folder != "rows":
            scratch.remove(folder)
    where = "in tasks of this process" if isinstance(runner, LocalRunner) else "on Spark"
    if isinstance(runner, SparkRunner):
        session = runner.session
    files = RowFiles(scratch, tuple(names), _schema(algorithm, projection))
    seconds = time.monotonic() - began
    return AlgorithmResult(algorithm, commit, where, steps, seconds, projection.nodes, files, session)


def fits(projection: EdgeProjection) -> bool:
    """Whether arrays of one process are the way: the graph is small enough, and SciPy is there."""
    return projection.edges <= MAX_IN_PROCESS_EDGES and importlib.util.find_spec("scipy") is not None


def _large_engine(projection: EdgeProjection) -> Engine:
    if importlib.util.find_spec("pyspark") is not None and projection.edges > MAX_IN_PROCESS_EDGES:
        return "spark"
    return "local"


def _schema(algorithm: Algorithm, projection: EdgeProjection) -> pa.Schema:
    match algorithm:
        case ConnectedComponents() | LabelPropagation():
            kind = pa.utf8()
        case PageRank() | LocalClustering():
            kind = pa.float64()
        case ShortestPaths():
            kind = pa.int64() if projection.weight is None else pa.float64()
        case _:
            kind = pa.int64()
    return pa.schema([("type", pa.utf8()), ("id", pa.utf8()), (algorithm.column, kind)])
