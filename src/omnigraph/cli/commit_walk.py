"""Commits in the order of Git's log: newest first, including merged ones; and the names that point to them."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterator, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING

from omnigraph.errors import HistoryGap, NotFound, PolicyDenied, UsageError

if TYPE_CHECKING:
    from omnigraph import Commit
    from omnigraph.client.graph import RemoteGraph
    from omnigraph.graph import Graph

PAGE = 64


def commits_with_merged(
    graph: Graph | RemoteGraph,
    revisions: Sequence[str],
    *,
    limit: int,
    before: str | None = None,
    author: str | None = None,
) -> list[Commit]:
    """The commits that revisions reach, each once; with `before`, those that come after it in this order. CommitNotFound if
    `before` is not among them."""
    commits = _walk(graph, revisions)
    if before is not None and not any(commit.id == before for commit in commits):
        return graph.commits(revisions[0], before=before, limit=1)
    return list(islice((commit for commit in commits if author is None or commit.actor == author), limit))


def labels_of(graph: Graph | RemoteGraph) -> dict[str, list[str]]:
    """By commit id: the branches whose head it is, main first, and the tags that name it. Empty if the caller may not list them."""
    labels: dict[str, list[str]] = {}
    try:
        for branch in graph.branches.list():
            labels.setdefault(branch.head.id, []).append(branch.name)
        for tag in graph.tags.list():
            labels.setdefault(tag.head.id, []).append(f"tag: {tag.name}")
    except PolicyDenied:
        return {}
    return labels


def _walk(graph: Graph | RemoteGraph, revisions: Sequence[str]) -> Iterator[Commit]:
    """Reads one log for each revision and each merge; where two logs meet, only one is read further."""
    seen: set[str] = set()
    order = count()
    waiting: list[tuple[float, int, Commit, Iterator[Commit]]] = []

    def advance(log: Iterator[Commit]) -> None:
        commit = next(log, None)
        if commit is not None and commit.id not in seen:
            seen.add(commit.id)
            heapq.heappush(waiting, (-commit.at.timestamp(), next(order), commit, log))

    for revision in revisions:
        advance(_pages(lambda before, named=revision: graph.commits(named, before=before, limit=PAGE)))  # type: ignore[misc]
    while waiting:
        _, _, commit, log = heapq.heappop(waiting)
        yield commit
        advance(log)
        if commit.merged is not None and commit.merged.id not in seen:
            advance(_reachable(graph, commit.merged.id))


def _reachable(graph: Graph | RemoteGraph, commit_id: str) -> Iterator[Commit]:
    """The log of a merged commit, as far as it is available. If its branch was deleted, a server has no log of it, and is asked
    for one commit after the other."""
    try:
        yield from _pages(lambda before: graph.commits(commit_id, before=before, limit=PAGE))
    except HistoryGap:
        return
    except (NotFound, UsageError):
        yield from _one_by_one(graph, commit_id)


def _one_by_one(graph: Graph | RemoteGraph, commit_id: str) -> Iterator[Commit]:
    wanted: str | None = commit_id
    while wanted is not None:
        try:
            commit = graph.commit(wanted)
        except (HistoryGap, NotFound):
            return
        yield commit
        wanted = None if commit.parent is None else commit.parent.id


def _pages(page: Callable[[str | None], list[Commit]]) -> Iterator[Commit]:
    before: str | None = None
    while commits := page(before):
        yield from commits
        if len(commits) < PAGE:
            return
        before = commits[-1].id
