"""Every command that works on a served graph, run in storage and through a server: it prints the same."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from io import StringIO
from pathlib import Path

import click
import pytest
from cli.test_help import LEAVES
from client.conftest import serving
from serving import Fixed

import omnigraph as og
from omnigraph.cli.main import run
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog

FILES = Path(__file__).parents[1] / "cli" / "files"
IDS = re.compile(r"\b01[0-9A-HJKMNP-TV-Z]{24}\b")
TIMES = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d|\b1[789]\d{14}\b")

COMMANDS = [
    "query everyone --query people.gq",
    "query everyone --query people.gq --json",
    'query near --query people.gq --params \'{"who": "Ada"}\' --format csv',
    "query everyone --query people.gq --revision main~1 --format jsonl",
    "query everyone --query people.gq --explain",
    "query oops --query broken.gq",
    "lint --query people.gq",
    "lint --query people.gq --json",
    "mutate add --query people.gq --params '{\"who\": \"Zed\"}' --message 'one more'",
    'mutate add --query people.gq --params \'{"who": "Yan", "age": 3}\' --json',
    'mutate set_age --query people.gq --params \'{"who": "Nobody", "age": 3}\'',
    'mutate add --query people.gq --params \'{"who": "Ann", "age": 300}\'',
    'mutate add --query people.gq --params \'{"who": "Ann"}\' --branch nowhere',
    'mutate add --query people.gq --params \'{"who": "Kim"}\' --once request-1',
    'mutate add --query people.gq --params \'{"who": "Kim"}\' --once request-1',
    "load --data more.jsonl --mode merge --branch inbox --from main",
    "load --data more.jsonl --mode merge --branch inbox --json",
    "load --data bad.jsonl --mode append",
    "load --data cities.csv --type City --mode merge --branch inbox",
    "branch create review",
    "branch create review --json",
    "branch list",
    "branch list --json",
    'mutate set_age --query people.gq --params \'{"who": "Ada", "age": 40}\' --branch review',
    'mutate set_age --query people.gq --params \'{"who": "Ada", "age": 41}\'',
    "branch delete review --yes",
    "branch merge review --dry-run",
    "branch merge review",
    "branch merge review --strategy theirs --json",
    "branch delete review --yes",
    "tag create v1 --revision main~1",
    "tag list",
    "tag list --json",
    "tag delete v1",
    "show --types",
    "show --types --json",
    "schema show",
    "schema show --json",
    "schema apply --schema wider.pg",
    "schema apply --schema narrower.pg",
    "log --limit 2 --json",
    "log",
    "log --draw --stat",
    "show main",
    "show main~1 --json",
    "show main~1 --changes",
    "show main~1 --changes --json",
    "diff main~3 main",
    "diff main~3 main --json",
    "changes --start beginning",
    "changes --start beginning --json",
    "changes --baseline baseline.jsonl --overwrite",
    "export --type City",
    "export --type City --out cities.jsonl --overwrite --json",
    "blob Person Ada name --stat",
    "blob Person Ada name",
]
"""In order: each finds what those before it have left."""


@pytest.fixture
def both_ways(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, bool], list[str]]]:
    """The arguments of a command in storage, and through a server of a graph with the same history."""
    for name in [name for name in os.environ if name.startswith("OMNIGRAPH_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("COLUMNS", "200")
    graph = og.init(tmp_path / "people", FILES / "people.pg", durability="process")
    graph.load(FILES / "people.jsonl", mode="append", engine="local", message="first load")
    shutil.copytree(tmp_path / "people", tmp_path / "served" / "people")
    for place in ("here", "there"):
        shutil.copytree(FILES, tmp_path / place)
    source = Fixed({"people": tmp_path / "served" / "people"}, queries=(FILES / "people.gq").read_text())
    with ExitStack() as stack:
        url = stack.enter_context(serving(Application(source, source.load(), log=RequestLog("json", StringIO()))))

        def arguments(command: str, is_served: bool) -> list[str]:
            import shlex

            os.chdir(tmp_path / ("there" if is_served else "here"))
            words = shlex.split(command)
            local = ["--engine", "local"] if words[0] == "load" and not is_served else []
            return (
                words + local + (["--server", url, "--graph", "people"] if is_served else ["--store", str(graph.uri)])
            )

        here = os.getcwd()
        yield arguments
        os.chdir(here)


def shown(text: str) -> str:
    """Without what differs from graph to graph: ids in the order of their appearance, times, addresses, cursors."""
    names: dict[str, str] = {}
    text = IDS.sub(lambda found: names.setdefault(found[0], f"<{len(names)}>"), TIMES.sub("<time>", text))
    text = re.sub(r"\beyJ[A-Za-z0-9_-]{60,}", "<cursor>", text)
    text = re.sub(
        r"(http://127\.0\.0\.1:\d+/graphs/people|\S*/people)\b( \(served\)| \(direct, local\))?", "<graph>", text
    )
    text = re.sub(r"^in process \(.*\n", "", text, flags=re.MULTILINE)  # A server does not say how it works.
    text = re.sub(r',\n  "engine": .*?"stages": \[.*?\n  \]', "", text, flags=re.DOTALL)
    text = re.sub(r',\n  "store": \{.*?\n  \}', "", text, flags=re.DOTALL)  # Nor what it asks of the store.
    return re.sub(r'"(actor_id|engine_s)": .*\n', "", text)


def test_every_command_prints_the_same_both_ways(
    both_ways: Callable[[str, bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    for command in COMMANDS:
        outcomes = []
        for is_served in (False, True):
            capsys.readouterr()
            code = run(both_ways(command, is_served))
            found = capsys.readouterr()
            outcomes.append((code, shown(found.out), shown(found.err)))
        assert outcomes[1] == outcomes[0], command


SCRIPT = """
.schema City
.use main
match { $p: Person } return { $p.name as name } order { name }
insert Person { name: "Zed" }
match { $p: Person }
return { count($p) as n };
.branch create review
.use review
.log --limit 1
.explain match { $p: Person } return { $p.name }
match { $p: Person } return { $p.nme }
"""


def test_a_shell_prints_the_same_both_ways(
    both_ways: Callable[[str, bool], list[str]],
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    outcomes = []
    for is_served in (False, True):
        monkeypatch.setattr("sys.stdin", StringIO(SCRIPT))
        code = run(both_ways("shell", is_served))
        found = capsys.readouterr()
        outcomes.append((code, shown(found.out), shown(found.err)))
    assert outcomes[1] == outcomes[0]
    assert "n\n4\n(1 row)" in outcomes[0][1]


STORED = [
    "query everyone",
    "query everyone --json",
    'query near --params \'{"who": "Ada"}\' --format csv',
    "query near --params '{\"who\": 7}'",
    'query near --params \'{"whom": "Ada"}\'',
    "query near",
    "mutate add --params '{\"who\": \"Zed\"}' --message 'one more'",
    'mutate set_age --params \'{"who": "Zed", "age": "old"}\'',
    'mutate set_age --params \'{"who": "Zed", "age": 3}\' --json',
    'mutate add --params \'{"who": "Kim"}\' --once request-1',
    'mutate add --params \'{"who": "Kim"}\' --once request-1',
    'mutate add --params \'{"who": "Ann"}\' --if-commit 01M7JHWS8BWJ2FHTQQ7RN6TVQH',
    "query everyone --revision main~1 --format jsonl",
]


def test_a_stored_query_prints_what_its_text_does(
    both_ways: Callable[[str, bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    for command in STORED:
        outcomes = []
        for arguments in (both_ways(f"{command} --query people.gq", False), both_ways(command, True)):
            capsys.readouterr()
            code = run(arguments)
            found = capsys.readouterr()
            outcomes.append((code, shown(found.out), shown(found.err)))
        assert outcomes[1] == outcomes[0], command


REFUSED = [
    ("query nowhere", True, "stored query 'nowhere' not found"),
    ('query add --params \'{"who": "x"}\'', True, "'add' is a mutation"),
    ("mutate everyone", True, "'everyone' is a read"),
    ("query everyone --explain", True, "give the query with --query FILE or with -e TEXT"),
    ("query everyone --schema-of main", True, "a stored query takes no --schema-of"),
    ("mutate add --as eve", True, "--as is for storage"),
    ("query everyone", False, "give the query with --query FILE or with -e TEXT"),
    ("query", True, "give the query with --query FILE or with -e TEXT"),
    ("query q -e 'query q() {}' --query people.gq", True, "--query, -e and --queries exclude each other"),
]


def test_a_stored_query_that_cannot_be_run_is_refused(
    both_ways: Callable[[str, bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    for command, is_served, message in REFUSED:
        assert run(both_ways(command, is_served)) != 0, command
        assert message in capsys.readouterr().err, command


def test_every_command_that_takes_a_server_is_run_both_ways() -> None:
    served = {name for name, command in LEAVES.items() if takes_server(command)}
    tried = {name for name in served if any(line.startswith(f"{name} ") or line == name for line in COMMANDS)}
    assert served - tried == {"graphs", "mcp", "alias", "shell", "studio"}


def takes_server(command: click.Command) -> bool:
    return any(parameter.name == "server" for parameter in command.params)


def test_a_server_is_named_with_its_graph_and_knows_the_actor(
    both_ways: Callable[[str, bool], list[str]], capsys: pytest.CaptureFixture[str]
) -> None:
    *_, server, url, _, _ = both_ways("branch list", True)
    assert (server, run(["graphs", "--server", url])) == ("--server", 0)
    assert capsys.readouterr().out.startswith("people\t")
    for words, said in (
        (["branch", "list", "--server", url], "pass --graph ID; the server has: people"),
        (["branch", "create", "x", "--server", url, "--graph", "people", "--as", "ada"], "--as is for storage"),
        (["branch", "list", "--server", "nowhere"], "there is no server 'nowhere'"),
        (["branch", "list", "--store", "people", "--graph", "people"], "--graph names a graph of a server"),
        (["branch", "delete", "x", "--server", url, "--graph", "people"], "pass --yes to agree"),
        (
            ["load", "--data", "cities.csv", "--mode", "append", "--server", url, "--graph", "people"],
            "'cities.csv' is not named after a type of the schema",
        ),
    ):
        assert run(words) != 0
        assert said in capsys.readouterr().err
