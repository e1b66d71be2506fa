"""Publishes plans: attempt after attempt, each on the newest head, until a plan is published or refused.

Several plans of one branch may share an entry. Each is added on top of the one before it, and gets its own commit or its own
error; a plan that is refused because of another one is tried again if that one is not published.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from omnigraph.errors import Contention, Damaged, OmnigraphError, StagedTooLongAgo, StorageError
from omnigraph.history import Attempt, Commit, History, PublishPlan, Snapshot
from omnigraph.metering import current_meter

MAX_ATTEMPTS = 256
"""An attempt costs little, and among writers that never pause, a slow one succeeds in one of many."""
INITIAL_BACKOFF_S = 0.002
MAX_BACKOFF_S = 0.1


class Unchanged(NamedTuple):
    """The outcome of a plan that has nothing left to change on the newest head: there is no commit."""


Outcome = Commit | OmnigraphError | Unchanged

Rebase = Callable[[PublishPlan, Snapshot], PublishPlan | None]
"""Check a plan against a newer snapshot and add its rows to it; None if nothing is left to change. Raises a Conflict or InputError
if it no longer fits."""

StageTogether = Callable[[Snapshot, Mapping[int, PublishPlan]], Mapping[int, PublishPlan]]
"""Stage several plans on a snapshot together, each on top of the one before it, in the order of the result. A plan that is left
out is staged by itself after them: leaving one out is always correct."""


class Submission(NamedTuple):
    """A plan to be published, and how to rebase it on another snapshot (None: it cannot be rebased).

    If it is not `staged`, its tables have no new versions yet, and `rebase` makes them on the newest snapshot. If it `is_small`,
    that costs next to nothing, so what an attempt has staged is not kept for the next one. If it `is_new`, publishing it was never
    attempted.
    """

    plan: PublishPlan
    rebase: Rebase | None = None
    staged: bool = True
    is_small: bool = False
    is_new: bool = False

    def placed(self, attempt: Attempt) -> Submission | None:
        """The submission with its plan staged on the attempt's snapshot; None if nothing is left to change."""
        plan: PublishPlan | None
        if attempt.carries(self.plan) and self.staged:
            plan = self.plan
        elif self.rebase is None:
            raise attempt.lost(self.plan)
        else:
            plan = self.rebase(self.plan, attempt.snapshot)
        return None if plan is None else self._replace(plan=plan.on(attempt.snapshot), staged=True)


def publish(history: History, plan: PublishPlan, rebase: Rebase | None = None) -> Commit:
    """Publish one plan as one commit, or raise the error that says why not."""
    (outcome,) = publish_group(history, [Submission(plan, rebase)])
    if isinstance(outcome, OmnigraphError):
        raise outcome
    assert isinstance(outcome, Commit), "only statements can have nothing left to change"
    return outcome


def publish_group(
    history: History, submissions: Sequence[Submission], *, stage_together: StageTogether | None = None
) -> list[Outcome]:
    """Publish several plans of one branch as one entry; returns the outcome of each. `stage_together` stages those that it can
    together.

    The first attempt uses the cached head: if its position is taken, the create fails, and nothing is lost.
    """
    if len(submissions) > 1 and any(submission.plan.merged or submission.plan.opening for submission in submissions):
        # A merge has an entry to itself, because what it reaches must not be ascribed to other commits. So has a plan that
        # creates a branch.
        return [outcome for submission in submissions for outcome in publish_group(history, [submission])]
    branch = submissions[0].plan.branch
    now, publisher = history.clock(), history.publisher
    group = [
        submission
        if submission.plan.staged_since is not None
        else submission._replace(plan=replace(submission.plan, staged_since=now))
        for submission in submissions
    ]
    head = publisher.likely_head(branch, [submission.plan for submission in group])
    is_gone = False
    for number in range(MAX_ATTEMPTS):
        with publisher.turn(branch) as acquired:
            if acquired:
                head = publisher.newest_head(branch)
            attempt = Attempt(publisher, branch, head, submissions[0].plan.opening)
            outcomes = _put_on(attempt, group, stage_together)
            failures = [outcome for outcome in outcomes.values() if isinstance(outcome, OmnigraphError)]
            # A missing prepared plan may have been published and removed since the head was read.
            may_be_published = not is_gone and any(isinstance(failure, StagedTooLongAgo) for failure in failures)
            if failures and (not head.confirmed or may_be_published):
                is_gone = is_gone or may_be_published
                newest = publisher.newest_head(branch)
                if not newest.is_same(head):
                    head = newest
                    continue
            try:
                commits = attempt.publish()
            except (StorageError, Damaged) as error:
                # If a staged file cannot be made durable, cleanup may have removed it.
                times = [submission.plan.staged_since for submission in group]
                history.retention.explain(error, branch, min(time for time in times if time is not None))
                raise
        if commits is not None:
            published = {commit.id: commit for commit in commits}
            return [_final(outcomes.get(index), submission, published) for index, submission in enumerate(group)]
        publisher.crowded(branch)
        if (meter := current_meter()) is not None:
            meter.lost_races += 1
        if number == 0 or acquired:
            # The failed create has cached the entry that won, which may well be the newest.
            head = publisher.likely_head(branch, [submission.plan for submission in group])
        else:
            history.sleep(history.jitter() * min(MAX_BACKOFF_S, INITIAL_BACKOFF_S * 2**number))
            head = publisher.newest_head(branch)
    contention = Contention(
        f"branch '{branch}' moved {MAX_ATTEMPTS} times while this write was published",
        hint="retry; many processes are writing to this branch",
    )
    return [contention for _ in submissions]


def _put_on(attempt: Attempt, group: list[Submission], stage_together: StageTogether | None) -> dict[int, Outcome]:
    """Add every plan that fits to the attempt, and keep it in the group as it is staged now. Returns the outcomes of the others,
    by index: the commit that a plan has already, or why it does not fit."""
    outcomes: dict[int, Outcome] = {}
    able: dict[int, PublishPlan] = {}
    names: set[str] = set()
    for index, submission in enumerate(group):
        plan = submission.plan
        try:
            commit = None if submission.is_new else attempt.published(plan)
            if commit is None and plan.once is not None:
                commit = attempt.repeated(plan)
            if commit is not None:
                outcomes[index] = commit
                continue
            attempt.check_staged(plan)
        except OmnigraphError as error:
            outcomes[index] = error
            continue
        # The first of each write key: the others are answered with its commit.
        is_first = plan.once is None or plan.once.name not in names
        if plan.once is not None:
            names.add(plan.once.name)
        if stage_together is not None and is_first and not submission.staged and attempt.adds_only(plan):
            able[index] = plan
    together = stage_together(attempt.snapshot, able) if stage_together is not None and able else {}
    others = [index for index in range(len(group)) if index not in outcomes and index not in together]
    for index in (*together, *others):
        submission = group[index]
        try:
            # A plan that was added before it may have the same key.
            if submission.plan.once is not None and (commit := attempt.repeated(submission.plan)) is not None:
                outcomes[index] = commit
                continue
            added = together.get(index)
            if added is not None:
                pass
            elif submission.is_small and submission.rebase is not None:
                attempt.moved(submission.plan)
                added = submission.rebase(submission.plan, attempt.snapshot)
            elif (placed := submission.placed(attempt)) is not None:
                group[index], added = placed, placed.plan
            if added is None:
                outcomes[index] = Unchanged()
            else:
                attempt.add(added)
        except OmnigraphError as error:
            outcomes[index] = error
    return outcomes


def _final(outcome: Outcome | None, submission: Submission, published: Mapping[str, Commit]) -> Outcome:
    """The outcome of a submission: a commit of the created entry is returned as it is stored there."""
    commit_id = outcome.id if isinstance(outcome, Commit) else submission.plan.commit_id
    return published[commit_id] if outcome is None else published.get(commit_id, outcome)
