"""Commands that are stopped by a signal clean up, and say whether a write was published."""

from __future__ import annotations

import contextlib
import datetime as dt
import signal
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from omnigraph.errors import NotFound

if TYPE_CHECKING:
    from omnigraph.client.graph import RemoteGraph
    from omnigraph.graph.graph import Graph


class Terminated(KeyboardInterrupt):
    """SIGTERM, which ends a command like Ctrl-C, with a different exit code."""


def end_cleanly_on_sigterm() -> None:
    """For a process that runs one command: otherwise SIGTERM would leave temporary files of the command behind."""

    def terminate(_number: int, _frame: Any) -> None:
        raise Terminated

    signal.signal(signal.SIGTERM, terminate)


@contextlib.contextmanager
def outcome_on_interrupt(graph: Graph | RemoteGraph, branch: str) -> Iterator[None]:
    """Within the block, an interrupt says whether the write was published: never in part."""
    before, started = _head(graph, branch), dt.datetime.now(dt.UTC)
    try:
        yield
    except KeyboardInterrupt as stop:
        raise type(stop)(_outcome(graph, branch, before, started)) from None


def _outcome(graph: Graph | RemoteGraph, branch: str, before: str | None, started: dt.datetime) -> str:
    from omnigraph.graph.graph import Graph

    after = _head(graph, branch)
    if after != before:
        return f"{branch} has moved to commit {after}; see 'omnigraph log' for whether that was this command"
    if not isinstance(graph, Graph):
        return "the server has not published it so far, and may still do so; see 'omnigraph log'"
    for plan in graph.recovery.list():
        if plan.branch == branch and plan.at >= started:
            return (
                "nothing was published; the staged load is kept: "
                f"'omnigraph recovery resume {plan.commit_id}' publishes it, 'discard' forgets it"
            )
    return "nothing was published"


def _head(graph: Graph | RemoteGraph, branch: str) -> str | None:
    try:
        return graph.show(branch).id
    except NotFound:
        return None
