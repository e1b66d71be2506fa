"""Logic cases on Spark: the same rows in the same order as in process. A sample in every run, all of them in the soak."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from logic.runner import NOW, LogicFile, files, run_case
from read.graphs import commit, new_graph

from omnigraph.errors import UsageError
from omnigraph.language.query.compiler import compile_query
from omnigraph.language.query.plan import ReadPlan
from omnigraph.read import Result, run_read
from omnigraph.views import View

FILES = files()
BIG = {"type": "A", "data": {"name": "a", "big": 2**62}}
EVERY = 5
"""One case in so many is run each time."""


def _check(file: LogicFile, spark: Any, folder: Any, every: int, first: int) -> int:
    repository = new_graph(str(folder / file.path.stem), file.schema)
    half = len(file.records) // 2
    commit(repository, file.records[:half])
    view = commit(repository, file.records[half:], first_number=half)

    def engine(view: View, plan: ReadPlan, parameters: Mapping[str, object]) -> Result:
        from omnigraph.pipeline.spark.queries import run_read_on_spark

        return run_read_on_spark(view, plan, parameters, spark, now=NOW)

    chosen = [one for place, one in enumerate(file.cases) if place % every == first or "{8,9}" in one.query]
    for case in chosen:
        assert run_case(view, case, engine) == case.rows, case.name
    return len(chosen)


@pytest.mark.spark
@pytest.mark.parametrize(("number", "file"), list(enumerate(FILES)), ids=[file.path.stem for file in FILES])
def test_a_sample_of_cases(number: int, file: LogicFile, spark: Any, tmp_path: Any) -> None:
    assert _check(file, spark, tmp_path, EVERY, number % min(EVERY, len(file.cases))) > 0


@pytest.mark.soak
@pytest.mark.spark
@pytest.mark.parametrize("file", FILES, ids=[file.path.stem for file in FILES])
def test_every_case(file: LogicFile, spark: Any, tmp_path: Any) -> None:
    assert _check(file, spark, tmp_path, 1, 0) == len(file.cases)


@pytest.mark.spark
def test_a_value_out_of_range_is_the_same_error_as_in_process(spark: Any, tmp_path: Any) -> None:
    view = commit(new_graph(str(tmp_path / "g"), "node A { name: String @key big: I64 }"), [BIG])
    plan = compile_query("query q() { match { $a: A } return { $a.big * 4 as x } }", view.catalog)
    assert isinstance(plan, ReadPlan)
    from omnigraph.pipeline.spark.queries import run_read_on_spark

    with pytest.raises(UsageError, match="out of range"):
        run_read_on_spark(view, plan, {}, spark)
    with pytest.raises(UsageError, match="out of range"):
        run_read(view, plan, {})
    assert spark.conf.get("spark.sql.constraintPropagation.enabled") == "true"


JVM_FULL = """
import sys
from read.graphs import commit, new_graph, query
from omnigraph.errors import PipelineFailed
from omnigraph.language.query.compiler import compile_query
from omnigraph.pipeline.spark.queries import run_read_on_spark
from omnigraph.pipeline.spark.session import spark_session
view = commit(new_graph(sys.argv[1], "node A { name: String @key }"), [{"type": "A", "data": {"name": "a"}}])
spark = spark_session(memory="512m")
plan = compile_query("query q() { match { $a: A } return { $a.name as n } }", view.catalog)
assert run_read_on_spark(view, plan, {}, spark).rows == [{"n": "a"}]
try:
    spark._jvm.java.util.ArrayList(2_000_000_000)
except Exception:
    pass
try:
    run_read_on_spark(view, plan, {}, spark)
except PipelineFailed as error:
    print("said:", error.message)
"""


@pytest.mark.soak
@pytest.mark.spark
def test_a_jvm_without_memory_ends_instead_of_leaving_us_waiting(tmp_path: Any) -> None:
    tests = str(Path(__file__).parent.parent)
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([tests, *sys.path])}
    run = [sys.executable, "-c", JVM_FULL, str(tmp_path / "g")]
    done = subprocess.run(run, env=environment, capture_output=True, text=True, timeout=300, check=False)
    assert "said: the work on Spark stopped" in done.stdout, done.stderr[-2000:]
