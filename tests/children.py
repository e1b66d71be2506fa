"""Programs in processes of their own that start with everything loaded: each is forked from a process that loaded it once.

Loading takes longer than most of these programs run. Where the start of a program is the point, a test starts Python itself.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
from pathlib import Path

from omnigraph.failpoints import Failpoint

MAX_SECONDS = 120.0
_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload(
    [
        *("duckdb", "lance", "omnigraph.graph", "omnigraph.merge", "omnigraph.read", "omnigraph.changes"),
        *("omnigraph.maintenance.optimize", "omnigraph.maintenance.cloning", "omnigraph.pipeline.load.job"),
        "omnigraph.testing.failpoints",
    ]
)


def run_killed(program: str | Path, *arguments: str, point: str | Failpoint, nth: int = 1) -> None:
    """Run a program that is killed the `nth` time it reaches a failpoint."""
    assert exit_code(program, *arguments, armed=f"{point}=kill@{nth}") == -signal.SIGKILL, "the point was not reached"


def exit_code(program: str | Path, *arguments: str, armed: str = "") -> int:
    """Run a program, a text or a file, to its end: its exit code, or the signal that ended it as a negative number."""
    process = _forking.Process(target=_run, args=(program, arguments, armed, os.getcwd()), daemon=True)
    process.start()
    process.join(MAX_SECONDS)
    if process.exitcode is None:
        process.kill()
        raise TimeoutError("the program did not end")
    return process.exitcode


def _run(program: str | Path, arguments: tuple[str, ...], armed: str, folder: str) -> None:
    """In the child: become the program."""
    from omnigraph.testing.failpoints import arm_from_environment

    os.chdir(folder)
    arm_from_environment(armed)
    sys.argv = [str(program), *arguments]
    if isinstance(program, Path):
        runpy.run_path(str(program), run_name="__main__")
    else:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
