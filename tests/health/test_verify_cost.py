"""Requests of verification, counted at the S3 server: an entry is one, a version of a table another, whatever they share."""

from __future__ import annotations

import pytest
from health.cost_on_s3 import DeepGraph
from s3_server import S3Server

pytestmark = pytest.mark.s3

SHALLOW, DEEP = 10, 80


def test_requests_grow_with_entries_and_versions_and_not_with_what_commits_share(s3: S3Server) -> None:
    graph = DeepGraph(s3)
    graph.deepen(SHALLOW)
    before = graph.measure()
    graph.deepen(DEEP)
    after = graph.measure()
    commits = after.commits - before.commits
    assert commits == DEEP - SHALLOW
    # Each commit has an entry and a version of a table; 64 of them are rolled up into one object.
    assert after.requests - before.requests == 2 * commits + 1
    assert before.requests <= 2 * before.commits + 4
