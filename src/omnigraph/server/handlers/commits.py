"""Commits: the log of a branch, one commit, what it changed."""

from __future__ import annotations

import datetime as dt
from typing import TYPE_CHECKING

from omnigraph.api.history import ServedCommit
from omnigraph.api.structs import present
from omnigraph.errors import CommitNotFound, UsageError
from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles

if TYPE_CHECKING:
    from omnigraph.history.values import Commit

_FILTERED_PAGE = 1_000
"""Commits that are looked at in one go when some are left out."""


@handles("cluster_listCommits")
def list_commits(call: RouteCall) -> HandlerResult:
    query, branch = call.query, call.existing_branch()
    limit = query.get("limit", call.service.settings.limits.commits)
    if not 1 <= limit <= call.service.settings.limits.commits:
        raise UsageError(f"'limit' is 1 to {call.service.settings.limits.commits}, not {limit}")
    before = query.get("page_token") or query.get("before")
    since, until = (_time(name, query.get(name)) for name in ("since", "until"))
    wanted: list[Commit] = []
    graph = call.graph
    size = _FILTERED_PAGE if {"since", "until"} & query.keys() else limit + 1
    while len(wanted) <= limit:
        page = graph.commits(branch, limit=size, before=before, actor=query.get("actor"), kind=query.get("kind"))
        for commit in page:
            if (since is None or commit.at >= since) and (until is None or commit.at <= until):
                wanted.append(commit)
        if len(page) < size:
            break
        before = page[-1].id
    token = wanted[limit - 1].id if len(wanted) > limit else None
    head = graph.show(branch).id
    body = present({"commits": [ServedCommit.to_json(commit) for commit in wanted[:limit]], "next_page_token": token})
    return HandlerResult(body, commit=head, etag=head)


def _time(name: str, text: str | None) -> dt.datetime | None:
    if text is None:
        return None
    try:
        at = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(f"'{name}' is not a time: {text[:100]!r}", hint="2026-11-16T12:00:00Z") from None
    return at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at


@handles("cluster_getCommit")
def get_commit(call: RouteCall) -> HandlerResult:
    commit = named_commit(call)
    return HandlerResult(ServedCommit.to_json(commit), commit=commit.id, etag=commit.id, headers=IMMUTABLE)


IMMUTABLE = {"Cache-Control": "private, max-age=31536000, immutable"}
"""What is read by a commit id never changes."""


def named_commit(call: RouteCall) -> Commit:
    """The commit that the path names by its whole id."""
    wanted = call.path["commit_id"]
    commit = call.graph.show(wanted)
    if commit.id != wanted:
        raise CommitNotFound(f"commit '{wanted}' not found")
    return commit
