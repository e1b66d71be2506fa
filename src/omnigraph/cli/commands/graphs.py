"""init, snapshot, demo, version."""

from __future__ import annotations

import click

from omnigraph.cli.options import branch_option, command, uri_argument
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @command(cli, "init")
    @click.option("--schema", required=True, metavar="FILE", help="The schema, a .pg file.")
    @click.argument("uri")
    def init(settings: Settings, out: Output, schema: str, uri: str) -> None:
        """Make a new graph with a schema.

        \b
        omnigraph init --schema people.pg ./people
        omnigraph init --schema people.pg s3://bucket/people
        """
        from pathlib import Path

        from omnigraph.graph import init as init_graph

        settings.announce("init", uri)
        graph = init_graph(uri, Path(schema), actor=settings.actor)
        out.result({"uri": uri, "graph_id": graph.stores.history.identity.graph_id}, f"initialized {uri}")

    @command(cli, "snapshot")
    @branch_option
    @uri_argument
    def snapshot(settings: Settings, out: Output, branch: str, uri: str | None) -> None:
        """Show what a branch holds: its commit, and each type's table version and number of entities.

        \b
        omnigraph snapshot ./people
        omnigraph snapshot ./people --branch review --json
        """
        from omnigraph.cli.shapes import snapshot_shape
        from omnigraph.history.values import FORMAT

        graph = settings.open(uri)
        value = snapshot_shape(branch, graph.view(branch), FORMAT)
        if not out.as_json:
            print(f"branch {branch} at commit {value['graph_commit_id']} (version {value['graph_version']})")
        out.table(value["tables"], ["entity_kind", "type_name", "table_version", "entity_count"], value=value)

    @command(cli, "demo")
    @click.option("--small", is_flag=True, help="A quick look: 2,000 nodes and 10,000 edges, without Spark.")
    @click.option("--keep", metavar="FOLDER", help="Make the graph here and keep it (default: a temporary folder).")
    def demo(settings: Settings, out: Output, small: bool, keep: str | None) -> None:
        """Make a realistic graph, load it on Spark, query, branch, diff, merge and travel in time.

        \b
        omnigraph demo
        omnigraph demo --small
        """
        from omnigraph.cli.demo import run_demo

        value = run_demo(small=small, folder=keep, show=not (out.as_json or out.quiet))
        if out.as_json:
            out.json(value)

    @command(cli, "version")
    def version(settings: Settings, out: Output) -> None:
        """The program's version and the storage format it writes.

        \b
        omnigraph version
        """
        from importlib.metadata import version as package_version

        from omnigraph.history.values import FORMAT

        number = package_version("omnigraph")
        out.result({"omnigraph": number, "format": FORMAT}, f"omnigraph {number}\nformat {FORMAT}")
