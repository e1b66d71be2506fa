"""Maintenance of a served graph: storage reports, compaction, cleanup, and prepared writes."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.api.history import PreparedJson, ServedCommit
from omnigraph.api.maintenance import CleanupJson, ServedOptimize, ServedStorage
from omnigraph.client.connection import segment
from omnigraph.client.state import (
    ENGINE,
    MAINTENANCE_REFUSED,
    Refusing,
    RemoteState,
    checked_methods,
    no_actor,
    only_default,
    without_nulls,
)
from omnigraph.graph.maintenance import PreparedWrite
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit
from omnigraph.maintenance.optimize import OptimizeReport
from omnigraph.maintenance.reports import CleanupReport, StorageReport

if TYPE_CHECKING:
    from omnigraph.graph.maintenance import PreparedWrite
    from omnigraph.maintenance.optimize import OptimizeReport
    from omnigraph.maintenance.reports import CleanupReport, StorageReport
    from omnigraph.tasks.engines import Engine


@checked_methods
class RemoteMaintenance(Refusing):
    """What keeps a served graph fast and small.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served.maintenance, og.types.RemoteMaintenance)
    """

    _refused = MAINTENANCE_REFUSED

    def __init__(self, state: RemoteState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<maintenance of {self._state.uri}>"

    def optimize(
        self,
        branch: str = MAIN,
        *,
        dry_run: bool = False,
        engine: Engine = "local",
        actor: str | None = None,
        progress: bool = False,
    ) -> OptimizeReport:
        """Compact tables and bring indexes up to date, as one commit if there is anything to do. `progress` does nothing:
        the server works."""
        no_actor(actor)
        only_default("engine", engine, "local", ENGINE)
        body = {"branch": branch, "dry_run": dry_run}
        path = f"{self._state.path}/maintenance/optimize"
        sent = self._state.connection.send("POST", path, body=body, repeat="unsent")
        report: OptimizeReport = ServedOptimize.from_json(sent.json())
        return report

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: str | float | dt.timedelta | None = None,
        branches: Sequence[str] | None = None,
        dry_run: bool = False,
        engine: Engine = "local",
        progress: bool = False,
    ) -> CleanupReport:
        """Remove files that nothing keeps. With `dry_run` nothing is removed. `progress` does nothing: the server works."""
        only_default("engine", engine, "local", ENGINE)
        body = {
            "keep": keep,
            "older_than": _duration(older_than),
            "branches": None if branches is None else list(branches),
            "confirm": not dry_run,
        }
        path = f"{self._state.path}/maintenance/cleanup"
        sent = self._state.connection.send("POST", path, body=without_nulls(body), repeat="unsent")
        report: CleanupReport = CleanupJson.from_json(sent.json())
        return report

    def storage(self, branch: str = MAIN) -> StorageReport:
        """How much storage each type takes at the head of a branch, and how much cleanup could reclaim."""
        report: StorageReport = ServedStorage.from_json(self._state.get("/storage", branch=branch).json())
        return report


@checked_methods
class RemoteRecovery:
    """Prepared writes of a served graph.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served.recovery, og.types.RemoteRecovery)
    """

    def __init__(self, state: RemoteState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<prepared writes of {self._state.uri}>"

    def list(self) -> list[PreparedWrite]:
        """The prepared writes, oldest first."""
        return [PreparedJson.from_json(write) for write in self._state.get("/maintenance/recovery").json()["prepared"]]

    def resume(self, commit_id: str) -> Commit:
        """Publish what was staged; if it was published already, the commit is the same."""
        return ServedCommit.from_json(self._send(commit_id, "resume")["commit"])

    def discard(self, commit_id: str) -> None:
        """Discard a prepared write; it is never published."""
        self._send(commit_id, "discard")

    def _send(self, commit_id: str, verb: str) -> dict[str, Any]:
        path = f"{self._state.path}/maintenance/recovery/{segment(commit_id)}/{verb}"
        answer: dict[str, Any] = self._state.connection.send("POST", path, repeat="unsent").json()
        return answer


def _duration(value: str | float | dt.timedelta | None) -> str | None:
    """A duration as a request writes it. Fractions of a second are rounded up, which keeps more."""
    if value is None or isinstance(value, str):
        return value
    return str(math.ceil(value.total_seconds() if isinstance(value, dt.timedelta) else value))
