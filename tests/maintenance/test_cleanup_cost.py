"""Cleanup asks for what is kept and for what lies there, a thousand at a time, and never for one thing twice."""

from __future__ import annotations

import pytest
from health.cost_on_s3 import DeepGraph
from maintenance.cost_on_s3 import measure
from s3_server import S3Server

SHALLOW, DEEP = 20, 60


@pytest.mark.s3
def test_requests_grow_with_what_is_kept_and_not_with_what_goes(s3: S3Server) -> None:
    costs = []
    for depth in (SHALLOW, DEEP):
        graph = DeepGraph(s3)
        graph.deepen(depth)
        costs.append(measure(graph))
    shallow, deep = costs
    looking = sum(deep.looking.values()) - sum(shallow.looking.values())
    assert looking <= 4 * (DEEP - SHALLOW), (shallow, deep)
    sweeping = sum(deep.sweeping.values()) - sum(shallow.sweeping.values())
    assert sweeping <= 4, (shallow, deep)
    assert deep.removed > shallow.removed
