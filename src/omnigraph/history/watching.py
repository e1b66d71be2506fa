"""Waiting for the head of a branch to move.

Writes and reads through this graph wake its waiters at once: the chain calls back when it learns of a newer entry. Writes of
other processes are found by polling the head. One of the waiters of a branch does that for all of them.
"""

from __future__ import annotations

import threading

from omnigraph.deadlines import Deadline
from omnigraph.errors import Cancelled, QueryTimeout, UsageError
from omnigraph.history.chain import COMMIT_ID, Chain
from omnigraph.history.values import Commit, Entry

POLL_INTERVAL_S = 0.25


class Watch:
    """The waiters for all branches of one graph. Thread-safe."""

    def __init__(self, chain: Chain) -> None:
        self._chain = chain
        self._moved = threading.Condition()
        self._polled: set[str] = set()
        """The branches whose head a waiter is polling."""
        chain.on_newer(self._wake)

    def wait(self, branch: str, since: str | None, deadline: Deadline) -> Commit | None:
        """The commit at the head, once it is not `since` any more (by default, the current one). None if the time is over first.
        BranchNotFound if the branch is deleted, Cancelled if the call is."""
        if since is not None and not COMMIT_ID.fullmatch(since):
            raise UsageError(f"'{since}' is not a commit id", hint="give the id of the commit that you have seen")
        head = self._chain.head(branch)
        seen = since or head.head.commit.id
        with deadline.waking(self._wake):
            while head.head.commit.id == seen:
                try:
                    deadline.check()
                except QueryTimeout:
                    return None
                head = self._next(head, deadline)
        return head.head.commit

    def _next(self, head: Entry, deadline: Deadline) -> Entry:
        """The head of the branch after a while, or as soon as it has moved."""
        branch = head.branch
        with self._moved:
            does_poll = branch not in self._polled
            if does_poll:
                self._polled.add(branch)
            try:
                if not self._is_over(head, deadline):
                    self._moved.wait(_least(deadline.remaining_s(), POLL_INTERVAL_S if does_poll else None))
            finally:
                if does_poll:
                    self._polled.remove(branch)
                    # Another waiter may have to poll from now on.
                    self._moved.notify_all()
        known = self._chain.cached_head(branch)
        return self._chain.head(branch) if does_poll or known is None or not known[0].alive else known[0]

    def _is_over(self, head: Entry, deadline: Deadline) -> bool:
        """Whether there is no need to wait. Called with the lock, so that no wake-up is missed."""
        known = self._chain.cached_head(head.branch)
        try:
            deadline.check()
        except (QueryTimeout, Cancelled):
            return True
        return known is not None and known[0].position > head.position

    def _wake(self) -> None:
        with self._moved:
            self._moved.notify_all()


def _least(*seconds: float | None) -> float | None:
    return min((limit for limit in seconds if limit is not None), default=None)
