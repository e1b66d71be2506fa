"""From a plan to its commit: attempt after attempt, each on the newest head, until the plan is in or refused.

Several plans of one branch may share an entry. Each is put on top of the one before it, and gets its own commit or its own
error; a plan that is refused for what a neighbour does is tried again when that neighbour does not get in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from omnigraph.errors import Contention, Damaged, OmnigraphError, StagedTooLongAgo, StorageError
from omnigraph.history import Attempt, Commit, History, PublishPlan, Snapshot

MAX_ATTEMPTS = 256
"""An attempt costs little: who is slow beside writers that never pause wins one of many."""
INITIAL_BACKOFF_S = 0.002
MAX_BACKOFF_S = 0.1

Outcome = Commit | OmnigraphError

Rebase = Callable[[PublishPlan, Snapshot], PublishPlan]
"""Check a plan against a newer snapshot and put its rows on it; raise a Conflict or InputError when it no longer fits."""

StageTogether = Callable[[Snapshot, Mapping[int, PublishPlan]], Mapping[int, PublishPlan]]
"""Put several plans on a snapshot at once, each on top of the one before it in the order of the answer. A plan that is left
out goes on by itself, after them: leaving one out is always right."""


class Submission(NamedTuple):
    """A plan handed in to be published, and how to put it on another snapshot (None: it cannot be).

    Not `staged`: its tables have no new versions yet, and `rebase` makes them on whatever snapshot is the newest. `is_small`: that
    costs next to nothing, so nothing is staged before an attempt, and what one has staged is not kept for the next one. `is_new`:
    nobody has tried to publish it.
    """

    plan: PublishPlan
    rebase: Rebase | None = None
    staged: bool = True
    is_small: bool = False
    is_new: bool = False

    def placed(self, attempt: Attempt) -> Submission:
        """The submission with its plan staged on the attempt's snapshot."""
        if attempt.carries(self.plan) and self.staged:
            plan = self.plan
        elif self.rebase is None:
            raise attempt.lost(self.plan)
        else:
            plan = self.rebase(self.plan, attempt.snapshot)
        return self._replace(plan=plan.on(attempt.snapshot), staged=True)


def publish(history: History, plan: PublishPlan, rebase: Rebase | None = None) -> Commit:
    """One plan, one commit; or the error that says why not."""
    (outcome,) = publish_group(history, [Submission(plan, rebase)])
    if isinstance(outcome, OmnigraphError):
        raise outcome
    return outcome


def publish_group(
    history: History, submissions: Sequence[Submission], *, stage_together: StageTogether | None = None
) -> list[Outcome]:
    """Several plans of one branch as one entry: the outcome of each. `stage_together` stages those that it can at once.

    The first attempt goes by the cached head: a create at a position that is taken says so, and nothing is lost.
    """
    if len(submissions) > 1 and any(submission.plan.merged or submission.plan.opening for submission in submissions):
        # A merge stands alone in its entry: what it reaches must not be ascribed to its neighbours. So does who opens a branch.
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
        with publisher.turn(branch) as has_turn:
            if has_turn:
                head = publisher.newest_head(branch)
            attempt = Attempt(publisher, branch, head, submissions[0].plan.opening)
            outcomes = _put_on(attempt, group, stage_together)
            failures = [outcome for outcome in outcomes.values() if isinstance(outcome, OmnigraphError)]
            # A prepared plan that is gone may have been published since the head was read, and discarded after that.
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
                # A file that was staged and cannot be made durable may have been taken by cleanup.
                times = [submission.plan.staged_since for submission in group]
                history.retention.explain(error, branch, min(time for time in times if time is not None))
                raise
        if commits is not None:
            published = {commit.id: commit for commit in commits}
            return [_final(outcomes.get(index), submission, published) for index, submission in enumerate(group)]
        publisher.crowded(branch)
        if number == 0 or has_turn:
            # Who came first is known by now, and may well be the newest.
            head = publisher.likely_head(branch, [submission.plan for submission in group])
        else:
            history.sleep(history.jitter() * min(MAX_BACKOFF_S, INITIAL_BACKOFF_S * 2**number))
            head = publisher.newest_head(branch)
    contention = Contention(
        f"branch '{branch}' moved {MAX_ATTEMPTS} times while this write was published",
        hint="retry; many writers are at work",
    )
    return [contention for _ in submissions]


def _put_on(attempt: Attempt, group: list[Submission], stage_together: StageTogether | None) -> dict[int, Outcome]:
    """Add every plan that fits, and keep it in the group as it is staged now. The outcomes of the others, by index: the commit
    that a plan has already, or why it does not fit."""
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
            if not submission.is_small:
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
            # A neighbour that was added by now may have the same key.
            if submission.plan.once is not None and (commit := attempt.repeated(submission.plan)) is not None:
                outcomes[index] = commit
                continue
            if index in together:
                plan = together[index]
            elif submission.is_small and submission.rebase is not None:
                attempt.moved(submission.plan)
                plan = submission.rebase(submission.plan, attempt.snapshot)
            else:
                group[index] = submission.placed(attempt)
                plan = group[index].plan
            attempt.add(plan)
        except OmnigraphError as error:
            outcomes[index] = error
    return outcomes


def _final(outcome: Outcome | None, submission: Submission, published: Mapping[str, Commit]) -> Outcome:
    """A commit of the entry that was created as it stands there, whoever created it."""
    commit_id = outcome.id if isinstance(outcome, Commit) else submission.plan.commit_id
    return published[commit_id] if outcome is None else published.get(commit_id, outcome)
