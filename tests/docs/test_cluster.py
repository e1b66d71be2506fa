"""What docs/spark.md says of a cluster, followed from top to bottom: a master, two workers, a graph and its source on S3, a worker killed."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from docs.blocks import Runner, blocks_of

import omnigraph as og

PAGE = Path(__file__).parents[2] / "docs" / "spark.md"

pytestmark = [pytest.mark.soak, pytest.mark.spark, pytest.mark.s3]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where the page is followed; whatever it started there is over afterwards."""
    monkeypatch.chdir(tmp_path)
    yield tmp_path
    for file in tmp_path.glob("*.pid"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(int(file.read_text()), signal.SIGKILL)


def test_the_page_about_a_cluster_works_as_written(
    s3: Any, folder: Path, programs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = s3.new_bucket()
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = str(probe.getsockname()[1])
    settings = {"AWS_ACCESS_KEY_ID": "test", "AWS_SECRET_ACCESS_KEY": "test", "AWS_REGION": "us-east-1"}
    settings |= {"AWS_ENDPOINT_URL": s3.url, "AWS_ALLOW_HTTP": "true", "BUCKET": bucket, "PORT": port}
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    runner = Runner(PAGE, folder, programs)
    for block in blocks_of(PAGE):
        if block.on_cluster or block.language == "pg":
            runner.run(block)
    graph = og.open(f"s3://{bucket}/graphs/people", storage_options=s3.options)
    view = graph._repository.head()[1]
    assert (view.rows("node:Person"), view.rows("edge:Knows")) == (40_000, 40_000)
    assert json.loads((folder / "counted.json").read_text())["rows"] == [{"known": 40_000}]
    assert [commit.kind for commit in graph.commits()].count("load") == 2
    # Every age below 4 has grown by a year; the ages of 4 were left out.
    ages = graph.query("query q() { match { $p: Person  $p.age = 0 } return { count($p) as n } }").rows
    assert ages == [{"n": 0}]
