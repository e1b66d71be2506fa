"""load, export."""

from __future__ import annotations

import click

from omnigraph.cli.options import branch_option, command, uri_argument
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @command(cli, "load")
    @click.option("--data", required=True, multiple=True, metavar="PATH", help="File, glob or folder; may repeat.")
    @click.option("--mode", required=True, type=click.Choice(["append", "merge", "overwrite"]))
    @branch_option
    @click.option("--from", "base", metavar="BASE", help="Make the branch from BASE first if it does not exist.")
    @click.option("--type", "type_name", metavar="TYPE", help="The type of CSV or Parquet rows.")
    @click.option("--format", type=click.Choice(["jsonl", "csv", "parquet"]), help="Default: by the file's ending.")
    @click.option("--engine", type=click.Choice(["spark", "local"]), default="spark", show_default=True)
    @click.option("--master", metavar="URL", help="Spark master (default: this machine's cores).")
    @click.option("--rejects", metavar="FILE", help="Set rejected records aside here and load the rest.")
    @click.option("--message", metavar="TEXT", help="Recorded in the commit.")
    @uri_argument
    def load(
        settings: Settings,
        out: Output,
        data: tuple[str, ...],
        mode: str,
        branch: str,
        base: str | None,
        type_name: str | None,
        format: str | None,
        engine: str,
        master: str | None,
        rejects: str | None,
        message: str | None,
        uri: str | None,
    ) -> None:
        """Load JSON lines, CSV or Parquet as one commit, or nothing.

        \b
        omnigraph load ./people --data people.jsonl --mode append
        omnigraph load ./people --data ./csv-folder --mode merge --branch review --from main
        omnigraph load ./people --data small.jsonl --mode append --engine local
        """
        address = settings.uri(uri)
        settings.announce("load", address)
        if mode == "overwrite":
            settings.confirm_destruction("load --mode overwrite", address)
        graph = settings.open(uri)
        receipt = graph.load(
            list(data),
            mode=mode,  # type: ignore[arg-type]  # click checked the choice
            branch=branch,
            from_=base,
            type=type_name,
            format=format,  # type: ignore[arg-type]
            engine=engine,  # type: ignore[arg-type]
            master=master,
            rejects=rejects,
            actor=settings.actor,
            message=message,
            show_progress=not (settings.quiet or settings.as_json),
        )
        value = receipt.to_json()
        nodes = sum(1 for entry in value["nodes"] if entry["entities_loaded"])
        edges = sum(1 for entry in value["edges"] if entry["entities_loaded"])
        text = (
            f"loaded {address} on branch {branch} with {mode}: {value['total_entities']} entities "
            f"across {nodes} node types and {edges} edge types"
        )
        out.result({"uri": address, **value}, text)

    @command(cli, "export")
    @branch_option
    @click.option("--snapshot", metavar="REVISION", help="A commit, tag, branch~N or time instead of a branch's head.")
    @click.option("--type", "types", multiple=True, metavar="TYPE", help="Only these types; may repeat.")
    @click.option("--format", type=click.Choice(["jsonl", "csv", "parquet"]), default="jsonl", show_default=True)
    @click.option("--out", "target", metavar="PATH", help="File or folder to write (default: JSON lines on stdout).")
    @click.option("--engine", type=click.Choice(["spark", "local"]), default="local", show_default=True)
    @uri_argument
    def export(
        settings: Settings,
        out: Output,
        branch: str,
        snapshot: str | None,
        types: tuple[str, ...],
        format: str,
        target: str | None,
        engine: str,
        uri: str | None,
    ) -> None:
        """Write a graph out: JSON lines that `load` reads back, CSV or Parquet.

        \b
        omnigraph export ./people > people.jsonl
        omnigraph export ./people --format parquet --out ./parquet --engine spark
        """
        graph = settings.open(uri)
        count = graph.export(
            target or "-",
            format=format,  # type: ignore[arg-type]
            branch=None if snapshot else branch,
            snapshot=snapshot,
            types=list(types) or None,
            engine=engine,  # type: ignore[arg-type]
        )
        if target is not None:
            out.result({"target": target, "entities": count}, f"exported {count} entities to {target}")
