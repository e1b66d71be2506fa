"""The cluster of examples/cluster, to which docs/spark.md leads: a master, two workers, a graph and its input on S3, a worker killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import omnigraph as og

SCRIPT = Path(__file__).parents[2] / "examples" / "cluster" / "run.sh"

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.s3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the script runs; whatever it started there is over afterwards."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for file in tmp_path.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(file.read_text()), signal.SIGKILL)


def test_a_load_that_loses_a_worker_is_one_commit(
    s3: Any, folder: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3.new_bucket()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    settings = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    settings |= {"AWS_ENDPOINT_URL": s3.url, "AWS_ALLOW_HTTP": "true", "BUCKET": bucket, "PORT": port}
    settings["PATH"] = f"{programs}:{Path(sys.executable).parent}:{os.environ['PATH']}"
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    ran = subprocess.run([SCRIPT], cwd=folder, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    graph = og.open(f"s3://{bucket}/graphs/people", storage_options=s3.options)
    view = graph._repository.head()[1]
    assert (view.rows("node:Person"), view.rows("edge:Knows")) == (40_000, 40_000)
    assert json.loads((folder / "counted.json").read_text())["rows"] == [{"known": 40_000}]
    assert [commit.kind for commit in graph.commits()].count("load") == 2
    # Every age below 4 has grown by a year; the ages of 4 were left out.
    ages = graph.query("query q() { match { $p: Person  $p.age = 0 } return { count($p) as n } }").rows
    assert ages == [{"n": 0}]
