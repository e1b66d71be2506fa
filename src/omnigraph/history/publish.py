"""Publishing: one attempt to add plans on top of one head.

An attempt checks each plan against the state after the one before it, and creates one entry with all of their commits. It has no
callbacks, stages nothing and repeats nothing: a writer that loses the race makes another attempt, on the head that won
(`omnigraph.write.publishing`).

    what moved since the plan's base        what happens
    ------------------------------------    -----------------------------------------------------------
    nothing the plan touches or reads       it is carried over as it is
    a table it inserts or upserts into,     its writer checks again and puts the same rows on the new
      or one it read                          version
    a table that its statements read        its writer runs the statements again on the new version
    a table it changes strictly             ExpectedVersionMismatch
    the schema                              its writer checks everything under the new one, or gives up with
                                              ExpectedVersionMismatch on "schema"
    the branch's incarnation                BranchReplaced
    anything, with `if_commit` given        PreconditionFailed
    a commit came under its write key       that commit is the answer; WriteKeyReused if it asked for something else

A plan with an `opening` creates its branch in the same entry as its commit, so there is never a branch without it. If the branch
exists by then, such a plan is treated like any other, or refused with AlreadyExists if it needs a new one.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace

from omnigraph.errors import (
    AlreadyExists,
    BranchNotFound,
    BranchReplaced,
    ExpectedVersionMismatch,
    OutcomeUnknown,
    PreconditionFailed,
)
from omnigraph.features import WRITE_KEYS
from omnigraph.history.chain import Chain
from omnigraph.history.lineage import Lineage
from omnigraph.history.log import Log
from omnigraph.history.plan import PublishPlan
from omnigraph.history.retention import Retention
from omnigraph.history.tags import Tags
from omnigraph.history.turns import Turn, Turns
from omnigraph.history.values import (
    Commit,
    CommitRef,
    CommitStep,
    Entry,
    Snapshot,
    TableState,
    apply_step,
    incarnation_start,
    new_incarnation,
)
from omnigraph.history.write_keys import WriteKeys

SCHEMA = "schema"
"""Stands for the schema among the keys of tables."""


@dataclass(frozen=True)
class Head:
    """The newest known entry of a branch; `seen_at` is when it was last known to be the newest.

    If it is not `confirmed`, it comes from the cache. That is enough to create the next entry; but a plan is refused only on a
    confirmed head.
    """

    entry: Entry | None
    """None if the branch never existed."""
    seen_at: float
    confirmed: bool

    def is_same(self, other: Head) -> bool:
        return (self.entry and self.entry.id) == (other.entry and other.entry.id)


class Publisher:
    """What attempts need: parts of history, and heads to make them on."""

    def __init__(
        self,
        chain: Chain,
        log: Log,
        lineage: Lineage,
        tags: Tags,
        keys: WriteKeys,
        retention: Retention,
        new_id: Callable[[], str],
        *,
        clock_us: Callable[[], int],
    ) -> None:
        self.chain = chain
        self.log = log
        self.lineage = lineage
        self.tags = tags
        self.keys = keys
        self.retention = retention
        self.new_id = new_id
        self.clock_us = clock_us
        self._turns = Turns(chain)

    def turn(self, branch: str) -> contextlib.AbstractContextManager[Turn | None]:
        """See `Turns.taken`."""
        return self._turns.taken(branch)

    def crowded(self, branch: str) -> None:
        """See `Turns.crowded`."""
        self._turns.crowded(branch)

    def likely_head(self, branch: str, plans: Iterable[PublishPlan]) -> Head:
        """The cached head, without a request, if it is as new as the bases of the plans; otherwise the newest."""
        cached = self.chain.cached_head(branch)
        if cached is None:
            return self.newest_head(branch)
        head = cached[0]
        for plan in plans:
            is_known = plan.base.incarnation != plan.incarnation or plan.base.position <= head.position
            if head.incarnation != plan.incarnation or not is_known:
                return self.newest_head(branch)
        return Head(*cached, confirmed=False)

    def newest_head(self, branch: str, *, is_moving: bool = False) -> Head:
        """See `Chain.newest`."""
        looked_at = self.chain.clock()
        return Head(self.chain.newest(branch, is_moving=is_moving), looked_at, confirmed=True)


class Attempt:
    """An entry that is being built on one head. `snapshot` is the state that the next plan must be based on.

    `opening` creates the branch in that entry, if it does not exist: then there is only the plan of the opening.
    """

    def __init__(self, publisher: Publisher, branch: str, head: Head, opening: Entry | None = None) -> None:
        newest = head.entry
        self.head = head
        self._publisher = publisher
        self._position = 0 if newest is None else newest.position + 1
        self._opening: Entry | None = None
        if opening is not None and (newest is None or not newest.alive):
            incarnation = new_incarnation(branch, self._position, opening.id)
            newest = self._opening = replace(opening, position=self._position, incarnation=incarnation)
        if newest is None:
            raise BranchNotFound(f"branch '{branch}' does not exist", hint="see 'omnigraph branch list'")
        self._start = newest
        self.snapshot: Snapshot = newest.head
        self._steps: list[CommitStep] = []
        self._unsynced: list[str] = []
        self._merged_reach: dict[str, int] = {}

    # ------------------------------------------------------------ checking a plan

    def published(self, plan: PublishPlan) -> Commit | None:
        """The plan's own commit, if the branch has it already: it was published twice, or an answer was lost.

        All incarnations since the plan was made are searched: the one that has it may have been deleted again.
        """
        entry = self.head.entry
        if entry is None or (plan.incarnation == entry.incarnation and plan.base == entry.head.commit.ref):
            return None
        made_at = incarnation_start(plan.incarnation)[1]
        while entry.position >= made_at:
            commit = self._publisher.log.find(entry, plan.commit_id)
            start = incarnation_start(entry.incarnation)[1]
            if commit is not None or start <= made_at:
                return commit
            before = self._publisher.chain.find(plan.branch, start - 1)
            if before is None:
                raise OutcomeUnknown(
                    f"branch '{plan.branch}' was deleted and cleaned up since commit {plan.commit_id} was prepared",
                    commit_id=plan.commit_id,
                )
            entry = before
        return None

    def repeated(self, plan: PublishPlan) -> Commit | None:
        """The commit that was made under the plan's write key, on the head or by a plan that was added before this one.

        WriteKeyReused if that write asked for something else.
        """
        assert plan.once is not None, "only a plan with a write key can be repeated"
        return self._publisher.keys.committed(plan.once, self._start, self._steps)

    def check_staged(self, plan: PublishPlan) -> None:
        """StagedTooLongAgo if a cleanup may have removed what the plan staged. Checked for every head, before the create."""
        self._publisher.retention.check_staged(plan)

    def carries(self, plan: PublishPlan) -> bool:
        """Whether a staged plan can be added as it is; False if its writer has to rebase it on `snapshot` first.

        Raises the Conflict if that would not help. A merge is never carried over another commit, whatever that changed: the merge
        records what the branch reaches.
        """
        if self.moved(plan):
            return False
        return plan.merged is None or plan.base == self.snapshot.commit.ref

    def lost(self, plan: PublishPlan) -> ExpectedVersionMismatch:
        """The error for a plan that cannot be carried and cannot be rebased."""
        moved = self.moved(plan)
        if not moved:
            return ExpectedVersionMismatch("branch", plan.base.seq, self.snapshot.commit.ref.seq)
        if SCHEMA in moved:
            return ExpectedVersionMismatch(SCHEMA, plan.base.seq, self.snapshot.commit.ref.seq)
        return self._mismatch(min(moved), plan.bases()[min(moved)])

    def adds_only(self, plan: PublishPlan) -> bool:
        """Whether the plan only inserts or upserts rows under the current schema, so that only these rows decide whether it fits."""
        start = self._start
        if plan.opening is not None or plan.if_commit is not None or not start.alive:
            return False
        if plan.incarnation != start.incarnation or plan.schema != self.snapshot.schema:
            return False
        return not [change for change in plan.changes if change.mode not in ("insert", "upsert")]

    def moved(self, plan: PublishPlan) -> set[str]:
        """The tables that the plan changes or has read and that have changed since; only SCHEMA, if the schema has changed: then
        only the plan's writer knows what its tables are called now. Raises the Conflict of a plan that cannot be rebased on
        `snapshot`."""
        self._check_incarnation(plan)
        # The whole reference is compared, not the id: a commit of this group that lost its first position has other content
        # elsewhere.
        if plan.base == self.snapshot.commit.ref:
            return set()
        if plan.schema != self.snapshot.schema:
            return {SCHEMA}
        moved = {key for key, state in plan.bases().items() if state != self.snapshot.table(key)}
        for change in plan.changes:
            if change.mode == "strict" and change.key in moved:
                raise self._mismatch(change.key, change.base)
        return moved

    def _check_incarnation(self, plan: PublishPlan) -> None:
        commit = self.snapshot.commit
        if plan.opening is not None:
            if plan.new_branch and self._opening is None:
                raise AlreadyExists(
                    f"branch '{plan.branch}' exists already", hint="choose another name, or do not ask for a new branch"
                )
        elif not self._start.alive or self._start.incarnation != plan.incarnation:
            raise BranchReplaced(
                f"branch '{plan.branch}' was deleted while this write was prepared",
                hint="open the branch again; if it was created again, apply the change to the new one",
            )
        if plan.if_commit is not None and commit.id != plan.if_commit:
            raise PreconditionFailed(plan.branch, plan.if_commit, commit.id)

    def _mismatch(self, key: str, base: TableState | None) -> ExpectedVersionMismatch:
        actual = self.snapshot.table(key)
        return ExpectedVersionMismatch(key, base.generation if base else 0, actual.generation if actual else 0)

    # ------------------------------------------------------------ making the entry

    def add(self, plan: PublishPlan) -> None:
        """Add a plan that is based on `snapshot`."""
        publisher, parent = self._publisher, self.snapshot.commit
        if plan.merged is not None:
            source = publisher.lineage.entry_of(plan.merged)
            self._merged_reach.update(publisher.lineage.reached_at(source, plan.merged))
        commit = Commit(
            CommitRef(plan.commit_id, plan.branch, self._start.incarnation, parent.ref.seq + 1, self._position),
            (parent.ref,) if plan.merged is None else (parent.ref, plan.merged),
            plan.kind,
            max(publisher.clock_us(), parent._at_us + 1),
            plan.actor,
            plan.message,
            plan.once,
        )
        tables = {change.key: change.state for change in plan.changes}
        step = CommitStep(commit, plan.new_schema or self.snapshot.schema, tables)
        self.snapshot = apply_step(self.snapshot, step)
        self._steps.append(step)
        self._unsynced += plan.unsynced

    def adopt(self, step: CommitStep, reached: Mapping[str, int] | None = None) -> None:
        """Add a commit of another copy of this graph, which has the same parent there: the same commit, at the position of this
        chain. `reached` is what a merge reaches."""
        parent, commit = self.snapshot.commit, step.commit
        ref = replace(commit.ref, position=self._position)
        placed = replace(commit, ref=ref, parents=(parent.ref, *commit.parents[1:]))
        self._merged_reach.update(reached or {})
        self._steps.append(replace(step, commit=placed))
        self.snapshot = apply_step(self.snapshot, self._steps[-1])

    def publish(self) -> list[Commit] | None:
        """Create the entry; returns the commits of the added plans, in order. None if another entry has the position."""
        if not self._steps:
            return []
        entry = self._commit_entry() if self._opening is None else self._opening_entry(self._opening)
        held = self._publisher.chain.append(entry, prepared_at=self.head.seen_at, sync_first=self._unsynced)
        return None if held is None else [step.commit for step in held.steps]

    def _commit_entry(self) -> Entry:
        head, publisher = self._start, self._publisher
        tail, segments = publisher.log.following(head)
        last = self._steps[-1].commit.ref
        return Entry(
            id=last.id if len(self._steps) == 1 else publisher.new_id(),
            op="commit",
            branch=head.branch,
            incarnation=head.incarnation,
            position=self._position,
            before=head.head,
            steps=tuple(self._steps),
            ancestry=publisher.lineage.after(head.ancestry, last, self._merged_reach),
            write_features=self._write_features(),
            tail=tail,
            segments=segments,
            key_objects=publisher.keys.following(head, rolled=not tail),
        )

    def _opening_entry(self, opening: Entry) -> Entry:
        (step,) = self._steps
        self._publisher.tags.check_no_tag(opening.branch)
        ancestry = self._publisher.lineage.after(opening.ancestry, step.commit.ref)
        return replace(opening, steps=(step,), ancestry=ancestry, write_features=self._write_features())

    def _write_features(self) -> tuple[str, ...]:
        """The features of the head, and WRITE_KEYS from the first write key on."""
        features = self._start.write_features
        if WRITE_KEYS in features or all(step.commit._write_key is None for step in self._steps):
            return features
        return (*features, WRITE_KEYS)
