"""recovery list|resume|discard: loads that were interrupted between staging and publishing."""

from __future__ import annotations

import click

from omnigraph.cli.options import command, engine_option
from omnigraph.cli.output import Output, time_text
from omnigraph.cli.settings import Settings


def register(cli: click.Group) -> None:
    @cli.group()
    def recovery() -> None:
        """Prepared loads that were interrupted. Nothing depends on them: resume publishes them, discard drops them.

        \b
        omnigraph recovery list ./people
        """

    @command(recovery, "list")
    def list_prepared(settings: Settings, out: Output) -> None:
        """List prepared loads, oldest first.

        \b
        omnigraph recovery list ./people

        \b
        JSON: {prepared: [<history.PreparedJson>]}
        """
        from omnigraph.api.history import PreparedJson

        prepared = settings.open().recovery.list()
        shown = [
            {
                "commit": write.commit_id,
                "state": write.state,
                "branch": write.branch,
                "actor": write.actor,
                "kind": write.kind,
                "prepared": time_text(write.at),
                "entities": write.total_entities,
            }
            for write in prepared
        ]
        out.table(
            shown,
            ["commit", "state", "branch", "actor", "kind", "prepared", "entities"],
            value={"prepared": [PreparedJson.to_json(write) for write in prepared]},
        )

    @command(recovery, "resume", writes=True)
    @click.argument("commit")
    @engine_option("local")
    def resume(settings: Settings, out: Output, commit: str, engine: str) -> None:
        """Publish a prepared load; harmless if it was published already.

        \b
        omnigraph recovery resume ./people 01J... --as ada
        omnigraph recovery resume ./people 01J... --engine spark

        \b
        JSON: <history.CommitJson>
        """
        from omnigraph.api.history import CommitJson

        uri = settings.uri()
        settings.announce("recovery resume", uri)
        published = settings.open().recovery.resume(commit, actor=settings.actor, engine=engine)
        out.done(CommitJson.to_json(published), f"published {published.id} on {published.ref.branch}")

    @command(recovery, "discard")
    @click.argument("commit")
    def discard(settings: Settings, out: Output, commit: str) -> None:
        """Discard a prepared load.

        \b
        omnigraph recovery discard ./people 01J...

        \b
        JSON: {discarded}
        """
        uri = settings.uri()
        settings.announce("recovery discard", uri)
        settings.open().recovery.discard(commit)
        out.done({"discarded": commit}, f"discarded {commit}")
