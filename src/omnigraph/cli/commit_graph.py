"""Branches and merges as text: one lane per branch, newest commit first."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from omnigraph.cli.shapes import time_text
from omnigraph.history import Commit


def draw_commits(logs: Mapping[str, Sequence[Commit]], limit: int) -> str:
    """`logs` maps branches (main first) to their commits, newest first. A commit stands once, in its own branch's lane.

        * 01K…  main    merge   merged review
        |\\
        | * 01J…  review  mutation
        |/
        * 01H…  main    load
    """
    commits = {commit.id: commit for log in logs.values() for commit in log}
    ordered = sorted(commits.values(), key=lambda commit: (-commit.at, commit.id))[:limit]
    heads: dict[str, list[str]] = {}
    for name, log in logs.items():
        if log:
            heads.setdefault(log[0].id, []).append(name)
    lanes: list[str | None] = []
    lines: list[str] = []
    for commit in ordered:
        lane = _lane_of(lanes, commit.id)
        twins = [index for index, wanted in enumerate(lanes) if wanted == commit.id and index != lane]
        if twins:
            lines.append(_joined(lanes, lane, twins))
            for index in twins:
                lanes[index] = None
        lines.append(f"{_marks(lanes, lane)} {_describe(commit, heads.get(commit.id, []))}")
        lanes[lane] = commit.parent.id if commit.parent else None
        if commit.merged is not None and commit.merged.id not in lanes:
            other = _free(lanes)
            lanes[other] = commit.merged.id
            lines.append(_marks(lanes, lane, fork=other))
        while lanes and lanes[-1] is None:
            lanes.pop()
    return "\n".join(lines)


def _lane_of(lanes: list[str | None], commit_id: str) -> int:
    if commit_id in lanes:
        return lanes.index(commit_id)
    index = _free(lanes)
    lanes[index] = commit_id
    return index


def _free(lanes: list[str | None]) -> int:
    if None in lanes:
        return lanes.index(None)
    lanes.append(None)
    return len(lanes) - 1


def _marks(lanes: Sequence[str | None], lane: int, fork: int | None = None) -> str:
    marks = []
    for index, wanted in enumerate(lanes):
        if index == lane:
            marks.append("*" if fork is None else "|")
        elif index == fork:
            marks.append("\\")
        else:
            marks.append("|" if wanted else " ")
    return " ".join(marks)


def _joined(lanes: Sequence[str | None], lane: int, twins: Sequence[int]) -> str:
    marks = ["/" if index in twins else "|" if wanted else " " for index, wanted in enumerate(lanes)]
    marks[lane] = "|"
    return " ".join(marks)


def _describe(commit: Commit, heads: Sequence[str]) -> str:
    names = f" ({', '.join(heads)})" if heads else ""
    actor = f" {commit.actor}" if commit.actor else ""
    message = f" {commit.message}" if commit.message else ""
    return f"{commit.id}{names} {time_text(commit.at)} {commit.ref.branch} {commit.kind}{actor}{message}"
