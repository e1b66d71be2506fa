"""`omnigraph`: the program. Commands are in `cli/commands/`; errors become one sentence and an exit code here."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping, MutableMapping
from importlib import import_module
from types import TracebackType
from typing import Any

import click

from omnigraph.cli.interruption import Terminated, end_cleanly_on_sigterm
from omnigraph.cli.options import collect_nothing_at_the_end, collect_rarely, is_address, leave_pandas_out, shared_flags
from omnigraph.cli.output import print_error
from omnigraph.errors import OmnigraphError, PreconditionFailed, UsageError

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_PRECONDITION = 4
EXIT_INTERRUPTED = 130
EXIT_TERMINATED = 143

FORMER_NAMES = {"read": "query", "change": "mutate", "check": "lint"}
"""Former names of commands; they still work, with a warning."""


HOMES: Mapping[str, tuple[str, ...]] = {
    "agents": ("mcp",),
    "algorithms": ("run",),
    "blobs": ("blob",),
    "branches": ("branch", "tag"),
    "clusters": ("cluster", "queries"),
    "copies": ("clone", "push", "pull"),
    "data": ("load", "import", "export"),
    "embedding": ("embed",),
    "examples": ("examples", "skill"),
    "graphs": ("init", "snapshot", "optimize", "demo", "warm-up", "version"),
    "health": ("verify", "repair"),
    "history": ("commit", "log", "show", "diff", "blame", "revert", "changes"),
    "pictures": ("picture",),
    "policies": ("policy",),
    "queries": ("query", "alias", "mutate", "lint"),
    "recovery": ("recovery",),
    "schemas": ("schema",),
    "servers": ("login", "logout", "profile", "graphs"),
    "serving": ("serve", "studio", "token"),
    "shell": ("shell",),
    "sql": ("sql",),
    "status": ("status",),
    "storage": ("cleanup", "storage"),
}
"""The modules of `cli/commands/`, and the first words of the commands in each."""
_HOME_OF = {name: home for home, names in HOMES.items() for name in names}


class Commands(MutableMapping[str, click.Command]):
    """The commands by their first words. The module of a command is loaded when the command is used, so that a short one does not
    wait for the others."""

    def __init__(self) -> None:
        self._loaded: dict[str, click.Command] = {}

    def __getitem__(self, name: str) -> click.Command:
        if name not in self._loaded:
            import_module(f"omnigraph.cli.commands.{_HOME_OF[name]}").register(cli)
        return self._loaded[name]

    def __setitem__(self, name: str, command: click.Command) -> None:
        self._loaded[name] = command

    def __delitem__(self, name: str) -> None:
        del self._loaded[name]

    def __contains__(self, name: object) -> bool:
        return name in _HOME_OF

    def __iter__(self) -> Iterator[str]:
        return iter(_HOME_OF)

    def __len__(self) -> int:
        return len(_HOME_OF)


class Program(click.Group):
    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        now = FORMER_NAMES.get(cmd_name)
        if now is not None:
            click.echo(f"warning: '{cmd_name}' is called '{now}' now", err=True)
        return super().get_command(ctx, now or cmd_name)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Resolves a command; the address of a graph in its place opens the shell."""
        if (
            args
            and args[0] not in self.commands
            and args[0] not in FORMER_NAMES
            and (is_address(args[0]) or "/" in args[0])
        ):
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
      omnigraph init --schema people.pg ./people
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
                print_error(error, as_json)
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
