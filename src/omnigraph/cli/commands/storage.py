"""cleanup, storage: how much storage a graph takes, and reclaiming what nothing keeps."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import branch_option, command, engine_option, uri_argument
from omnigraph.cli.output import Output, counted
from omnigraph.cli.settings import Settings

if TYPE_CHECKING:
    from collections.abc import Sequence

    from omnigraph.types import CleanupReport, KeptBy


def register(cli: click.Group) -> None:
    _register_cleanup(cli)
    _register_storage(cli)


def _register_cleanup(cli: click.Group) -> None:
    @command(cli, "cleanup", clustered=True, destroys=True)
    @click.option("--keep", type=int, metavar="N", help="Keep the N newest commits of each branch.")
    @click.option("--older-than", metavar="7d", help="Keep commits younger than this (30m, 12h, 7d, 4w, or 0).")
    @click.option(
        "--branch", "branches", multiple=True, metavar="BRANCH", help="Remove commits of these branches only."
    )
    @click.option(
        "--dry-run", is_flag=True, help="Remove nothing; show what would be removed, and what keeps the rest."
    )
    @engine_option("local")
    @uri_argument
    def cleanup(
        settings: Settings,
        out: Output,
        keep: int | None,
        older_than: str | None,
        branches: tuple[str, ...],
        dry_run: bool,
        engine: str,
        uri: str | None,
    ) -> None:
        """Reclaim the space of commits that are not kept, of deleted branches and of interrupted writes. With neither --keep
        nor --older-than, every commit of every branch is kept. Heads, tagged commits and commits that later merges need
        are always kept, and so is anything that was superseded or staged within the last hour.

        \b
        omnigraph cleanup ./people --dry-run --keep 10
        omnigraph cleanup ./people --keep 10 --older-than 7d

        \b
        JSON: <maintenance.CleanupJson>
        """
        from omnigraph.api.maintenance import CleanupJson

        address = settings.uri(uri)
        if not dry_run:
            settings.confirm_destruction("cleanup", address)
            settings.announce("cleanup", address)
        report = settings.open(uri).maintenance.cleanup(
            keep=keep,
            older_than=older_than,
            branches=list(branches) or None,
            dry_run=dry_run,
            engine=engine,
            progress=not (settings.quiet or settings.as_json),
        )
        if out.as_json:
            out.json(CleanupJson.to_json(report))
            return
        rows = [
            {"kind": kind, "files": totals.files, "bytes": totals.bytes}
            for kind, totals in sorted(report.removed.items())
        ]
        if rows:
            out.table(rows, ["kind", "files", "bytes"], value=None)
        if dry_run:
            _show_kept(out, report.kept)
        out.done(None, _summary(report))


def _summary(report: CleanupReport) -> str:
    word = "would remove" if report.is_dry_run else "removed"
    sentence = f"{word} {counted(report.files, 'file', 'files')}, {report.bytes:,} bytes"
    if report.waiting.files:
        sentence += f"; {counted(report.waiting.files, 'more is', 'more are')} unneeded, and younger than an hour"
    if report.foreign:
        sentence += f"; left alone {counted(len(report.foreign), 'file', 'files')} that omnigraph did not make"
    return sentence


def _show_kept(out: Output, kept: Sequence[KeptBy]) -> None:
    rows = [
        {
            "kept by": usage.name,
            "commits": usage.commits,
            "files alone": usage.files_alone,
            "bytes alone": usage.bytes_alone,
        }
        for usage in kept
    ]
    out.table(rows, ["kept by", "commits", "files alone", "bytes alone"], value=None)


def _register_storage(cli: click.Group) -> None:
    @command(cli, "storage", clustered=True)
    @branch_option
    @uri_argument
    def storage(settings: Settings, out: Output, branch: str, uri: str | None) -> None:
        """Show how much space each type takes, what cleanup could reclaim, and what each branch and tag keeps on its own.

        \b
        omnigraph storage ./people

        \b
        JSON: <maintenance.StorageJson>
        """
        from omnigraph.api.maintenance import StorageJson

        report = settings.open(uri).maintenance.storage(branch)
        if out.as_json:
            out.json(StorageJson.to_json(report))
            return
        rows = [
            {
                "type": type_.type,
                "rows": type_.rows,
                "fragments": type_.fragments,
                "deleted": type_.deleted_rows,
                "live": type_.live_bytes,
                "history": type_.history_bytes,
                "adjacency": type_.adjacency_bytes,
                "reclaimable": type_.reclaimable_bytes,
                "unindexed": max((index.pending_rows for index in type_.indexes), default=0),
            }
            for type_ in report.types
        ]
        columns = ["type", "rows", "fragments", "deleted", "live", "history", "adjacency", "reclaimable", "unindexed"]
        out.table(rows, columns, value=None)
        _show_kept(out, report.kept)
