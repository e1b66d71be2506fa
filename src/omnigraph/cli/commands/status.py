"""status: a graph in five lines."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import click

from omnigraph.cli.options import branch_option, command, uri_argument
from omnigraph.cli.output import Output, age_text, counted, cut_lines, line
from omnigraph.cli.settings import Settings

if TYPE_CHECKING:
    from omnigraph import Graph
    from omnigraph.types import Branch, Distance


def register(cli: click.Group) -> None:
    @command(cli, "status")
    @branch_option
    @uri_argument
    def status(settings: Settings, out: Output, branch: str, uri: str | None) -> None:
        """Show where a graph is, the head of a branch, which branches have moved, the size of the graph, and pending maintenance.

        \b
        omnigraph status ./people
        omnigraph status ./people --branch review

        \b
        JSON: {uri, graph_id, branch, head: {graph_commit_id, ...}, labels: [name], branches: [{name, ahead, behind}],
               nodes, edges, types: {type: entities}, prepared_loads, types_to_optimize: [table]}
        """
        from omnigraph.api.history import CommitJson
        from omnigraph.cli.commit_graph import labels_of

        graph = settings.open(uri)
        snapshot = graph.snapshot(branch)
        head = snapshot.commit
        labels = [name for name in labels_of(graph).get(head.id, ()) if name != branch]
        others = [other for other in graph.branches.list() if other.name != branch]
        apart = [(other, graph.distance(other.head.id, head.id)) for other in others]
        nodes = {type_.name: type_.entities for type_ in snapshot.types if type_.kind == "node"}
        edges = {type_.name: type_.entities for type_ in snapshot.types if type_.kind == "edge"}
        waiting = len(graph.recovery.list())
        unoptimized = _worth_optimizing(graph, branch)
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


def _worth_optimizing(graph: Graph, branch: str) -> list[str]:
    report = graph.maintenance.optimize(branch, dry_run=True)
    return [table.table_key for table in report.tables if table.is_worthwhile]


def _moved(apart: Sequence[tuple[Branch, Distance]]) -> str:
    """The branches whose heads differ from this one, those with the newest commits first."""
    newest_first = sorted(apart, key=lambda pair: pair[0].at, reverse=True)
    moved = [f"{branch.name} +{at.ahead} -{at.behind}" for branch, at in newest_first if at.ahead or at.behind]
    if not moved:
        return "no other branch is elsewhere" if apart else "there is no other branch"
    return ", ".join(moved) + " (commits ahead and behind)"


def _held(types: dict[str, int], singular: str, plural: str) -> str:
    return f"{sum(types.values()):,} {plural if sum(types.values()) != 1 else singular} of {counted(len(types), 'type', 'types')}"


def _health(waiting: int, unoptimized: Sequence[str]) -> str:
    findings = []
    if waiting:
        findings.append(f"{counted(waiting, 'prepared load waits', 'prepared loads wait')} ('omnigraph recovery list')")
    if unoptimized:
        findings.append(f"'omnigraph optimize' has work in {counted(len(unoptimized), 'table', 'tables')}")
    return "; ".join(findings) or "nothing waits"
