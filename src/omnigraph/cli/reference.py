"""Pages of the documentation that are generated from the program: commands, errors, grammars, the library.

python -m omnigraph.cli.reference docs        # writes docs/reference/ and docs/openapi.json
"""

from __future__ import annotations

import inspect
import re
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import click

from omnigraph import errors
from omnigraph.cli.library_reference import library_reference
from omnigraph.cli.options import GraphCommand, Spelled
from omnigraph.errors import OmnigraphError
from omnigraph.language.grammar_reference import grammar_reference
from omnigraph.server.openapi import http_reference, openapi_text


def command_reference() -> str:
    """docs/reference/commands.md: the `--help` of every command, on one page."""
    from omnigraph.cli.main import cli

    lines = [
        "# Commands",
        "",
        "Generated from the help texts; `omnigraph <command> --help` shows the same. Exit codes: 0 done, 1 failed, 2 the command",
        "line is wrong, 4 the branch is not at the expected commit, 130 interrupted, 143 terminated. With `--json` the answer, or",
        '`{"error": {code, message, retry, hint?, details?}}`, is one JSON value on stdout.',
        "",
        "These flags may also come before the command. Commands that have no use for one refuse it:",
        "",
        *_options(cli),
        "",
    ]
    for path, command in _leaves(cli, ()):
        lines += _section(" ".join(path), command)
    return "\n".join(lines).rstrip("\n") + "\n"


def _leaves(
    group: click.Group, path: tuple[str, ...], *, with_hidden: bool = False
) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    for name in sorted(group.commands):
        command = group.commands[name]
        if command.hidden and not with_hidden:
            continue
        if isinstance(command, click.Group):
            yield from _leaves(command, (*path, name), with_hidden=with_hidden)
        else:
            yield (*path, name), command


def _section(name: str, command: click.Command) -> list[str]:
    context = click.Context(command, info_name=name)
    usage = " ".join(piece for piece in command.collect_usage_pieces(context) if piece != "[OPTIONS]")
    paragraphs = inspect.cleandoc(command.help or "").split("\n\n")
    lines = [f"## {name}", ""]
    for paragraph in paragraphs:
        if paragraph.startswith("\b\n"):
            lines += ["```text", *paragraph.removeprefix("\b\n").splitlines(), "```", ""]
        else:
            lines += [paragraph, ""]
    lines += [f"`omnigraph {name} {usage}`".replace(" `", "`"), ""]
    flags = _options(command)
    return [*lines, *flags, ""] if flags else lines


_EVERYWHERE = ("store", "server", "graph", "profile", "actor", "yes", "as_json", "quiet", "debug")


def _options(command: click.Command) -> list[str]:
    """A row for each of the command's own flags; for the program, the shared ones."""
    context = click.Context(command, info_name="omnigraph")
    is_program = isinstance(command, click.Group)
    records = [
        record
        for parameter in command.params
        if isinstance(parameter, click.Option) and (record := parameter.get_help_record(context)) is not None
        if is_program or parameter.name not in _EVERYWHERE
    ]
    if not records:
        return []
    return ["| flag | |", "|---|---|", *(f"| `{_cell(flag)}` | {_cell(text)} |" for flag, text in records)]


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def error_reference() -> str:
    """docs/reference/errors.md: every code a caller can meet."""
    return (
        "\n".join(
            [
                "# Errors",
                "",
                "Generated from the program's own tables. Every error has a stable code and says whether an unchanged retry can help.",
                "Nothing of a failed write is visible, except where the outcome is *unknown*: then the store stopped answering in",
                "the middle of a publish, and the commit id in the error tells, once it answers again.",
                "",
                'In Python all of them are `omnigraph.errors.OmnigraphError`; in JSON they are `{"error": {"code": ...}}`.',
                "",
                "| code | class | meaning | retry | exit code |",
                "|---|---|---|---|---|",
                *(_error_row(kind) for kind in _errors()),
                "",
                "## Rules of schemas",
                "",
                "`file:line:column: [rule] message`, the marked line, and advice. Words in braces are filled in.",
                "",
                *_table(_schema_rules()),
                "",
                "## Rules of queries",
                "",
                *_table(_query_rules()),
                "",
                "## Advice of `omnigraph lint`",
                "",
                *_table(_lint_rules()),
                "",
                "## Warnings about schemas that compile",
                "",
                "Reported by `omnigraph init` and `omnigraph schema plan`.",
                "",
                *_table(_schema_lint_rules()),
                "",
                "## Codes of `omnigraph schema plan`",
                "",
                *_table(_migration_rules()),
            ]
        )
        + "\n"
    )


def _errors() -> list[type[OmnigraphError]]:
    """Every class a caller can meet, in the order of the source; roots of families that are never raised are left out."""
    kinds = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OmnigraphError)]
    roots = (errors.LanguageError, errors.InputError, errors.Conflict, errors.RequestRefused, errors.StorageError)
    abstract = {OmnigraphError, *roots}
    return [kind for kind in kinds if kind not in abstract]


def _error_row(kind: type[OmnigraphError]) -> str:
    from omnigraph.cli.main import exit_code

    code = exit_code(kind.__new__(kind))
    retry = "yes" if kind.retry else "no"
    outcome = " Outcome unknown." if kind.outcome == "unknown" else ""
    return f"| `{kind.code}` | {kind.__name__} | {_cell(_meaning(kind))}{outcome} | {retry} | {code} |"


def _meaning(kind: type[OmnigraphError]) -> str:
    """The first sentence of the class's docstring."""
    return re.split(r"(?<=\.)\s", inspect.getdoc(kind) or "", maxsplit=1)[0]


def _table(rows: Iterator[tuple[str, str]]) -> list[str]:
    return ["| code | |", "|---|---|", *(f"| `{code}` | {_cell(text)} |" for code, text in rows)]


def _schema_rules() -> Iterator[tuple[str, str]]:
    from omnigraph.language.schema.rules import RULES

    return ((rule.code, rule.message) for rule in RULES.values())


def _query_rules() -> Iterator[tuple[str, str]]:
    from omnigraph.language.query.lint import RULES

    return iter(RULES.items())


def _lint_rules() -> Iterator[tuple[str, str]]:
    from omnigraph.language.query.lint import LINT_CODES

    return iter(LINT_CODES.items())


def _schema_lint_rules() -> Iterator[tuple[str, str]]:
    from omnigraph.language.schema.lint import LINT_CODES

    return iter(LINT_CODES.items())


def _migration_rules() -> Iterator[tuple[str, str]]:
    from omnigraph.language.schema.migration_steps import MIGRATION_CODES

    return ((code.code, f"{code.meaning} ({code.tier})") for code in MIGRATION_CODES.values())


def spelling_reference() -> str:
    """docs/reference/spellings.md: what is accepted and shown nowhere else."""
    from omnigraph.cli.main import SPELLINGS, cli

    rows = [(f"omnigraph {old}", f"omnigraph {new}") for old, new in SPELLINGS.items()]
    flags: dict[tuple[str, str], list[str]] = {}
    for path, command in _leaves(cli, (), with_hidden=True):
        words = f"omnigraph {' '.join(path)}"
        if isinstance(command, GraphCommand) and command.instead:
            rows.append((words, f"omnigraph {command.instead}"))
        for parameter in command.params:
            if isinstance(parameter, Spelled):
                for spelling in parameter.spellings.items():
                    flags.setdefault(spelling, []).append(words)
    for (old, new), commands in sorted(flags.items()):
        everywhere = len(commands) > MAX_COMMANDS_OF_A_FLAG
        rows += [(old, new)] if everywhere else [(f"{words} {old}", new) for words in commands]
    return "\n".join(
        [
            "# Other spellings",
            "",
            "Commands and flags that are accepted and not shown by `--help`: those of the reference implementation, and former ones.",
            "",
            "| accepted | documented |",
            "|---|---|",
            *(f"| `{old}` | `{new}` |" for old, new in rows),
            "",
            "The address of the graph may also come last where the help shows it first, after all arguments of the command.",
            "",
        ]
    )


MAX_COMMANDS_OF_A_FLAG = 3
"""A flag that more commands have is listed without them."""


def _below(make: Callable[[], str]) -> str:
    """A page whose links to guides lead one folder up."""
    page = make()
    return re.sub(rf"\]\((?!(?:{'|'.join(GENERATED)})\.md|https?:|#)([\w-]+\.(?:md|json))", r"](../\1", page)


GENERATED = {
    "commands": command_reference,
    "spellings": spelling_reference,
    "errors": error_reference,
    "grammar": grammar_reference,
    "library": library_reference,
    "http": http_reference,
}
"""The pages of docs/reference/."""
PAGES: dict[str, Callable[[], str]] = {
    **{f"reference/{name}.md": partial(_below, make) for name, make in GENERATED.items()},
    "openapi.json": openapi_text,
}


def main(folder: str) -> None:
    for name, make in PAGES.items():
        (Path(folder) / name).write_text(make(), encoding="utf-8")


if __name__ == "__main__":
    main(sys.argv[1])
