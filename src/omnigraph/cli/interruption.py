"""Ctrl-C in the middle of a write: what can be said about it afterwards."""

from __future__ import annotations

import contextlib
import datetime as dt
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.errors import NotFound

if TYPE_CHECKING:
    from omnigraph.graph import Graph


@contextlib.contextmanager
def telling_what_was_published(graph: Graph, branch: str) -> Iterator[None]:
    """An interrupted write is published or not, never in part. Look which, and say it."""
    before, started = _head(graph, branch), dt.datetime.now(dt.UTC)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_outcome(graph, branch, before, started)) from None


def _outcome(graph: Graph, branch: str, before: str | None, started: dt.datetime) -> str:
    after = _head(graph, branch)
    if after != before:
        return f"{branch} has moved to commit {after}; see 'omnigraph commit list' for whether that was this command"
    for plan in graph.recovery.list():
        if plan.branch == branch and plan.at >= started:
            return (
                "nothing was published; the staged load is kept: "
                f"'omnigraph recovery resume {plan.commit_id}' publishes it, 'discard' forgets it"
            )
    return "nothing was published"


def _head(graph: Graph, branch: str) -> str | None:
    try:
        return graph.commit(branch).id
    except NotFound:
        return None
