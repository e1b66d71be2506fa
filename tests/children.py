"""Programs in processes of their own that start with everything loaded: each is forked from a process that loaded it once.

Loading takes longer than most of these programs run. Where the start of a program is the point, a test starts Python itself.
"""

from __future__ import annotations

import multiprocessing
import os
import runpy
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TextIO

from omnigraph._internal.failpoints import Failpoint

MAX_SECONDS = 120.0
_forking = multiprocessing.get_context("forkserver")
_forking.set_forkserver_preload(
    [
        *("duckdb", "lance", "pytest", "omnigraph.graph.graph", "omnigraph.merge.merge", "omnigraph.read.execution"),
        *(
            "omnigraph.changes.feed",
            "omnigraph.maintenance.optimize",
            "omnigraph.maintenance.cloning",
            "omnigraph.load.job",
        ),
        "omnigraph.testing.failpoints",
    ]
)


class Child:
    """A program, a text or a file, that runs; `stdin` and `stdout` are its streams. `armed` are its failpoints, written as in
    the environment."""

    def __init__(self, program: str | Path, *arguments: str, armed: str = "") -> None:
        its_input, own_output = _forking.Pipe(duplex=False)
        own_input, its_output = _forking.Pipe(duplex=False)
        self._process = _forking.Process(
            target=_run,
            args=(program, arguments, armed, os.getcwd(), dict(os.environ), its_input, its_output),
            daemon=True,
        )
        self._process.start()
        for end in (its_input, its_output):
            end.close()
        self.stdin: TextIO = os.fdopen(_taken(own_output), "w")
        self.stdout: TextIO = os.fdopen(_taken(own_input))

    def poll(self) -> int | None:
        """The exit code, the signal that ended it as a negative number, or None while it runs."""
        return self._process.exitcode

    def wait(self, timeout: float = MAX_SECONDS) -> int:
        """For its end: its exit code."""
        self._process.join(timeout)
        code = self._process.exitcode
        if code is None:
            self.kill()
            raise TimeoutError("the program did not end")
        return code

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        """Close the streams: a program that reads orders ends with them."""
        self.stdin.close()
        self.stdout.close()


def run_killed(program: str | Path, *arguments: str, point: str | Failpoint, nth: int = 1) -> None:
    """Run a program that is killed the `nth` time it reaches a failpoint."""
    assert exit_code(program, *arguments, armed=f"{point}=kill@{nth}") == -signal.SIGKILL, "the point was not reached"


def exit_code(program: str | Path, *arguments: str, armed: str = "") -> int:
    """Run a program to its end."""
    child = Child(program, *arguments, armed=armed)
    try:
        return child.wait()
    finally:
        child.close()


def _taken(connection: Connection) -> int:
    """The descriptor of a connection, which is closed."""
    with connection:
        return os.dup(connection.fileno())


def _run(
    program: str | Path,
    arguments: tuple[str, ...],
    armed: str,
    folder: str,
    environment: dict[str, str],
    stdin: Connection,
    stdout: Connection,
) -> None:
    """In the child: become the program. The process it is forked from may have started under another environment."""
    from omnigraph.testing.failpoints import arm_from_environment

    os.environ.clear()
    os.environ.update(environment)
    for number, stream in enumerate((stdin, stdout)):
        with stream:
            os.dup2(stream.fileno(), number)
    sys.stdin, sys.stdout = os.fdopen(0), os.fdopen(1, "w")
    os.chdir(folder)
    arm_from_environment(armed)
    sys.argv = [str(program), *arguments]
    if isinstance(program, Path):
        sys.path.insert(0, str(program.parent))
        runpy.run_path(str(program), run_name="__main__")
    else:
        exec(compile(program, "<program>", "exec"), {"__name__": "__main__"})
    sys.stdout.flush()
