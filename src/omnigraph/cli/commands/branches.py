"""branch create|list|delete|merge|reset, tag create|list|delete."""

from __future__ import annotations

import sys
from dataclasses import asdict
from functools import partial
from typing import TYPE_CHECKING, NoReturn

import click

from omnigraph.cli.conflicts import decisions, print_conflicts, resolution_options, strategy_options
from omnigraph.cli.options import command, engine_option
from omnigraph.cli.output import Output, age_text, counted
from omnigraph.cli.settings import Settings

if TYPE_CHECKING:
    from omnigraph.types import MergeResult


def register(cli: click.Group) -> None:
    @cli.group()
    def branch() -> None:
        """Create, list, delete and merge branches.

        \b
        omnigraph branch create ./people review
        """

    _register_branch(branch)
    _register_merge(branch)
    _register_reset(branch)

    @cli.group()
    def tag() -> None:
        """Name commits; tagged commits are kept.

        \b
        omnigraph tag create ./people v1
        """

    _register_tag(tag)


def _register_branch(group: click.Group) -> None:
    @command(group, "create", served=True, writes=True)
    @click.option("--from", "base", default="main", show_default=True, help="Branch, tag, commit id or branch~N.")
    @click.argument("name")
    def create(settings: Settings, out: Output, base: str, name: str) -> None:
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
        graph = settings.graph_at()
        graph.branches.create(name, base)
        value = present({"uri": uri, "name": name, "from": base, "actor_id": settings.actor_for(graph)})
        out.done(value, f"created branch {name} from {base}")

    @command(group, "list", served=True)
    def list_branches(settings: Settings, out: Output) -> None:
        """List the branches, main first: the head of each, its age, and how many commits the branch is ahead of and behind main.

        \b
        omnigraph branch list ./people

        \b
        JSON: {branches: [name], details: [{name, head: COMMIT, ahead?, behind?}]}
        """
        from omnigraph.api.history import CommitJson

        graph = settings.graph_at()
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

    @command(group, "delete", served=True, writes=True, destroys=True)
    @click.option("--force", is_flag=True, help="Delete it even if no other branch or tag reaches all of its commits.")
    @click.argument("name")
    def delete(settings: Settings, out: Output, force: bool, name: str) -> None:
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
        graph = settings.graph_at()
        graph.branches.delete(name, force=force)
        out.done(present({"uri": uri, "name": name, "actor_id": settings.actor_for(graph)}), f"deleted branch {name}")


def _register_merge(group: click.Group) -> None:
    @command(group, "merge", served=True, writes=True)
    @click.option("--into", "target", default="main", show_default=True, help="The branch that receives the changes.")
    @strategy_options(
        "Which side wins if both branches changed an entity: neither (fail), the target (ours) or the source (theirs).",
        "Merge whole entities, or property by property, so that changes to different properties do not conflict.",
    )
    @engine_option("local")
    @click.option("--delete-branch", is_flag=True, help="Delete the source afterwards.")
    @click.option("--message", metavar="TEXT", help="Recorded in the commit.")
    @resolution_options
    @click.argument("source")
    def merge(
        settings: Settings,
        out: Output,
        target: str,
        strategy: str,
        by: str,
        dry_run: bool,
        engine: str,
        delete_branch: bool,
        message: str | None,
        resolutions: str | None,
        interactive: bool,
        source: str,
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
        from omnigraph.cli.interruption import outcome_on_interrupt
        from omnigraph.errors import MergeConflicts

        uri = settings.uri()
        settings.announce("branch merge", uri)
        graph = settings.graph_at()
        merge = partial(
            graph.branches.merge,
            source,
            into=target,
            strategy=strategy,  # type: ignore[arg-type]
            by=by,  # type: ignore[arg-type]
            engine=engine,
        )
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
            stopped_by_conflicts(out, result, value, f"would not merge {source} into {target}")
        verb = "would merge" if dry_run else "merged"
        out.done(out.counted(value), f"{verb} {source} into {target}: {result.outcome}")


def _register_reset(group: click.Group) -> None:
    @command(group, "reset", writes=True, destroys=True)
    @click.option("--message", metavar="TEXT", help="Recorded in the commit.")
    @click.argument("name", metavar="BRANCH")
    @click.argument("revision", metavar="REVISION")
    def reset(settings: Settings, out: Output, message: str | None, name: str, revision: str) -> None:
        """Give a branch the content and the schema of a revision, as a new commit. Asks first, unless --yes; the previous content
        stays in its history.

        \b
        omnigraph branch reset ./people main v1 --yes

        \b
        JSON: {uri, branch, to, stat: [<changes.CountsJson>], commit?}
        """
        from omnigraph.api.changes import CountsJson
        from omnigraph.api.structs import present
        from omnigraph.cli.conflicts import stat_total

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


def stopped_by_conflicts(out: Output, result: MergeResult, value: object, sentence: str) -> NoReturn:
    """Print what a dry run found, and exit with code 1."""
    count = len(result.conflicts) + len(result.schema_conflicts)
    out.done(value, f"{sentence}: {counted(count, 'conflict', 'conflicts')}")
    if not out.as_json:
        print_conflicts(out, result.conflicts, result.schema_conflicts)
        print(f"hint: {result.hint}", file=sys.stderr)
    raise click.exceptions.Exit(1)


def _register_tag(group: click.Group) -> None:
    @command(group, "create", served=True)
    @click.option("--at", "revision", default="main", show_default=True, help="Branch, tag, commit id or branch~N.")
    @click.argument("name")
    def create(settings: Settings, out: Output, revision: str, name: str) -> None:
        """Name a commit.

        \b
        omnigraph tag create ./people v1 --at main

        \b
        JSON: {name, graph_commit_id}
        """
        uri = settings.uri()
        settings.announce("tag create", uri)
        commit = settings.graph_at().tags.create(name, revision).head
        out.done({"name": name, "graph_commit_id": commit.id}, f"tagged {commit.id} as {name}")

    @command(group, "list", served=True)
    def list_tags(settings: Settings, out: Output) -> None:
        """List the tags and their commits.

        \b
        omnigraph tag list ./people

        \b
        JSON: {tags: [<history.TagJson>]}
        """
        from omnigraph.api.history import TagJson

        rows = [TagJson.to_json(tag) for tag in settings.graph_at().tags.list()]
        shown = [{"tag": row["name"], "commit": row["graph_commit_id"], "branch": row["graph_branch"]} for row in rows]
        out.table(shown, ["tag", "commit", "branch"], value={"tags": rows})

    @command(group, "delete", served=True)
    @click.argument("name")
    def delete(settings: Settings, out: Output, name: str) -> None:
        """Delete a tag; the commit stays.

        \b
        omnigraph tag delete ./people v1

        \b
        JSON: {name}
        """
        uri = settings.uri()
        settings.announce("tag delete", uri)
        settings.graph_at().tags.delete(name)
        out.done({"name": name}, f"deleted tag {name}")
