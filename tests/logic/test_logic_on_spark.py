"""Logic cases on Spark: the same rows in the same order as in process. A sample in every run, all of them in the soak."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest
from logic.runner import NOW, LogicFile, files, run_case
from read.graphs import commit, new_graph

from omnigraph.language.plan import ReadPlan
from omnigraph.read import Result
from omnigraph.views import View

FILES = files()
EVERY = 12
"""One case in so many is run each time."""


def _check(file: LogicFile, spark: Any, folder: Any, every: int, first: int) -> int:
    stores = new_graph(str(folder / file.path.stem), file.schema)
    half = len(file.records) // 2
    commit(stores, file.records[:half])
    view = commit(stores, file.records[half:], first_number=half)

    def engine(view: View, plan: ReadPlan, parameters: Mapping[str, object]) -> Result:
        from omnigraph.pipeline.queries import run_read_on_spark

        return run_read_on_spark(view, plan, parameters, spark, now=NOW)

    chosen = file.cases[first::every]
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
