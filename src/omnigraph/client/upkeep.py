"""Maintenance of a served graph: storage reports, compaction, cleanup, and prepared writes."""

from __future__ import annotations

import datetime as dt
import math
import time
from collections.abc import Sequence
from typing import TYPE_CHECKING

from omnigraph.client import decoding, reports
from omnigraph.client.calling import checked_methods
from omnigraph.client.connection import Query, segment
from omnigraph.client.refusals import ENGINE, no_actor, only_default
from omnigraph.client.state import RemoteState, without_nulls
from omnigraph.errors import HistoryGap, QueryTimeout
from omnigraph.history import MAIN, Commit

if TYPE_CHECKING:
    from omnigraph.deadlines import Cancellation
    from omnigraph.graph import PreparedWrite
    from omnigraph.maintenance.optimize import OptimizeReport
    from omnigraph.maintenance.reports import CleanupReport, StorageReport
    from omnigraph.pipeline.engines import Engine

MAX_WAIT_S = 60
"""How long a server waits at most before it answers."""
GRACE_S = 30.0


class RemoteUpkeepMethods:
    """The methods of a served graph that maintain it."""

    _state: RemoteState

    def optimize(
        self,
        branch: str = MAIN,
        *,
        dry_run: bool = False,
        engine: Engine = "local",
        actor: str | None = None,
        show_progress: bool = False,
    ) -> OptimizeReport:
        """Compact tables and bring indexes up to date, as one commit if there is anything to do. `show_progress` does nothing:
        the server works."""
        no_actor(actor)
        only_default("engine", engine, "local", ENGINE)
        body = {"branch": branch, "dry_run": dry_run}
        path = f"{self._state.path}/maintenance/optimize"
        return reports.optimize_report(self._state.connection.send("POST", path, body=body, repeat="unsent").json())

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: str | float | dt.timedelta | None = None,
        branches: Sequence[str] | None = None,
        dry_run: bool = False,
        engine: Engine = "local",
        show_progress: bool = False,
    ) -> CleanupReport:
        """Remove files that nothing keeps. With `dry_run` nothing is removed. `show_progress` does nothing: the server works."""
        only_default("engine", engine, "local", ENGINE)
        body = {
            "keep": keep,
            "older_than": _duration(older_than),
            "branches": None if branches is None else list(branches),
            "confirm": not dry_run,
        }
        path = f"{self._state.path}/maintenance/cleanup"
        sent = self._state.connection.send("POST", path, body=without_nulls(body), repeat="unsent")
        return reports.cleanup_report(sent.json())

    def storage(self, branch: str = MAIN) -> StorageReport:
        """How much storage each type takes at the head of a branch, and how much cleanup could reclaim."""
        return reports.storage_report(self._state.get("/storage", branch=branch).json())

    @property
    def recovery(self) -> RemoteRecovery:
        """Writes that were prepared and not published."""
        return RemoteRecovery(self._state)

    def wait_for_change(
        self,
        branch: str = MAIN,
        *,
        since: str | None = None,
        timeout: float | None = None,
        cancel: Cancellation | None = None,
    ) -> Commit | None:
        """Wait until the head of a branch is a commit other than `since` (by default, the current one), and return it; None if
        `timeout` seconds pass first. The server answers when the head moves."""
        only_default("cancel", cancel, None, "use timeout instead")
        end = math.inf if timeout is None else time.monotonic() + timeout
        while True:
            head = self._head(branch)
            since = head.id if since is None else since
            left = end - time.monotonic()
            if head.id != since:
                return head
            if left <= 0:
                return None
            self._wait(branch, since, left)

    def _head(self, branch: str) -> Commit:
        (newest,) = self._state.get("/commits", branch=branch, limit=1).json()["commits"]
        return decoding.commit(newest)

    def _wait(self, branch: str, since: str, seconds: float) -> None:
        """Wait until there may be a change or the time has passed; the caller then checks."""
        wait = math.ceil(min(seconds, MAX_WAIT_S))
        query: Query = {"branch": branch, "start": f"after:{since}", "limit": 1, "wait": wait}
        patience = seconds if seconds <= MAX_WAIT_S else wait + GRACE_S
        try:
            self._state.connection.send("GET", f"{self._state.path}/changes", query=query, timeout=patience)
        except (QueryTimeout, HistoryGap):
            return


@checked_methods
class RemoteRecovery:
    """Prepared writes of a served graph.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served.recovery, og.RemoteRecovery)
    """

    def __init__(self, state: RemoteState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<prepared writes of {self._state.uri}>"

    def list(self) -> list[PreparedWrite]:
        """The prepared writes, oldest first."""
        return [
            reports.prepared_write(prepared) for prepared in self._state.get("/maintenance/recovery").json()["prepared"]
        ]

    def resume(self, commit_id: str) -> Commit:
        """Publish what was staged; if it was published already, the commit is the same."""
        return decoding.commit(self._send(commit_id, "resume")["commit"])

    def discard(self, commit_id: str) -> None:
        """Discard a prepared write; it is never published."""
        self._send(commit_id, "discard")

    def _send(self, commit_id: str, verb: str) -> reports.Json:
        path = f"{self._state.path}/maintenance/recovery/{segment(commit_id)}/{verb}"
        answer: reports.Json = self._state.connection.send("POST", path, repeat="unsent").json()
        return answer


def _duration(value: str | float | dt.timedelta | None) -> str | None:
    """A duration as a request writes it. Fractions of a second are rounded up, which keeps more."""
    if value is None or isinstance(value, str):
        return value
    return str(math.ceil(value.total_seconds() if isinstance(value, dt.timedelta) else value))
