"""A short command loads only what it needs."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import click
import pytest

import omnigraph as og
from omnigraph.cli import commands
from omnigraph.cli.main import HOMES
from omnigraph.cli.options import COMMANDS

ENGINES = (
    "lance",
    "pyarrow",
    "duckdb",
    "sqlglot",
    "pyspark",
    "pandas",
    "numpy",
    "obstore",
    "rich.console",
    "yaml",
)
OURS = ("tables", "language", "embedding", "read", "merge", "spark.sessions", "policy.bundle")
HEAVY = (*ENGINES, *(f"omnigraph.{name}" for name in OURS))
"""What takes long to load: other people's modules, and ours that only some commands need."""

PROGRAM = """
import json, sys
from omnigraph.cli.main import main
try:
    main()
except SystemExit as end:
    code = end.code
print(json.dumps([code, [name for name in {heavy!r} if name in sys.modules]]), file=sys.stderr)
"""


def loaded(*arguments: str) -> list[str]:
    """The heavy modules that are loaded when the program has run."""
    program = PROGRAM.format(heavy=HEAVY)
    ran = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    code, names = json.loads(ran.stderr.splitlines()[-1])
    assert code == 0, ran.stderr
    return names


@pytest.mark.parametrize(
    "arguments", [["--help"], ["query", "--help"], ["branch", "merge", "--help"], ["load", "--help"]]
)
def test_help_loads_no_engine(arguments: list[str]) -> None:
    assert loaded(*arguments) == []


def test_the_package_is_a_program() -> None:
    ran = subprocess.run([sys.executable, "-m", "omnigraph", "--version"], capture_output=True, text=True, check=True)
    assert ran.stdout.startswith("omnigraph ")


def test_a_look_at_history_loads_no_engine_no_table_and_no_language(folder: Path) -> None:
    assert loaded("log") == []
    assert not {*ENGINES, "omnigraph.tables", "omnigraph.read"} & set(loaded("log", "--json"))
    assert loaded("branch", "list") == []


def test_a_command_loads_no_module_of_other_commands(folder: Path) -> None:
    program = PROGRAM.replace("{heavy!r}", "list(sys.modules)").replace("{{", "{").replace("}}", "}")
    ran = subprocess.run([sys.executable, "-c", program, "log"], capture_output=True, text=True, check=True)
    names = json.loads(ran.stderr.splitlines()[-1])[1]
    assert [name for name in names if name.startswith("omnigraph.cli.commands.")] == ["omnigraph.cli.commands.history"]


def test_the_program_knows_where_its_commands_are() -> None:
    declared = {name: module for module, names in HOMES.items() for name in names}
    assert len(declared) == sum(map(len, HOMES.values()))
    for name, module in declared.items():
        import_module(f"omnigraph.cli.commands.{module}")
        families = COMMANDS[name].commands.values() if isinstance(COMMANDS[name], click.Group) else [COMMANDS[name]]
        assert {command.callback.__module__ for command in families} == {f"omnigraph.cli.commands.{module}"}
    assert COMMANDS.keys() == declared.keys()


def test_every_module_of_commands_is_known_to_the_program() -> None:
    folder = Path(commands.__file__).parent
    assert {file.stem for file in folder.glob("*.py")} - {"__init__"} == set(HOMES)


def test_a_query_by_key_loads_no_engine_but_the_tables(folder: Path) -> None:
    text = 'query q() { match { $p: Person { name: "Ada" } } return { $p.name as name } }'
    names = set(loaded("query", "-e", text))
    assert {"lance", "pyarrow"} <= names
    left_out = {
        "duckdb",
        "sqlglot",
        "pandas",
        "pyspark",
        "obstore",
        "yaml",
        "rich.console",
        "omnigraph.embedding",
    }
    assert not left_out & names


def test_a_command_with_an_engine_ends_in_silence(folder: Path) -> None:
    program = "from omnigraph.cli.main import main; main()"
    arguments = [sys.executable, "-c", program, "sql", "SELECT count(*) AS n FROM Person", "--json"]
    ran = subprocess.run(arguments, capture_output=True, text=True, check=True)
    assert ran.stderr == ""


def test_a_query_leaves_pandas_and_spark_alone(folder: Path) -> None:
    names = loaded("query", "near", "--query", "people.gq", "--params-file", "params.json")
    assert "lance" in names
    assert not {"pandas", "pyspark"} & set(names)


def test_lint_with_files_opens_no_table(folder: Path) -> None:
    assert not {"lance", "duckdb", "pandas", "pyspark"} & set(
        loaded("lint", "--query", "people.gq", "--schema", "people.pg")
    )


def test_importing_the_package_loads_nothing() -> None:
    program = f"import sys, omnigraph; sys.exit([m for m in {HEAVY!r} if m in sys.modules] or 0)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


SERVING = """
import json, os, sys

class Output:
    def write(self, text):
        if "OMNIGRAPH_LISTEN_ADDR=" in text:
            print(json.dumps([name for name in {heavy!r} if name in sys.modules]), file=sys.stderr, flush=True)
            os._exit(0)

    def flush(self):
        pass

sys.stdout = Output()
from omnigraph.cli.main import main
main()
"""


def test_a_server_listens_before_the_engine_is_loaded(folder: Path) -> None:
    uri = og.init(folder / "served", "node A { name: String @key }").uri
    arguments = ["serve", uri, "--unauthenticated", "--bind", "127.0.0.1:0"]
    program = SERVING.format(heavy=(*ENGINES, "omnigraph.read", "omnigraph.merge", "omnigraph.load"))
    ran = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=True)
    assert json.loads(ran.stderr.splitlines()[-1]) == []
