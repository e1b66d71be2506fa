"""schema show|plan."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli.options import branch_option, command, uri_argument
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @cli.group()
    def schema() -> None:
        """Show the schema, and plan a change of it.

        \b
        omnigraph schema show ./people
        """

    @command(schema, "show")
    @branch_option
    @uri_argument
    def show(settings: Settings, out: Output, branch: str, uri: str | None) -> None:
        """The schema of a branch, as it was written.

        \b
        omnigraph schema show ./people
        """
        view = settings.open(uri).view(branch)
        out.result({"schema_source": view.catalog.source, "hash": view.catalog.hash}, view.catalog.source.rstrip("\n"))

    @command(schema, "plan")
    @click.option("--schema", "desired", required=True, metavar="FILE", help="The schema you want, a .pg file.")
    @branch_option
    @uri_argument
    def plan(settings: Settings, out: Output, desired: str, branch: str, uri: str | None) -> None:
        """What changing to another schema would do, step by step. Exit code 1 if a step is not supported.

        \b
        omnigraph schema plan ./people --schema people-v2.pg
        """
        from omnigraph.graph import read_source
        from omnigraph.language.migration import plan_migration

        text, file = read_source(Path(desired))
        migration = plan_migration(settings.open(uri).view(branch).catalog, text, file)
        out.result(migration.to_json(), str(migration) or "nothing to change")
        if not migration.supported:
            raise click.exceptions.Exit(1)
