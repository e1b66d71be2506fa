"""How a process that runs one command starts quickly, and how it ends: without garbage collection, or on a signal, cleaning up and
saying whether a write was published."""

from __future__ import annotations

import atexit
import contextlib
import datetime as dt
import gc
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import TYPE_CHECKING, Any, NoReturn

from omnigraph.errors import NotFound

if TYPE_CHECKING:
    from omnigraph.client.graph import RemoteGraph
    from omnigraph.graph.graph import Graph

ALLOCATIONS = 50_000
"""The number of allocations between two garbage collections. With Python's default there would be some hundred while modules are
loaded, none of which finds garbage."""
_PANDAS = "pandas"
_SPARK = "pyspark"
_DUCKDB = "duckdb"


class _LeftOut:
    """Hides pandas. Arrow imports it with its first value, which takes longer than most queries. Arrow works without it, and only
    commands on Spark need it: it can be imported once Spark is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _PANDAS and _SPARK not in sys.modules:
            raise ModuleNotFoundError("left out of this command", name=fullname)
        return None


_finder = _LeftOut()


def leave_pandas_out() -> None:
    """Hide pandas, in a process that runs only one command."""
    if _PANDAS not in sys.modules:
        sys.meta_path.insert(0, _finder)


def want_pandas() -> None:
    """Undo `leave_pandas_out`, before the engines load, in a command that runs on Spark."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def collect_rarely() -> None:
    """Collect garbage rarely, in a process that runs only one command."""
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])


def collect_nothing_at_the_end() -> None:
    """Skip the garbage collection at the end of the process, which would take as long as a short read. DuckDB needs it, and
    complains about what is left."""
    if _DUCKDB not in sys.modules:
        gc.freeze()


def end_process() -> NoReturn:
    """Exit without finalizing the interpreter. In a shell, another thread may still be inside an engine, with a query that was
    cancelled or a completion: finalization would make the process abort."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


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
                f"'omnigraph recovery {plan.commit_id} --resume' publishes it, --discard forgets it"
            )
    return "nothing was published"


def _head(graph: Graph | RemoteGraph, branch: str) -> str | None:
    try:
        return graph.show(branch).id
    except NotFound:
        return None
