"""Servers as programs of their own."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx

LISTENING = "OMNIGRAPH_LISTEN_ADDR="


@dataclass
class Running:
    """A server that listens. `log` is the file of its standard error."""

    process: subprocess.Popen[str]
    address: str
    log: Path

    @property
    def url(self) -> str:
        return f"http://{self.address}"

    def client(self) -> httpx.Client:
        """Paths are below the graph `people`."""
        return httpx.Client(base_url=f"{self.url}/graphs/people/", timeout=60)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Its exit code."""
        self.process.send_signal(number)
        return self.process.wait(60)


@contextlib.contextmanager
def running(folder: Path, *arguments: str, **environment: str) -> Iterator[Running]:
    """A server that was started with these arguments, ended when the block does."""
    program = [sys.executable, "-m", "omnigraph.cli.main", "serve", *arguments, "--bind", "127.0.0.1:0"]
    log = folder / f"server-{len(list(folder.glob('server-*')))}.log"
    with log.open("w") as stderr:
        process = subprocess.Popen(
            program, stdout=subprocess.PIPE, stderr=stderr, text=True, env={**os.environ, **environment}
        )
    assert process.stdout is not None
    try:
        line = process.stdout.readline()
        assert line.startswith(LISTENING), f"{line!r} {log.read_text()}"
        yield Running(process, line.strip().removeprefix(LISTENING), log)
    finally:
        if process.poll() is None:
            process.kill()
            process.wait(60)
        process.stdout.close()
