"""Prepared loads: finishing one that died between staging and publishing, in seconds."""

from __future__ import annotations

from omnigraph.history import Commit
from omnigraph.pipeline.load.assembly import mode_of
from omnigraph.pipeline.load.job import publish
from omnigraph.pipeline.load.rebasing import LoadRebase
from omnigraph.pipeline.runner import LocalRunner
from omnigraph.views import Repository


def resume(repository: Repository, commit_id: str) -> Commit:
    """Publish a prepared load; the commit it has already when it was published before it died. NotFound: no such load."""
    prepared = repository.history.recovery.get(commit_id)
    plan = prepared.plan
    return publish(repository, plan, LoadRebase(repository, mode_of(plan), LocalRunner()))
