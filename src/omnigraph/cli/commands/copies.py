"""clone, push, pull."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import command, engine_option
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings

if TYPE_CHECKING:
    from omnigraph.types import CopyReport


def register(cli: click.Group) -> None:
    @command(cli, "clone", graph=False)
    @click.option(
        "--branch", "branches", multiple=True, help="Copy this branch in addition to main; may repeat (default: all)."
    )
    @click.option("--depth", type=int, metavar="N", help="Copy the newest N commits of each branch (default: all).")
    @engine_option("local")
    @click.argument("source")
    @click.argument("target")
    def clone(
        settings: Settings,
        out: Output,
        branches: tuple[str, ...],
        depth: int | None,
        engine: str,
        source: str,
        target: str,
    ) -> None:
        """Copy a graph to another place, with its identity, its commits and its tags. If it is interrupted, run it again: it continues where it stopped.

        \b
        omnigraph clone ./people s3://bucket/people
        omnigraph clone s3://bucket/people ./people --branch review --depth 10

        \b
        JSON: <maintenance.CopyJson>
        """
        from omnigraph.graph.graph import clone as clone_graph

        settings.announce("clone", target)
        report = clone_graph(
            settings.storage_address(source),
            settings.storage_address(target),
            branches=branches or None,
            depth=depth,
            engine=engine,
            progress=not (settings.quiet or settings.as_json),
        )
        _say(out, source, target, report, "cloned")

    @command(cli, "push", addresses=1, writes=True)
    @click.option("--to", metavar="NAME", help="Push as one commit on a new branch, for a branch that has diverged.")
    @engine_option("local")
    @click.argument("target")
    @click.argument("branch", default="main")
    def push(settings: Settings, out: Output, to: str | None, engine: str, target: str, branch: str) -> None:
        """Update a branch of a clone, or of the graph that this is a clone of, from here. The branch only moves forward.

        \b
        omnigraph push ./people s3://bucket/people
        omnigraph push ./people s3://bucket/people review
        omnigraph push ./people s3://bucket/people main --to mine

        \b
        JSON: <maintenance.CopyJson>
        """
        settings.announce("push", target)
        shown = not (settings.quiet or settings.as_json)
        report = settings.open().push(
            settings.storage_address(target), branch, to=to, engine=engine, actor=settings.actor, progress=shown
        )
        _say(out, settings.uri(), target, report, "pushed")

    @command(cli, "pull", addresses=1)
    @engine_option("local")
    @click.argument("source")
    @click.argument("branch", default="main")
    def pull(settings: Settings, out: Output, engine: str, source: str, branch: str) -> None:
        """Update a branch of this graph from a clone, or from the graph it was cloned from. The branch only moves forward.

        \b
        omnigraph pull ./people s3://bucket/people
        omnigraph pull ./people s3://bucket/people review

        \b
        JSON: <maintenance.CopyJson>
        """
        target = settings.uri()
        settings.announce("pull", target)
        shown = not (settings.quiet or settings.as_json)
        report = settings.open().pull(settings.storage_address(source), branch, engine=engine, progress=shown)
        _say(out, source, target, report, "pulled")


def _say(out: Output, source: str, target: str, report: CopyReport, verb: str) -> None:
    from omnigraph.api.maintenance import CopyJson

    commits = sum(report.commits.values())
    text = f"{verb} {commits:,} commit{'s' * (commits != 1)}: {report.objects:,} objects, {report.bytes:,} bytes"
    if report.present:
        text += f" ({report.present:,} were there)"
    out.done(CopyJson.to_json(report, source=source, target=target), text)
