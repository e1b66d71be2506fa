"""`omnigraph`: the program. Commands live in `cli/commands/`; errors become one sentence and an exit code here."""

from __future__ import annotations

import sys
from typing import Any

import click

from omnigraph.cli.commands import branches, data, graphs, history, queries, recovery, schemas
from omnigraph.cli.output import Output
from omnigraph.errors import OmnigraphError, PreconditionFailed

EXIT_FAILURE = 1
EXIT_PRECONDITION = 4
EXIT_INTERRUPTED = 130


@click.group(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
def cli() -> None:
    """A typed property-graph database that works like Git.

    \b
    First steps:
      omnigraph demo --small
      omnigraph init --schema people.pg ./people
      omnigraph load ./people --data people.jsonl --mode append
      omnigraph query --store ./people -e 'query q() { match { $p: Person } return { $p.name } }'

    Shell completion: eval "$(_OMNIGRAPH_COMPLETE=bash_source omnigraph)" (or zsh_source, fish_source).
    """


for module in (graphs, data, queries, branches, history, schemas, recovery):
    module.register(cli)


def main(arguments: list[str] | None = None) -> None:
    """Run and exit. Never a traceback unless --debug; 0 ok, 1 failure, 2 bad usage, 4 precondition lost."""
    sys.exit(run(arguments))


def run(arguments: list[str] | None = None) -> int:
    context: dict[str, Any] = {}
    try:
        with cli.make_context("omnigraph", list(sys.argv[1:] if arguments is None else arguments)) as root:
            try:
                cli.invoke(root)
            finally:
                context = root.obj or {}
        return 0
    except OmnigraphError as error:
        if context.get("debug"):
            raise
        Output(bool(context.get("as_json")), False).error(error)
        return EXIT_PRECONDITION if isinstance(error, PreconditionFailed) else EXIT_FAILURE
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except click.ClickException as error:
        error.show()
        return error.exit_code
    except (KeyboardInterrupt, click.Abort):
        click.echo("interrupted: nothing was published by this command", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        sys.stderr.close()
        return 0


if __name__ == "__main__":
    main()
