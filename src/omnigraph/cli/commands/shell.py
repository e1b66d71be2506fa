"""shell: interactive queries and changes."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import click

from omnigraph._internal.user_folders import config_folder
from omnigraph.cli.options import command, uri_argument
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @command(cli, "shell", served=True, writes=True)
    @click.option(
        "--branch", "--revision", "revision", default="main", show_default=True, help="The revision to start at."
    )
    @uri_argument
    def shell(settings: Settings, out: Output, revision: str, uri: str | None) -> None:
        """Query and change a graph interactively; 'omnigraph ./people' does the same.

        Queries and changes are typed as in a .gq file, or without their 'query name() { }'; commands begin with a dot, and
        .help lists them. Ctrl-C cancels a query, Ctrl-D leaves the shell. Input that does not come from a terminal is run as a script, up to
        its first error.

        \b
        omnigraph shell ./people
        omnigraph shell ./people --branch review --as ada
        omnigraph shell --server production --graph people
        omnigraph shell ./people < script.gq

        \b
        JSON: for each read what 'query' prints, for each change what 'mutate' prints
        """
        from omnigraph.cli.shell.session import MODES, Session

        graph = settings.graph_at(uri)
        settings = settings if uri is None else replace(settings, store=uri)
        chosen = "json" if settings.as_json else settings.config.output or "table"
        session = Session(graph, settings, out, revision, mode=chosen if chosen in MODES else "table")
        session.use(revision)
        if not (sys.stdin.isatty() and sys.stdout.isatty()):
            from omnigraph.cli.shell.session import run_script

            if code := run_script(session, sys.stdin):
                raise click.exceptions.Exit(code)
            return
        from omnigraph._internal.lazy_imports import load_extra

        load_extra("prompt_toolkit", "the shell on a terminal", extra="shell")
        from omnigraph.cli.shell.prompt import run_prompt

        run_prompt(session, Path(graph.uri).name, config_folder())
