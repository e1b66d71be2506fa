"""Every logic case on every engine: the rows of the file, in its order."""

from __future__ import annotations

from pathlib import Path

import pytest
from logic.evolved import evolved_graph
from logic.runner import NOW, Case, LogicFile, engines, files, plan_of, run_case
from read.graphs import build_indexes, commit, new_graph, replace_some
from read.oracle import Oracle

from omnigraph.values.json_values import json_value
from omnigraph.views import View

FILES = files()
CASES = [
    pytest.param(file.path.stem, case, id=f"{file.path.stem}: {case.name}") for file in FILES for case in file.cases
]


@pytest.fixture(scope="module")
def views(tmp_path_factory: pytest.TempPathFactory) -> dict[str, View]:
    """Each file's graph: rows that are stored, and rows that stand in commits, some of which replace stored ones."""
    folder = tmp_path_factory.mktemp("logic")
    return {file.path.stem: _graph(folder, file) for file in FILES}


def _graph(folder: Path, file: LogicFile) -> View:
    repository = new_graph(str(folder / file.path.stem), file.schema)
    half = len(file.records) // 2
    commit(repository, file.records[:half])
    replace_some(repository)
    return commit(repository, file.records[half:], first_number=half)


@pytest.fixture(scope="module")
def indexed(views: dict[str, View]) -> dict[str, View]:
    return {name: build_indexes(view) for name, view in views.items()}


def test_there_are_enough_cases() -> None:
    assert len(CASES) >= 200
    names = [(file.path.stem, case.name) for file in FILES for case in file.cases]
    assert len(names) == len(set(names))


@pytest.fixture(scope="module")
def evolved(tmp_path_factory: pytest.TempPathFactory) -> dict[str, View]:
    """The same graphs, with a schema change between the two commits."""
    folder = tmp_path_factory.mktemp("evolved")
    return {file.path.stem: evolved_graph(folder, file) for file in FILES}


@pytest.mark.parametrize(("file", "case"), CASES)
def test_case_after_a_schema_change(evolved: dict[str, View], file: str, case: Case) -> None:
    for name in ("auto", "scan", "index", "csr"):
        assert run_case(evolved[file], case, engines[name]) == case.rows, name


@pytest.mark.parametrize(("file", "case"), CASES)
def test_case(views: dict[str, View], indexed: dict[str, View], file: str, case: Case) -> None:
    for name, engine in engines.items():
        assert run_case(views[file], case, engine) == case.rows, name
    for name in ("auto", "index"):
        assert run_case(indexed[file], case, engines[name]) == case.rows, f"{name}, with indexes"


@pytest.mark.parametrize("file", [file.path.stem for file in FILES])
def test_expected_rows_agree_with_the_interpreter(views: dict[str, View], file: str) -> None:
    """The files hold what the naive interpreter says: neither may drift alone."""
    view = views[file]
    tables = {key: view.table(key) for key in view.catalog.tables}
    data = {key: [] if table is None else table.read().to_pylist() for key, table in tables.items()}
    for case in next(one for one in FILES if one.path.stem == file).cases:
        plan, parameters = plan_of(view, case)
        rows = Oracle(view.catalog, data, parameters, NOW).run(plan)
        assert [{name: json_value(value) for name, value in row.items()} for row in rows] == case.rows, case.name
