"""Ctrl-C in the middle of a write: what can be said about it afterwards."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from omnigraph.errors import BranchNotFound

if TYPE_CHECKING:
    from omnigraph.graph import Graph


@contextlib.contextmanager
def telling_what_was_published(graph: Graph, branch: str) -> Iterator[None]:
    """An interrupted write is published or not, never in part. Look which, and say it."""
    before, started_us = _head(graph, branch), int(time.time() * 1_000_000)
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(_outcome(graph, branch, before, started_us)) from None


def _outcome(graph: Graph, branch: str, before: str | None, started_us: int) -> str:
    after = _head(graph, branch)
    if after != before:
        return f"{branch} has moved to commit {after}; see 'omnigraph commit list' for whether that was this command"
    for plan in graph.recovery.list():
        if plan.plan.branch == branch and plan.prepared_at >= started_us:
            return (
                "nothing was published; the staged load is kept: "
                f"'omnigraph recovery resume {plan.commit_id}' publishes it, 'discard' forgets it"
            )
    return "nothing was published"


def _head(graph: Graph, branch: str) -> str | None:
    try:
        return graph.view(branch).snapshot.commit.id
    except BranchNotFound:
        return None
