"""Branches and merges as text, newest commit first.

* 01K… (main) 2026-07-02 10:00:00 main merge ada
|\\
| * 01J… (review) 2026-07-02 09:00:00 review mutation ada
* | 01H… 2026-07-02 08:00:00 main load
|/
* 01G… 2026-07-01 08:00:00 main init
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import count, islice
from typing import TYPE_CHECKING

from omnigraph.cli.conflicts import commit_words
from omnigraph.errors import HistoryGap, NotFound, PolicyDenied, UsageError

if TYPE_CHECKING:
    from omnigraph.client.graph import RemoteGraph
    from omnigraph.graph.graph import Graph
    from omnigraph.types import Commit


# Commits in the order of Git's log: newest first, including merged ones; and the names that point to them.

PAGE = 64


def commits_with_merged(
    graph: Graph | RemoteGraph,
    revisions: Sequence[str],
    *,
    limit: int,
    before: str | None = None,
    author: str | None = None,
    kind: str | None = None,
) -> list[Commit]:
    """The commits that revisions reach, each once; with `before`, those that come after it in this order. CommitNotFound if
    `before` is not among them."""
    commits = _walk(graph, revisions)
    if before is not None and not any(commit.id == before for commit in commits):
        return graph.commits(revisions[0], before=before, limit=1)
    wanted = (commit for commit in commits if author in (None, commit.actor) and kind in (None, commit.kind))
    return list(islice(wanted, limit))


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
            commit = graph.show(wanted)
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


def draw_commits(
    commits: Iterable[Commit],
    labels: Mapping[str, Sequence[str]],
    stat: Callable[[Commit], Sequence[str]] = lambda commit: (),
) -> str:
    """The commits, newest first, with the names that point to them, and below each the lines that `stat` returns."""
    lanes = _Lanes()
    lines: list[str] = []
    by_id = sorted(commits, key=lambda commit: commit.id)
    for commit in sorted(by_id, key=lambda commit: commit.at, reverse=True):
        lines += lanes.join(commit.id)
        lines.append(f"{lanes.row(commit.id)} {' '.join(commit_words(commit, labels))}")
        lines += lanes.step(commit)
        lines += [f"{lanes.trail()}     {line}" for line in stat(commit)]
    return "\n".join(lines)


class _Lanes:
    """Each lane waits for one commit. Lane `i` is drawn in column `2 * i`, slanted lines in the columns between."""

    def __init__(self) -> None:
        self.waiting: list[str | None] = []

    def join(self, commit_id: str) -> list[str]:
        """If several lanes wait for the same commit, lead them into the first one."""
        if commit_id not in self.waiting:
            self.waiting[self._free()] = commit_id
        lane = self.waiting.index(commit_id)
        twins = [other for other, wanted in enumerate(self.waiting) if wanted == commit_id and other != lane]
        drawn = []
        for other in twins:
            self.waiting[other] = None
            drawn.append(self._slanted(lane, other, "/"))
        self._trim()
        return drawn

    def row(self, commit_id: str) -> str:
        lane = self.waiting.index(commit_id)
        return " ".join("*" if i == lane else "|" if wanted else " " for i, wanted in enumerate(self.waiting))

    def trail(self) -> str:
        """The lanes that continue, below a commit."""
        return " ".join("|" if wanted else " " for wanted in self.waiting)

    def step(self, commit: Commit) -> list[str]:
        """The lane of the commit now waits for its parent; a merge adds a line to another lane."""
        lane = self.waiting.index(commit.id)
        self.waiting[lane] = commit.parent.id if commit.parent else None
        drawn = []
        if commit.merged is not None:
            if commit.merged.id not in self.waiting:
                other = self._free()
                drawn = [self._slanted(lane, other, "\\")]
                self.waiting[other] = commit.merged.id
            else:
                drawn = [self._slanted(lane, self.waiting.index(commit.merged.id), "\\")]
        self._trim()
        return drawn

    def _slanted(self, lane: int, other: int, mark: str) -> str:
        """A line between two lanes; one to the left leans the other way."""
        left, right = sorted((lane, other))
        cells = list(" ".join("|" if wanted else " " for wanted in self.waiting))
        for column in range(2 * left + 1, 2 * right):
            cells[column] = "-" if cells[column] == " " else cells[column]
        if lane < other:
            cells[2 * right - 1] = mark
        else:
            cells[2 * left + 1] = {"\\": "/", "/": "\\"}[mark]
        return "".join(cells).rstrip()

    def _free(self) -> int:
        if None not in self.waiting:
            self.waiting.append(None)
        return self.waiting.index(None)

    def _trim(self) -> None:
        while self.waiting and self.waiting[-1] is None:
            self.waiting.pop()
