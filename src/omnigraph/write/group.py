"""Group commit: transactions of one process that publish to one branch at the same time share one entry.

The first to arrive publishes for itself and whoever came meanwhile; then the next in the queue does, with those who wait
by then. Each member gets its own commit or its own error. What the members only add is checked and staged at once.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, field

from omnigraph.errors import OmnigraphError, OutcomeUnknown
from omnigraph.history import Commit, Member, PublishPlan
from omnigraph.tables import Staged
from omnigraph.views import Repository
from omnigraph.write.joint import JointStage
from omnigraph.write.proposal import Proposal

MAX_GROUP = 64


@dataclass(eq=False)
class _Waiting:
    """`woken` without an outcome: this one leads now."""

    member: Member
    proposal: Proposal | None = None
    woken: threading.Event = field(default_factory=threading.Event)
    outcome: Commit | OmnigraphError | None = None


class GroupCommitter:
    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._staged = threading.local()
        """The versions made for this thread's group: they are made durable together, before the publish."""
        self._queues: dict[str, list[_Waiting]] = {}
        """By branch; the first of a queue leads. No queue: nobody is publishing."""
        self._lock = threading.Lock()

    def propose(self, proposal: Proposal, plan: PublishPlan) -> Commit:
        """Publish a write whose rows are there and whose versions are not."""
        member = Member(plan, proposal.rebase(self._sync_later), staged=False)
        return self._publish_waiting(_Waiting(member, proposal))

    def _publish_waiting(self, waiting: _Waiting) -> Commit:
        branch = waiting.member.plan.branch
        with self._lock:
            queue = self._queues.setdefault(branch, [])
            queue.append(waiting)
            leads = queue[0] is waiting
        if not leads:
            self._wait(branch, waiting)
        if waiting.outcome is None:
            self._lead(branch)
        if isinstance(waiting.outcome, Commit):
            return waiting.outcome
        assert waiting.outcome is not None, "a group that was published gave each member an outcome"
        raise waiting.outcome

    def _wait(self, branch: str, waiting: _Waiting) -> None:
        try:
            waiting.woken.wait()
        except BaseException:
            with self._lock:
                self._leave(branch, [waiting])
            raise

    def _lead(self, branch: str) -> None:
        """Publish the queue as it stands. Members keep their places until they have an outcome: a leader that is
        interrupted leaves alone, and the next one publishes the rest (again, perhaps, which is harmless)."""
        with self._lock:
            group = self._queues[branch][:MAX_GROUP]
        served = group[:1]
        try:
            outcomes = self._publish(group)
            served = group[: len(outcomes)]
            for waiting, outcome in zip(served, outcomes, strict=True):
                waiting.outcome = outcome
        finally:
            with self._lock:
                self._leave(branch, served)
            for waiting in served[1:]:
                waiting.woken.set()

    def _leave(self, branch: str, leaving: list[_Waiting]) -> None:
        """Take members out of the queue; whoever is first then leads."""
        queue = self._queues.get(branch, [])
        first = queue[0] if queue else None
        queue[:] = [waiting for waiting in queue if waiting not in leaving]
        if not queue:
            self._queues.pop(branch, None)
        elif queue[0] is not first:
            queue[0].woken.set()

    def _publish(self, group: list[_Waiting]) -> list[Commit | OmnigraphError]:
        """The outcomes of the group, or of its first member alone."""
        publisher = self.repository.history.publisher
        self._staged.versions = []
        try:
            return publisher.publish_group(
                [waiting.member for waiting in group],
                together=JointStage(self.repository, [waiting.proposal for waiting in group], self._sync_later),
                before_create=self._sync_staged,
            )
        except OutcomeUnknown as error:
            return [OutcomeUnknown(error.message, commit_id=waiting.member.plan.commit_id) for waiting in group]
        except OmnigraphError as error:
            return [error for _ in group]
        except (OSError, RuntimeError, ValueError):
            # Something that one member met while it was rebased: the others do not pay for it.
            if len(group) == 1:
                raise
            return publisher.publish_group([group[0].member], before_create=self._sync_staged)

    def _sync_later(self, versions: Sequence[Staged]) -> None:
        """Called while a group is published, by the thread that does it."""
        self._staged.versions += versions

    def _sync_staged(self) -> None:
        if self._staged.versions:
            self.repository.tables.sync(self._staged.versions)
            self._staged.versions = []
