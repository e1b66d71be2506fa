"""Publishes writes: attempt after attempt, each on the newest head, until a write is published or refused.

Several writes to one branch may share an entry. Each is added on top of the one before it, and gets its own commit or its own
error; a write that is refused because of another one is tried again if that one is not published.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple, TypeVar

from omnigraph.errors import Contention, Damaged, OmnigraphError, StagedTooLongAgo, StorageError
from omnigraph.history.history import History
from omnigraph.history.plan import PublishPlan
from omnigraph.history.publish import Attempt, Head
from omnigraph.history.values import Commit, Snapshot
from omnigraph.metering import current_meter

MAX_ATTEMPTS = 256
"""An attempt costs little, and among writers that never pause, a slow one succeeds in one of many."""
INITIAL_BACKOFF_S = 0.002
MAX_BACKOFF_S = 0.03
MAX_DOUBLINGS = 10

AnyHead = TypeVar("AnyHead")
Result = TypeVar("Result")


class LostRace(Exception):
    """Another writer was first. `head` is the one to try next, at once; without it, the newest is read after a pause."""

    def __init__(self, head: Any = None) -> None:
        super().__init__()
        self.head = head


def on_newest_head(
    history: History,
    branch: str,
    newest: Callable[[], AnyHead],
    attempt: Callable[[AnyHead], Result],
    first: AnyHead | None = None,
    *,
    patience_s: float = 0.0,
) -> Result:
    """The result of the first attempt that does not raise LostRace; each is made on what `newest` reads of the branch's head.

    `first` is the head for the first attempt, if one is known. Contention after MAX_ATTEMPTS, but not before
    `patience_s` have passed since the first race was lost.
    """
    head, until = first, 0.0
    for number in itertools.count(1):
        try:
            return attempt(newest() if head is None else head)
        except LostRace as lost:
            head = lost.head
        if number == 1:
            until = history.clock() + patience_s
        if number >= MAX_ATTEMPTS and history.clock() >= until:
            break
        if head is None and number > 1:
            longest = min(MAX_BACKOFF_S, INITIAL_BACKOFF_S * 2 ** min(number, MAX_DOUBLINGS))
            history.sleep(history.jitter() * longest)
    raise Contention(
        f"branch '{branch}' moved {number} times while this write was published",
        hint="retry; many processes are writing to this branch",
    )


class Unchanged(NamedTuple):
    """The outcome of a write that has nothing left to change on the newest head: there is no commit."""


Outcome = Commit | OmnigraphError | Unchanged

Rebase = Callable[[PublishPlan, Snapshot], PublishPlan | None]
"""Check a plan against a newer snapshot and add its rows to it; None if nothing is left to change. Raises a Conflict or InputError
if it no longer fits."""

StageTogether = Callable[[Snapshot, Mapping[int, PublishPlan]], Mapping[int, PublishPlan]]
"""Stage several plans on a snapshot together, each on top of the one before it, in the order of the result. A plan that is left
out is staged by itself after them: leaving one out is always correct."""


@dataclass
class Write:
    """What becomes one commit: its plan, and how to put it on another snapshot (None: it cannot be put there).

    If it is not `is_staged`, its tables have no new versions yet, and `stage_on` makes them on the newest snapshot. If it `is_small`,
    that costs next to nothing, so what an attempt has staged is not kept for the next one. If it `is_new`, publishing it was never
    attempted.
    """

    plan: PublishPlan
    rebase: Rebase | None = None
    is_staged: bool = True
    is_small: bool = False
    is_new: bool = False

    def stage_on(self, plan: PublishPlan, attempt: Attempt) -> PublishPlan | None:
        """The plan, as it was staged last, on the attempt's snapshot; None if nothing is left to change."""
        if self.rebase is None:
            raise attempt.lost(plan)
        return self.rebase(plan, attempt.snapshot)


def publish(
    history: History, plan: PublishPlan, rebase: Rebase | None = None, *, patience_s: float | None = None
) -> Commit:
    """Publish one plan as one commit, or raise the error that says why not."""
    (outcome,) = publish_group(history, [Write(plan, rebase)], patience_s=patience_s)
    if isinstance(outcome, OmnigraphError):
        raise outcome
    assert isinstance(outcome, Commit), "only statements can have nothing left to change"
    return outcome


def publish_group(
    history: History,
    writes: Sequence[Write],
    *,
    stage_together: StageTogether | None = None,
    patience_s: float | None = None,
) -> list[Outcome]:
    """Publish several writes to one branch as one entry; returns the outcome of each. `stage_together` stages those that it can
    together. Attempts go on for at least `patience_s`, or for as long as the writes took to prepare.

    The first attempt uses the cached head: if its position is taken, the create fails, and nothing is lost.
    """
    if len(writes) > 1 and any(write.plan.merged or write.plan.opening for write in writes):
        # A merge has an entry to itself, because what it reaches must not be ascribed to other commits. So has a plan that
        # creates a branch.
        return [outcome for write in writes for outcome in publish_group(history, [write], patience_s=patience_s)]
    branch, publisher = writes[0].plan.branch, history.publisher
    group = _SharedEntry(history, writes, stage_together)
    newest = partial(publisher.newest_head, branch, is_moving=True)
    first = publisher.likely_head(branch, group.plans)
    patience_s = group.prepared_s if patience_s is None else patience_s
    try:
        return on_newest_head(history, branch, newest, group.publish_on, first, patience_s=patience_s)
    except Contention as error:
        return [error for _ in writes]


class _SharedEntry:
    """Writes that are published as one entry, as far as they are staged."""

    def __init__(self, history: History, writes: Sequence[Write], stage_together: StageTogether | None) -> None:
        now = history.clock()
        plans = [write.plan for write in writes]
        self.plans = [plan if plan.staged_since is not None else replace(plan, staged_since=now) for plan in plans]
        """Each as it is staged now."""
        self.staged_since = min([now, *[plan.staged_since for plan in plans if plan.staged_since is not None]])
        self.prepared_s = now - self.staged_since
        """How long the writes took to prepare."""
        self._history = history
        self._writes = writes
        self._stage_together = stage_together
        self._is_staged = [write.is_staged for write in writes]
        self._is_new = [write.is_new for write in writes]
        for write in writes:
            write.is_new = False  # From now on, only the branch can tell whether it is published.
        self._has_lost = False
        self._is_gone = False
        """Whether a prepared plan was missing, which it also is after it was published."""

    def publish_on(self, head: Head) -> list[Outcome]:
        """One attempt: the outcome of each write. LostRace if another entry was first."""
        history, publisher, branch = self._history, self._history.publisher, self.plans[0].branch
        with publisher.turn(branch) as turn:
            if turn is not None and (turn.is_new or self._has_lost):
                head = publisher.newest_head(branch)
            attempt = Attempt(publisher, branch, head, self.plans[0].opening)
            outcomes = self._put_on(attempt)
            failures = [outcome for outcome in outcomes.values() if isinstance(outcome, OmnigraphError)]
            if failures:
                self._confirm(head, failures)
            try:
                commits = attempt.publish()
            except (StorageError, Damaged) as error:
                # If a staged file cannot be made durable, cleanup may have removed it.
                history.retention.explain(error, branch, self.staged_since)
                raise
        if commits is not None:
            published = {commit.id: commit for commit in commits}
            # A commit of the created entry is returned as it is stored there.
            commit_ids = [plan.commit_id for plan in self.plans]
            final = [outcomes[index] if index in outcomes else published[id] for index, id in enumerate(commit_ids)]
            return [published.get(outcome.id, outcome) if isinstance(outcome, Commit) else outcome for outcome in final]
        publisher.crowded(branch)
        if (meter := current_meter()) is not None:
            meter.lost_races += 1
        is_first, self._has_lost = not self._has_lost, True
        # The failed create has cached the entry that won, which may well be the newest.
        raise LostRace(publisher.likely_head(branch, self.plans) if is_first or turn is not None else None)

    def _confirm(self, head: Head, failures: Sequence[OmnigraphError]) -> None:
        """Make sure that writes were refused on the newest head; LostRace if there is a newer one."""
        # A missing prepared plan may have been published and removed since the head was read.
        may_be_published = not self._is_gone and any(isinstance(failure, StagedTooLongAgo) for failure in failures)
        if not head.confirmed or may_be_published:
            self._is_gone = self._is_gone or may_be_published
            newest = self._history.publisher.newest_head(self.plans[0].branch)
            if not newest.is_same(head):
                raise LostRace(newest)

    def _put_on(self, attempt: Attempt) -> dict[int, Outcome]:
        """Add every write that fits to the attempt. Returns the outcomes of the others, by index: the commit that a write has
        already, or why it does not fit."""
        outcomes: dict[int, Outcome] = {}
        able: dict[int, PublishPlan] = {}
        names: set[str] = set()
        for index, plan in enumerate(self.plans):
            try:
                commit = None if self._is_new[index] else attempt.published(plan)
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
            if self._stage_together is not None and is_first and not self._is_staged[index] and attempt.adds_only(plan):
                able[index] = plan
        together = self._stage_together(attempt.snapshot, able) if self._stage_together is not None and able else {}
        others = [index for index in range(len(self.plans)) if index not in outcomes and index not in together]
        for index in (*together, *others):
            plan = self.plans[index]
            try:
                # A plan that was added before it may have the same key.
                if plan.once is not None and (commit := attempt.repeated(plan)) is not None:
                    outcomes[index] = commit
                    continue
                added = together.get(index) or self._staged_on(attempt, index)
                if added is None:
                    outcomes[index] = Unchanged()
                else:
                    attempt.add(added)
            except OmnigraphError as error:
                outcomes[index] = error
        return outcomes

    def _staged_on(self, attempt: Attempt, index: int) -> PublishPlan | None:
        """A plan staged on the attempt's snapshot; None if nothing is left to change."""
        write, plan = self._writes[index], self.plans[index]
        if write.is_small:
            attempt.moved(plan)
            return write.stage_on(plan, attempt)
        is_carried = attempt.carries(plan) and self._is_staged[index]
        staged = plan if is_carried else write.stage_on(plan, attempt)
        if staged is not None:
            staged = self.plans[index] = staged.on(attempt.snapshot)
            self._is_staged[index] = True
        return staged
