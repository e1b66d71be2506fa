"""init, snapshot, optimize, demo, warm-up, version."""

from __future__ import annotations

import sys

import click

from omnigraph.cli.options import branch_option, command, revision_options, uri_argument
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @command(cli, "init", writes=True, graph=False)
    @click.option("--schema", required=True, metavar="FILE", help="The schema, a .pg file.")
    @click.argument("uri")
    def init(settings: Settings, out: Output, schema: str, uri: str) -> None:
        """Make a new graph with a schema. A place that holds a graph already is refused.

        \b
        omnigraph init --schema people.pg ./people
        omnigraph init --schema people.pg s3://bucket/people

        \b
        JSON: {uri, graph_id}
        """
        from pathlib import Path

        from omnigraph.graph import init as init_graph

        settings.announce("init", uri)
        graph = init_graph(settings.uri(uri), Path(schema), actor=settings.actor)
        settings.warn_about_schema(schema, is_first=True)
        out.done({"uri": uri, "graph_id": graph.id}, f"initialized {uri}")

    @command(cli, "snapshot")
    @revision_options
    @uri_argument
    def snapshot(settings: Settings, out: Output, revision: str, as_of: str | None, uri: str | None) -> None:
        """Show what a revision holds: its commit, and each type's table version and number of entities.

        \b
        omnigraph snapshot ./people
        omnigraph snapshot ./people --branch review --json

        \b
        JSON: {revision, graph_commit_id, graph_version, format,
               tables: [{entity_kind, type_name, table_path, table_version, entity_count}]}
        """
        from omnigraph.wire.history import snapshot_json

        value = snapshot_json(revision, settings.open(uri).snapshot(revision, as_of=as_of))
        title = f"{revision} at commit {value['graph_commit_id']} (version {value['graph_version']})"
        columns = ["entity_kind", "type_name", "table_version", "entity_count"]
        out.table(value["tables"], columns, value=value, title=title)

    @command(cli, "optimize", writes=True)
    @branch_option
    @uri_argument
    def optimize(settings: Settings, out: Output, branch: str, uri: str | None) -> None:
        """Compact tables and bring indexes up to date. The data stays as it is.

        \b
        omnigraph optimize ./people

        \b
        JSON: {uri, branch, commit?}
        """
        from omnigraph.wire.history import commit_json
        from omnigraph.wire.members import present

        address = settings.uri(uri)
        settings.announce("optimize", address)
        commit = settings.open(uri).optimize(branch, actor=settings.actor)
        value = {"uri": address, "branch": branch, "commit": None if commit is None else commit_json(commit)}
        out.done(present(value), "nothing to do" if commit is None else f"optimized {branch}: commit {commit.id}")

    @command(cli, "demo", graph=False)
    @click.option("--small", is_flag=True, help="A quick look: 2,000 nodes and 10,000 edges, without Spark.")
    @click.option("--keep", metavar="FOLDER", help="Make the graph here and keep it (default: a temporary folder).")
    def demo(settings: Settings, out: Output, small: bool, keep: str | None) -> None:
        """Make a realistic graph, load it on Spark, query, branch, diff, merge and travel in time.

        \b
        omnigraph demo
        omnigraph demo --small --keep ./demo

        \b
        JSON: {folder, nodes, edges, steps: [{step, seconds}]}
        """
        from omnigraph.cli.demo import run_demo
        from omnigraph.cli.startup import want_pandas

        if not small:
            want_pandas()
        value = run_demo(small=small, folder=keep, show=not (out.as_json or out.quiet))
        if out.as_json:
            out.json(value)

    @command(cli, "warm-up", graph=False)
    def warm_up(settings: Settings, out: Output) -> None:
        """Make Spark start in about half the time on this machine, from now on. Once; a minute, and 190 MB of disk.

        \b
        omnigraph warm-up

        \b
        JSON: {path, made}
        """
        from omnigraph.cli.startup import want_pandas

        want_pandas()
        from omnigraph.graph import record_spark_start

        path, made = record_spark_start(lambda step: None if out.quiet else print(f"{step} ...", file=sys.stderr))
        text = "Spark starts faster from now on" if made else "Spark's start was recorded already"
        out.done({"path": str(path), "made": made}, f"{text}: {path}")

    @command(cli, "version", graph=False)
    def version(settings: Settings, out: Output) -> None:
        """The program's version and the storage format it writes.

        \b
        omnigraph version

        \b
        JSON: {omnigraph, format}
        """
        from omnigraph.wire.versions import version_json

        out.show(version_json(), version_text())


def version_text() -> str:
    from omnigraph.wire.versions import version_json

    return "\n".join(f"{name} {value}" for name, value in version_json().items())
