"""Group commit: transactions of one process that publish to one branch at the same time share one entry.

The first to arrive publishes for everybody who waits; each member gets its own commit or its own error.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass, field

from omnigraph.errors import OmnigraphError
from omnigraph.history import Commit, History, Member

GROUP_MOST = 64


@dataclass
class _Waiting:
    member: Member
    done: threading.Event = field(default_factory=threading.Event)
    outcome: Commit | OmnigraphError | BaseException | None = None


class GroupCommitter:
    def __init__(self, history: History) -> None:
        self.history = history
        self._queues: dict[str, list[_Waiting]] = {}
        self._leading: set[str] = set()
        self._lock = threading.Lock()

    def publish(self, member: Member) -> Commit:
        waiting = _Waiting(member)
        branch = member.plan.branch
        with self._lock:
            self._queues.setdefault(branch, []).append(waiting)
            leads = branch not in self._leading
            if leads:
                self._leading.add(branch)
        if leads:
            self._lead(branch)
        waiting.done.wait()
        if isinstance(waiting.outcome, Commit):
            return waiting.outcome
        assert waiting.outcome is not None, "a finished member has an outcome"
        raise waiting.outcome

    def _lead(self, branch: str) -> None:
        """Publish groups until nobody waits. Whatever happens to a group, none of its members waits for ever."""
        while True:
            with self._lock:
                group = self._queues[branch][:GROUP_MOST]
                del self._queues[branch][:GROUP_MOST]
                if not group:
                    self._leading.discard(branch)
                    return
            try:
                outcomes = self.history.publisher.publish_group([waiting.member for waiting in group])
                for waiting, outcome in zip(group, outcomes, strict=True):
                    waiting.outcome = outcome
            except BaseException as error:
                for waiting in group:
                    waiting.outcome = error
                if not isinstance(error, OmnigraphError):
                    self._abandon(branch, error)
                    raise
            finally:
                for waiting in group:
                    waiting.done.set()

    def _abandon(self, branch: str, error: BaseException) -> None:
        """The leader dies of something unforeseen: whoever waits hears of it instead of hanging."""
        with self._lock:
            rest = self._queues.pop(branch, [])
            self._leading.discard(branch)
        for waiting in rest:
            waiting.outcome = error
            waiting.done.set()
