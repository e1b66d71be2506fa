"""status, optimize, cleanup, verify, repair, recovery, embed: how a graph is, and what keeps it well."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import (
    Spelled,
    as_of_option,
    branch_option,
    command,
    engine_option,
    several,
)
from omnigraph.cli.output import Output, age_text, counted, cut_lines, line, time_text
from omnigraph.cli.settings import Settings

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.types import (
        Branch,
        CleanupReport,
        Distance,
        Finding,
        KeptBy,
        RepairReport,
        TableReport,
        VerifyReport,
    )

EXIT_DAMAGED = 1
dry_run_option = click.option("--dry-run", is_flag=True, help="Show what would be done, and why; do nothing.")


@command("status", clustered=True)
@branch_option
@click.option(
    "--storage",
    is_flag=True,
    help="Show how much space each type takes, what cleanup could reclaim, and what each branch and tag keeps on its own.",
)
def status(settings: Settings, out: Output, branch: str, storage: bool) -> None:
    """Show where a graph is, the head of a branch, which branches have moved, the size of the graph, and pending maintenance.

    \b
    omnigraph status ./people
    omnigraph status ./people --branch review
    omnigraph status ./people --storage

    \b
    JSON: {uri, graph_id, branch, head: {graph_commit_id, ...}, labels: [name], branches: [{name, ahead, behind}],
           nodes, edges, types: {type: entities}, prepared_loads, types_to_optimize: [table]}
    JSON with --storage: <maintenance.StorageJson>
    """
    from omnigraph.api.history import CommitJson
    from omnigraph.cli.commit_graph import labels_of

    graph = settings.open()
    if storage:
        _show_storage(out, graph, branch)
        return
    snapshot = graph.snapshot(branch)
    head = snapshot.commit
    labels = [name for name in labels_of(graph).get(head.id, ()) if name != branch]
    others = [other for other in graph.branches.list() if other.name != branch]
    apart = [(other, graph.distance(other.head.id, head.id)) for other in others]
    nodes = {type_.name: type_.entities for type_ in snapshot.types if type_.kind == "node"}
    edges = {type_.name: type_.entities for type_ in snapshot.types if type_.kind == "edge"}
    waiting = len(graph.recovery.list())
    optimizable = graph.maintenance.optimize(branch, dry_run=True).tables
    unoptimized = [table.table_key for table in optimizable if table.is_worthwhile]
    value = {
        "uri": graph.uri,
        "graph_id": graph.id,
        "branch": branch,
        "head": CommitJson.to_json(head),
        "labels": labels,
        "branches": [{"name": other.name, "ahead": at.ahead, "behind": at.behind} for other, at in apart],
        "nodes": sum(nodes.values()),
        "edges": sum(edges.values()),
        "types": nodes | edges,
        "prepared_loads": waiting,
        "types_to_optimize": unoptimized,
    }
    by = f" by {head.actor}" if head.actor else ""
    message = f": {head.message}" if head.message else ""
    named = f" ({', '.join(labels)})" if labels else ""
    lines = {
        "graph": graph.uri,
        "branch": line(f"{branch} at {head.id}{named}, {head.kind}{by} {age_text(head.at)}{message}"),
        "moved": _moved(apart),
        "content": f"{_held(nodes, 'node', 'nodes')}; {_held(edges, 'edge', 'edges')}",
        "health": _health(waiting, unoptimized),
    }
    out.show(value, cut_lines("\n".join(f"{name:<9}{text}" for name, text in lines.items())))


def _moved(apart: Sequence[tuple[Branch, Distance]]) -> str:
    """The branches whose heads differ from this one, those with the newest commits first."""
    newest_first = sorted(apart, key=lambda pair: pair[0].at, reverse=True)
    moved = [f"{branch.name} +{at.ahead} -{at.behind}" for branch, at in newest_first if at.ahead or at.behind]
    if not moved:
        return "no other branch is elsewhere" if apart else "there is no other branch"
    return ", ".join(moved) + " (commits ahead and behind)"


def _held(types: Mapping[str, int], singular: str, plural: str) -> str:
    total = sum(types.values())
    return f"{total:,} {plural if total != 1 else singular} of {counted(len(types), 'type', 'types')}"


def _health(waiting: int, unoptimized: Sequence[str]) -> str:
    findings = []
    if waiting:
        findings.append(f"{counted(waiting, 'prepared load waits', 'prepared loads wait')} ('omnigraph recovery')")
    if unoptimized:
        findings.append(f"'omnigraph optimize' has work in {counted(len(unoptimized), 'table', 'tables')}")
    return "; ".join(findings) or "nothing waits"


def _show_storage(out: Output, graph: Graph, branch: str) -> None:
    from omnigraph.api.maintenance import StorageJson

    report = graph.maintenance.storage(branch)
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


def _show_kept(out: Output, kept: Sequence[KeptBy]) -> None:
    columns = ["kept by", "commits", "files alone", "bytes alone"]
    rows = [dict(zip(columns, (by.name, by.commits, by.files_alone, by.bytes_alone), strict=True)) for by in kept]
    out.table(rows, columns, value=None)


@command("optimize", clustered=True, writes=True)
@branch_option
@dry_run_option
@engine_option
def optimize(settings: Settings, out: Output, branch: str, dry_run: bool, engine: str) -> None:
    """Compact tables, sort edges by their source, bring indexes up to date. The data does not change.

    It can run alongside readers and writers, and finishes even if writers never stop. Rows that arrive meanwhile may stay
    unindexed until the next run; reads find them by scan.

    \b
    omnigraph optimize ./people
    omnigraph optimize ./people --dry-run
    omnigraph optimize s3://bucket/people --engine spark
    omnigraph optimize --cluster ./company --graph people --as ada

    \b
    JSON: <maintenance.OptimizeJson>
    """
    from omnigraph.api.maintenance import OptimizeJson

    address = settings.uri()
    settings.announce("optimize", address)
    report = settings.open().maintenance.optimize(
        branch, dry_run=dry_run, engine=engine, actor=settings.actor, progress=settings.shows_progress
    )
    value = OptimizeJson.to_json(report, uri=address, branch=branch, dry_run=dry_run)
    rows = [_optimized_row(table) for table in report.tables if table.actions]
    if not rows:
        out.done(value, "nothing to do")
        return
    done = "would be done" if report.commit is None else f"commit {report.commit.id}"
    columns = ["type", "action", "rows", "fragments", "deleted_rows", "bytes", "pending"]
    out.table(rows, columns, value=value, title=f"optimize {branch}: {done}")


def _optimized_row(table: TableReport) -> dict[str, object]:
    """A row of the report, with before and after where the two differ."""

    def both(name: str) -> str:
        old, new = getattr(table.before, name), getattr(table.after, name)
        return f"{old:,}" if old == new else f"{old:,} -> {new:,}"

    pending = [f"{index.column} {index.kind}: {index.rows:,} rows, {index.reason}" for index in table.after.pending]
    return {
        "type": table.table_key.partition(":")[2],
        "action": "; ".join(table.actions),
        **{name: both(name) for name in ("rows", "fragments", "deleted_rows", "bytes")},
        "pending": "; ".join(pending),
    }


@command("cleanup", clustered=True, destroys=True)
@click.option("--keep", type=int, metavar="N", help="Keep the N newest commits of each branch.")
@click.option("--older-than", metavar="7d", help="Keep commits younger than this (30m, 12h, 7d, 4w, or 0).")
@several("--branch", "branches", metavar="BRANCH", help="Remove commits of these branches only")
@click.option("--dry-run", is_flag=True, help="Remove nothing; show what would be removed, and what keeps the rest.")
@engine_option
def cleanup(settings: Settings, out: Output, dry_run: bool, **options: Any) -> None:
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

    if not dry_run:
        address = settings.uri()
        settings.confirm_destruction("cleanup", address)
        settings.announce("cleanup", address)
    report = settings.open().maintenance.cleanup(dry_run=dry_run, progress=settings.shows_progress, **options)
    if out.as_json:
        out.json(CleanupJson.to_json(report))
        return
    removed = sorted(report.removed.items())
    if removed:
        rows = [{"kind": kind, "files": totals.files, "bytes": totals.bytes} for kind, totals in removed]
        out.table(rows, ["kind", "files", "bytes"], value=None)
    if dry_run:
        _show_kept(out, report.kept)
    out.done(None, _removed_text(report))


def _removed_text(report: CleanupReport) -> str:
    word = "would remove" if report.is_dry_run else "removed"
    sentence = f"{word} {counted(report.files, 'file', 'files')}, {report.bytes:,} bytes"
    if report.waiting.files:
        sentence += f"; {counted(report.waiting.files, 'more is', 'more are')} unneeded, and younger than an hour"
    if report.foreign:
        sentence += f"; left alone {counted(len(report.foreign), 'file', 'files')} that omnigraph did not make"
    return sentence


@command("verify", clustered=True)
@click.option(
    "--revision",
    cls=Spelled,
    also=["--branch"],
    metavar="REVISION",
    help="A branch, with all its commits, or one tag, commit id or branch~N (default: main).",
)
@as_of_option
@click.option("--all", is_flag=True, help="Every branch, every tag and every prepared load.")
@click.option("--deep", is_flag=True, help="Read the rows too: rules of the schema, and answers of indexes.")
@engine_option
def verify(settings: Settings, out: Output, **options: Any) -> None:
    """Check that every retained commit can be read, and that every file exists with its size and digest. Exit code 1
    if something is damaged; files of other tools are listed, but do not count as damage.

    \b
    omnigraph verify ./people
    omnigraph verify ./people --deep --all --json

    \b
    JSON: <maintenance.VerifyJson>
    """
    from omnigraph.api.maintenance import VerifyJson

    report = settings.open().maintenance.verify(progress=settings.shows_progress, **options)
    if out.as_json:
        out.json(VerifyJson.to_json(report))
    else:
        _show_findings(report.findings)
        out.done(None, _verified_text(report))
    if not report.is_whole:
        raise click.exceptions.Exit(EXIT_DAMAGED)


@command("repair", clustered=True, writes=True, destroys=True)
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
@engine_option
def repair(settings: Settings, out: Output, **options: Any) -> None:
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
        settings.announce("repair", settings.uri())
    report = settings.open().maintenance.repair(
        dry_run=not settings.yes, actor=settings.actor, progress=settings.shows_progress, **options
    )
    if out.as_json:
        out.json(RepairJson.to_json(report))
    else:
        _show_repair(out, report)
    if not report.is_whole:
        raise click.exceptions.Exit(EXIT_DAMAGED)


def _show_repair(out: Output, report: RepairReport) -> None:
    verb = "done" if report.is_done else "would"
    for step in report.steps:
        print(f"{verb}: {step.action}" + (f" ({step.commit.id})" if step.commit else ""))
    if report.remaining:
        print("what remains:")
        _show_findings(report.remaining)
    if not report.findings:
        out.done(None, "whole: nothing to repair")
    elif report.steps and not report.is_done:
        out.done(None, "nothing was changed; --yes does this")


def _show_findings(findings: Sequence[Finding]) -> None:
    for finding in findings:
        print(f"{finding.object}: {finding.problem}")
        if finding.total_commits:
            commits = counted(finding.total_commits, "commit", "commits")
            lost = [f"{commits}, the newest {finding.commits[0]}", ", ".join(finding.types)]
            lost += [counted(finding.rows, "row", "rows")] if finding.rows else []
            print(f"  concerns: {'; '.join(filter(None, lost))}")
        print(f"  to do: {finding.action}")


def _verified_text(report: VerifyReport) -> str:
    looked_at = [
        counted(report.commits, "commit", "commits"),
        counted(report.files, "file", "files"),
        f"{report.bytes:,} bytes",
        *([counted(report.rows, "row", "rows")] if report.is_deep else []),
    ]
    damage = sum(finding.is_damage for finding in report.findings)
    state = "whole" if report.is_whole else counted(damage, "problem", "problems")
    return f"{state}: {', '.join(looked_at)}"


@command("recovery", writes=True)
@click.argument("commit", required=False)
@click.option("--resume", is_flag=True, help="Publish the prepared load COMMIT; harmless if it was published already.")
@click.option("--discard", is_flag=True, help="Discard the prepared load COMMIT.")
@engine_option
def recovery(settings: Settings, out: Output, commit: str | None, resume: bool, discard: bool, engine: str) -> None:
    """List loads that were interrupted between staging and publishing, oldest first; publish or discard one. Nothing depends on them.

    \b
    omnigraph recovery ./people
    omnigraph recovery ./people 01J... --resume --as ada
    omnigraph recovery ./people 01J... --discard

    \b
    JSON: {prepared: [<history.PreparedJson>]}
    JSON with --resume: <history.CommitJson>
    JSON with --discard: {discarded}
    """
    from omnigraph.api.history import CommitJson, PreparedJson

    if (resume + discard) != (commit is not None):
        raise click.UsageError("--resume or --discard, and the id of a prepared load, need each other")
    graph = settings.open()
    if commit is None:
        columns = ["commit", "state", "branch", "actor", "kind", "prepared", "entities"]
        prepared = graph.recovery.list()
        rows = [
            (it.commit_id, it.state, it.branch, it.actor, it.kind, time_text(it.at), it.total_entities)
            for it in prepared
        ]
        value = {"prepared": [PreparedJson.to_json(write) for write in prepared]}
        out.table([dict(zip(columns, row, strict=True)) for row in rows], columns, value=value)
        return
    settings.announce(f"recovery --{'resume' if resume else 'discard'}", settings.uri())
    if resume:
        published = graph.recovery.resume(commit, actor=settings.actor, engine=engine)
        out.done(CommitJson.to_json(published), f"published {published.id} on {published.ref.branch}")
    else:
        graph.recovery.discard(commit)
        out.done({"discarded": commit}, f"discarded {commit}")


@command("embed", clustered=True, writes=True)
@click.option(
    "--missing",
    "which",
    flag_value="missing",
    default="missing",
    help="Texts that have no vector (unless --all is given).",
)
@click.option("--all", "which", flag_value="all", help="Every text, even if it has a vector.")
@several("--type", "types", metavar="TYPE", help="Texts of this type only")
@branch_option
@click.option("--dry-run", is_flag=True, help="Show how many texts would be embedded, without asking a provider.")
def embed(settings: Settings, out: Output, branch: str, dry_run: bool, **options: Any) -> None:
    """Compute vectors for stored texts, as @embed declares. Loads and mutations compute those of the rows they write.

    A run commits once for each 256 MiB of vectors. When the provider fails, the vectors made so far are committed, and the next
    run continues from there.

    The provider is that of the model that the schema names, or OMNIGRAPH_EMBED_PROVIDER: openai, openai-compatible,
    gemini, wordllama (offline; the default) or mock. Keys are read from OPENAI_API_KEY,
    OPENROUTER_API_KEY and GEMINI_API_KEY.

    \b
    omnigraph embed ./people
    omnigraph embed ./people --all --type Person --dry-run

    \b
    JSON: <maintenance.EmbedJson>
    """
    from omnigraph.api.maintenance import EmbedJson

    address = settings.uri()
    if not dry_run:
        settings.announce("embed", address)
    report = settings.open().embed(
        branch=branch, dry_run=dry_run, actor=settings.actor, progress=settings.shows_progress, **options
    )
    value = EmbedJson.to_json(report, uri=address, branch=branch, dry_run=dry_run)
    if not report.rows:
        out.done(value, "nothing to do")
        return
    commits = ", ".join(f"commit {commit.id}" for commit in report.commits) or "nothing committed"
    done = "would be embedded" if dry_run else "embedded"
    title = f"{counted(report.rows, 'text', 'texts')} {done}: {commits}"
    out.table(value["properties"], ["type", "property", "model", "rows"], value=value, title=title)
