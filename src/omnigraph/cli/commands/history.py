"""log, show, diff, blame, revert, changes poll|baseline|show."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.conflicts import (
    change_text,
    commit_words,
    count_text,
    decisions,
    print_conflicts,
    resolution_options,
    stat_lines,
    stat_total,
    strategy_options,
)
from omnigraph.cli.options import (
    as_of_option,
    branch_option,
    command,
    engine_option,
    other_spelling,
    overwrite_option,
    revision_options,
    uri_argument,
)
from omnigraph.cli.output import Output, age_text, cut_lines, line, time_text
from omnigraph.cli.settings import Settings
from omnigraph.errors import HistoryGap, NotFound, UsageError

if TYPE_CHECKING:
    from omnigraph.client.graph import RemoteGraph
    from omnigraph.graph.graph import Graph
    from omnigraph.types import Commit, EntityChange, MigrationStep, TypeChanges


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
    @cli.group(hidden=True)
    def commit() -> None:
        """Other spellings of log, show and changes show."""

    commit.add_command(other_spelling(_register_list(cli), "log"), "list")
    commit.add_command(other_spelling(_register_show(cli), "show"), "show")
    _register_diff(cli)
    _register_blame(cli)
    _register_revert(cli)

    @cli.group()
    def changes() -> None:
        """Follow a branch: every change, in order, from a cursor.

        \b
        omnigraph changes poll ./people --start beginning
        """

    _register_feed(changes)
    commit.add_command(other_spelling(_register_changes(changes), "changes show"), "changes")


KINDS_OF_COMMITS = ("init", "mutation", "load", "merge", "schema", "optimize", "repair", "revert", "reset")


def _filtered(conditions: Sequence[str], author: str | None, kind: Any) -> tuple[str | None, Any]:
    """The actor and the kind that `--filter` and the flags name."""
    for condition in conditions:
        name, is_given, value = condition.partition("=")
        if name == "actor" and is_given:
            author = value
        elif name == "kind" and value in KINDS_OF_COMMITS:
            kind = value
        else:
            raise click.UsageError(
                f"--filter {condition}: expected actor=NAME, or kind= with one of {', '.join(KINDS_OF_COMMITS)}"
            )
    return author, kind


def _register_list(group: click.Group) -> click.Command:
    @command(group, "log", served=True)
    @revision_options
    @click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
    @click.option("--before", metavar="ID", help="Start after this commit (for the next page).")
    @click.option("--actor", "author", metavar="ACTOR", help="Only this actor's commits.")
    @click.option("--kind", type=click.Choice(KINDS_OF_COMMITS), help="Only commits of this kind.")
    @click.option(
        "--filter",
        "conditions",
        metavar="NAME=VALUE",
        multiple=True,
        help="actor=… or kind=…, like the flags; may repeat.",
    )
    @click.option("--first-parent", is_flag=True, help="Leave out merged commits.")
    @click.option("--stat", is_flag=True, help="What each commit changed, by type.")
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
        kind: Any,
        conditions: tuple[str, ...],
        first_parent: bool,
        stat: bool,
        draw: bool,
        uri: str | None,
    ) -> None:
        """List commits up to a revision, newest first, including inherited and merged ones.

        \b
        omnigraph log ./people --limit 10
        omnigraph log ./people --draw --stat
        omnigraph log ./people --actor ada --first-parent
        omnigraph log ./people --filter actor=ada --filter kind=load

        \b
        JSON: {commits: [<history.CommitJson, labels?: [name], stat?: [<changes.CountsJson>]>]}
        """
        from omnigraph.cli.commit_graph import commits_with_merged, labels_of

        author, kind = _filtered(conditions, author, kind)
        graph = settings.graph_at(uri)
        labels = labels_of(graph)
        if draw:
            starts = [branch.name for branch in graph.branches.list()]
        else:
            starts = [revision if as_of is None else graph.show(revision, as_of=as_of).id]
        if first_parent and not draw:
            commits = graph.commits(starts[0], limit=limit, before=before, actor=author, kind=kind)
        else:
            commits = commits_with_merged(graph, starts, limit=limit, before=before, author=author, kind=kind)
        _show_log(out, graph, commits, labels, draw=draw, stat=stat)

    list_command: click.Command = list_commits
    return list_command


def _show_log(
    out: Output,
    graph: Graph | RemoteGraph,
    commits: Sequence[Commit],
    labels: Mapping[str, Sequence[str]],
    *,
    draw: bool,
    stat: bool,
) -> None:
    def lines(commit: Commit) -> list[str]:
        return stat_lines(_changed_by(graph, commit)) if stat else []

    if out.as_json:
        from omnigraph.api.changes import CountsJson
        from omnigraph.api.history import CommitJson

        listed = [
            CommitJson.to_json(commit)
            | ({"labels": list(labels[commit.id])} if commit.id in labels else {})
            | ({"stat": [CountsJson.to_json(counts) for counts in _changed_by(graph, commit)]} if stat else {})
            for commit in commits
        ]
        out.json({"commits": listed})
    elif draw:
        from omnigraph.cli.commit_graph import draw_commits

        print(cut_lines(draw_commits(commits, labels, lines)))
    elif stat:
        for commit in commits:
            print("\n".join([" ".join(commit_words(commit, labels)), *(f"    {line}" for line in lines(commit))]))
    else:
        columns = ["commit", "time", "branch", "kind", "actor", "message"]
        if any(commit.id in labels for commit in commits):
            columns.insert(1, "labels")
        out.table([_listed(commit, labels) for commit in commits], columns, value=None)


def _changed_by(graph: Graph | RemoteGraph, commit: Commit) -> Sequence[TypeChanges]:
    """What a commit changed against its first parent; nothing for the first commit, or if cleanup removed the state before it."""
    if commit.parent is None:
        return ()
    try:
        return graph.diff_stat(commit.parent.id, commit.id)
    except (HistoryGap, NotFound):
        return ()


def _listed(commit: Commit, labels: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    return {
        "commit": commit.id,
        "labels": ", ".join(labels.get(commit.id, ())),
        "time": time_text(commit.at),
        "branch": commit.ref.branch,
        "kind": commit.kind,
        "actor": commit.actor,
        "message": commit.message,
    }


def _register_show(group: click.Group) -> click.Command:
    @command(group, "show", served=True)
    @click.argument("commit", metavar="REVISION", default="main")
    @as_of_option
    @uri_argument
    def show(settings: Settings, out: Output, commit: str, as_of: str | None, uri: str | None) -> None:
        """Show one commit: its branch and position, who made it and when, and how much it changed. REVISION is a branch, a tag, branch~N,
        or a commit id or its beginning.

        \b
        omnigraph show ./people
        omnigraph show ./people main~2
        omnigraph show ./people 01J...

        \b
        JSON: <history.CommitJson, labels?: [name], stat: [<changes.CountsJson>]>
        """
        from omnigraph.api.changes import CountsJson
        from omnigraph.api.history import CommitJson
        from omnigraph.cli.commit_graph import labels_of

        graph = settings.graph_at(uri)
        looked_at = graph.show(commit, as_of=as_of)
        changed, names = _changed_by(graph, looked_at), labels_of(graph).get(looked_at.id)
        value = CommitJson.to_json(looked_at) | ({"labels": names} if names else {})
        shown = {**value, "created_at": f"{time_text(looked_at.at)} ({age_text(looked_at.at)})"}
        if names:
            shown["labels"] = ", ".join(names)
        width = max(len(name) for name in shown)
        text = [f"{name.ljust(width)}  {line(str(item))}" for name, item in shown.items()]
        text += ["", *stat_lines(changed)] if changed else []
        out.show({**value, "stat": [CountsJson.to_json(counts) for counts in changed]}, "\n".join(text))

    show_command: click.Command = show
    return show_command


def _register_changes(group: click.Group) -> click.Command:
    @command(group, "show", served=True)
    @click.argument("commit", metavar="REVISION", default="main")
    @as_of_option
    @click.option("--limit", type=click.IntRange(1, 8192), default=1000, show_default=True, help="Changes per page.")
    @click.option("--page-token", metavar="TOKEN", help="One page, from where another ended.")
    @filters
    def commit_changes(
        settings: Settings,
        out: Output,
        commit: str,
        as_of: str | None,
        limit: int,
        page_token: str | None,
        kinds: tuple[str, ...],
        types: tuple[str, ...],
        ops: tuple[str, ...],
    ) -> None:
        """Show exactly what a commit changed against its first parent, with before and after.

        \b
        omnigraph changes show ./people 01J... --kind node --op update

        \b
        JSON: <changes.CommitChangesJson>
        """
        from omnigraph.api.changes import CommitChangesJson

        graph = settings.graph_at()
        token = page_token
        shown: list[EntityChange] = []
        steps: list[MigrationStep] = []
        while True:
            page = graph.commit_changes(
                commit,
                as_of=as_of,
                limit=limit,
                page_token=token,
                kinds=kinds or None,
                types=types or None,
                ops=ops or None,
            )
            shown += page.changes
            steps += page.schema_steps
            token = page.next_page_token
            if page_token is not None or token is None:
                break
        if out.as_json:
            out.json(CommitChangesJson.to_json(replace(page, changes=tuple(shown), schema_steps=tuple(steps))))
            return
        _print_steps(steps)
        _print_changes(shown, quiet=out.quiet)
        if token is not None:
            click.echo(f"next page: --page-token {token}")

    changes_command: click.Command = commit_changes
    return changes_command


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
    @click.option("--id", "ids", multiple=True, metavar="ID", help="Only entities with this id; may repeat.")
    @click.option("--stat", is_flag=True, help="Only count the changed entities of each type.")
    @filters
    @uri_argument
    def diff(
        settings: Settings,
        out: Output,
        a: str,
        b: str,
        engine: str,
        ids: tuple[str, ...],
        stat: bool,
        kinds: tuple[str, ...],
        types: tuple[str, ...],
        ops: tuple[str, ...],
        uri: str | None,
    ) -> None:
        """Show what changed from A to B: branches, tags, commit ids or branch~N.

        \b
        omnigraph diff ./people main review
        omnigraph diff ./people main~5 main --type Person --id ada
        omnigraph diff ./people v1 main --stat

        \b
        JSON: {from, to, changes?: [<changes.ChangeJson>], stat?: [<changes.CountsJson>]}
        """
        graph = settings.graph_at(uri)
        if stat:
            from omnigraph.api.changes import CountsJson

            if ids or ops:
                raise UsageError("--stat counts whole types", hint="leave --id and --op out")
            counts = graph.diff_stat(a, b, kinds=kinds or None, types=types or None)
            value = {"from": a, "to": b, "stat": [CountsJson.to_json(count) for count in counts]}
            out.show(value, "\n".join([*stat_lines(counts), stat_total(counts)]))
            return
        changes = graph.diff(
            a,
            b,
            kinds=kinds or None,
            types=types or None,
            ops=ops or None,
            ids=ids or None,
            engine=engine,
        )
        if out.as_json:
            from omnigraph.api.changes import DiffJson

            out.json(DiffJson.to_json({"from_": a, "to": b, "changes": changes}))
        else:
            _print_changes(changes, quiet=out.quiet)


def _register_blame(cli: click.Group) -> None:
    @command(cli, "blame")
    @click.argument("type_name", metavar="TYPE")
    @click.argument("entity_id", metavar="ID")
    @revision_options
    @uri_argument
    def blame(
        settings: Settings,
        out: Output,
        type_name: str,
        entity_id: str,
        revision: str,
        as_of: str | None,
        uri: str | None,
    ) -> None:
        """Show which commit set each property of an entity. Values that came with a merge are traced to the commit that set them.

        \b
        omnigraph blame ./people Person ada
        omnigraph blame ./people Person ada --revision v1

        \b
        JSON: {type, id, properties: [{name, value, commit: COMMIT}]}
        """
        from omnigraph.api.history import CommitJson
        from omnigraph.api.structs import value_json

        graph = settings.open(uri)
        at = graph.show(revision, as_of=as_of).id
        setters = graph.blame(type_name, entity_id, revision=at)
        entity = graph.entity(type_name, entity_id, revision=at) or {}
        properties = [
            {"name": name, "value": value_json(entity[name]), "commit": CommitJson.to_json(commit)}
            for name, commit in setters.items()
        ]
        rows = [
            {
                "property": name,
                "value": value_json(entity[name]),
                "commit": commit.id,
                "time": time_text(commit.at),
                "actor": commit.actor,
                "message": commit.message,
            }
            for name, commit in setters.items()
        ]
        columns = ["property", "value", "commit", "time", "actor", "message"]
        out.table(rows, columns, value={"type": type_name, "id": entity_id, "properties": properties})


def _register_revert(cli: click.Group) -> None:
    @command(cli, "revert", writes=True)
    @branch_option
    @strategy_options(
        "Which side wins if an entity was changed again since: neither (fail), the branch (ours), the state before the commit (theirs).",
        "As in a merge.",
    )
    @click.option("--message", metavar="TEXT", help="Recorded in the commit.")
    @resolution_options
    @click.argument("commit", metavar="REVISION")
    def revert(
        settings: Settings,
        out: Output,
        branch: str,
        strategy: str,
        by: str,
        dry_run: bool,
        message: str | None,
        resolutions: str | None,
        interactive: bool,
        commit: str,
    ) -> None:
        """Undo the changes of one commit, as a new commit. Later changes conflict as in a merge. Exit code 1 on conflicts.

        \b
        omnigraph revert ./people main
        omnigraph revert ./people 01J... --branch review --dry-run

        \b
        JSON: <writes.MergeJson, store?: {requests, hops, ...}>
        """
        from omnigraph.api.writes import MergeJson
        from omnigraph.cli.commands.branches import stopped_by_conflicts
        from omnigraph.errors import MergeConflicts

        graph = settings.open()
        settings.announce("revert", graph.uri)
        reverted = graph.show(commit)
        revert = partial(graph.revert, reverted.id, branch=branch, strategy=strategy, by=by)  # type: ignore[arg-type]
        decided, _ = decisions(out, resolutions, interactive, lambda: revert(dry_run=True))
        try:
            result = revert(dry_run=dry_run, actor=settings.actor, message=message, resolutions=decided)
        except MergeConflicts as error:
            if not out.as_json:
                print_conflicts(out, error.conflicts, error.schema_conflicts)
            raise
        value = MergeJson.to_json(result)
        if result.conflicts or result.schema_conflicts:
            stopped_by_conflicts(out, result, value, f"would not revert {reverted.id} on {branch}")
        if result.outcome == "already_up_to_date":
            out.done(out.counted(value), f"{branch} has no changes of {reverted.id} any more; nothing changed")
        elif result.commit is None:
            out.done(value, f"would revert {reverted.id} on {branch}")
        else:
            out.done(out.counted(value), f"reverted {reverted.id} on {branch}, as commit {result.commit.id}")


def _register_feed(group: click.Group) -> None:
    @command(group, "poll", served=True)
    @branch_option
    @click.option("--cursor", metavar="TOKEN", help="Continue after this cursor.")
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
        """Read the changes since a cursor, block by block, and the next cursor.

        \b
        omnigraph changes poll ./people --start beginning
        omnigraph changes poll ./people --cursor eyJ...

        \b
        JSON: <changes.FeedJson>
        """
        graph = settings.graph_at()
        changes = partial(graph.changes, branch, kinds=kinds or None, types=types or None, ops=ops or None)
        page = changes(since=cursor, start=start, max_commits=limit)
        blocks = list(page.blocks)
        while page.next_page_token is not None:
            page = changes(page_token=page.next_page_token)
            blocks += page.blocks
        if out.as_json:
            from omnigraph.api.changes import FeedJson

            out.json(FeedJson.to_json(replace(page, blocks=tuple(blocks))))
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
    @overwrite_option("a file that exists")
    @filters
    def baseline(
        settings: Settings,
        out: Output,
        branch: str,
        target: str,
        overwrite: bool,
        kinds: tuple[str, ...],
        types: tuple[str, ...],
        ops: tuple[str, ...],
    ) -> None:
        """Write a whole snapshot to a file, and print the cursor from which changes continue.

        \b
        omnigraph changes baseline ./people --out people.ndjson

        \b
        JSON: <changes.BaselineJson, out>
        """
        from omnigraph.api.changes import BaselineJson

        done = settings.graph_at().baseline(
            target, branch=branch, kinds=kinds or None, types=types or None, ops=ops or None, overwrite=overwrite
        )
        if target == "-":
            return  # On standard output, the snapshot itself ends with the cursor.
        text = f"wrote {done.entities} entities at commit {done.snapshot_commit_id}\ncursor {done.resume_cursor}"
        out.show({"out": target, **BaselineJson.to_json(done)}, text)
