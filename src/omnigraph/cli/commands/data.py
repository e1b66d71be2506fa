"""load, export."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import (
    branch_option,
    choose_option,
    command,
    conf_option,
    engine_option,
    load_engine,
    load_engine_option,
    missing_option,
    named_values,
    once_options,
    overwrite_option,
    revision_options,
    uri_argument,
)
from omnigraph.cli.output import Output, counted
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.types import LoadExplanation, LoadReceipt


def register(cli: click.Group) -> None:
    _register_load(cli)
    _register_import(cli)
    _register_export(cli)


def _register_load(cli: click.Group) -> None:
    @command(cli, "load", served=True, writes=True, destroys=True)
    @click.option(
        "--data",
        required=True,
        multiple=True,
        metavar="PATH",
        help="A file, folder, glob or address to load, or - for standard input; may repeat.",
    )
    @click.option(
        "--mode",
        required=True,
        type=click.Choice(["append", "merge", "patch", "delete", "overwrite"]),
        help="append: new entities only. merge: replace those with the same id. patch: change the columns that are there. "
        "delete: remove those with these ids. overwrite: replace whole types.",
    )
    @branch_option
    @click.option(
        "--from", "base", metavar="BASE", help="Create the branch from BASE, with the load, if it does not exist."
    )
    @click.option("--new-branch", is_flag=True, help="Refuse if the branch exists; needs --from.")
    @click.option(
        "--type",
        "type_name",
        metavar="TYPE",
        help="The type of the rows of CSV and Parquet files (default: the file's name).",
    )
    @click.option(
        "--format",
        metavar="jsonl|csv|parquet|NAME",
        help="The format of the files (default: by their suffix), or a reader of the Spark session, such as orc, jdbc, delta, iceberg.",
    )
    @click.option(
        "--reader-option",
        "reader_options",
        multiple=True,
        metavar="NAME=VALUE",
        help="An option of the Spark session's reader; may repeat.",
    )
    @click.option(
        "--encoding", metavar="NAME", help="The encoding of JSON lines and CSV, such as latin-1 (default: utf-8)."
    )
    @click.option("--delimiter", metavar="CHAR", help="What separates the columns of CSV (default: a comma).")
    @click.option("--quote", metavar="CHAR", help="What quotes the cells of CSV (default: a double quote).")
    @click.option("--null", metavar="TEXT", help="Text in CSV that means null, in addition to the empty cell.")
    @click.option("--columns", metavar="NAMES", help="The columns of CSV files without a header, separated by commas.")
    @click.option("--date-format", metavar="FORMAT", help="How dates are written in CSV, such as %d.%m.%Y.")
    @click.option("--time-format", metavar="FORMAT", help="How instants are written in CSV, such as '%d.%m.%Y %H:%M'.")
    @click.option(
        "--map",
        "pairs",
        multiple=True,
        metavar="COLUMN=PROPERTY",
        help="A column of CSV or Parquet is this property; may repeat.",
    )
    @click.option("--map-file", metavar="FILE", help="A map of the files, as 'schema infer --map-file' writes it.")
    @load_engine_option
    @conf_option
    @click.option("--rejects", metavar="FILE", help="Write rejected records to this new file and load the rest.")
    @missing_option
    @click.option(
        "--dry-run",
        is_flag=True,
        help="Show what would be loaded and rejected, by reason; exit code 1 if anything is rejected.",
    )
    @click.option(
        "--explain", is_flag=True, help="Show where the load would run, why, and in how many tasks; nothing is read."
    )
    @click.option("--message", metavar="TEXT", help="Recorded in the commit.")
    @once_options
    @uri_argument
    def load(
        settings: Settings,
        out: Output,
        data: tuple[str, ...],
        mode: str,
        branch: str,
        base: str | None,
        new_branch: bool,
        type_name: str | None,
        format: str | None,
        reader_options: tuple[str, ...],
        encoding: str | None,
        delimiter: str | None,
        quote: str | None,
        null: str | None,
        columns: str | None,
        date_format: str | None,
        time_format: str | None,
        pairs: tuple[str, ...],
        map_file: str | None,
        engine: str | None,
        conf: tuple[str, ...],
        rejects: str | None,
        missing: str,
        dry_run: bool,
        explain: bool,
        message: str | None,
        once: str | tuple[str, int] | None,
        uri: str | None,
    ) -> None:
        """Load JSON lines, CSV or Parquet as one commit, or nothing.

        \b
        omnigraph load ./people --data people.jsonl --mode append
        omnigraph load ./people --data ./csv-folder --mode merge --branch review --from main
        omnigraph load ./people --data huge.jsonl --mode append --engine spark
        omnigraph load ./people --data Person.csv --mode append --encoding latin-1 --delimiter ';'
        omnigraph load ./ports --data Port.csv --mode append --map LOCODE=code --map 'Port Name=name'
        omnigraph load ./people --data day.jsonl --mode append --once people-2026-11-15
        omnigraph load ./people --data people.csv --mode append --dry-run
        omnigraph load ./people --data ./people --mode append --missing skip --rejects rejects.jsonl
        omnigraph load ./people --data s3://lake/people.jsonl --mode append --explain
        omnigraph load ./people --data jdbc:postgresql://db/crm --format jdbc --reader-option dbtable=people \\
          --type Person --mode merge --conf spark.jars=postgresql.jar

        \b
        JSON: <writes.LoadJson, store?: {requests, hops, ...}>
        JSON with --explain: <writes.LoadExplanationJson>
        """
        from pathlib import Path

        from omnigraph.api.writes import LoadExplanationJson, LoadJson
        from omnigraph.cli.interruption import outcome_on_interrupt

        if pairs and map_file:
            raise click.UsageError("--map and --map-file exclude each other")
        address = settings.uri(uri)
        map = Path(map_file) if map_file else _column_names(pairs) or None
        if explain:
            explained = settings.open(uri).explain_load(
                list(data),
                branch=branch,
                from_=base,
                type=type_name,
                format=format,
                encoding=encoding,
                map=map,
                engine=load_engine(engine, settings.config),
                conf=named_values(conf, "--conf"),
            )
            out.show(LoadExplanationJson.to_json(explained), _explained_text(explained))
            return
        if not dry_run:
            settings.announce("load", address)
        if mode in ("overwrite", "delete") and not dry_run:
            settings.confirm_destruction(f"load --mode {mode}", address)
        graph = settings.graph_at(uri)
        with outcome_on_interrupt(graph, branch):
            receipt = graph.load(
                list(data),
                mode=mode,  # type: ignore[arg-type]  # click checked the choice
                branch=branch,
                from_=base,
                new_branch=new_branch,
                type=type_name,
                format=format,
                reader_options=named_values(reader_options, "--reader-option") or None,
                engine=load_engine(engine, settings.config),
                conf=named_values(conf, "--conf") or None,
                encoding=encoding,
                delimiter=delimiter,
                quote=quote,
                null=null,
                columns=None if columns is None else columns.split(","),
                date_format=date_format,
                time_format=time_format,
                map=map,
                rejects=rejects,
                missing=missing,  # type: ignore[arg-type]  # click checked the choice
                actor=settings.actor_for(graph),
                message=message,
                once=once,
                dry_run=dry_run,
                progress=not (settings.quiet or settings.as_json),
            )
        out.done(
            out.counted(LoadJson.to_json(receipt, uri=address)),
            (_tried_text if dry_run else _loaded_text)(address, receipt, rejects),
        )
        if receipt.engine is not None and not (settings.quiet or settings.as_json):
            click.echo(_work_text(receipt), err=True)
        if receipt.refusals:
            raise click.exceptions.Exit(1)


def _register_import(cli: click.Group) -> None:
    @command(cli, "import", writes=True, graph=False)
    @click.argument("source")
    @click.argument("uri")
    @click.option(
        "--key", multiple=True, metavar="TYPE.COLUMN", help="A known key, or COLUMN for all types; may repeat."
    )
    @click.option("--null", multiple=True, metavar="TEXT", help="Text that means null in every column; may repeat.")
    @choose_option
    @click.option(
        "--sample", default=100_000, show_default=True, metavar="ROWS", help="Rows of each table to look at; 0 for all."
    )
    @click.option(
        "--dry-run",
        is_flag=True,
        help="Print the schema that would be inferred, and what would be loaded; create nothing.",
    )
    @load_engine_option
    @click.option("--rejects", metavar="FILE", help="Write rejected records to this new file and load the rest.")
    @missing_option
    @click.option("--message", metavar="TEXT", help="Recorded in the commit.")
    def import_(
        settings: Settings,
        out: Output,
        source: str,
        uri: str,
        key: tuple[str, ...],
        null: tuple[str, ...],
        choose: tuple[str, ...],
        sample: int,
        dry_run: bool,
        engine: str | None,
        rejects: str | None,
        missing: str,
        message: str | None,
    ) -> None:
        """Create a graph from a folder or file: infer a schema, create the graph, load everything as one commit.

        SOURCE is a folder of CSV, JSON and Parquet files, an export for Neo4j's importer, a folder of Kuzu, or an SQLite or DuckDB
        file. 'schema infer' shows each guess and its reason; to correct one, edit that schema, then run init and load.

        \b
        omnigraph import ./shipping ./ports
        omnigraph import shop.sqlite ./shop --dry-run
        omnigraph import ./shipping ./ports --key Port.locode
        omnigraph import ./flights ./flights.graph --missing skip

        \b
        JSON: {uri, schema_source, map, files, load?: as 'load' prints it, store?}
        """
        from omnigraph.api.writes import LoadJson
        from omnigraph.graph.importing import import_data

        if not dry_run:
            settings.announce("import", uri)
        imported = import_data(
            source,
            settings.uri(uri),
            key=list(key),
            null=list(null),
            choose=named_values(choose, "--choose"),
            sample=sample,
            dry_run=dry_run,
            rejects=rejects,
            missing=missing,  # type: ignore[arg-type]  # click checked the choice
            engine=load_engine(engine, settings.config),
            actor=settings.actor,
            message=message,
            progress=not (settings.quiet or settings.as_json),
        )
        inferred, receipt = imported.inferred, imported.receipt
        value = {"uri": uri, "schema_source": inferred.schema, "map": inferred.map, "files": list(inferred.files)}
        if receipt is None:
            out.show(value, inferred.schema.rstrip("\n"))
            return
        near = [f"  {column}" for column in inferred.near_references]
        if near:
            near = [
                "no edges, because some of their values name no node; --missing skip, or stub, makes edges of them:",
                *near,
            ]
        out.done(
            out.counted(value | {"load": LoadJson.to_json(receipt, uri=uri)}),
            "\n".join([_loaded_text(uri, receipt, rejects), *_by_type(receipt), *near]),
        )


def _column_names(pairs: tuple[str, ...]) -> dict[str, str]:
    """Parses `LOCODE=code` at the last equals sign: names in a graph have none."""
    names: dict[str, str] = {}
    for pair in pairs:
        column, sign, name = pair.rpartition("=")
        if not sign or not column or not name:
            raise UsageError(
                f"'{pair}' does not map a column", hint="write COLUMN=PROPERTY, for example --map LOCODE=code"
            )
        names[column] = name
    return names


def _loaded_text(address: str, receipt: LoadReceipt, rejects: str | None) -> str:
    branch = f"branch {receipt.branch} of {address}"
    if receipt.repeated and receipt.commit is not None:
        return f"loaded before into {branch}, as commit {receipt.commit.id}; nothing changed"
    entities = counted(receipt.total_entities, "entity", "entities")
    changes = ", ".join(f"{count} {word}" for word, count in asdict(receipt.total).items() if count)
    types = counted(len(receipt.types), "type", "types")
    if receipt.mode == "delete":
        deleted = counted(receipt.total.deleted, "entity", "entities")
        text = f"deleted {deleted} of {types} from {branch}"
        if receipt.total.unchanged:
            text += f"; it has none of {receipt.total.unchanged} other ids"
    elif receipt.commit is not None:
        text = f"loaded {entities} of {types} into {branch} ({receipt.mode}): {changes}"
    elif receipt.total_entities:
        text = f"nothing changed: {branch} already holds the input ({entities})"
    elif receipt.rejected:
        text = f"nothing was loaded into {branch}: every record was rejected"
    else:
        text = f"nothing to load into {branch}: the input has no entities"
    lines = (*_duplicate_lines(receipt), *_gap_lines(receipt), *_adjacency_lines(receipt.without_adjacency))
    text += "".join(f"\n{line}" for line in lines)
    if receipt.rejected and rejects is not None:
        text += f"\nwrote {counted(receipt.rejected, 'rejected record', 'rejected records')} to {rejects}"
    return text


def _gap_lines(receipt: LoadReceipt) -> list[str]:
    """Edges that name missing nodes, and what was done about them."""
    lines = [
        f"{counted(gap.edges, 'edge', 'edges')} of {gap.edge} name{'s' if gap.edges == 1 else ''} "
        f"{counted(gap.nodes, 'missing', 'different missing')} {gap.node} ({gap.end}): "
        f"{', '.join(map(repr, gap.examples))}{', ...' if gap.nodes > len(gap.examples) else ''}"
        for gap in receipt.missing
    ]
    would = "would be " if receipt.is_dry_run else ""
    for key, count in sorted(receipt.skipped.items()):
        lines.append(f"{would}skipped: {counted(count, 'edge', 'edges')} of {key.removeprefix('edge:')}")
    for key, count in sorted(receipt.stubs.items()):
        lines.append(
            f"{would}created with their key alone: {counted(count, 'node', 'nodes')} of {key.removeprefix('node:')}"
        )
    return lines


def _duplicate_lines(receipt: LoadReceipt) -> list[str]:
    """Edges that a merge added although there were equal ones, and how to avoid that."""
    return [
        f"{counted(count, 'edge', 'edges')} of {key.removeprefix('edge:')} had an equal in the branch, and came in addition; "
        "declare what identifies an edge, such as @key(src, dst), and a merge replaces it"
        for key, count in sorted(receipt.duplicates.items())
    ]


def _adjacency_lines(left_out: Mapping[str, str]) -> list[str]:
    return [
        f"the adjacency of {key.partition(':')[2]} was not stored, so queries build it in memory ({reason}); "
        "`omnigraph optimize` tries again"
        for key, reason in sorted(left_out.items())
    ]


def _by_type(receipt: LoadReceipt) -> list[str]:
    """The number of entities of each type in the input: nodes, then edges, by name."""
    ordered = sorted(receipt.loaded.items(), key=lambda item: (item[0].startswith("edge:"), item[0]))
    return [f"  {key.partition(':')[2]}: {count:,}" for key, count in ordered]


def _tried_text(address: str, receipt: LoadReceipt, _: str | None) -> str:
    """What a dry run found."""
    entities = counted(receipt.total_entities, "entity", "entities")
    changes = ", ".join(f"{count} {word}" for word, count in asdict(receipt.total).items() if count)
    accepted = [f"accepted: {entities}" + (f" ({changes})" if changes else ""), *_by_type(receipt)]
    accepted += [*_duplicate_lines(receipt), *_gap_lines(receipt)]
    into = f"branch {receipt.branch} of {address}"
    if not receipt.refusals:
        return "\n".join(
            [
                f"dry run: nothing was written; {into} would take {'the rest' if receipt.skipped else 'everything'}",
                *accepted,
            ]
        )
    rejected = [f"rejected: {counted(receipt.rejected, 'record', 'records')}"]
    for refusal in receipt.refusals:
        where = (
            f" ({', '.join(refusal.places)}{', ...' if refusal.count > len(refusal.places) else ''})"
            if refusal.places
            else ""
        )
        of = f"{refusal.type_name}: " if refusal.type_name and refusal.type_name not in refusal.message else ""
        rejected.append(f"  {refusal.count:,} x {of}{refusal.message}{where}")
    if all(refusal.can_be_set_aside for refusal in receipt.refusals):
        advice = "correct the data or the schema, or set these records aside with --rejects FILE"
    else:
        advice = "correct the data or the schema; --rejects sets aside only records that are wrong by themselves"
        if any(refusal.code == "endpoint_missing" for refusal in receipt.refusals):
            advice += "; --missing skip sets edges aside whose nodes are missing, --missing stub creates these nodes"
    return "\n".join([f"dry run: nothing was written; {into} would refuse this load", *accepted, *rejected, advice])


def _explained_text(explained: LoadExplanation) -> str:
    """Where a load would run, and its tasks."""
    lines = [f"would run {explained.engine} ({explained.reason})"]
    limit = f"{explained.max_in_process_bytes / 1_000_000:,.0f} MB"
    lines.append(f"a load of up to {limit} of input runs in process unless --engine says otherwise")
    if explained.files:
        size = f"{explained.input_bytes / 1_000_000:,.1f} MB"
        lines.append(f"input: {counted(explained.files, 'file', 'files')}, {size} counted as text")
    if explained.tasks is not None and explained.task_bytes is not None:
        size = f"{explained.task_bytes / 2**20:,.0f} MiB"
        lines.append(
            f"{counted(explained.tasks, 'task that reads', 'tasks that read')} up to {size} each, {explained.parallelism} at a time"
        )
    else:
        lines.append("tasks: as many as the Spark session makes of it")
    return "\n".join(lines)


def _work_text(receipt: LoadReceipt) -> str:
    """Where the load ran, why there, and how fast."""
    done = f"{receipt.engine} ({receipt.engine_reason}), {receipt.seconds:.1f} s"
    if not receipt.total_entities or not receipt.seconds:
        return done
    return f"{done}, {receipt.total_entities / receipt.seconds:,.0f} entities/s"


def _register_export(cli: click.Group) -> None:
    @command(cli, "export", served=True)
    @revision_options
    @click.option("--type", "types", multiple=True, metavar="TYPE", help="Export only this type; may repeat.")
    @click.option("--format", type=click.Choice(["jsonl", "csv", "parquet"]), default="jsonl", show_default=True)
    @click.option(
        "--out",
        "target",
        metavar="PATH",
        help="The file or folder to write (default: standard output). CSV and Parquet: a folder with one file per type, "
        "or, for one --type, a file named .csv or .parquet.",
    )
    @overwrite_option("files that exist")
    @engine_option("local")
    @uri_argument
    def export(
        settings: Settings,
        out: Output,
        revision: str,
        as_of: str | None,
        types: tuple[str, ...],
        format: str,
        target: str | None,
        overwrite: bool,
        engine: str,
        uri: str | None,
    ) -> None:
        """Export a graph as JSON lines, CSV or Parquet; 'load' reads all three.

        \b
        omnigraph export ./people > people.jsonl
        omnigraph export ./people --type Person --format csv --out people.csv
        omnigraph export ./people --format parquet --out ./parquet --engine spark

        \b
        JSON (with --out): {target, entities}
        """
        count = settings.graph_at(uri).export(
            target or "-",
            format=format,  # type: ignore[arg-type]
            revision=revision,
            as_of=as_of,
            types=list(types) or None,
            overwrite=overwrite,
            engine=engine,
        )
        if target is not None and not _is_stdout(target):
            out.done(
                {"target": target, "entities": count},
                f"exported {counted(count, 'entity', 'entities')} to {target}",
            )


def _is_stdout(target: str) -> bool:
    """Whether the export itself was written to standard output (`-`, `/dev/stdout`)."""
    import os
    import sys

    if target == "-":
        return True
    try:
        return os.path.samestat(os.stat(target), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):
        return False
