"""Prepared loads: finishing one that died between staging and publishing, in seconds."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.errors import CommitNotFound, NotFound, OmnigraphError, StagedTooLongAgo
from omnigraph.history import Commit
from omnigraph.history.plan import LONG_AGO
from omnigraph.pipeline.load.incoming import mode_of
from omnigraph.pipeline.load.publishing import publish, say_prepared
from omnigraph.pipeline.load.rebasing import LoadRebase
from omnigraph.pipeline.runner import LocalRunner
from omnigraph.views import Repository


def resume(repository: Repository, commit_id: str) -> Commit:
    """Publish a prepared load; the commit it has already when it was published before. NotFound: no such load.

    A load that is refused stays prepared: what stands in its way may go away, and only its user can tell.
    """
    try:
        prepared = repository.history.recovery.get(commit_id)
    except NotFound as missing:
        try:
            return repository.history.revisions.find(commit_id)
        except CommitNotFound:
            raise missing from None
    plan = replace(prepared.plan, kept_since=LONG_AGO)
    if prepared.provisional:
        raise StagedTooLongAgo(plan.branch, "it ended before it had made sure that its data is safe from cleanup")
    try:
        return publish(repository, plan, LoadRebase(repository, mode_of(plan), LocalRunner()))
    except OmnigraphError as error:
        say_prepared(error, plan)
        raise
