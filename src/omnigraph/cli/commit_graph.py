"""Branches and merges as text, newest commit first.

* 01K… (main) 2026-07-02 10:00:00 main merge ada
|\\
| * 01J… (review) 2026-07-02 09:00:00 review mutation ada
* | 01H… 2026-07-02 08:00:00 main load
|/
* 01G… 2026-07-01 08:00:00 main init
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING

from omnigraph.cli.change_text import commit_words

if TYPE_CHECKING:
    from omnigraph import Commit


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
