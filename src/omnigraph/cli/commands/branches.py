"""branch create|list|delete|merge|reset, tag create|list|delete."""

from __future__ import annotations

from dataclasses import asdict
from functools import partial
from typing import Any

import click

from omnigraph.cli.conflicts import (
    decisions,
    print_conflicts,
    resolution_options,
    show_conflicts,
    stat_total,
    strategy_options,
)
from omnigraph.cli.options import Spelled, command, engine_option, group, message_option
from omnigraph.cli.output import Output, age_text
from omnigraph.cli.process import outcome_on_interrupt
from omnigraph.cli.settings import Settings
from omnigraph.errors import MergeConflicts

group("branch", "Create, list, delete and merge branches.")
group("tag", "Name commits; tagged commits are kept.")


@command("branch create", served=True, writes=True)
@click.option("--from", "base", default="main", show_default=True, help="Branch, tag, commit id or branch~N.")
@click.argument("name")
def create_branch(settings: Settings, out: Output, base: str, name: str) -> None:
    """Create a branch. It costs one small write, whatever the size of the graph.

    \b
    omnigraph branch create ./people review/2026-07
    omnigraph branch create ./people fix --from main~3

    \b
    JSON: {uri, name, from, actor_id?}
    """
    from omnigraph.api.structs import present

    uri = settings.uri()
    settings.announce("branch create", uri)
    graph = settings.connect_or_open()
    graph.branches.create(name, base)
    value = present({"uri": uri, "name": name, "from": base, "actor_id": settings.actor_for(graph)})
    out.done(value, f"created branch {name} from {base}")


@command("branch list", served=True)
def list_branches(settings: Settings, out: Output) -> None:
    """List the branches, main first: the head of each, its age, and how many commits the branch is ahead of and behind main.

    \b
    omnigraph branch list ./people

    \b
    JSON: {branches: [name], details: [{name, head: COMMIT, ahead?, behind?}]}
    """
    from omnigraph.api.history import CommitJson

    graph = settings.connect_or_open()
    branches = graph.branches.list()
    distances = graph.branches.distances()
    rows, details = [], []
    for branch in branches:
        apart = asdict(distances[branch.name]) if branch.name in distances else {}
        details.append({"name": branch.name, "head": CommitJson.to_json(branch.head), **apart})
        shown = {"branch": branch.name, "head": branch.head.id, "age": age_text(branch.at), "by": branch.head.actor}
        rows.append({**shown, **apart, "message": branch.head.message})
    columns = ["branch", "head", "age", "ahead", "behind", "by", "message"]
    out.table(rows, columns, value={"branches": [branch.name for branch in branches], "details": details})


@command("branch delete", served=True, writes=True, destroys=True)
@click.option("--force", is_flag=True, help="Delete it even if no other branch or tag reaches all of its commits.")
@click.argument("name")
def delete_branch(settings: Settings, out: Output, force: bool, name: str) -> None:
    """Delete a branch. Refused if it has commits that no other branch or tag reaches; the error says how many.

    \b
    omnigraph branch delete ./people review
    omnigraph branch delete ./people experiment --force

    \b
    JSON: {uri, name, actor_id?}
    """
    from omnigraph.api.structs import present

    uri = settings.uri()
    settings.announce("branch delete", uri)
    settings.confirm_destruction("branch delete", uri)
    graph = settings.connect_or_open()
    graph.branches.delete(name, force=force)
    out.done(present({"uri": uri, "name": name, "actor_id": settings.actor_for(graph)}), f"deleted branch {name}")


@command("branch merge", served=True, writes=True)
@click.option("--into", "target", default="main", show_default=True, help="The branch that receives the changes.")
@strategy_options(
    "Which side wins if both branches changed an entity: neither (fail), the target (ours) or the source (theirs).",
    "Merge whole entities, or property by property, so that changes to different properties do not conflict.",
)
@engine_option
@click.option("--delete-branch", is_flag=True, help="Delete the source afterwards.")
@message_option
@resolution_options
@click.argument("source")
def merge_branch(
    settings: Settings,
    out: Output,
    target: str,
    dry_run: bool,
    delete_branch: bool,
    message: str | None,
    resolutions: str | None,
    interactive: bool,
    source: str,
    **how: Any,
) -> None:
    """Merge a branch into another one, as one commit or not at all. Exit code 1 on conflicts.

    \b
    omnigraph branch merge ./people review
    omnigraph branch merge ./people review --strategy theirs --by property --dry-run
    omnigraph branch merge ./people review --interactive
    omnigraph branch merge ./people review --resolutions decided.json

    \b
    JSON: <writes.MergeJson, store?: {requests, hops, ...}>
    """
    from omnigraph.api.writes import MergeJson

    settings.announce("branch merge", settings.uri())
    graph = settings.connect_or_open()
    merge = partial(graph.branches.merge, source, into=target, **how)
    decided, seen = decisions(out, resolutions, interactive, lambda: merge(dry_run=True))
    try:
        with outcome_on_interrupt(graph, target):
            result = merge(
                dry_run=dry_run,
                delete_branch=delete_branch,
                actor=settings.actor_for(graph),
                message=message,
                resolutions=decided,
                expect=None if seen is None else (seen.source_commit, seen.target_commit),
            )
    except MergeConflicts as error:
        if not out.as_json:
            print_conflicts(out, error.conflicts, error.schema_conflicts)
        raise
    value = MergeJson.to_json(result)
    if result.conflicts or result.schema_conflicts:
        show_conflicts(out, result, value, f"would not merge {source} into {target}")
    verb = "would merge" if dry_run else "merged"
    out.done(out.counted(value), f"{verb} {source} into {target}: {result.outcome}")


@command("branch reset", writes=True, destroys=True)
@message_option
@click.argument("name", metavar="BRANCH")
@click.argument("revision", metavar="REVISION")
def reset_branch(settings: Settings, out: Output, message: str | None, name: str, revision: str) -> None:
    """Give a branch the content and the schema of a revision, as a new commit. Asks first, unless --yes; the previous content
    stays in its history.

    \b
    omnigraph branch reset ./people main v1 --yes

    \b
    JSON: {uri, branch, to, stat: [<changes.CountsJson>], commit?}
    """
    from omnigraph.api.changes import CountsJson
    from omnigraph.api.structs import present

    uri = settings.uri()
    settings.announce("branch reset", uri)
    graph = settings.open()
    counts = graph.diff_stat(name, revision)
    settings.confirm(f"branch reset takes back what is on {name} ({stat_total(counts)})")
    commit = graph.reset(name, revision, actor=settings.actor, message=message)
    value = {
        "uri": uri,
        "branch": name,
        "to": revision,
        "stat": [CountsJson.to_json(count) for count in counts],
        "commit": None if commit is None else commit.id,
    }
    text = "has that state already" if commit is None else f"is as {revision} is, by commit {commit.id}"
    out.done(present(value), f"branch {name} {text}")


@command("tag create", served=True)
@click.option(
    "--revision",
    cls=Spelled,
    also=["--at"],
    default="main",
    show_default=True,
    help="Branch, tag, commit id or branch~N.",
)
@click.argument("name")
def create_tag(settings: Settings, out: Output, revision: str, name: str) -> None:
    """Name a commit.

    \b
    omnigraph tag create ./people v1
    omnigraph tag create ./people before --revision main~1

    \b
    JSON: {name, graph_commit_id}
    """
    settings.announce("tag create", settings.uri())
    commit = settings.connect_or_open().tags.create(name, revision).head
    out.done({"name": name, "graph_commit_id": commit.id}, f"tagged {commit.id} as {name}")


@command("tag list", served=True)
def list_tags(settings: Settings, out: Output) -> None:
    """List the tags and their commits.

    \b
    omnigraph tag list ./people

    \b
    JSON: {tags: [<history.TagJson>]}
    """
    from omnigraph.api.history import TagJson

    rows = [TagJson.to_json(tag) for tag in settings.connect_or_open().tags.list()]
    shown = [{"tag": row["name"], "commit": row["graph_commit_id"], "branch": row["graph_branch"]} for row in rows]
    out.table(shown, ["tag", "commit", "branch"], value={"tags": rows})


@command("tag delete", served=True)
@click.argument("name")
def delete_tag(settings: Settings, out: Output, name: str) -> None:
    """Delete a tag; the commit stays.

    \b
    omnigraph tag delete ./people v1

    \b
    JSON: {name}
    """
    settings.announce("tag delete", settings.uri())
    settings.connect_or_open().tags.delete(name)
    out.done({"name": name}, f"deleted tag {name}")
