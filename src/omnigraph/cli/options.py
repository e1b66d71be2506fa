"""The flags that every command takes, added by one decorator; the command gets `settings` and `out`."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import click

from omnigraph.cli.output import Output
from omnigraph.cli.settings import Config, Settings


def command(group: click.Group, name: str, **extra: Any) -> Callable[[Callable[..., Any]], click.Command]:
    """Register a command with the common flags. Its docstring is the help; examples stand after a blank line and `\\b`."""

    def register(function: Callable[..., Any]) -> click.Command:
        return group.command(name, **extra)(common(function))

    return register


def common(function: Callable[..., Any]) -> Callable[..., Any]:
    @click.option(
        "--store", "--uri", metavar="URI", help="The graph's storage: a folder or s3://, gs://, az:// address."
    )
    @click.option("--as", "actor", metavar="ACTOR", help="Who makes this change; recorded in the commit.")
    @click.option("--json", "as_json", is_flag=True, help="Print JSON for programs.")
    @click.option("--quiet", is_flag=True, help="Print only results and errors.")
    @click.option("--yes", is_flag=True, help="Agree to destructive changes on storage that is not local.")
    @click.option("--debug", is_flag=True, help="Show a traceback when something fails.")
    @functools.wraps(function)
    def run(
        *args: Any,
        store: str | None,
        actor: str | None,
        as_json: bool,
        quiet: bool,
        yes: bool,
        debug: bool,
        **kwargs: Any,
    ) -> Any:
        state = click.get_current_context().find_root()
        state.obj = {"debug": debug, "as_json": as_json}
        config = Config.load()
        if not quiet:
            for warning in config.warnings:
                click.echo(f"warning: {warning}", err=True)
        settings = Settings(store, actor or config.actor, as_json, quiet, yes, config)
        return function(*args, settings=settings, out=Output(as_json, quiet, config.column_width), **kwargs)

    return run


branch_option = click.option("--branch", default="main", show_default=True, help="The branch to work on.")
uri_argument = click.argument("uri", required=False)
