"""`omnigraph`: the program. Commands are in `cli/commands/`; errors become one sentence and an exit code here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from functools import partial
from importlib import import_module
from types import TracebackType
from typing import Any

import click

from omnigraph.cli.options import COMMANDS, is_address, shared_flags, with_flags
from omnigraph.cli.output import print_error
from omnigraph.cli.process import (
    Terminated,
    collect_nothing_at_the_end,
    collect_rarely,
    end_cleanly_on_sigterm,
    leave_pandas_out,
)
from omnigraph.errors import OmnigraphError, PreconditionFailed, UsageError

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_PRECONDITION = 4
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

SPELLINGS: Mapping[str, str] = {
    "blob get": "blob",
    "blob stat": "blob --stat",
    "change": "mutate",
    "changes baseline": "changes",
    "changes poll": "changes",
    "changes show": "show --changes",
    "check": "lint",
    "cluster import": "cluster apply --import",
    "cluster refresh": "cluster status --refresh",
    "cluster validate": "cluster plan --offline",
    "commit changes": "show --changes",
    "commit list": "log",
    "commit show": "show",
    "graphs list": "graphs",
    "ingest": "load --mode merge --from main",
    "policy test": "policy validate",
    "profile list": "profile",
    "profile show": "profile --current",
    "queries list": "graphs --cluster .",
    "queries validate": "lint --cluster .",
    "query check": "lint",
    "query lint": "lint",
    "read": "query",
    "recovery discard": "recovery --discard",
    "recovery list": "recovery",
    "recovery resume": "recovery --resume",
    "schema diff": "diff --schema",
    "schema get": "schema show",
    "skill": "examples skill",
    "snapshot": "show --types",
    "storage": "status --storage",
    "token new": "token",
}
"""Other spellings of commands, of the reference implementation and former ones: they work, and are on a page of their own."""
DEPRECATED = ("change", "check", "ingest", "query check", "query lint", "read")
"""Those that come with a warning."""


def documented(words: Sequence[str]) -> list[str]:
    """The words of a command, if they begin with another spelling with the documented one in its place."""
    for length in (2, 1):
        spelling = " ".join(words[:length])
        if len(words) >= length and spelling in SPELLINGS:
            if spelling in DEPRECATED:
                click.echo(f"warning: '{spelling}' is called '{SPELLINGS[spelling]}' now", err=True)
            return [*SPELLINGS[spelling].split(), *words[length:]]
    return [*words]


HOMES: Mapping[str, tuple[str, ...]] = {
    "branches": ("branch", "tag"),
    "clusters": ("cluster", "policy"),
    "data": ("load", "import", "export", "run", "blob"),
    "graphs": ("init", "clone", "push", "pull", "demo", "examples", "warm-up", "version"),
    "history": ("log", "show", "diff", "blame", "revert", "changes"),
    "maintenance": ("status", "optimize", "cleanup", "verify", "repair", "recovery", "embed"),
    "queries": ("query", "alias", "sql", "mutate", "shell", "lint", "picture"),
    "schemas": ("schema",),
    "serving": ("serve", "studio", "mcp", "graphs", "token", "login", "logout", "profile"),
}
"""The modules of `cli/commands/`, and the first words of the commands in each."""
_HOME_OF = {name: home for home, names in HOMES.items() for name in names}


class Commands(MutableMapping[str, click.Command]):
    """The commands by their first words. The module of a command is loaded when the command is used, so that a short one does not
    wait for the others."""

    def __getitem__(self, name: str) -> click.Command:
        if name not in COMMANDS:
            import_module(f"omnigraph.cli.commands.{_HOME_OF[name]}")
        return COMMANDS[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        COMMANDS[name] = command

    def __delitem__(self, name: str) -> None:
        del COMMANDS[name]

    def __contains__(self, name: object) -> bool:
        return name in _HOME_OF

    def __iter__(self) -> Iterator[str]:
        return iter(_HOME_OF)

    def __len__(self) -> int:
        return len(_HOME_OF)


class Program(click.Group):
    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves a command, in any of its spellings; the address of a graph in its place opens the shell."""
        args = documented(args)
        if args and args[0] not in self.commands and (is_address(args[0]) or "/" in args[0]):
            args = ["shell", *args]
        return super().resolve_command(ctx, args)


def _show_version(context: click.Context, _parameter: click.Parameter, wanted: bool) -> None:
    if wanted and not context.resilient_parsing:
        from omnigraph.cli.commands import graphs

        click.echo(graphs.version_text())
        context.exit()


@click.group(
    cls=Program,
    commands=Commands(),
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.option(
    "-v", "--version", is_flag=True, is_eager=True, expose_value=False, callback=_show_version, help="Show the version."
)
@shared_flags
def cli(**_flags: Any) -> None:
    """A typed property-graph database that works like Git.

    \b
    First steps:
      omnigraph demo --small
      omnigraph init ./people --schema people.pg
      omnigraph load ./people --data people.jsonl --mode append
      omnigraph query ./people -e 'match { $p: Person } return { $p.name }'

    \b
    The graph is the first argument of a command, --store, OMNIGRAPH_STORE, or defaults.store in ~/.omnigraph/config.yaml.
    Shell completion: eval "$(_OMNIGRAPH_COMPLETE=bash_source omnigraph)" (or zsh_source, fish_source).
    """


def main() -> None:
    """Run and exit. Never a traceback unless --debug; 0 ok, 1 failure, 2 bad usage, 4 precondition lost."""
    if os.environ.get("_OMNIGRAPH_COMPLETE"):
        cli.main(prog_name="omnigraph")
    collect_rarely()
    leave_pandas_out()
    end_cleanly_on_sigterm()
    if "--debug" not in sys.argv:
        sys.excepthook = _unexpected
    code = run(sys.argv[1:])
    collect_nothing_at_the_end()
    sys.exit(code)


def serve() -> None:
    """`omnigraph-server`: the same as `omnigraph serve`."""
    sys.argv.insert(1, "serve")
    main()


def run(arguments: list[str]) -> int:
    """Run one command in this process; returns its exit code."""
    as_json = "--json" in arguments
    try:
        with cli.make_context("omnigraph", list(arguments)) as root:
            try:
                cli.invoke(root)
            except OmnigraphError as error:
                if (root.obj or {}).get("debug"):
                    raise
                if isinstance(error.__cause__, BrokenPipeError):
                    raise error.__cause__ from None
                command = (root.obj or {}).get("command")
                print_error(
                    error, as_json, (lambda text: text) if command is None else partial(with_flags, command=command)
                )
                return exit_code(error)
        return 0
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.exceptions.NoArgsIsHelpError as help_wanted:
        help_wanted.show()
        return EXIT_USAGE
    except click.ClickException as error:
        return _bad_usage(error, as_json)
    except (KeyboardInterrupt, click.Abort) as stop:
        terminated = isinstance(stop, Terminated)
        word = "terminated" if terminated else "interrupted"
        click.echo(word + (f": {stop}" if str(stop) else ""), err=True)
        return EXIT_TERMINATED if terminated else EXIT_INTERRUPTED
    except BrokenPipeError:
        # What is still buffered goes nowhere: the end of the process would fail to write it once more, with an exit code of its own.
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):
            os.dup2(nowhere, stream.fileno())
        return 0
    except OSError as error:
        place = f" {error.filename}" if error.filename else ""
        print_error(UsageError(f"cannot use{place}: {error.strerror or error}"), as_json)
        return EXIT_FAILURE


def exit_code(error: OmnigraphError) -> int:
    if isinstance(error, PreconditionFailed):
        return EXIT_PRECONDITION
    return EXIT_USAGE if isinstance(error, UsageError) else EXIT_FAILURE


def _bad_usage(error: click.ClickException, as_json: bool) -> int:
    """A usage error of Click, shown like every other error."""
    context = getattr(error, "ctx", None)
    hint = f"see '{context.command_path} --help'" if context is not None else None
    message = " ".join(error.format_message().split()).rstrip(".")
    print_error(UsageError(message[:1].lower() + message[1:], hint=hint), as_json)
    return error.exit_code


def _unexpected(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    print(f"error: unexpected {kind.__name__}: {error}", file=sys.stderr)
    print("hint: this is a defect of omnigraph; run again with --debug for the traceback", file=sys.stderr)


if __name__ == "__main__":
    main()
