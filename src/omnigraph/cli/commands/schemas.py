"""schema show|plan."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli.options import branch_option, command, revision_options, uri_argument
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
    @revision_options
    @uri_argument
    def show(settings: Settings, out: Output, revision: str, as_of: str | None, uri: str | None) -> None:
        """The schema of a revision, as it was written.

        \b
        omnigraph schema show ./people

        \b
        JSON: {schema_source, hash}
        """
        from omnigraph.wire.schemas import schema_json

        found = settings.open(uri).snapshot(revision, as_of=as_of).schema
        out.show(schema_json(found), found.source.rstrip("\n"))

    @command(schema, "plan")
    @click.option("--schema", "desired", required=True, metavar="FILE", help="The schema you want, a .pg file.")
    @click.option("--allow-data-loss", is_flag=True, help="Plan drops that remove the data at once.")
    @branch_option
    @uri_argument
    def plan(
        settings: Settings, out: Output, desired: str, allow_data_loss: bool, branch: str, uri: str | None
    ) -> None:
        """What changing to another schema would do, step by step. Exit code 1 if a step is not supported.

        \b
        omnigraph schema plan ./people --schema people-v2.pg

        \b
        JSON: {supported, steps: [{kind, ...}]}
        """
        from omnigraph.wire.schemas import migration_json

        migration = settings.open(uri).plan_schema(Path(desired), branch=branch, allow_data_loss=allow_data_loss)
        settings.warn_about_schema(desired, is_first=False)
        out.show(migration_json(migration), str(migration) or "nothing to change")
        if not migration.supported:
            raise click.exceptions.Exit(1)
