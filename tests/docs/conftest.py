"""The program on the PATH of the pages."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from docs import forked


@pytest.fixture(scope="session")
def programs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with `omnigraph` in it."""
    folder = tmp_path_factory.mktemp("bin")
    address = folder / "socket"
    command = [sys.executable, forked.__file__, str(address)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        assert process.stdout.readline() == "ready\n"
        forked.write_client(folder, address)
        yield folder
        process.stdin.close()
