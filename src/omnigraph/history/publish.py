"""Publishing: the one way a write becomes visible.

A plan is a plain value made against a pinned snapshot. Publishing creates the next entry of the branch; when somebody
else was first, the plan is rebased onto what won, if its kind allows, and tried again.

    what moved since the plan's base        what happens
    ------------------------------------    -----------------------------------------------------------
    nothing the plan touches or reads       carried over as it is
    a table it inserts or upserts into,     the writer's `rebase` checks again and puts the same rows on
      or one it read                          the new version
    a table it changes strictly             ExpectedVersionMismatch
    the schema                              ExpectedVersionMismatch on "schema"
    the branch's incarnation                BranchReplaced (it was deleted, and perhaps made anew)
    anything, with `if_commit` given        PreconditionFailed
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from omnigraph.errors import (
    BranchNotFound,
    BranchReplaced,
    Contention,
    ExpectedVersionMismatch,
    OmnigraphError,
    PreconditionFailed,
)
from omnigraph.history.chain import Chain
from omnigraph.history.lineage import Lineage
from omnigraph.history.log import Log
from omnigraph.history.values import Commit, CommitKind, CommitRef, CommitStep, Entry, Snapshot, TableState, apply_step

MAX_ATTEMPTS = 64
INITIAL_BACKOFF_S = 0.002
BACKOFF_MOST_S = 0.25

ChangeMode = Literal["insert", "upsert", "strict", "merge"]


@dataclass(frozen=True)
class TableChange:
    """One table's new state. `staged` is the writer's own note of what it staged, for putting it elsewhere."""

    key: str
    mode: ChangeMode
    base: TableState | None
    state: TableState | None
    staged: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "mode": self.mode,
            "base": self.base and self.base.to_json(),
            "state": self.state and self.state.to_json(),
            "staged": dict(self.staged),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> TableChange:
        return cls(
            value["key"],
            value["mode"],
            value["base"] and TableState.from_json(value["base"]),
            value["state"] and TableState.from_json(value["state"]),
            value["staged"],
        )


@dataclass(frozen=True)
class PublishPlan:
    """Everything a publish needs; a value that can be stored and published by another process.

    `reads` names tables whose rows the plan relied on (endpoints, incident edges): it is checked again when they move.
    """

    commit_id: str
    branch: str
    incarnation: str
    base: CommitRef
    schema: str
    changes: tuple[TableChange, ...]
    reads: tuple[str, ...] = ()
    read_states: Mapping[str, TableState | None] = field(default_factory=dict)
    kind: CommitKind = "mutation"
    actor: str | None = None
    message: str | None = None
    if_commit: str | None = None
    merged: CommitRef | None = None
    new_schema: str | None = None
    """The schema after this commit, when it changes."""

    def to_json(self) -> dict[str, Any]:
        return {
            **{name: getattr(self, name) for name in _PLAIN_FIELDS},
            "base": self.base.to_json(),
            "changes": [change.to_json() for change in self.changes],
            "reads": list(self.reads),
            "read_states": {key: state and state.to_json() for key, state in self.read_states.items()},
            "merged": self.merged and self.merged.to_json(),
        }

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> PublishPlan:
        return cls(
            **{name: value[name] for name in _PLAIN_FIELDS},
            base=CommitRef.from_json(value["base"]),
            changes=tuple(TableChange.from_json(change) for change in value["changes"]),
            reads=tuple(value["reads"]),
            read_states={key: state and TableState.from_json(state) for key, state in value["read_states"].items()},
            merged=value["merged"] and CommitRef.from_json(value["merged"]),
        )


_PLAIN_FIELDS = (
    "commit_id", "branch", "incarnation", "schema", "kind", "actor", "message", "if_commit", "new_schema",
)  # fmt: skip

Rebase = Callable[[PublishPlan, Snapshot], PublishPlan]
"""Check a plan against a newer snapshot and put its rows on it; raise a Conflict or InputError when it no longer fits."""


@dataclass(frozen=True)
class Member:
    """One plan of a group, with its writer's rebase (None: the plan cannot be rebased).

    Not `staged`: the plan's tables have no new versions yet, and `rebase` makes them on whatever snapshot is the newest.
    """

    plan: PublishPlan
    rebase: Rebase | None = None
    staged: bool = True


Together = Callable[[Snapshot, Mapping[int, PublishPlan]], Mapping[int, PublishPlan]]
"""Put several plans on a snapshot at once, each on top of the one before it in the order of the answer. A plan that is left
out goes on by itself, after them: leaving one out is always right."""


@dataclass
class _Trial:
    """One attempt of a group on one head, by the index of the member."""

    open: list[int] = field(default_factory=list)
    steps: dict[int, CommitStep] = field(default_factory=dict)
    done: dict[int, Commit] = field(default_factory=dict)
    refused: dict[int, OmnigraphError] = field(default_factory=dict)
    merged_reached: dict[str, int] = field(default_factory=dict)

    def outcome(self, index: int) -> Commit | OmnigraphError:
        return self.done.get(index) or self.refused[index]


class Publisher:
    def __init__(
        self,
        chain: Chain,
        log: Log,
        lineage: Lineage,
        new_id: Callable[[], str],
        *,
        clock_us: Callable[[], int],
        sleep: Callable[[float], None] = time.sleep,
        jitter: Callable[[], float] = random.random,
    ) -> None:
        self.chain = chain
        self.log = log
        self.lineage = lineage
        self.new_id = new_id
        self.clock_us = clock_us
        self.sleep = sleep
        self.jitter = jitter

    def publish(self, plan: PublishPlan, rebase: Rebase | None = None) -> Commit:
        """One plan, one commit; or the error that says why not."""
        (outcome,) = self.publish_group([Member(plan, rebase)])
        if isinstance(outcome, OmnigraphError):
            raise outcome
        return outcome

    def publish_group(
        self,
        members: Sequence[Member],
        *,
        together: Together | None = None,
        before_create: Callable[[], None] | None = None,
    ) -> list[Commit | OmnigraphError]:
        """Several plans of one branch as one entry: each gets its own commit, in order, or its own error.

        `together` stages those that can be staged at once. `before_create` is called when every plan stands on its
        snapshot, before anything becomes visible; it may be called again.

        The first attempt goes by the cached head: a create at a position that is taken says so, and nothing is lost.
        A plan whose commit is in the branch already (published twice, or an answer was lost) gets that commit.
        """
        if len(members) > 1 and any(member.plan.merged for member in members):
            # A merge stands alone in its entry: what it reaches must not be ascribed to its neighbours.
            alone = [self.publish_group([member], before_create=before_create) for member in members]
            return [outcome for (outcome,) in alone]
        branch = members[0].plan.branch
        current = list(members)
        head, prepared_at, confirmed = self._start(branch, [member.plan for member in members])
        for attempt in range(MAX_ATTEMPTS):
            trial = self._try_on(head, current, together)
            if trial.refused and not confirmed:
                head, prepared_at = self._look(branch)
                confirmed = True
                continue
            if trial.steps:
                entry = self._entry(head, list(trial.steps.values()), trial.merged_reached)
                published = self.chain.append(entry, prepared_at=prepared_at, before_visible=before_create)
                if published is None:
                    if attempt:
                        self.sleep(self.jitter() * min(BACKOFF_MOST_S, INITIAL_BACKOFF_S * 2**attempt))
                    head, prepared_at = self._look(branch)
                    confirmed = True
                    continue
                trial.done |= {index: step.commit for index, step in zip(trial.steps, published.steps, strict=True)}
            return [trial.outcome(index) for index in range(len(members))]
        contention = Contention(
            f"branch '{branch}' moved {MAX_ATTEMPTS} times while this write was published",
            hint="retry; many writers are at work",
        )
        return [contention for _ in members]

    def _start(self, branch: str, plans: Sequence[PublishPlan]) -> tuple[Entry, float, bool]:
        """The entry to publish on first, when it was last known to be the head, and whether that was just now."""
        cached = self.chain.cached_head(branch)
        if cached is not None and all(_knows(cached[0], plan) for plan in plans):
            return (*cached, False)
        return (*self._look(branch), True)

    def _look(self, branch: str) -> tuple[Entry, float]:
        looked_at = self.chain.clock()
        newest = self.chain.newest(branch)
        if newest is None:
            raise BranchNotFound(f"branch '{branch}' does not exist", hint="see the list of branches")
        return newest, looked_at

    def _try_on(self, head: Entry, current: list[Member], together: Together | None) -> _Trial:
        """Each plan's step on top of the one before it. A refusal counts for this head only: a plan that was refused for
        what a neighbour in the group did is tried again when that neighbour does not get in."""
        snapshot = head.head
        trial = self._begun(head, current)
        joined: Mapping[int, PublishPlan] = {}
        if together is not None:
            able = {index: current[index].plan for index in trial.open if _may_join(current[index], head)}
            joined = together(snapshot, able) if able else {}
        for index in (*joined, *(index for index in trial.open if index not in joined)):
            try:
                plan = joined.get(index)
                if plan is None:
                    plan = self._onto(current[index], head, snapshot)
                    current[index] = replace(current[index], plan=plan, staged=True)
                if plan.merged is not None:
                    source = self.lineage.entry_of(plan.merged)
                    trial.merged_reached.update(self.lineage.reached_at(source, plan.merged))
            except OmnigraphError as error:
                trial.refused[index] = error
                continue
            step = self._step(plan, snapshot, head.position + 1)
            trial.steps[index] = step
            snapshot = apply_step(snapshot, step)
        return trial

    def _begun(self, head: Entry, current: Sequence[Member]) -> _Trial:
        """A trial that knows which plans the branch has already."""
        trial = _Trial()
        for index, member in enumerate(current):
            try:
                done = self._published(member.plan, head)
            except OmnigraphError as error:
                trial.refused[index] = error
                continue
            if done is None:
                trial.open.append(index)
            else:
                trial.done[index] = done
        return trial

    def _published(self, plan: PublishPlan, head: Entry) -> Commit | None:
        """The plan's own commit, if the branch has it already."""
        if plan.base == head.head.commit.ref or plan.incarnation != head.incarnation:
            return None
        return self.log.find(head, plan.commit_id)

    def _onto(self, member: Member, head: Entry, snapshot: Snapshot) -> PublishPlan:
        """The plan made to stand on `snapshot`."""
        plan, rebase = member.plan, member.rebase
        if not head.alive or head.incarnation != plan.incarnation:
            raise BranchReplaced(
                f"branch '{plan.branch}' was deleted while this write was prepared",
                hint="open the branch again; if it was made anew, apply the change to the new one",
            )
        if plan.if_commit is not None and snapshot.commit.id != plan.if_commit:
            raise PreconditionFailed(plan.branch, plan.if_commit, snapshot.commit.id)
        # By place, not by id: a commit of this group that lost its first position stands elsewhere with other content.
        if plan.base == snapshot.commit.ref and member.staged:
            return plan
        if plan.schema != snapshot.schema:
            raise ExpectedVersionMismatch("schema", plan.base.seq, snapshot.commit.ref.seq)
        moved = {change.key for change in plan.changes if change.base != snapshot.table(change.key)}
        moved |= {key for key in plan.reads if plan.read_states.get(key) != snapshot.table(key)}
        if not moved and plan.merged is None and member.staged:
            return replace(plan, base=snapshot.commit.ref)
        for change in plan.changes:
            if change.mode == "strict" and change.key in moved:
                raise _mismatch(change.key, change.base, snapshot.table(change.key))
        if rebase is None:
            if not moved:
                raise ExpectedVersionMismatch("branch", plan.base.seq, snapshot.commit.ref.seq)
            key = min(moved)
            bases = {**plan.read_states, **{change.key: change.base for change in plan.changes}}
            raise _mismatch(key, bases.get(key), snapshot.table(key))
        rebased = rebase(plan, snapshot)
        states = {key: snapshot.table(key) for key in rebased.reads}
        return replace(rebased, base=snapshot.commit.ref, read_states=states)

    def _step(self, plan: PublishPlan, snapshot: Snapshot, position: int) -> CommitStep:
        parent = snapshot.commit
        ref = CommitRef(plan.commit_id, plan.branch, plan.incarnation, parent.ref.seq + 1, position)
        commit = Commit(
            ref=ref,
            parents=(parent.ref,) if plan.merged is None else (parent.ref, plan.merged),
            kind=plan.kind,
            at_us=max(self.clock_us(), parent.at_us + 1),
            actor=plan.actor,
            message=plan.message,
        )
        tables = {change.key: change.state for change in plan.changes}
        return CommitStep(commit, plan.new_schema or snapshot.schema, tables)

    def _entry(self, head: Entry, steps: Sequence[CommitStep], merged_reached: Mapping[str, int]) -> Entry:
        tail, segments = self.log.following(head)
        last = steps[-1].commit.ref
        return Entry(
            id=last.id if len(steps) == 1 else self.new_id(),
            op="commit",
            branch=head.branch,
            incarnation=head.incarnation,
            position=head.position + 1,
            before=head.head,
            steps=tuple(steps),
            ancestry=self.lineage.after(head.ancestry, last, merged_reached),
            write_features=head.write_features,
            tail=tail,
            segments=segments,
        )


def _may_join(member: Member, head: Entry) -> bool:
    """Whether only the plan's rows decide if it fits on this head: everything else about it is as it should be."""
    plan = member.plan
    return (
        not member.staged
        and head.alive
        and plan.incarnation == head.incarnation
        and plan.if_commit is None
        and plan.schema == head.head.schema
        and all(change.mode in ("insert", "upsert") for change in plan.changes)
    )


def _knows(head: Entry, plan: PublishPlan) -> bool:
    """Whether a cached head is as new as the plan's base, so that judging the plan by it makes sense."""
    return head.incarnation == plan.incarnation and (
        plan.base.incarnation != plan.incarnation or plan.base.position <= head.position
    )


def _mismatch(key: str, base: TableState | None, actual: TableState | None) -> ExpectedVersionMismatch:
    return ExpectedVersionMismatch(key, base.generation if base else 0, actual.generation if actual else 0)
