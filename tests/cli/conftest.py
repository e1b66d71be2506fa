"""A small graph of people, copied for each test; commands run in this process."""

from __future__ import annotations

import datetime as dt
import os
import shutil
from pathlib import Path

import pytest
from cli.transcript import Ran, RunCli

from omnigraph.cli.main import run

FILES = Path(__file__).parent / "files"


@pytest.fixture(scope="session")
def people_template(tmp_path_factory: pytest.TempPathFactory) -> Path:
    import omnigraph as og

    place = tmp_path_factory.mktemp("people") / "people"
    graph = og.init(place, FILES / "people.pg", durability="process")
    graph.load(FILES / "people.jsonl", mode="append", engine="local", message="first load")
    return place


@pytest.fixture
def folder(tmp_path: Path, people_template: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working folder with the files of this suite and a graph, `people`, which is the default."""
    place = tmp_path / "work"
    shutil.copytree(FILES, place)
    shutil.copytree(people_template, place / "people")
    monkeypatch.chdir(place)
    monkeypatch.setenv("OMNIGRAPH_STORE", "people")
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "no-config"))
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setattr("omnigraph.cli.output.current_time", lambda: dt.datetime(2026, 1, 1, tzinfo=dt.UTC))
    return place


@pytest.fixture
def run_cli(folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> RunCli:
    def run_one(arguments: list[str], environment: dict[str, str] | None = None) -> Ran:
        with monkeypatch.context() as patch:
            for name, value in (environment or {}).items():
                patch.setitem(os.environ, name, value)
            capsys.readouterr()
            code = run(arguments)
            found = capsys.readouterr()
        return Ran(code, found.out, found.err)

    return run_one
