"""Every logic case on every engine: the rows of the file, in its order."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest
from logic.evolved import evolved_graph
from logic.runner import NOW, Case, LogicFile, engines, files, plan_of, run_case
from read.graphs import build_indexes, commit, every_table_is_large, new_graph, replace_some, store_adjacency
from read.oracle import Oracle

from omnigraph.snapshot import View
from omnigraph.values.json_values import json_value

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
    """The other engines take turns: how they read a table that was evolved does not depend on the case."""
    other = ("scan", "index", "csr")[zlib.crc32(case.name.encode()) % 3]
    for name in ("auto", other):
        assert run_case(evolved[file], case, engines[name]) == case.rows, name


@pytest.fixture(scope="module")
def followed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, View]:
    """The same graphs, with adjacency that was stored and held before the second commit, and is adjusted to it."""
    folder = tmp_path_factory.mktemp("followed")
    with every_table_is_large():
        return {file.path.stem: _followed(folder, file) for file in FILES}


def _followed(folder: Path, file: LogicFile) -> View:
    repository = new_graph(str(folder / file.path.stem), file.schema)
    half = len(file.records) // 2
    commit(repository, file.records[:half])
    opened = store_adjacency(repository)
    replace_some(opened)
    return commit(opened, file.records[half:], first_number=half)


@pytest.mark.parametrize(("file", "case"), CASES)
def test_case_on_stored_adjacency_that_follows_commits(followed: dict[str, View], file: str, case: Case) -> None:
    with every_table_is_large():
        for name in ("auto", "csr"):
            assert run_case(followed[file], case, engines[name]) == case.rows, name


def test_stored_adjacency_is_what_is_followed(followed: dict[str, View]) -> None:
    with every_table_is_large():
        for name, view in followed.items():
            adjacency = view.repository.tables.adjacency
            tables = [table for key in view.catalog.tables if (table := view.table(key)) is not None]
            stored = [next(adjacency.segments(table, kind), None) for table in tables for kind in ("nodes", "edges")]
            assert any(stored), name


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
