"""Help texts: every command shows examples that can be typed, and the JSON it prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli.transcript import RunCli

from omnigraph.cli.main import cli
from omnigraph.cli.options import GraphCommand

TRANSCRIPTS = Path(__file__).parent / "transcripts"


def leaves(group: click.Group, path: tuple[str, ...] = ()) -> Iterator[tuple[str, click.Command]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from leaves(command, (*path, name))
        else:
            yield " ".join((*path, name)), command


EVERY = dict(leaves(cli))
LEAVES = {name: command for name, command in EVERY.items() if not command.hidden}


def examples(command: click.Command) -> list[str]:
    text = (command.help or "").replace("\\\n", " ")
    return [line.strip() for line in text.splitlines() if line.strip().startswith("omnigraph ")]


def test_the_verbs_are_these() -> None:
    assert sorted(LEAVES) == sorted(
        [
            *("init", "import", "load", "query", "mutate", "export", "snapshot", "optimize", "diff", "lint"),
            *(
                "demo",
                "shell",
                "sql",
                "picture",
                "warm-up",
                "verify",
                "repair",
                "cleanup",
                "storage",
                "clone",
                "push",
                "pull",
                "embed",
                "run",
                "examples",
                "skill",
            ),
            *("alias", "status", "log", "show", "blame", "revert", "branch reset"),
            *(f"branch {verb}" for verb in ("create", "list", "delete", "merge")),
            *(f"tag {verb}" for verb in ("create", "list", "delete")),
            *(f"changes {verb}" for verb in ("poll", "baseline", "show")),
            *(f"schema {verb}" for verb in ("show", "infer", "plan", "apply", "diff")),
            *(f"recovery {verb}" for verb in ("list", "resume", "discard")),
            *("login", "logout", "profile list", "profile show", "graphs list", "mcp"),
            *("blob get", "blob stat", "serve", "studio", "token new"),
            *(f"cluster {verb}" for verb in ("validate", "plan", "apply", "status", "refresh", "import", "approve")),
            *("cluster force-unlock", "queries list", "queries validate"),
            *(f"policy {verb}" for verb in ("starter", "validate", "test", "explain")),
        ]
    )


def test_other_spellings_work_and_name_the_documented_one() -> None:
    hidden = {
        name: command.instead for name, command in EVERY.items() if isinstance(command, GraphCommand) and command.hidden
    }
    assert hidden.keys() == EVERY.keys() - LEAVES.keys()
    assert all(instead in LEAVES or instead.startswith("--") for instead in hidden.values())


@pytest.mark.parametrize(
    "words", ["show GRAPH", "log GRAPH", "query GRAPH -e text", "branch create GRAPH name", "blame GRAPH T x"]
)
def test_the_graph_may_be_the_first_argument(words: str) -> None:
    name = words.partition(" GRAPH")[0]
    for place in ("./people", "/data/people", "s3://bucket/people"):
        arguments = words.replace("GRAPH", place).split()[len(name.split()) :]
        with LEAVES[name].make_context(name, arguments) as context:
            assert place in (context.params["store"], context.params.get("uri"))
    with pytest.raises(click.UsageError, match="a graph and --store exclude each other"):
        LEAVES["query"].make_context("query", ["./people", "--store", "./other"])


@pytest.mark.parametrize("name", LEAVES)
def test_help_shows_examples_and_json(name: str, run_cli: RunCli) -> None:
    ran = run_cli([*name.split(), "--help"])
    assert ran.code == 0
    lines = [line.strip() for line in ran.out.splitlines()]
    assert any(line.startswith(f"omnigraph {name}") for line in lines)
    assert any(line.startswith("JSON") for line in lines)
    assert all(len(line) <= 120 for line in ran.out.splitlines())


@pytest.mark.parametrize("name", LEAVES)
def test_examples_are_accepted_as_they_stand(name: str) -> None:
    """Parsed, not run: an example with a flag that does not exist would be refused."""
    for example in examples(LEAVES[name]):
        words = shlex.split(re.split(" [<>] ", example)[0])[1:]
        called = next(each for each in (" ".join(words[:2]), words[0]) if EVERY.get(each) is LEAVES[name])
        LEAVES[name].make_context(name, words[len(called.split()) :]).close()


def documented(command: click.Command) -> tuple[set[str], set[str]]:
    """The members of the JSON object that the help tells: all of them, and those that are always there."""
    told = re.search(r"JSON[^:]*: \{(.*?)\}\s*$", " ".join((command.help or "").split("JSON with")[0].split()))
    if told is None:
        return set(), set()
    outer = told[1]
    while (flat := re.sub(r"\{[^{}]*\}|\[[^\[\]]*\]", "", outer)) != outer:
        outer = flat
    names = [part.strip().split(":")[0] for part in outer.split(",") if part.strip()]
    return {name.rstrip("?") for name in names}, {name for name in names if not name.endswith("?")}


def json_answers() -> Iterator[tuple[str, set[str]]]:
    """Every command of the transcripts that was asked for JSON and gave it, with the members of its answer."""
    for path in sorted(TRANSCRIPTS.glob("*.txt")):
        for block in re.split(r"^(?=\$ )", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            command, _, answer = block.partition("\n")
            if "--json" not in command or '\n    "error": {' in "\n" + answer:
                continue
            words = [word for word in shlex.split(command[2:]) if not word.startswith("OMNIGRAPH_")]
            name = next(n for n in (" ".join(words[1:3]), words[1]) if n in EVERY)
            yield name, set(re.findall(r'^    "(\w+)":', answer, flags=re.MULTILINE))


ANSWERS = sorted({(name, tuple(sorted(members))) for name, members in json_answers()})


@pytest.mark.parametrize(("name", "members"), ANSWERS)
def test_json_is_as_the_help_says(name: str, members: tuple[str, ...]) -> None:
    every, required = documented(EVERY[name])
    assert set(members) - {"store"} <= every, "the receipt of every write also has what the store was asked for"
    assert required <= set(members)


def test_most_commands_have_a_json_answer_in_the_transcripts() -> None:
    seen = {
        other.instead if isinstance(other := EVERY[name], GraphCommand) and other.hidden else name
        for name, _ in ANSWERS
    }
    assert set(LEAVES) - seen == {
        *("demo", "shell", "optimize", "recovery resume", "recovery discard", "warm-up"),
        *("cleanup", "storage", "clone", "push", "pull", "embed", "run", "skill"),
        *("blob get", "blob stat", "serve", "studio", "token new", "graphs list", "mcp", "cluster force-unlock"),
    }
