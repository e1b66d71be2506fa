"""How commands start quickly and end."""

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
