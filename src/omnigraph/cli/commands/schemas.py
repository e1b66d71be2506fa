"""schema show|infer|plan|diff|apply."""

from __future__ import annotations

from pathlib import Path

import click

from omnigraph.cli.options import (
    branch_option,
    choose_option,
    command,
    engine_option,
    missing_option,
    named_values,
    revision_options,
    uri_argument,
)
from omnigraph.cli.output import Output, write_new
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @cli.group()
    def schema() -> None:
        """Show the schema, and change it.

        \b
        omnigraph schema show ./people
        """

    @command(schema, "show", served=True)
    @revision_options
    @uri_argument
    def show(settings: Settings, out: Output, revision: str, as_of: str | None, uri: str | None) -> None:
        """Show the schema of a revision, as it was written.

        \b
        omnigraph schema show ./people

        \b
        JSON: <writes.SchemaJson>
        """
        from omnigraph.api.writes import SchemaJson

        declared = settings.graph_at(uri).snapshot(revision, as_of=as_of).schema
        out.show(SchemaJson.to_json(declared), declared.source.rstrip("\n"))

    @command(schema, "infer", graph=False)
    @click.argument("files", nargs=-1, required=True)
    @click.option(
        "--key", multiple=True, metavar="TYPE.COLUMN", help="A known key, or COLUMN for all types; may repeat."
    )
    @click.option("--null", multiple=True, metavar="TEXT", help="Text that means null in every column; may repeat.")
    @choose_option
    @missing_option
    @click.option(
        "--sample", default=100_000, show_default=True, metavar="ROWS", help="Rows of each table to look at; 0 for all."
    )
    @click.option("--out", "target", metavar="FILE", help="Write the schema to this new file (default: print it).")
    @click.option(
        "--map-file", metavar="FILE", help="Write a map of the files to this new file, for 'load --map-file'."
    )
    def infer(
        settings: Settings,
        out: Output,
        files: tuple[str, ...],
        key: tuple[str, ...],
        null: tuple[str, ...],
        choose: tuple[str, ...],
        missing: str,
        sample: int,
        target: str | None,
        map_file: str | None,
    ) -> None:
        """Infer a schema from data: CSV, JSON, Parquet, an SQLite or DuckDB file, or a folder of them.

        Types, nullability, keys, enums, dates, lists, nested objects and edges are guessed, each with its reason as a comment.
        Every sampled row loads into the result with the map. In exports for Neo4j's importer (:ID, :START_ID) and folders of
        Kuzu (schema.cypher), types come from the headers and declarations.

        \b
        omnigraph schema infer ./shipping
        omnigraph schema infer ./flights --missing skip --choose Flight.plane=property
        omnigraph schema infer ./shipping --key Port.locode --out shipping.pg --map-file shipping.json

        \b
        JSON: {schema_source, map: {sources: [{file, type, columns, ...}]}, files}
        """
        from omnigraph.graph.importing import infer_schema

        inferred = infer_schema(
            list(files),
            key=list(key),
            null=list(null),
            choose=named_values(choose, "--choose"),
            missing=missing,  # type: ignore[arg-type]  # click checked the choice
            sample=sample,
            progress=not (settings.quiet or settings.as_json),
        )
        value = {"schema_source": inferred.schema, "map": inferred.map, "files": list(inferred.files)}
        for path, text in ((target, inferred.schema), (map_file, inferred.map_json())):
            if path is not None:
                write_new(path, text)
        if target is None:
            out.show(value, inferred.schema.rstrip("\n"))
        else:
            out.done(value, f"wrote {target}" + (f" and {map_file}" if map_file else ""))

    @command(schema, "plan")
    @click.option("--schema", "desired", required=True, metavar="FILE", help="The schema you want, a .pg file.")
    @click.option("--with", "migration", metavar="FILE", help="Mutations for the same commit: check that they fit.")
    @click.option("--allow-data-loss", is_flag=True, help="Plan hard drops, and numbers that are rounded.")
    @click.option("--queries", metavar="DIR", help="Name the queries of the .gq files there that would break.")
    @branch_option
    @uri_argument
    def plan(
        settings: Settings,
        out: Output,
        desired: str,
        migration: str | None,
        allow_data_loss: bool,
        queries: str | None,
        branch: str,
        uri: str | None,
    ) -> None:
        """Show what changing to another schema would do, step by step. Exit code 1 if a step is not supported or a query breaks.

        \b
        omnigraph schema plan ./people --schema people-v2.pg
        omnigraph schema plan ./people --schema people-v2.pg --queries ./queries

        \b
        JSON: <writes.MigrationJson, broken_queries?: [<writes.BrokenQueryJson>]>
        """
        from omnigraph.api.writes import BrokenQueryJson, MigrationJson

        graph = settings.open(uri)
        steps = graph.schema.plan(
            Path(desired),
            branch=branch,
            with_=None if migration is None else Path(migration),
            allow_data_loss=allow_data_loss,
        )
        broken = () if queries is None else graph.schema.broken_queries(Path(desired), Path(queries), branch=branch)
        settings.warn_about_schema(desired, is_first=False)
        value, lines = MigrationJson.to_json(steps), steps.lines() or ["nothing to change"]
        if queries is not None:
            value["broken_queries"] = [BrokenQueryJson.to_json(query) for query in broken]
            lines += [f"would break {query}" for query in broken] or ["would break no query"]
        out.show(value, "\n".join(lines))
        if not steps.supported or broken:
            raise click.exceptions.Exit(1)

    @command(schema, "diff")
    @click.argument("a")
    @click.argument("b")
    def diff(settings: Settings, out: Output, a: str, b: str) -> None:
        """Show the steps from the schema of one revision to that of another, or to a .pg file.

        \b
        omnigraph schema diff ./people main~3 main
        omnigraph schema diff ./people main people-v2.pg

        \b
        JSON: <writes.MigrationJson>
        """
        from omnigraph.api.writes import MigrationJson

        steps = settings.open().schema.diff(a, Path(b) if b.endswith(".pg") else b)
        out.show(MigrationJson.to_json(steps), str(steps) or "the schemas are the same")

    @command(schema, "apply", served=True, writes=True, destroys=True)
    @click.option("--schema", "desired", required=True, metavar="FILE", help="The schema you want, a .pg file.")
    @click.option("--with", "migration", metavar="FILE", help="Mutations to run in the same commit, a .gq file.")
    @click.option("--dry-run", is_flag=True, help="Check the data, and change nothing.")
    @click.option("--allow-data-loss", is_flag=True, help="Agree to hard drops and to rounded numbers.")
    @branch_option
    @click.option("--message", metavar="TEXT", help="Recorded in the commit.")
    @engine_option("local")
    @uri_argument
    def apply(
        settings: Settings,
        out: Output,
        desired: str,
        migration: str | None,
        dry_run: bool,
        allow_data_loss: bool,
        branch: str,
        message: str | None,
        engine: str,
        uri: str | None,
    ) -> None:
        """Change the schema of a branch, as one commit. Refused, with the offending entities, if the data breaks it.

        \b
        omnigraph schema apply ./people --schema people-v2.pg
        omnigraph schema apply ./people --schema people-v2.pg --branch trial --dry-run
        omnigraph schema apply ./people --schema people-v2.pg --with fill.gq

        \b
        JSON: <writes.SchemaReceiptJson, store?: {requests, hops, ...}>
        """
        from omnigraph.api.writes import SchemaReceiptJson

        graph = settings.graph_at(uri)
        if not dry_run:
            settings.announce("schema apply", graph.uri)
        if allow_data_loss and not dry_run:
            settings.confirm_destruction("schema apply --allow-data-loss", graph.uri)
        receipt = graph.schema.apply(
            Path(desired),
            branch=branch,
            with_=None if migration is None else Path(migration),
            allow_data_loss=allow_data_loss,
            dry_run=dry_run,
            engine=engine,
            actor=settings.actor_for(graph),
            message=message,
            progress=not (settings.quiet or settings.as_json),
        )
        settings.warn_about_schema(desired, is_first=False)
        text = str(receipt.plan) or "nothing to change"
        if receipt.commit is not None:
            text = f"{text}\ncommitted {receipt.commit.id} on {branch}"
        out.show(out.counted(SchemaReceiptJson.to_json(receipt)), text)
