"""init, snapshot, optimize, demo, warm-up, version."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import branch_option, command, engine_option, revision_options, uri_argument
from omnigraph.cli.output import Output, write_new
from omnigraph.cli.settings import Settings

if TYPE_CHECKING:
    from omnigraph.types import TableReport


def register(cli: click.Group) -> None:
    @command(cli, "init", writes=True, graph=False)
    @click.option("--schema", metavar="FILE", help="The schema, a .pg file.")
    @click.option(
        "--from",
        "data",
        multiple=True,
        metavar="PATH",
        help="Infer the schema from this file or folder of data; may repeat.",
    )
    @click.option("--key", multiple=True, metavar="TYPE.COLUMN", help="With --from: a known key; may repeat.")
    @click.option(
        "--map-file", metavar="FILE", help="With --from: write a map of the files here, for 'load --map-file'."
    )
    @click.argument("uri")
    def init(
        settings: Settings,
        out: Output,
        schema: str | None,
        data: tuple[str, ...],
        key: tuple[str, ...],
        map_file: str | None,
        uri: str,
    ) -> None:
        """Create a graph with a schema, or with one inferred from data. Refused if there is a graph at the address.

        The data is not loaded: 'load' does that, with the map file, and 'import' does both at once.

        \b
        omnigraph init --schema people.pg ./people
        omnigraph init --schema people.pg s3://bucket/people
        omnigraph init ./ports --from ports.csv --from calls.csv --key Port.code --map-file ports.json

        \b
        JSON: {uri, graph_id}
        """
        from pathlib import Path

        from omnigraph.graph.importing import infer_schema
        from omnigraph.graph.opening import init as init_graph

        if (schema is None) == (not data):
            raise click.UsageError("give the schema with --schema FILE, or data to infer it from with --from PATH")
        if (key or map_file) and schema is not None:
            raise click.UsageError("--key and --map-file need --from")
        settings.announce("init", uri)
        done = f"initialized {uri}"
        if schema is not None:
            graph = init_graph(settings.uri(uri), Path(schema), actor=settings.actor)
            settings.warn_about_schema(schema, is_first=True)
        else:
            guessed = infer_schema(list(data), key=list(key))
            graph = init_graph(settings.uri(uri), guessed.schema, actor=settings.actor)
            if map_file is not None:
                write_new(map_file, guessed.map_json())
                done += (
                    f" and wrote {map_file}; load the data with: omnigraph load {uri} --data {' --data '.join(data)} "
                )
                done += f"--map-file {map_file} --mode append"
        out.done({"uri": uri, "graph_id": graph.id}, done)

    @command(cli, "snapshot", served=True)
    @revision_options
    @uri_argument
    def snapshot(settings: Settings, out: Output, revision: str, as_of: str | None, uri: str | None) -> None:
        """Show the content of a revision: its commit, and each type's table version and number of entities.

        \b
        omnigraph snapshot ./people
        omnigraph snapshot ./people --branch review --json

        \b
        JSON: <history.SnapshotJson>
        """
        from omnigraph.api.history import SnapshotJson

        value = SnapshotJson.to_json(settings.graph_at(uri).snapshot(revision, as_of=as_of), revision=revision)
        title = f"{revision} at commit {value['graph_commit_id']} (version {value['graph_version']})"
        columns = ["entity_kind", "type_name", "table_version", "entity_count"]
        out.table(value["tables"], columns, value=value, title=title)

    @command(cli, "optimize", clustered=True, writes=True)
    @branch_option
    @click.option("--dry-run", is_flag=True, help="Show what would be done, and why, without doing it.")
    @engine_option("local")
    @uri_argument
    def optimize(settings: Settings, out: Output, branch: str, dry_run: bool, engine: str, uri: str | None) -> None:
        """Compact tables, sort edges by their source, bring indexes up to date. The data does not change.

        It can run alongside readers and writers, and finishes even if writers never stop. Rows that arrive meanwhile may stay
        unindexed until the next run; reads find them by scan.

        \b
        omnigraph optimize ./people
        omnigraph optimize ./people --dry-run
        omnigraph optimize s3://bucket/people --engine spark
        omnigraph optimize --cluster ./company --graph people --as ada

        \b
        JSON: <maintenance.OptimizeJson>
        """
        from omnigraph.api.maintenance import OptimizeJson

        address = settings.uri(uri)
        settings.announce("optimize", address)
        report = settings.open(uri).maintenance.optimize(
            branch,
            dry_run=dry_run,
            engine=engine,
            actor=settings.actor,
            progress=not (settings.quiet or settings.as_json),
        )
        value = OptimizeJson.to_json(report, uri=address, branch=branch, dry_run=dry_run)
        if not any(table.actions for table in report.tables):
            out.done(value, "nothing to do")
            return
        done = "would be done" if report.commit is None else f"commit {report.commit.id}"
        rows = [_optimized_row(table) for table in report.tables if table.actions]
        columns = ["type", "action", "rows", "fragments", "deleted_rows", "bytes", "pending"]
        out.table(rows, columns, value=value, title=f"optimize {branch}: {done}")

    @command(cli, "demo", graph=False)
    @click.option("--small", is_flag=True, help="A quick look: 2,000 nodes and 10,000 edges, without Spark.")
    @click.option("--keep", metavar="FOLDER", help="Make the graph here and keep it (default: a temporary folder).")
    def demo(settings: Settings, out: Output, small: bool, keep: str | None) -> None:
        """Create a realistic graph: load it on Spark, query, branch, diff, merge and travel in time.

        \b
        omnigraph demo
        omnigraph demo --small --keep ./demo

        \b
        JSON: {folder, nodes, edges, steps: [{step, seconds}]}
        """
        from omnigraph.cli.demo import run_demo
        from omnigraph.cli.options import want_pandas

        if not small:
            want_pandas()
        value = run_demo(small=small, folder=keep, show=not (out.as_json or out.quiet))
        if out.as_json:
            out.json(value)

    @command(cli, "warm-up", graph=False)
    def warm_up(settings: Settings, out: Output) -> None:
        """Make Spark start in about half the time on this machine. Run it once; it takes a minute and 190 MB of disk.

        \b
        omnigraph warm-up

        \b
        JSON: {path, made}
        """
        from omnigraph.cli.options import want_pandas

        want_pandas()
        from omnigraph.graph.opening import record_spark_start

        path, is_new = record_spark_start(lambda step: None if out.quiet else print(f"{step} ...", file=sys.stderr))
        text = "Spark starts faster from now on" if is_new else "Spark's start was recorded already"
        out.done({"path": str(path), "made": is_new}, f"{text}: {path}")

    @command(cli, "version", graph=False, instead="--version")
    def version(settings: Settings, out: Output) -> None:
        """Show the version of the program and the storage format it writes.

        \b
        omnigraph version

        \b
        JSON: <history.VersionJson>
        """
        from omnigraph.api.history import VersionJson

        out.show(VersionJson.to_json(None), version_text())


def _optimized_row(table: TableReport) -> dict[str, object]:
    """A row of the report, with before and after where the two differ."""
    before, after = table.before, table.after

    def both(name: str) -> str:
        old, new = getattr(before, name), getattr(after, name)
        return f"{old:,}" if old == new else f"{old:,} -> {new:,}"

    return {
        "type": table.table_key.partition(":")[2],
        "action": "; ".join(table.actions),
        **{name: both(name) for name in ("rows", "fragments", "deleted_rows", "bytes")},
        "pending": "; ".join(
            f"{index.column} {index.kind}: {index.rows:,} rows, {index.reason}" for index in after.pending
        ),
    }


def version_text() -> str:
    from omnigraph.api.history import VersionJson

    return "\n".join(f"{name} {value}" for name, value in VersionJson.to_json(None).items())
