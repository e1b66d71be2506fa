"""What is left out means the same on the command line and in the library."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import click
import pytest

import omnigraph as og
from omnigraph.cli.main import cli

METHODS: dict[str, Callable[..., Any]] = {
    "branch merge": og.types.GraphBranches.merge,
    "cleanup": og.types.GraphMaintenance.cleanup,
    "log": og.Graph.commits,
    "diff": og.Graph.diff,
    "embed": og.Graph.embed,
    "export": og.Graph.export,
    "load": og.Graph.load,
    "mutate": og.Graph.mutate,
    "optimize": og.types.GraphMaintenance.optimize,
    "picture": og.Graph.picture,
    "pull": og.Graph.pull,
    "push": og.Graph.push,
    "query": og.Graph.query,
    "repair": og.types.GraphMaintenance.repair,
    "revert": og.Graph.revert,
    "schema apply": og.types.GraphSchema.apply,
    "schema plan": og.types.GraphSchema.plan,
    "show": og.Graph.commit_changes,
    "status": og.types.GraphMaintenance.storage,
    "tag create": og.types.GraphTags.create,
    "verify": og.types.GraphMaintenance.verify,
}


def command_of(words: str) -> click.Command:
    found: click.Command = cli
    for word in words.split():
        assert isinstance(found, click.Group)
        command = found.get_command(click.Context(found), word)
        assert command is not None, words
        found = command
    return found


def defaults(command: click.Command) -> dict[str, object]:
    """Of the options that have one."""
    values = {parameter.name or "": parameter.default for parameter in command.params}
    return {name: value for name, value in values.items() if isinstance(value, str | int) and value is not False}


@pytest.mark.parametrize("words", METHODS)
def test_a_default_is_the_same_on_the_command_line_and_in_the_library(words: str) -> None:
    parameters = inspect.signature(METHODS[words]).parameters
    shared = {name: value for name, value in defaults(command_of(words)).items() if name in parameters}
    assert shared == {name: parameters[name].default for name in shared}


def test_most_commands_share_a_default_with_their_method() -> None:
    sharing = [
        words
        for words, method in METHODS.items()
        if defaults(command_of(words)).keys() & inspect.signature(method).parameters
    ]
    assert len(sharing) >= 18
