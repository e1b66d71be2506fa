"""recovery list|resume|discard: loads that died between staging and publishing."""

from __future__ import annotations

import click

from omnigraph.cli.options import command
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @cli.group()
    def recovery() -> None:
        """Prepared loads that were interrupted. Nothing depends on them: resume saves the work, discard forgets it.

        \b
        omnigraph recovery list --store ./people
        """

    @command(recovery, "list")
    def list_prepared(settings: Settings, out: Output) -> None:
        """Prepared loads, oldest first.

        \b
        omnigraph recovery list --store ./people
        """
        from omnigraph.cli.shapes import time_text

        rows = [
            {
                "commit": prepared.commit_id,
                "branch": prepared.plan.branch,
                "kind": prepared.plan.kind,
                "prepared": time_text(prepared.prepared_at),
                "entities": prepared.receipt.get("total_entities"),
            }
            for prepared in settings.open().recovery.list()
        ]
        out.table(rows, ["commit", "branch", "kind", "prepared", "entities"], value={"prepared": rows})

    @command(recovery, "resume")
    @click.argument("commit")
    def resume(settings: Settings, out: Output, commit: str) -> None:
        """Publish a prepared load; harmless when it was published already.

        \b
        omnigraph recovery resume 01J... --store ./people
        """
        published = settings.open().recovery.resume(commit)
        out.result({"graph_commit_id": published.id}, f"published {published.id} on {published.ref.branch}")

    @command(recovery, "discard")
    @click.argument("commit")
    def discard(settings: Settings, out: Output, commit: str) -> None:
        """Forget a prepared load.

        \b
        omnigraph recovery discard 01J... --store ./people
        """
        settings.open().recovery.discard(commit)
        out.result({"discarded": commit}, f"discarded {commit}")
