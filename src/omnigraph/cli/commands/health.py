"""verify, repair: whether a graph is intact, and what can be done if it is not."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import as_of_option, branch_option, command, engine_option, uri_argument
from omnigraph.cli.output import Output, counted
from omnigraph.cli.settings import Settings

if TYPE_CHECKING:
    from omnigraph.graph.maintenance import Lost
    from omnigraph.types import Finding, RepairReport, VerifyReport

EXIT_DAMAGED = 1


def register(cli: click.Group) -> None:
    _register_verify(cli)
    _register_repair(cli)


def _register_verify(cli: click.Group) -> None:
    @command(cli, "verify", clustered=True)
    @click.option(
        "--revision",
        "--branch",
        "revision",
        metavar="REVISION",
        help="A branch, with all its commits, or one tag, commit id or branch~N (default: main).",
    )
    @as_of_option
    @click.option("--all", "all_", is_flag=True, help="Every branch, every tag and every prepared load.")
    @click.option("--deep", is_flag=True, help="Read the rows too: rules of the schema, and answers of indexes.")
    @engine_option("local")
    @uri_argument
    def verify(
        settings: Settings,
        out: Output,
        revision: str | None,
        as_of: str | None,
        all_: bool,
        deep: bool,
        engine: str,
        uri: str | None,
    ) -> None:
        """Check that every retained commit can be read, and that every file exists with its size and digest. Exit code 1
        if something is damaged; files of other tools are listed, but do not count as damage.

        \b
        omnigraph verify ./people
        omnigraph verify ./people --deep --all --json

        \b
        JSON: <maintenance.VerifyJson>
        """
        from omnigraph.api.maintenance import VerifyJson

        report = settings.open(uri).maintenance.verify(
            revision,
            as_of=as_of,
            all=all_,
            deep=deep,
            engine=engine,
            progress=not (settings.quiet or settings.as_json),
        )
        if out.as_json:
            out.json(VerifyJson.to_json(report))
        else:
            show_findings(out, report.findings)
            out.done(None, _summary(report))
        if not report.is_whole:
            raise click.exceptions.Exit(EXIT_DAMAGED)


def _register_repair(cli: click.Group) -> None:
    @command(cli, "repair", clustered=True, writes=True, destroys=True)
    @branch_option
    @click.option(
        "--lost",
        type=click.Choice(["report", "reset", "drop"]),
        default="report",
        show_default=True,
        help="If the head of the branch cannot be read in full: reset sets it to its newest intact commit, as a new commit; "
        "drop commits it without the lost rows and the edges that ended in them.",
    )
    @click.option("--deep", is_flag=True, help="Look for stale indexes too.")
    @engine_option("local")
    @uri_argument
    def repair(
        settings: Settings,
        out: Output,
        branch: str,
        lost: Lost,
        deep: bool,
        engine: str,
        uri: str | None,
    ) -> None:
        """Rebuild what can be derived from the rest of the graph (indexes, segments of the log, write keys, ancestries and
        watermarks), and name what is lost. Nothing is done without --yes. Exit code 1 if damage remains.

        \b
        omnigraph repair ./people
        omnigraph repair ./people --yes
        omnigraph repair ./people --branch review --lost reset --yes

        \b
        JSON: <maintenance.RepairJson>
        """
        from omnigraph.api.maintenance import RepairJson

        if settings.yes:
            settings.announce("repair", settings.uri(uri))
        report = settings.open(uri).maintenance.repair(
            branch,
            lost=lost,
            deep=deep,
            dry_run=not settings.yes,
            actor=settings.actor,
            engine=engine,
            progress=not (settings.quiet or settings.as_json),
        )
        if out.as_json:
            out.json(RepairJson.to_json(report))
        else:
            _show_repair(out, report)
        if not report.is_whole:
            raise click.exceptions.Exit(EXIT_DAMAGED)


def _show_repair(out: Output, report: RepairReport) -> None:
    for step in report.steps:
        print(
            f"{'done' if report.is_done else 'would'}: {step.action}" + (f" ({step.commit.id})" if step.commit else "")
        )
    if report.remaining:
        print("what remains:")
        show_findings(out, report.remaining)
    if not report.findings:
        out.done(None, "whole: nothing to repair")
    elif report.steps and not report.is_done:
        out.done(None, "nothing was changed; --yes does this")


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
