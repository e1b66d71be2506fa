"""What cleanup asks of an S3 server, as the server saw it, at several depths of history."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import dataclass

import pytest
from health.cost_on_s3 import DeepGraph

import omnigraph as og
from omnigraph.history.retention import GRACE_S, Retention


@dataclass(frozen=True)
class CleanupCost:
    """Requests of a dry run that keeps everything, and of a cleanup that keeps ten commits."""

    commits: int
    looking: dict[str, int]
    sweeping: dict[str, int]
    removed: int

    HEADER = f"{'commits':>8} {'keep all':>9} {'keep 10':>8} {'removed':>8}  requests of the cleanup by kind"

    def __str__(self) -> str:
        kinds = ", ".join(f"{count:,} {kind}" for kind, count in sorted(self.sweeping.items()))
        looking, sweeping = sum(self.looking.values()), sum(self.sweeping.values())
        return f"{self.commits:8,} {looking:9,} {sweeping:8,} {self.removed:8,}  {kinds}"


def measure(deep: DeepGraph, keep: int = 10) -> CleanupCost:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Retention, "store_now", lambda self: time.time() + 10 * GRACE_S)
        commits = deep.history.chain.head("main").head.commit.ref.seq + 1
        opened = og.open(deep.uri, storage_options=deep.s3.options)
        deep.s3.reset()
        opened.maintenance.cleanup(dry_run=True)
        looking = Counter(request.kind for request in deep.s3.requests())
        opened = og.open(deep.uri, storage_options=deep.s3.options)
        deep.s3.reset()
        report = opened.maintenance.cleanup(keep=keep)
        sweeping = Counter(request.kind for request in deep.s3.requests())
        return CleanupCost(commits, dict(looking), dict(sweeping), report.files)
