"""schema show|infer|plan|apply."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from omnigraph.cli.options import (
    branch_option,
    command,
    engine_option,
    group,
    inference_options,
    message_option,
    out_option,
    revision_options,
    together,
)
from omnigraph.cli.output import Output, write_new
from omnigraph.cli.settings import Settings

group("schema", "Show the schema, and change it.")


@command("schema show", served=True)
@revision_options
def show(settings: Settings, out: Output, **state: Any) -> None:
    """Show the schema of a revision, as it was written.

    \b
    omnigraph schema show ./people

    \b
    JSON: <writes.SchemaJson>
    """
    from omnigraph.api.writes import SchemaJson

    declared = settings.connect_or_open().snapshot(**state).schema
    out.show(SchemaJson.to_json(declared), declared.source.rstrip("\n"))


@command("schema infer", graph=False)
@click.argument("files", nargs=-1, required=True)
@inference_options
@out_option("Write the schema to this new file (default: print it).")
@click.option("--map-file", metavar="FILE", help="Write a map of the files to this new file, for 'load --map-file'.")
def infer(
    settings: Settings, out: Output, files: tuple[str, ...], target: str | None, map_file: str | None, **options: Any
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

    chosen = {name: value for name, value in options.items() if value is not None}
    inferred = infer_schema(list(files), progress=settings.shows_progress, **chosen)
    value = {"schema_source": inferred.schema, "map": inferred.map, "files": list(inferred.files)}
    for path, text in ((target, inferred.schema), (map_file, inferred.map_json())):
        if path is not None:
            write_new(path, text)
    if target is None:
        out.show(value, inferred.schema.rstrip("\n"))
    else:
        out.done(value, f"wrote {target}" + (f" and {map_file}" if map_file else ""))


def _path(_context: click.Context, _parameter: click.Parameter, file: str | None) -> Path | None:
    return None if file is None else Path(file)


change_options = together(
    click.option("--schema", required=True, callback=_path, metavar="FILE", help="The schema you want, a .pg file."),
    click.option(
        "--with", "with_", callback=_path, metavar="FILE", help="Mutations to run in the same commit, a .gq file."
    ),
    click.option("--allow-data-loss", is_flag=True, help="Agree to hard drops and to rounded numbers."),
    branch_option,
)


@command("schema plan")
@change_options
@click.option(
    "--queries", callback=_path, metavar="DIR", help="Name the queries of the .gq files there that would break."
)
def plan(settings: Settings, out: Output, schema: Path, branch: str, queries: Path | None, **options: Any) -> None:
    """Show what changing to another schema would do, step by step. Exit code 1 if a step is not supported or a query breaks.

    \b
    omnigraph schema plan ./people --schema people-v2.pg
    omnigraph schema plan ./people --schema people-v2.pg --queries ./queries

    \b
    JSON: <writes.MigrationJson, broken_queries?: [<writes.BrokenQueryJson>]>
    """
    from omnigraph.api.writes import BrokenQueryJson, MigrationJson

    graph = settings.open()
    steps = graph.schema.plan(schema, branch=branch, **options)
    broken = () if queries is None else graph.schema.broken_queries(schema, queries, branch=branch)
    settings.warn_about_schema(schema, is_first=False)
    value, lines = MigrationJson.to_json(steps), steps.lines() or ["nothing to change"]
    if queries is not None:
        value["broken_queries"] = [BrokenQueryJson.to_json(query) for query in broken]
        lines += [f"would break {query}" for query in broken] or ["would break no query"]
    out.show(value, "\n".join(lines))
    if not steps.supported or broken:
        raise click.exceptions.Exit(1)


@command("schema apply", served=True, writes=True, destroys=True)
@change_options
@click.option("--dry-run", is_flag=True, help="Check the data, and change nothing.")
@message_option
@engine_option
def apply(
    settings: Settings, out: Output, schema: Path, branch: str, dry_run: bool, allow_data_loss: bool, **options: Any
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

    graph = settings.connect_or_open()
    if not dry_run:
        settings.announce("schema apply", graph.uri)
    if allow_data_loss and not dry_run:
        settings.confirm_destruction("schema apply --allow-data-loss", graph.uri)
    receipt = graph.schema.apply(
        schema,
        branch=branch,
        dry_run=dry_run,
        allow_data_loss=allow_data_loss,
        actor=settings.actor_for(graph),
        progress=settings.shows_progress,
        **options,
    )
    settings.warn_about_schema(schema, is_first=False)
    text = str(receipt.plan) or "nothing to change"
    if receipt.commit is not None:
        text = f"{text}\ncommitted {receipt.commit.id} on {branch}"
    out.show(out.counted(SchemaReceiptJson.to_json(receipt)), text)
