"""Help texts: every command shows examples that can be typed, and the JSON it prints."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from cli.transcript import RunCli

from omnigraph.cli.main import cli, documented

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
    assert " ".join(LEAVES).split() == [
        "branch",
        "create",
        "branch",
        "list",
        "branch",
        "delete",
        "branch",
        "merge",
        "branch",
        "reset",
        "tag",
        "create",
        "tag",
        "list",
        "tag",
        "delete",
        "cluster",
        "plan",
        "cluster",
        "status",
        "cluster",
        "apply",
        "cluster",
        "approve",
        "cluster",
        "force-unlock",
        "policy",
        "starter",
        "policy",
        "validate",
        "policy",
        "explain",
        "load",
        "import",
        "export",
        "run",
        "blob",
        "init",
        "clone",
        "push",
        "pull",
        "demo",
        "examples",
        "warm-up",
        "log",
        "show",
        "diff",
        "blame",
        "revert",
        "changes",
        "status",
        "optimize",
        "cleanup",
        "verify",
        "repair",
        "recovery",
        "embed",
        "query",
        "alias",
        "sql",
        "mutate",
        "shell",
        "lint",
        "picture",
        "schema",
        "show",
        "schema",
        "infer",
        "schema",
        "plan",
        "schema",
        "apply",
        "serve",
        "studio",
        "mcp",
        "graphs",
        "token",
        "login",
        "logout",
        "profile",
    ]
    assert len(LEAVES) == 60


WITHOUT_GRAPH = {
    *("demo", "examples", "warm-up", "schema infer", "policy starter"),
    *("graphs", "token", "login", "logout", "profile"),
}


@pytest.mark.parametrize("name", sorted(LEAVES.keys() - WITHOUT_GRAPH - {"serve"}))
def test_the_graph_is_the_first_argument_or_an_option_everywhere(name: str) -> None:
    """Whatever else the example of the help says; a cluster is given in the same way."""
    command = LEAVES[name]
    words = shlex.split(re.split(" [<>] ", next(text for text in examples(command) if has_graph(text, name)))[0])
    place = next(word for word in words if word.startswith(("./", "s3:")) and is_graph(word, words, name))
    rest = words[1 + len(name.split()) :]
    rest.remove(place)
    option = "--store" if any(parameter.name == "store" for parameter in command.params) else "--cluster"
    last = [place] if name == "import" else []
    found = []
    for arguments in ([place, *rest] if not last else [*rest, place], [*rest, option, place], [option, place, *rest]):
        with command.make_context(name, arguments) as context:
            found.append(context.params.copy())
            assert place in (context.params.get("store"), context.params.get("folder"))
    assert found[0] == found[1] == found[2]
    with pytest.raises(click.UsageError, match=f"a graph and {option} exclude each other"):
        command.make_context(name, [*rest, place, option, "./other"] if last else [place, *rest, option, "./other"])


def has_graph(text: str, name: str) -> bool:
    words = shlex.split(re.split(" [<>] ", text)[0])
    return any(is_graph(word, words, name) for word in words)


def is_graph(word: str, words: list[str], name: str) -> bool:
    """Whether a word of an example stands where the graph does: right after the command, or last for an import."""
    at = words.index(word)
    first = at == 1 + len(name.split())
    return word.startswith(("./", "s3:")) and (at == len(words) - 1 if name == "import" else first)


def test_other_addresses_of_a_command_are_not_its_graph(folder: Path) -> None:
    def parsed(words: str) -> tuple[object, object]:
        name, *arguments = words.split()
        with LEAVES[name].make_context(name, arguments) as context:
            return context.params["store"], context.params.get("target", context.params.get("commit"))

    assert parsed("push ./a s3://b/c") == ("./a", "s3://b/c")
    assert parsed("push s3://b/c") == (None, "s3://b/c")
    assert parsed("push s3://b/c review") == (None, "s3://b/c")
    assert parsed("clone people copy") == ("people", "copy")
    assert parsed("show review") == (None, "review")
    assert parsed("show people") == ("people", None), "a folder that holds a graph"
    assert parsed("show review people") == ("people", "review")
    assert parsed("show --as-of 2026-01-01 ./people") == ("./people", None)


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


def shapes(command: click.Command) -> list[tuple[set[str], set[str]]]:
    """The JSON objects that the help tells, with their members: all of them, and those that are always there."""
    found = []
    for text in re.split(r"(?=\bJSON\b[^:{]*:)", " ".join((command.help or "").split()))[1:]:
        told = re.match(r"JSON[^:{]*: \{(.*?)\}\s*$", text)
        if told is None:
            continue
        outer = told[1]
        while (flat := re.sub(r"\{[^{}]*\}|\[[^\[\]]*\]", "", outer)) != outer:
            outer = flat
        names = [part.strip().split(":")[0] for part in outer.split(",") if part.strip()]
        found.append(({name.rstrip("?") for name in names}, {name for name in names if not name.endswith("?")}))
    return found


def json_answers() -> Iterator[tuple[str, set[str]]]:
    """Every command of the transcripts that was asked for JSON and gave it, with the members of its answer."""
    for path in sorted(TRANSCRIPTS.glob("*.txt")):
        for block in re.split(r"^(?=\$ )", path.read_text(encoding="utf-8"), flags=re.MULTILINE):
            command, _, answer = block.partition("\n")
            if "--json" not in command or '\n    "error": {' in "\n" + answer:
                continue
            words = [word for word in shlex.split(command[2:]) if not word.startswith("OMNIGRAPH_")]
            words = documented(words[1:])
            name = next(n for n in (" ".join(words[:2]), words[0]) if n in EVERY)
            yield name, set(re.findall(r'^    "(\w+)":', answer, flags=re.MULTILINE))


ANSWERS = sorted({(name, tuple(sorted(members))) for name, members in json_answers()})


@pytest.mark.parametrize(("name", "members"), ANSWERS)
def test_json_is_as_the_help_says(name: str, members: tuple[str, ...]) -> None:
    # The receipt of every write also has what the store was asked for.
    assert any(
        set(members) - {"store"} <= every and required <= set(members) for every, required in shapes(EVERY[name])
    )


def test_most_commands_have_a_json_answer_in_the_transcripts() -> None:
    seen = {name for name, _ in ANSWERS}
    assert set(LEAVES) - seen == {
        *("demo", "shell", "optimize", "warm-up"),
        *("cleanup", "clone", "push", "pull", "embed", "run"),
        *("blob", "serve", "studio", "token", "mcp", "cluster force-unlock"),
    }
