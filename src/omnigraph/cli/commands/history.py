"""log, show, diff, blame, revert, changes: what happened to a graph."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.conflicts import (
    change_text,
    commit_words,
    count_text,
    decisions,
    print_conflicts,
    resolution_options,
    show_conflicts,
    stat_lines,
    stat_total,
    strategy_options,
)
from omnigraph.cli.options import (
    Spelled,
    as_of_option,
    branch_option,
    command,
    engine_option,
    message_option,
    overwrite_option,
    revision_options,
    several,
    together,
)
from omnigraph.cli.output import Output, age_text, cut_lines, line, time_text
from omnigraph.cli.settings import Settings
from omnigraph.errors import HistoryGap, MergeConflicts, NotFound, UsageError

if TYPE_CHECKING:
    from omnigraph.client.graph import RemoteGraph
    from omnigraph.graph.graph import Graph
    from omnigraph.types import Commit, EntityChange, MigrationStep, TypeChanges

filters = together(
    several("--kind", "kinds", type=click.Choice(["node", "edge"]), help="Only nodes, or only edges"),
    several("--type", "types", metavar="TYPE", help="Only this type"),
    several("--op", "ops", type=click.Choice(["insert", "update", "delete"]), help="Only this kind of change"),
)
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


@command("log", served=True)
@revision_options
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True)
@click.option("--before", metavar="ID", help="Start after this commit (for the next page).")
@click.option("--actor", "author", metavar="ACTOR", help="Only this actor's commits.")
@click.option("--kind", type=click.Choice(KINDS_OF_COMMITS), help="Only commits of this kind.")
@click.option("--filter", "conditions", cls=Spelled, instead="--actor, --kind", metavar="NAME=VALUE", multiple=True)
@click.option("--first-parent", is_flag=True, help="Leave out merged commits.")
@click.option("--stat", is_flag=True, help="What each commit changed, by type.")
@click.option("--draw", is_flag=True, help="Draw branches and merges.")
def log(
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
) -> None:
    """List commits up to a revision, newest first, including inherited and merged ones.

    \b
    omnigraph log ./people --limit 10
    omnigraph log ./people --draw --stat
    omnigraph log ./people --actor ada --kind load --first-parent

    \b
    JSON: {commits: [<history.CommitJson, labels?: [name], stat?: [<changes.CountsJson>]>]}
    """
    from omnigraph.cli.commit_graph import commits_with_merged, labels_of

    author, kind = _filtered(conditions, author, kind)
    graph = settings.connect_or_open()
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


@command("show", served=True)
@click.argument("commit", metavar="REVISION", required=False)
@click.option("--revision", cls=Spelled, also=["--branch", "--snapshot"], instead="REVISION, as an argument")
@as_of_option
@click.option(
    "--changes", is_flag=True, help="Show exactly what it changed against its first parent, with before and after."
)
@click.option(
    "--types",
    "content",
    is_flag=True,
    help="Show what the graph held there: each type's table version and number of entities.",
)
@click.option(
    "--limit", type=click.IntRange(1, 8192), default=1000, show_default=True, help="With --changes: how many per page."
)
@click.option("--page-token", metavar="TOKEN", help="With --changes: one page, from where another ended.")
@filters
def show(
    settings: Settings,
    out: Output,
    commit: str | None,
    revision: str | None,
    as_of: str | None,
    changes: bool,
    content: bool,
    limit: int,
    page_token: str | None,
    **only: Any,
) -> None:
    """Show one commit: its branch and position, who made it and when, and how much it changed. REVISION is a branch, a tag, branch~N,
    or a commit id or its beginning (default: main).

    \b
    omnigraph show ./people
    omnigraph show ./people main~2 --types
    omnigraph show ./people 01J... --changes --kind node --op update

    \b
    JSON: <history.CommitJson, labels?: [name], stat: [<changes.CountsJson>]>
    JSON with --changes: <changes.CommitChangesJson>
    JSON with --types: <history.SnapshotJson>
    """
    if (changes and content) or (not changes and (page_token or any(only.values()))):
        raise click.UsageError("filters and --page-token need --changes, which --types excludes")
    named = commit or revision or "main"
    graph = settings.connect_or_open()
    if changes:
        _show_changes(out, partial(graph.commit_changes, named, as_of=as_of, limit=limit, **only), page_token)
    elif content:
        from omnigraph.api.history import SnapshotJson

        value = SnapshotJson.to_json(graph.snapshot(named, as_of=as_of), revision=named)
        title = f"{named} at commit {value['graph_commit_id']} (version {value['graph_version']})"
        columns = ["entity_kind", "type_name", "table_version", "entity_count"]
        out.table(value["tables"], columns, value=value, title=title)
    else:
        _show_commit(out, graph, graph.show(named, as_of=as_of))


def _show_commit(out: Output, graph: Graph | RemoteGraph, commit: Commit) -> None:
    from omnigraph.api.changes import CountsJson
    from omnigraph.api.history import CommitJson
    from omnigraph.cli.commit_graph import labels_of

    changed, names = _changed_by(graph, commit), labels_of(graph).get(commit.id)
    value = CommitJson.to_json(commit) | ({"labels": names} if names else {})
    shown = {**value, "created_at": f"{time_text(commit.at)} ({age_text(commit.at)})"}
    if names:
        shown["labels"] = ", ".join(names)
    width = max(len(name) for name in shown)
    text = [f"{name.ljust(width)}  {line(str(item))}" for name, item in shown.items()]
    text += ["", *stat_lines(changed)] if changed else []
    out.show({**value, "stat": [CountsJson.to_json(counts) for counts in changed]}, "\n".join(text))


def _show_changes(out: Output, read_page: Any, page_token: str | None) -> None:
    """All changes of a commit, or those of one page."""
    from omnigraph.api.changes import CommitChangesJson

    pages = [read_page(page_token=page_token)]
    while page_token is None and pages[-1].next_page_token is not None:
        pages.append(read_page(page_token=pages[-1].next_page_token))
    changes = tuple(change for page in pages for change in page.changes)
    steps = tuple(step for page in pages for step in page.schema_steps)
    if out.as_json:
        out.json(CommitChangesJson.to_json(replace(pages[-1], changes=changes, schema_steps=steps)))
        return
    _print_steps(steps)
    _print_changes(changes, quiet=out.quiet)
    if pages[-1].next_page_token is not None:
        click.echo(f"next page: --page-token {pages[-1].next_page_token}")


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


@command("diff", served=True)
@click.argument("a")
@click.argument("b")
@engine_option
@several("--id", "ids", metavar="ID", help="Only entities with this id")
@click.option("--stat", is_flag=True, help="Only count the changed entities of each type.")
@click.option(
    "--schema", is_flag=True, help="Show the steps from the schema of A to that of B, which may also be a .pg file."
)
@filters
def diff(settings: Settings, out: Output, a: str, b: str, engine: str, stat: bool, schema: bool, **only: Any) -> None:
    """Show what changed from A to B: branches, tags, commit ids or branch~N.

    \b
    omnigraph diff ./people main review
    omnigraph diff ./people main~5 main --type Person --id ada
    omnigraph diff ./people v1 main --stat
    omnigraph diff ./people main people-v2.pg --schema

    \b
    JSON: {from, to, changes?: [<changes.ChangeJson>], stat?: [<changes.CountsJson>]}
    JSON with --schema: <writes.MigrationJson>
    """
    if stat and (only["ids"] or only["ops"]):
        raise UsageError("--stat counts whole types", hint="leave --id and --op out")
    if schema:
        from omnigraph.api.writes import MigrationJson

        if stat or any(only.values()):
            raise click.UsageError("--schema takes no --stat and no filters")
        steps = settings.open().schema.diff(a, Path(b) if b.endswith(".pg") else b)
        out.show(MigrationJson.to_json(steps), str(steps) or "the schemas are the same")
        return
    graph = settings.connect_or_open()
    if stat:
        from omnigraph.api.changes import CountsJson

        counts = graph.diff_stat(a, b, kinds=only["kinds"], types=only["types"])
        value = {"from": a, "to": b, "stat": [CountsJson.to_json(count) for count in counts]}
        out.show(value, "\n".join([*stat_lines(counts), stat_total(counts)]))
        return
    changes = graph.diff(a, b, engine=engine, **only)
    if out.as_json:
        from omnigraph.api.changes import DiffJson

        out.json(DiffJson.to_json({"from_": a, "to": b, "changes": changes}))
    else:
        _print_changes(changes, quiet=out.quiet)


@command("blame")
@click.argument("type_name", metavar="TYPE")
@click.argument("entity_id", metavar="ID")
@revision_options
def blame(settings: Settings, out: Output, type_name: str, entity_id: str, revision: str, as_of: str | None) -> None:
    """Show which commit set each property of an entity. Values that came with a merge are traced to the commit that set them.

    \b
    omnigraph blame ./people Person ada
    omnigraph blame ./people Person ada --revision v1

    \b
    JSON: {type, id, properties: [{name, value, commit: COMMIT}]}
    """
    from omnigraph.api.history import CommitJson
    from omnigraph.api.structs import value_json

    graph = settings.open()
    at = graph.show(revision, as_of=as_of).id
    setters = graph.blame(type_name, entity_id, revision=at)
    entity = graph.entity(type_name, entity_id, revision=at) or {}
    values = {name: value_json(entity[name]) for name in setters}
    properties = [
        {"name": name, "value": values[name], "commit": CommitJson.to_json(commit)} for name, commit in setters.items()
    ]
    rows = [{"property": name, "value": values[name], **_listed(commit, {})} for name, commit in setters.items()]
    columns = ["property", "value", "commit", "time", "actor", "message"]
    out.table(rows, columns, value={"type": type_name, "id": entity_id, "properties": properties})


@command("revert", writes=True)
@branch_option
@strategy_options(
    "Which side wins if an entity was changed again since: neither (fail), the branch (ours), the state before the commit (theirs).",
    "As in a merge.",
)
@message_option
@resolution_options
@click.argument("commit", metavar="REVISION")
def revert(
    settings: Settings,
    out: Output,
    branch: str,
    dry_run: bool,
    message: str | None,
    resolutions: str | None,
    interactive: bool,
    commit: str,
    **how: Any,
) -> None:
    """Undo the changes of one commit, as a new commit. Later changes conflict as in a merge. Exit code 1 on conflicts.

    \b
    omnigraph revert ./people main
    omnigraph revert ./people 01J... --branch review --dry-run

    \b
    JSON: <writes.MergeJson, store?: {requests, hops, ...}>
    """
    from omnigraph.api.writes import MergeJson

    graph = settings.open()
    settings.announce("revert", graph.uri)
    reverted = graph.show(commit)
    revert = partial(graph.revert, reverted.id, branch=branch, **how)
    decided, _ = decisions(out, resolutions, interactive, lambda: revert(dry_run=True))
    try:
        result = revert(dry_run=dry_run, actor=settings.actor, message=message, resolutions=decided)
    except MergeConflicts as error:
        if not out.as_json:
            print_conflicts(out, error.conflicts, error.schema_conflicts)
        raise
    value = MergeJson.to_json(result)
    if result.conflicts or result.schema_conflicts:
        show_conflicts(out, result, value, f"would not revert {reverted.id} on {branch}")
    if result.outcome == "already_up_to_date":
        out.done(out.counted(value), f"{branch} has no changes of {reverted.id} any more; nothing changed")
    elif result.commit is None:
        out.done(value, f"would revert {reverted.id} on {branch}")
    else:
        out.done(out.counted(value), f"reverted {reverted.id} on {branch}, as commit {result.commit.id}")


@command("changes", served=True)
@branch_option
@click.option("--cursor", metavar="TOKEN", help="Continue after this cursor.")
@click.option("--start", metavar="now|beginning|after:ID", help="Where to start without a cursor (default: now).")
@click.option("--limit", type=click.IntRange(1, 512), default=128, show_default=True, help="Commits per poll.")
@click.option(
    "--baseline",
    "target",
    cls=Spelled,
    also=["--out"],
    metavar="FILE",
    help="Write the whole snapshot to a file (JSON lines; - is stdout) instead, and print the cursor from which changes continue.",
)
@overwrite_option("a file that exists")
@filters
def changes(
    settings: Settings,
    out: Output,
    branch: str,
    cursor: str | None,
    start: str | None,
    limit: int,
    target: str | None,
    overwrite: bool,
    **only: Any,
) -> None:
    """Follow a branch: read the changes since a cursor, in order, commit by commit, and the next cursor.

    \b
    omnigraph changes ./people --start beginning
    omnigraph changes ./people --baseline people.ndjson
    omnigraph changes ./people --cursor eyJ...

    \b
    JSON: <changes.FeedJson>
    JSON with --baseline: <changes.BaselineJson, out>
    """
    from omnigraph.api.changes import BaselineJson, FeedJson

    graph = settings.connect_or_open()
    if target is not None:
        if cursor is not None or start is not None:
            raise click.UsageError("--baseline takes no --cursor and no --start: it is where to start")
        done = graph.baseline(target, branch=branch, overwrite=overwrite, **only)
        if target != "-":  # On standard output, the snapshot itself ends with the cursor.
            text = f"wrote {done.entities} entities at commit {done.snapshot_commit_id}\ncursor {done.resume_cursor}"
            out.show({"out": target, **BaselineJson.to_json(done)}, text)
        return
    poll = partial(graph.changes, branch, **only)
    page = poll(since=cursor, start=start, max_commits=limit)
    blocks = list(page.blocks)
    while page.next_page_token is not None:
        page = poll(page_token=page.next_page_token)
        blocks += page.blocks
    if out.as_json:
        out.json(FeedJson.to_json(replace(page, blocks=tuple(blocks))))
        return
    for block in blocks:
        click.echo(f"commit {block.commit.id}")
        _print_steps(block.schema_steps)
        for change in block.changes:
            click.echo(change_text(change))
    click.echo(f"cursor {page.cursor}" + (" (caught up)" if page.caught_up else ""))
