"""verify, repair: whether a graph is whole, and what can be done when it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import command, engine_option, uri_argument
from omnigraph.cli.output import Output, counted
from omnigraph.cli.settings import Settings

if TYPE_CHECKING:
    from omnigraph import Finding, VerifyReport

EXIT_DAMAGED = 1


def register(cli: click.Group) -> None:
    _register_verify(cli)


def _register_verify(cli: click.Group) -> None:
    @command(cli, "verify")
    @click.option(
        "--revision",
        "--branch",
        "revision",
        metavar="REVISION",
        help="A branch, with all its commits, or one tag, commit id or branch~N (default: main).",
    )
    @click.option("--all", "all_", is_flag=True, help="Every branch, every tag and every prepared load.")
    @click.option("--deep", is_flag=True, help="Read the rows too: rules of the schema, and answers of indexes.")
    @engine_option("local")
    @uri_argument
    def verify(
        settings: Settings, out: Output, revision: str | None, all_: bool, deep: bool, engine: str, uri: str | None
    ) -> None:
        """Check that every retained commit can be read, and that every file is there with its size and digest. Exit code 1
        when something is damaged; files of other tools are listed, and are no damage.

        \b
        omnigraph verify ./people
        omnigraph verify ./people --deep --all --json

        \b
        JSON: {whole, deep, commits, objects, files, bytes, rows?, findings: [{kind, object_kind, object, problem,
               action, commits, total_commits, types, rows?, ids}]}
        """
        from omnigraph.wire.health import verify_json

        report = settings.open(uri).verify(
            revision, all=all_, deep=deep, engine=engine, show_progress=not (settings.quiet or settings.as_json)
        )
        if out.as_json:
            out.json(verify_json(report))
        else:
            show_findings(out, report.findings)
            out.done(None, _summary(report))
        if not report.is_whole:
            raise click.exceptions.Exit(EXIT_DAMAGED)


def show_findings(out: Output, findings: Sequence[Finding]) -> None:
    for finding in findings:
        lines = [f"{finding.object}: {finding.problem}"]
        if finding.total_commits:
            newest = finding.commits[0]
            lost: list[Any] = [counted(finding.total_commits, "commit", "commits") + f", the newest {newest}"]
            lost += [", ".join(finding.types)] if finding.types else []
            lost += [counted(finding.rows, "row", "rows")] if finding.rows else []
            lines.append(f"  concerns: {'; '.join(lost)}")
        lines.append(f"  to do: {finding.action}")
        print("\n".join(lines))


def _summary(report: VerifyReport) -> str:
    looked_at = [
        counted(report.commits, "commit", "commits"),
        counted(report.files, "file", "files"),
        f"{report.bytes:,} bytes",
        *([counted(report.rows, "row", "rows")] if report.is_deep else []),
    ]
    damage = sum(finding.is_damage for finding in report.findings)
    state = "whole" if report.is_whole else counted(damage, "problem", "problems")
    return f"{state}: {', '.join(looked_at)}"
