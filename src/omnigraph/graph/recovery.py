"""Writes that were interrupted between staging and publishing: loads, so far."""

from __future__ import annotations

import contextlib
import datetime as dt
from dataclasses import dataclass

from omnigraph.errors import Damaged
from omnigraph.graph.access import RECOVERY, Caller
from omnigraph.graph.boundary import names_damage
from omnigraph.history import Commit, CommitKind, PreparedPlan, from_microseconds
from omnigraph.views import Repository


@dataclass(frozen=True)
class PreparedWrite:
    """A write whose data is staged and whose commit is not published. `at` is when staging ended.

    >>> assert [write.commit_id for write in g.recovery.list() if write.branch == "main"] == []
    """

    commit_id: str
    branch: str
    kind: CommitKind
    at: dt.datetime
    total_entities: int

    def __repr__(self) -> str:
        return f"<prepared {self.kind} {self.commit_id} on {self.branch}: {self.total_entities} entities>"


def _prepared(prepared: PreparedPlan) -> PreparedWrite:
    plan = prepared.plan
    at = from_microseconds(prepared.prepared_at)
    return PreparedWrite(plan.commit_id, plan.branch, plan.kind, at, prepared.receipt["total_entities"])


@names_damage
class GraphRecovery:
    """Prepared writes. Opening a graph does not look for them, and nothing depends on them.

    >>> assert g.recovery.list() == []
    """

    _asks = RECOVERY

    def __init__(self, repository: Repository, caller: Caller | None = None) -> None:
        self._repository = repository
        self._caller = caller

    def __repr__(self) -> str:
        return f"<prepared writes of {self._repository.store.uri}>"

    def list(self) -> list[PreparedWrite]:
        """The prepared writes, oldest first.

        >>> for write in g.recovery.list():
        ...     print(write.branch, write.at, write.total_entities)
        """
        return [_prepared(prepared) for prepared in self._repository.history.recovery.list()]

    def resume(self, commit_id: str) -> Commit:
        """Publish what was staged; if it was published already, the commit is the same.

        >>> for write in g.recovery.list():
        ...     g.recovery.resume(write.commit_id)
        """
        from omnigraph.pipeline.load.recovery import resume

        return resume(self._repository, commit_id)

    def discard(self, commit_id: str) -> None:
        """Discard a prepared write; it is never published.

        >>> for write in g.recovery.list():
        ...     g.recovery.discard(write.commit_id)
        """
        with contextlib.suppress(Damaged):  # A plan that cannot be read can still be discarded.
            self._repository.history.recovery.get(commit_id)
        self._repository.history.recovery.remove(commit_id)
