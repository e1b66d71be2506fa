"""commit list|show|changes, diff, changes poll|baseline."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.change_text import change_text, count_text
from omnigraph.cli.options import branch_option, command, engine_option, revision_options, uri_argument
from omnigraph.cli.output import Output, time_text
from omnigraph.cli.settings import Settings

if TYPE_CHECKING:
    from omnigraph import Commit, EntityChange, MigrationStep


def filters(function: Any) -> Any:
    for option in (
        click.option(
            "--op", "ops", multiple=True, type=click.Choice(["insert", "update", "delete"]), help="May repeat."
        ),
        click.option("--type", "types", multiple=True, metavar="TYPE", help="Only these types; may repeat."),
        click.option("--kind", "kinds", multiple=True, type=click.Choice(["node", "edge"]), help="May repeat."),
    ):
        function = option(function)
    return function


def register(cli: click.Group) -> None:
    @cli.group()
    def commit() -> None:
        """Look at commits.

        \b
        omnigraph commit list ./people
        """

    _register_list(commit)
    _register_show(commit)
    _register_diff(cli)

    @cli.group()
    def changes() -> None:
        """Follow a branch: every change, in order, from a cursor.

        \b
        omnigraph changes poll --store ./people --start beginning
        """

    _register_feed(changes)


def _register_list(group: click.Group) -> None:
    @command(group, "list", served=True)
    @revision_options
    @click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
    @click.option("--before", metavar="ID", help="Start after this commit (for the next page).")
    @click.option("--actor", "author", metavar="ACTOR", help="Only this actor's commits.")
    @click.option("--draw", is_flag=True, help="Draw branches and merges.")
    @uri_argument
    def list_commits(
        settings: Settings,
        out: Output,
        revision: str,
        as_of: str | None,
        limit: int,
        before: str | None,
        author: str | None,
        draw: bool,
        uri: str | None,
    ) -> None:
        """Commits up to a revision, newest first, inherited ones included.

        \b
        omnigraph commit list ./people --limit 10
        omnigraph commit list ./people --draw

        \b
        JSON: {commits: [{graph_commit_id, graph_branch?, graph_version, parent_commit_id?, merged_parent_commit_id?,
               actor_id?, created_at, kind, message?}]}
        """
        from omnigraph.wire.history import commit_json

        graph = settings.graph_at(uri)
        if draw and not out.as_json:
            from omnigraph.cli.commit_graph import draw_commits

            logs = {branch.name: graph.commits(branch.name, limit=limit) for branch in graph.branches.list()}
            print(draw_commits(logs, limit))
            return
        commits = graph.commits(revision, as_of=as_of, limit=limit, before=before, actor=author)
        value = {"commits": [commit_json(commit) for commit in commits]}
        columns = ["commit", "time", "branch", "kind", "actor", "message"]
        out.table([_listed(commit) for commit in commits], columns, value=value)


def _listed(commit: Commit) -> dict[str, Any]:
    return {
        "commit": commit.id,
        "time": time_text(commit.at),
        "branch": commit.ref.branch,
        "kind": commit.kind,
        "actor": commit.actor,
        "message": commit.message,
    }


def _register_show(group: click.Group) -> None:
    @command(group, "show", served=True)
    @click.argument("commit")
    def show(settings: Settings, out: Output, commit: str) -> None:
        """One commit: where it stands, who made it and when.

        \b
        omnigraph commit show 01J... --store ./people

        \b
        JSON: {graph_commit_id, graph_branch?, graph_version, parent_commit_id?, merged_parent_commit_id?,
               actor_id?, created_at, kind, message?}
        """
        from omnigraph.wire.history import commit_json

        found = settings.graph_at().commit(commit)
        value = commit_json(found)
        shown = {**value, "created_at": f"{time_text(found.at)} UTC"}
        width = max(len(name) for name in shown)
        out.show(value, "\n".join(f"{name.ljust(width)}  {item}" for name, item in shown.items()))

    @command(group, "changes", served=True)
    @click.argument("commit")
    @click.option("--limit", type=click.IntRange(1, 8192), default=1000, show_default=True, help="Changes per page.")
    @click.option("--page-token", metavar="TOKEN", help="One page, from where another ended.")
    @filters
    def commit_changes(
        settings: Settings,
        out: Output,
        commit: str,
        limit: int,
        page_token: str | None,
        kinds: tuple[str, ...],
        types: tuple[str, ...],
        ops: tuple[str, ...],
    ) -> None:
        """Exactly what a commit changed against its first parent, with before and after.

        \b
        omnigraph commit changes 01J... --store ./people --kind node --op update

        \b
        JSON: {cause: {graph_commit_id, parent_commit_id?, merged_parent_commit_id?, authored_branch, authored_at,
               actor_id?}, schema_steps?: [{kind, ..., effect, tier, code?}],
               changes: [{kind, type: {id, name}, id, op, before?, after?}], next_page_token?}
        """
        from omnigraph.wire.changes import commit_page_json

        graph = settings.graph_at()
        token = page_token
        shown: list[EntityChange] = []
        steps: list[MigrationStep] = []
        while True:
            page = graph.commit_changes(
                commit, limit=limit, page_token=token, kinds=kinds or None, types=types or None, ops=ops or None
            )
            shown += page.changes
            steps += page.schema_steps
            token = page.next_page_token
            if page_token is not None or token is None:
                break
        if out.as_json:
            out.json(commit_page_json(replace(page, changes=tuple(shown), schema_steps=tuple(steps))))
            return
        _print_steps(steps)
        _print_changes(shown, quiet=out.quiet)
        if token is not None:
            click.echo(f"next page: --page-token {token}")


def _print_steps(steps: Iterable[MigrationStep]) -> None:
    for step in steps:
        click.echo(f"schema: {step.line()}")


def _print_changes(changes: Iterable[EntityChange], *, quiet: bool) -> None:
    counts: Counter[str] = Counter()
    for change in changes:
        click.echo(change_text(change))
        counts[change.op] += 1
    if not quiet:
        click.echo(count_text(counts))


def _register_diff(cli: click.Group) -> None:
    @command(cli, "diff", served=True)
    @click.argument("a")
    @click.argument("b")
    @engine_option("local")
    @filters
    def diff(
        settings: Settings,
        out: Output,
        a: str,
        b: str,
        engine: str,
        kinds: tuple[str, ...],
        types: tuple[str, ...],
        ops: tuple[str, ...],
    ) -> None:
        """What changed from A to B: branches, tags, commit ids or branch~N.

        \b
        omnigraph diff main review --store ./people
        omnigraph diff main~5 main --store ./people --type Person

        \b
        JSON: {from, to, changes: [{kind, type: {id, name}, id, op, before?, after?}]}
        """
        found = settings.graph_at().diff(
            a,
            b,
            kinds=kinds or None,
            types=types or None,
            ops=ops or None,
            engine=engine,
        )
        if out.as_json:
            from omnigraph.wire.changes import diff_json

            out.json(diff_json(a, b, found))
        else:
            _print_changes(found, quiet=out.quiet)


def _register_feed(group: click.Group) -> None:
    @command(group, "poll", served=True)
    @branch_option
    @click.option("--cursor", metavar="TOKEN", help="Go on after this cursor.")
    @click.option("--start", metavar="now|beginning|after:ID", help="Where to start without a cursor (default: now).")
    @click.option("--limit", type=click.IntRange(1, 512), default=128, show_default=True, help="Commits per poll.")
    @filters
    def poll(
        settings: Settings,
        out: Output,
        branch: str,
        cursor: str | None,
        start: str | None,
        limit: int,
        kinds: tuple[str, ...],
        types: tuple[str, ...],
        ops: tuple[str, ...],
    ) -> None:
        """The changes since a cursor, block by block, and the next cursor.

        \b
        omnigraph changes poll --store ./people --start beginning
        omnigraph changes poll --store ./people --cursor eyJ...

        \b
        JSON: {blocks: [{cause, schema_steps?, changes}], cursor, caught_up}
        """
        graph = settings.graph_at()
        changes = partial(graph.changes, branch, kinds=kinds or None, types=types or None, ops=ops or None)
        page = changes(since=cursor, start=start, max_commits=limit)
        blocks = list(page.blocks)
        while page.next_page_token is not None:
            page = changes(page_token=page.next_page_token)
            blocks += page.blocks
        if out.as_json:
            from omnigraph.wire.changes import feed_json

            out.json(feed_json(replace(page, blocks=tuple(blocks))))
            return
        for block in blocks:
            click.echo(f"commit {block.commit.id}")
            _print_steps(block.schema_steps)
            for change in block.changes:
                click.echo(change_text(change))
        click.echo(f"cursor {page.cursor}" + (" (caught up)" if page.caught_up else ""))

    @command(group, "baseline", served=True)
    @branch_option
    @click.option(
        "--out", "target", required=True, metavar="PATH", help="Where to write the snapshot (JSON lines); - is stdout."
    )
    @click.option("--force", is_flag=True, help="Replace a file that exists.")
    @filters
    def baseline(
        settings: Settings,
        out: Output,
        branch: str,
        target: str,
        force: bool,
        kinds: tuple[str, ...],
        types: tuple[str, ...],
        ops: tuple[str, ...],
    ) -> None:
        """Write a whole snapshot to a file, and print the cursor from which changes continue.

        \b
        omnigraph changes baseline --store ./people --out people.ndjson

        \b
        JSON: {out, entities, snapshot_commit_id, resume_cursor}
        """
        from omnigraph.wire.changes import baseline_json

        done = settings.graph_at().baseline(
            target, branch=branch, kinds=kinds or None, types=types or None, ops=ops or None, force=force
        )
        if target == "-":
            return  # The snapshot itself ends with the cursor.
        text = f"wrote {done.entities} entities at commit {done.snapshot_commit_id}\ncursor {done.resume_cursor}"
        out.show({"out": target, **baseline_json(done)}, text)
