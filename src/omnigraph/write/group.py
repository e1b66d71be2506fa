"""Group commit: transactions of one process that publish to one branch at the same time share one entry.

The first to arrive publishes for itself and whoever came meanwhile; then the next in the queue does, with those who wait
by then. Each member gets its own commit or its own error. What the members only add is checked and staged at once.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from omnigraph.errors import OmnigraphError, OutcomeUnknown
from omnigraph.history import Commit
from omnigraph.views import Repository
from omnigraph.write.joint import JointStage
from omnigraph.write.proposal import Proposal
from omnigraph.write.publishing import Outcome, Submission, publish_group

MAX_GROUP = 64


@dataclass(eq=False)
class _Waiting:
    """`woken` without an outcome: this one leads now."""

    proposal: Proposal
    woken: threading.Event = field(default_factory=threading.Event)
    outcome: Outcome | None = None


class GroupCommitter:
    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._queues: dict[str, list[_Waiting]] = {}
        """By branch; the first of a queue leads. No queue: nobody is publishing."""
        self._lock = threading.Lock()

    def publish(self, proposal: Proposal) -> Commit:
        """Publish a write, together with those that other threads hand in for the same branch meanwhile."""
        waiting = _Waiting(proposal)
        branch = proposal.plan.branch
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

    def _publish(self, group: list[_Waiting]) -> list[Outcome]:
        """The outcomes of the group, or of its first member alone."""
        proposals = [waiting.proposal for waiting in group]
        try:
            return self._publish_together(proposals)
        except OutcomeUnknown as error:
            return [OutcomeUnknown(error.message, commit_id=proposal.plan.commit_id) for proposal in proposals]
        except OmnigraphError as error:
            return [error for _ in group]
        except (OSError, RuntimeError, ValueError):
            # Something that one member met while it was staged: the others do not pay for it.
            if len(group) == 1:
                raise
            return self._publish_together(proposals[:1])

    def _publish_together(self, proposals: list[Proposal]) -> list[Outcome]:
        submissions = [Submission(proposal.plan, proposal.staged_on, staged=False) for proposal in proposals]
        joint = JointStage(self.repository, proposals) if len(proposals) > 1 else None
        return publish_group(self.repository.history, submissions, stage_together=joint)
