"""load, import, export, run, blob: data in and out of a graph."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import (
    Spelled,
    branch_option,
    command,
    engine_option,
    inference_options,
    load_engine,
    load_engine_option,
    message_option,
    missing_option,
    once_options,
    out_option,
    overwrite_option,
    pairs,
    rejects_option,
    revision_options,
    several,
)
from omnigraph.cli.output import Output, counted
from omnigraph.cli.process import outcome_on_interrupt
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.types import LoadExplanation, LoadReceipt


def _column_names(
    _context: click.Context, _parameter: click.Parameter, words: tuple[str, ...]
) -> Mapping[str, str] | None:
    """Parses `LOCODE=code` at the last equals sign: names in a graph have none."""
    names: dict[str, str] = {}
    for word in words:
        column, sign, name = word.rpartition("=")
        if not sign or not column or not name:
            raise UsageError(
                f"'{word}' does not map a column", hint="write COLUMN=PROPERTY, for example --map LOCODE=code"
            )
        names[column] = name
    return names or None


@command("load", served=True, writes=True, destroys=True)
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
    "--from", "from_", metavar="BASE", help="Create the branch from BASE, with the load, if it does not exist."
)
@click.option("--new-branch", is_flag=True, help="Refuse if the branch exists; needs --from.")
@click.option(
    "--type", metavar="TYPE", help="The type of the rows of CSV and Parquet files (default: the file's name)."
)
@click.option(
    "--format",
    metavar="jsonl|csv|parquet|NAME",
    help="The format of the files (default: by their suffix), or a reader of the Spark session, such as orc, jdbc, delta, iceberg.",
)
@pairs("--reader-option", "reader_options", help="An option of the Spark session's reader")
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
    multiple=True,
    metavar="COLUMN=PROPERTY",
    callback=_column_names,
    help="A column of CSV or Parquet is this property; may repeat.",
)
@click.option("--map-file", metavar="FILE", help="A map of the files, as 'schema infer --map-file' writes it.")
@load_engine_option
@pairs(
    "--conf",
    help="A setting of the Spark session that is started, or of the load's tasks (spark.omnigraph.splitBytes, .parallelism, "
    ".taskMemory)",
)
@rejects_option
@missing_option
@click.option(
    "--dry-run",
    is_flag=True,
    help="Show what would be loaded and rejected, by reason; exit code 1 if anything is rejected.",
)
@click.option(
    "--explain", is_flag=True, help="Show where the load would run, why, and in how many tasks; nothing is read."
)
@message_option
@once_options
def load(
    settings: Settings,
    out: Output,
    data: tuple[str, ...],
    mode: str,
    branch: str,
    columns: str | None,
    map: Mapping[str, str] | None,
    map_file: str | None,
    engine: str | None,
    rejects: str | None,
    dry_run: bool,
    explain: bool,
    **options: Any,
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
    from omnigraph.api.writes import LoadExplanationJson, LoadJson

    if map and map_file:
        raise click.UsageError("--map and --map-file exclude each other")
    address = settings.uri()
    options |= {
        "branch": branch,
        "map": Path(map_file) if map_file else map,
        "engine": load_engine(engine, settings.config),
    }
    if explain:
        taken = ("branch", "from_", "type", "format", "encoding", "map", "engine", "conf")
        explained = settings.open().explain_load(list(data), **{name: options[name] for name in taken})
        out.show(LoadExplanationJson.to_json(explained), _explained_text(explained))
        return
    if not dry_run:
        settings.announce("load", address)
    if mode in ("overwrite", "delete") and not dry_run:
        settings.confirm_destruction(f"load --mode {mode}", address)
    graph = settings.connect_or_open()
    with outcome_on_interrupt(graph, branch):
        receipt = graph.load(
            list(data),
            mode=mode,  # type: ignore[arg-type]  # click checked the choice
            columns=None if columns is None else columns.split(","),
            rejects=rejects,
            actor=settings.actor_for(graph),
            dry_run=dry_run,
            progress=settings.shows_progress,
            **options,
        )
    text = (_tried_text if dry_run else _loaded_text)(address, receipt, rejects)
    out.done(out.counted(LoadJson.to_json(receipt, uri=address)), text)
    if receipt.engine is not None and settings.shows_progress:
        click.echo(_work_text(receipt), err=True)
    if receipt.refusals:
        raise click.exceptions.Exit(1)


@command("import", writes=True, addresses=None)
@click.argument("source")
@inference_options
@click.option(
    "--dry-run",
    is_flag=True,
    help="Print the schema that would be inferred, and what would be loaded; create nothing.",
)
@load_engine_option
@rejects_option
@message_option
def import_(
    settings: Settings, out: Output, source: str, engine: str | None, rejects: str | None, dry_run: bool, **options: Any
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

    uri = settings.storage().uri
    if not dry_run:
        settings.announce("import", uri)
    imported = import_data(
        source,
        uri,
        dry_run=dry_run,
        rejects=rejects,
        engine=load_engine(engine, settings.config),
        actor=settings.actor,
        progress=settings.shows_progress,
        **{name: value for name, value in options.items() if value is not None},
    )
    inferred, receipt = imported.inferred, imported.receipt
    value = {"uri": uri, "schema_source": inferred.schema, "map": inferred.map, "files": list(inferred.files)}
    if receipt is None:
        out.show(value, inferred.schema.rstrip("\n"))
        return
    near = [f"  {column}" for column in inferred.near_references]
    if near:
        near.insert(
            0, "no edges, because some of their values name no node; --missing skip, or stub, makes edges of them:"
        )
    text = "\n".join([_loaded_text(uri, receipt, rejects), *_by_type(receipt), *near])
    out.done(out.counted(value | {"load": LoadJson.to_json(receipt, uri=uri)}), text)


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


@command("export", served=True)
@revision_options
@several("--type", "types", metavar="TYPE", help="Export only this type")
@click.option("--format", type=click.Choice(["jsonl", "csv", "parquet"]), default="jsonl", show_default=True)
@click.option("--jsonl", cls=Spelled, instead="--format jsonl", is_flag=True, expose_value=False)
@out_option(
    "The file or folder to write (default: standard output). CSV and Parquet: a folder with one file per type, "
    "or, for one --type, a file named .csv or .parquet.",
    metavar="PATH",
)
@overwrite_option("files that exist")
@engine_option
def export(settings: Settings, out: Output, target: str | None, **options: Any) -> None:
    """Export a graph as JSON lines, CSV or Parquet; 'load' reads all three.

    \b
    omnigraph export ./people > people.jsonl
    omnigraph export ./people --type Person --format csv --out people.csv
    omnigraph export ./people --format parquet --out ./parquet --engine spark

    \b
    JSON (with --out): {target, entities}
    """
    count = settings.connect_or_open().export(target or "-", **options)
    if target is not None and not _is_stdout(target):
        text = f"exported {counted(count, 'entity', 'entities')} to {target}"
        out.done({"target": target, "entities": count}, text)


def _is_stdout(target: str) -> bool:
    """Whether the export itself was written to standard output (`-`, `/dev/stdout`)."""
    if target == "-":
        return True
    try:
        return os.path.samestat(os.stat(target), os.fstat(sys.stdout.fileno()))
    except (OSError, ValueError):
        return False


ALGORITHMS = {
    "pagerank": {"weight", "damping", "tolerance", "rounds"},
    "connected_components": set(),
    "label_propagation": {"weight", "rounds", "ties"},
    "shortest_paths": {"weight", "sources"},
    "triangle_count": set(),
    "local_clustering": set(),
}
"""The algorithms, and the options that each takes."""


@command("run", writes=True)
@click.argument("algorithm", type=click.Choice(list(ALGORITHMS)), metavar="ALGORITHM")
@click.option("--edge", required=True, metavar="TYPE", help="The edges that connect the nodes.")
@click.option("--into", required=True, metavar="TYPE.PROPERTY", help="The property that gets the values.")
@click.option("--weight", metavar="PROPERTY", help="A number of each edge, at least 0.")
@several("--source", "sources", metavar="ID", help="Where shortest paths start")
@click.option("--damping", type=float, help="For pagerank: how often an edge is followed (default: 0.85).")
@click.option("--tolerance", type=float, help="For pagerank: the sum of all errors (default: 1e-8).")
@click.option(
    "--rounds", type=int, help="For label_propagation: the number of rounds (default: 10). For pagerank: steps."
)
@click.option(
    "--ties",
    type=click.Choice(["own", "smallest"]),
    help="For label_propagation: the label among equals (default: own).",
)
@click.option(
    "--from",
    "base",
    default="main",
    show_default=True,
    metavar="REVISION",
    help="The state to compute on, and where the branch starts if it does not exist.",
)
@branch_option
@load_engine_option
@message_option
@once_options
def run(
    settings: Settings,
    out: Output,
    algorithm: str,
    edge: str,
    into: str,
    base: str,
    branch: str,
    engine: str | None,
    message: str | None,
    once: str | tuple[str, int] | None,
    **values: object,
) -> None:
    """Run a graph algorithm on a state of the graph, and write the result as a property, in one commit.

    ALGORITHM is pagerank (rank, F64), connected_components (component, String), label_propagation (label, String),
    shortest_paths (distance, I64; with a weight F64) triangle_count (triangles, I64) or local_clustering (clustering, F64). Nodes of other types than that of the
    property take part, but are not written.

    \b
    omnigraph run ./people pagerank --edge Knows --into Person.rank --branch scores
    omnigraph run ./people shortest_paths --edge Knows --source Ada --into Person.hops
    omnigraph run ./people label_propagation --edge Knows --weight hours --into Person.group

    \b
    JSON: <writes.RunJson>
    """
    from omnigraph.api.writes import LoadJson, RunJson

    options = {name: value for name, value in values.items() if value is not None}
    for name in options:
        if name not in ALGORITHMS[algorithm]:
            raise click.UsageError(f"'{algorithm}' does not take --{'source' if name == 'sources' else name}")
    if algorithm == "shortest_paths" and "sources" not in options:
        raise UsageError("shortest paths need sources", hint="--source Ada, the id of a node; may repeat")
    address = settings.uri()
    settings.announce("run", address)
    graph = settings.open()
    where = load_engine(engine, settings.config)
    with getattr(graph.algorithms(where, revision=base), algorithm)(edge, **options) as result:
        receipt = graph.load(
            result.property(into),
            mode="patch",
            branch=branch,
            from_=base,
            engine=where,
            actor=settings.actor,
            message=message or f"{algorithm} of {edge}",
            once=once,
        )
        commit = "nothing has changed" if receipt.commit is None else f"commit {receipt.commit.id}"
        steps = counted(result.steps, "step", "steps")
        text = f"{into} of {counted(receipt.total_entities, 'node', 'nodes')} on {branch}: {commit}"
        value = RunJson.to_json(result, into=into, load=LoadJson.to_json(receipt, uri=address))
        out.done(value, f"{algorithm} ({steps}, {result.engine}): {text}")


@command("blob", served=True)
@click.argument("type_name", metavar="TYPE")
@click.argument("entity_id", metavar="ID")
@click.argument("property_name", metavar="PROPERTY")
@revision_options
@click.option("--offset", type=click.IntRange(0), default=0, show_default=True, help="Skip this many bytes.")
@click.option("--length", type=click.IntRange(0), help="Read at most this many bytes (default: to the end).")
@click.option("--stat", is_flag=True, help="Show the size instead, and a tag that changes when the bytes do.")
def blob(
    settings: Settings,
    out: Output,
    type_name: str,
    entity_id: str,
    property_name: str,
    offset: int,
    length: int | None,
    stat: bool,
    **state: Any,
) -> None:
    """Write the bytes of a Blob, or a part of them, to standard output.

    \b
    omnigraph blob ./photos Photo sea image > sea.png
    omnigraph blob ./photos Photo sea image --offset 1024 --length 512
    omnigraph blob ./photos Photo sea image --stat

    \b
    JSON with --stat: {size, etag, graph_commit_id}
    """
    stored = settings.connect_or_open().blob(type_name, entity_id, property_name, **state)
    if stat:
        value = {"size": stored.size, "etag": stored.etag, "graph_commit_id": stored.commit.id}
        out.show(value, f"{stored.size} bytes, etag {stored.etag}, at commit {stored.commit.id}")
        return
    for piece in stored.pieces(offset, length):
        sys.stdout.buffer.write(piece)
    sys.stdout.buffer.flush()
