"""The last step of a load: a prepared plan becomes a commit, or stays prepared."""

from __future__ import annotations

import contextlib
import time

from omnigraph.errors import Contention, OmnigraphError, StorageError
from omnigraph.failpoints import Failpoint, reach
from omnigraph.history import Commit, PublishPlan
from omnigraph.pipeline.load.rebasing import LoadRebase
from omnigraph.views import Repository
from omnigraph.write.publishing import publish as publish_plan

MIN_PATIENCE_S = 60.0


def publish(repository: Repository, plan: PublishPlan, rebase: LoadRebase, *, patience_s: float = 0.0) -> Commit:
    """Publish a prepared plan and remove it. A plan that is not published stays prepared.

    On contention, attempts continue for `patience_s`, and at least for a minute: a load that took long to prepare may also take long
    to publish.
    """
    reach(Failpoint.LOAD_BEFORE_PUBLISH)
    until = time.monotonic() + max(patience_s, MIN_PATIENCE_S)
    commit = _published(repository, plan, rebase, until)
    reach(Failpoint.LOAD_AFTER_PUBLISH)
    forget(repository, plan)
    return commit


def forget(repository: Repository, plan: PublishPlan) -> None:
    """Remove a prepared plan. Storage errors are ignored: a plan that stays behind is harmless, and publishing it again gives the
    same commit."""
    with contextlib.suppress(StorageError):
        repository.history.recovery.remove(plan.commit_id)


def say_prepared(error: OmnigraphError, plan: PublishPlan) -> None:
    """Add a hint to the error of a load that was not, or may not have been, published: how to publish its staged rows."""
    way_on = (
        f"its rows are staged: `omnigraph recovery resume {plan.commit_id}` publishes them, "
        f"`omnigraph recovery discard {plan.commit_id}` forgets them"
    )
    error.hint = f"{error.hint}; {way_on}" if error.hint else way_on


def _published(repository: Repository, plan: PublishPlan, rebase: LoadRebase, until: float) -> Commit:
    while True:
        try:
            return publish_plan(repository.history, plan, rebase)
        except Contention:
            if time.monotonic() > until:
                raise
