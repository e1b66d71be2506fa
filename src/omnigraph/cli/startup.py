"""What keeps a short command short, and how a long one ends."""

from __future__ import annotations

import atexit
import gc
import os
import sys
from collections.abc import Sequence
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import NoReturn

ALLOCATIONS = 50_000
"""After so many the garbage collector looks for cycles. Python's own number makes it look some hundred times while modules are
loaded, of which nothing is garbage."""
_PANDAS = "pandas"
_SPARK = "pyspark"
_DUCKDB = "duckdb"


class _LeftOut:
    """Arrow looks for pandas when it makes its first value, which takes longer than most queries. Arrow works without
    it, and of the commands only those on Spark use it: it is found as soon as Spark is loaded."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname == _PANDAS and _SPARK not in sys.modules:
            raise ModuleNotFoundError("left out of this command", name=fullname)
        return None


_finder = _LeftOut()


def leave_pandas_out() -> None:
    """For a process that runs one command and ends. Not for a process that is somebody else's."""
    if _PANDAS not in sys.modules:
        sys.meta_path.insert(0, _finder)


def want_pandas() -> None:
    """To be called before the engines load, by a command that runs on Spark."""
    if _finder in sys.meta_path:
        sys.meta_path.remove(_finder)


def collect_rarely() -> None:
    """For a process that runs one command and ends."""
    gc.set_threshold(ALLOCATIONS, *gc.get_threshold()[1:])


def collect_nothing_at_the_end() -> None:
    """The process ends: looking through everything that was loaded once more would take as long as a short read. DuckDB wants
    that, and complains of what is left."""
    if _DUCKDB not in sys.modules:
        gc.freeze()


def end_process() -> NoReturn:
    """Leave without taking the interpreter down. In a shell a query that was cancelled, or a look for completions, may still be on its
    way out of an engine, in a thread of its own: the interpreter would tear it apart there, and the process would abort."""
    atexit._run_exitfuncs()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)
