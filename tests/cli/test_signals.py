"""Commands on Spark that a signal ends: one line, nothing published, and nothing of them left running."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from maintenance.aging import age

import omnigraph as og
from omnigraph.testing.failpoints import FilePark

OMNIGRAPH = str(Path(sys.executable).with_name("omnigraph"))
PATIENCE_S = 120
LOAD = ("load", "--data", "more.jsonl", "--mode", "append", "--engine", "spark", "--quiet")


def running(session: int) -> list[str]:
    """The processes of a session, which all descendants of a command are in."""
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                state, _parent, _group, of_session = (folder / "stat").read_text().rpartition(")")[2].split()[:4]
                name = (folder / "cmdline").read_text()
            except OSError:  # ended meanwhile
                continue
            if int(of_session) == session and state != "Z":
                found.append(name)
    return found


def wait_until_gone(session: int) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while left := running(session):
        assert time.monotonic() < deadline, left
        time.sleep(0.02)


def stopped(folder: Path, number: signal.Signals, **environment: str) -> tuple[int, str]:
    """Start a load, stop it with a signal where it parks; its exit code and what it said. Nothing is left running."""
    park = FilePark(folder / "parked")
    with subprocess.Popen(
        [OMNIGRAPH, *LOAD],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **environment},
        start_new_session=True,
    ) as process:
        try:
            park.wait_until_reached()
            process.send_signal(number)
            said, _ = process.communicate(timeout=PATIENCE_S)
        except BaseException:
            process.kill()  # or the end of this block waits for a command that waits for its park
            raise
    if number is not signal.SIGKILL:
        assert running(process.pid) == [], "the command waits for what it started"
    wait_until_gone(process.pid)
    return process.returncode, said


@pytest.mark.spark
@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 130, "interrupted: nothing was published\n"),
        pytest.param(signal.SIGTERM, 143, "terminated: nothing was published\n", marks=pytest.mark.soak),
        (signal.SIGKILL, -9, ""),
    ],
)
def test_a_load_stopped_while_spark_reads(folder: Path, number: signal.Signals, code: int, line: str) -> None:
    before, stored = og.open("people").commits(), data_files(folder)
    point = f"table.staged_data=park:{folder / 'parked'}"  # in a worker, in the middle of a task
    assert stopped(folder, number, OMNIGRAPH_FAILPOINTS=point) == (code, line)
    graph = og.open("people")
    assert graph.commits() == before
    assert graph.maintenance.verify(all=True, deep=True).is_whole
    left = data_files(folder) - stored
    assert left, "a task was in the middle of it"
    # The next load does not wait for a cleanup, which takes what the stopped one wrote and nothing of the other's.
    loaded = graph.load("more.jsonl", mode="append", engine="local")
    age(folder / "people")
    assert graph.maintenance.cleanup().files > 0
    assert not left & data_files(folder)
    assert graph.maintenance.verify(all=True, deep=True).findings == ()
    assert graph.head() == loaded.commit


def data_files(folder: Path) -> set[Path]:
    return {path for path in (folder / "people").rglob("*.lance") if path.is_file()}


@pytest.mark.parametrize(
    ("number", "code", "line"),
    [
        (signal.SIGINT, 130, "interrupted: nothing was published\n"),
        (signal.SIGTERM, 143, "terminated: nothing was published\n"),
    ],
)
def test_a_load_stopped_while_java_starts(folder: Path, number: signal.Signals, code: int, line: str) -> None:
    """A Java that never comes up: one that is still starting does not notice that nobody waits for it."""
    java = folder / "java" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(f"#!/bin/sh\nmkdir -p {folder}/parked\ntouch {folder}/parked/reached\nexec sleep 1000\n")
    java.chmod(0o755)
    (folder / "java" / "release").write_text('JAVA_VERSION="21.0.1"\n')
    assert stopped(folder, number, JAVA_HOME=str(folder / "java")) == (code, line)
