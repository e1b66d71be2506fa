"""Group commit: transactions of one process that publish to one branch at the same time share one entry.

The first to arrive publishes for itself and all that arrived meanwhile; then the next in the queue does, with those that wait by
then. Each member gets its own commit or its own error. Members that only add rows are checked and staged together.
"""

from __future__ import annotations

import threading

from omnigraph.errors import OmnigraphError, OutcomeUnknown
from omnigraph.history import Commit
from omnigraph.views import Repository
from omnigraph.write.joint import JointStage
from omnigraph.write.proposal import Proposal
from omnigraph.write.publishing import Outcome, Submission, publish_group

MAX_GROUP = 64
GATHER_S = 0.00005


class _Waiting:
    """A member of a queue. A member that is woken without an outcome becomes the leader."""

    def __init__(self, proposal: Proposal) -> None:
        self.proposal = proposal
        self.outcome: Outcome | None = None
        self.was_tried = False
        """Whether publishing it was attempted: then only the branch can tell whether it is published."""
        self._turn = threading.Lock()
        self._turn.acquire()

    def wait(self) -> None:
        self._turn.acquire()

    def wake(self) -> None:
        """Called at most once: to make it the leader, or when it has an outcome."""
        self._turn.release()


def _unknown(waiting: _Waiting, error: OutcomeUnknown) -> OutcomeUnknown:
    outcome = OutcomeUnknown(error.message, commit_id=waiting.proposal.plan.commit_id)
    outcome.__cause__ = error
    return outcome


class GroupCommitter:
    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self._queues: dict[str, list[_Waiting]] = {}
        """By branch; the first of a queue leads. There is no queue if nothing is being published."""
        self._last_sizes: dict[str, int] = {}
        """By branch: the size of the last group."""
        self._lock = threading.Lock()

    def publish(self, proposal: Proposal) -> Commit | None:
        """Publish a write, together with those that other threads submit for the same branch meanwhile. None if it has nothing
        left to change on the newest head."""
        waiting = _Waiting(proposal)
        branch = proposal.plan.branch
        with self._lock:
            queue = self._queues.setdefault(branch, [])
            queue.append(waiting)
            leads = queue[0] is waiting
        if not leads:
            self._wait(branch, waiting)
        if waiting.outcome is None:
            self._lead(branch, waiting)
        assert waiting.outcome is not None, "a group that was published gave each member an outcome"
        if isinstance(waiting.outcome, OmnigraphError):
            raise waiting.outcome
        return waiting.outcome if isinstance(waiting.outcome, Commit) else None

    def _wait(self, branch: str, waiting: _Waiting) -> None:
        try:
            waiting.wait()
        except BaseException:
            with self._lock:
                self._leave(branch, [waiting])
            raise

    def _lead(self, branch: str, leader: _Waiting) -> None:
        """Publish the current queue. Members stay in it until they have an outcome: a leader that is interrupted leaves alone,
        and the next one publishes the rest (perhaps again, which is harmless)."""
        served = [leader]
        try:
            group = self._gathered(branch)
            outcomes = self._publish(group)
            served = group[: len(outcomes)]
            for waiting, outcome in zip(served, outcomes, strict=True):
                waiting.outcome = outcome
        finally:
            with self._lock:
                self._leave(branch, served)
            for waiting in served[1:]:
                waiting.wake()

    def _gathered(self, branch: str) -> list[_Waiting]:
        """The current queue. The members of the previous group were all woken at once, so it waits for them as long as more
        arrive: otherwise the first of them would publish alone, and the others would wait for its syncs."""
        with self._lock:
            queue, wanted = self._queues[branch], self._last_sizes.get(branch, 0)
        seen = 0
        while seen < len(queue) < wanted:
            seen = len(queue)
            self.repository.history.sleep(GATHER_S)
        with self._lock:
            group = queue[:MAX_GROUP]
            self._last_sizes[branch] = len(group)
        return group

    def _leave(self, branch: str, leaving: list[_Waiting]) -> None:
        """Remove members from the queue, and wake the new first one to lead."""
        queue = self._queues.get(branch, [])
        first, gone = queue[0] if queue else None, set(leaving)
        queue[:] = [waiting for waiting in queue if waiting not in gone]
        if not queue:
            self._queues.pop(branch, None)
        elif queue[0] is not first:
            queue[0].wake()

    def _publish(self, group: list[_Waiting]) -> list[Outcome]:
        """The outcomes of the group, or of its first member alone."""
        try:
            return self._publish_together(group)
        except OutcomeUnknown as error:
            return [_unknown(waiting, error) for waiting in group]
        except OmnigraphError as error:
            return [error for _ in group]
        except (OSError, RuntimeError, ValueError):
            # An error while one member was staged must not fail the others.
            if len(group) == 1:
                raise
            return self._publish_together(group[:1])

    def _publish_together(self, group: list[_Waiting]) -> list[Outcome]:
        proposals = [waiting.proposal for waiting in group]
        submissions = [
            Submission(
                waiting.proposal.plan,
                waiting.proposal.staged_on,
                staged=False,
                is_small=not waiting.proposal.fragments,
                is_new=not waiting.was_tried,
            )
            for waiting in group
        ]
        for waiting in group:
            waiting.was_tried = True
        joint = JointStage(self.repository, proposals) if len(proposals) > 1 else None
        return publish_group(self.repository.history, submissions, stage_together=joint)
