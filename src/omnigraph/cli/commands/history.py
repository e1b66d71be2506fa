"""commit list|show|changes, diff, changes poll|baseline."""

from __future__ import annotations

from typing import Any

import click

from omnigraph.cli.options import branch_option, command, uri_argument
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings


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
    @command(group, "list")
    @branch_option
    @click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
    @click.option("--before", metavar="ID", help="Start after this commit (for the next page).")
    @click.option("--actor", "author", metavar="ACTOR", help="Only this actor's commits.")
    @click.option("--graph", "draw", is_flag=True, help="Draw branches and merges.")
    @uri_argument
    def list_commits(
        settings: Settings,
        out: Output,
        branch: str,
        limit: int,
        before: str | None,
        author: str | None,
        draw: bool,
        uri: str | None,
    ) -> None:
        """Commits of a branch, newest first, inherited ones included.

        \b
        omnigraph commit list ./people --limit 10
        omnigraph commit list ./people --graph
        """
        from omnigraph.cli.shapes import commit_shape, time_text

        graph = settings.open(uri)
        if draw and not out.as_json:
            from omnigraph.cli.commit_graph import draw_commits

            logs = {name: graph.commits(name, limit=limit) for name in graph.branches.list()}
            print(draw_commits(logs, limit))
            return
        commits = graph.commits(branch, limit=limit, before=before, actor=author)
        rows = [
            {
                "commit": commit.id,
                "time": time_text(commit.at),
                "branch": commit.ref.branch,
                "kind": commit.kind,
                "actor": commit.actor,
                "message": commit.message,
            }
            for commit in commits
        ]
        value = {"commits": [commit_shape(commit) for commit in commits]}
        out.table(rows, ["commit", "time", "branch", "kind", "actor", "message"], value=value)


def _register_show(group: click.Group) -> None:
    @command(group, "show")
    @click.argument("commit")
    def show(settings: Settings, out: Output, commit: str) -> None:
        """One commit: where it stands, who made it, and what it changed.

        \b
        omnigraph commit show 01J... --store ./people
        """
        from omnigraph.cli.shapes import commit_shape, time_text

        found = settings.open().commit(commit)
        value = commit_shape(found)
        lines = [f"{name}: {item}" for name, item in value.items() if item is not None and name != "created_at"]
        out.result(value, "\n".join([*lines, f"time: {time_text(found.at)}"]))

    @command(group, "changes")
    @click.argument("commit")
    @click.option("--limit", type=click.IntRange(1), default=1000, show_default=True, help="Changes per page.")
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
        """
        graph = settings.open()
        token, shown = page_token, []
        while True:
            page = graph.commit_changes(commit, limit=limit, page_token=token, kinds=kinds, types=types, ops=ops)
            shown += page.changes
            token = page.next_page_token
            if page_token is not None or token is None:
                break
        value = {"cause": page.cause, "changes": [change.to_json() for change in shown], "next_page_token": token}
        out.result(value, "\n".join(change_text(change) for change in shown) or "no changes")


def _register_diff(cli: click.Group) -> None:
    @command(cli, "diff")
    @click.argument("a")
    @click.argument("b")
    @filters
    def diff(
        settings: Settings,
        out: Output,
        a: str,
        b: str,
        kinds: tuple[str, ...],
        types: tuple[str, ...],
        ops: tuple[str, ...],
    ) -> None:
        """What changed from A to B: branches, tags, commits, branch~N or times.

        \b
        omnigraph diff main review --store ./people
        omnigraph diff main~5 main --store ./people --type Person
        """
        found = settings.open().diff(a, b, kinds=kinds or None, types=types or None, ops=ops or None)
        if out.as_json:
            listed = list(found)
            out.json({"from": a, "to": b, "changes": [change.to_json() for change in listed]})
            return
        count = 0
        for count, change in enumerate(found, 1):  # noqa: B007  # the last count is shown
            print(change_text(change))
        print(f"{count} changes" if count != 1 else "1 change")


def _register_feed(group: click.Group) -> None:
    @command(group, "poll")
    @branch_option
    @click.option("--cursor", metavar="TOKEN", help="Go on after this cursor.")
    @click.option("--start", metavar="now|beginning|after:ID", help="Where to start without a cursor (default: now).")
    @click.option("--limit", type=click.IntRange(1), default=128, show_default=True, help="Commits per poll.")
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
        """
        page = settings.open().changes(
            branch, since=cursor, start=start, max_commits=limit, kinds=kinds, types=types, ops=ops
        )
        lines = []
        for block in page.blocks:
            lines.append(f"commit {block.cause['graph_commit_id']}")
            lines += [change_text(change) for change in block.changes]
        lines.append(f"cursor {page.cursor}" + (" (caught up)" if page.caught_up else ""))
        out.result(page.to_json(), "\n".join(lines))

    @command(group, "baseline")
    @branch_option
    @click.option("--out", "target", required=True, metavar="PATH", help="Where to write the snapshot (JSON lines).")
    @filters
    def baseline(
        settings: Settings,
        out: Output,
        branch: str,
        target: str,
        kinds: tuple[str, ...],
        types: tuple[str, ...],
        ops: tuple[str, ...],
    ) -> None:
        """A whole snapshot in a file, and the cursor that goes on from it.

        \b
        omnigraph changes baseline --store ./people --out people.ndjson
        """
        done = settings.open().baseline(target, branch=branch, kinds=kinds, types=types, ops=ops)
        text = f"wrote {done.entities} entities at commit {done.snapshot_commit_id}\ncursor {done.resume_cursor}"
        out.result(done.to_json(), text)


def change_text(change: Any) -> str:
    """`<op> <kind> <Type> <id>` and the properties that differ."""
    value = change.to_json()
    before, after = value.get("before"), value.get("after")
    lines = [f"{value['op']} {value['kind']} {value['type']['name']} {value['id']}"]
    old, new = _flat(before), _flat(after)
    for name in dict.fromkeys([*old, *new]):
        if before is None:
            lines.append(f"  + {name}: {_shown(new[name])}")
        elif after is None:
            lines.append(f"  - {name}: {_shown(old[name])}")
        elif old.get(name, _ABSENT) != new.get(name, _ABSENT):
            lines.append(f"  {name}: {_shown(old.get(name, _ABSENT))} -> {_shown(new.get(name, _ABSENT))}")
    return "\n".join(lines)


_ABSENT = object()


def _flat(image: dict[str, Any] | None) -> dict[str, Any]:
    if image is None:
        return {}
    return {**(image.get("endpoints") or {}), **image["properties"]}


def _shown(value: Any) -> str:
    from omnigraph.cli.output import cell

    if value is _ABSENT:
        return "<absent>"
    text = "<null>" if value is None else cell(value)
    return text if len(text) <= 100 else text[:99] + "…"
