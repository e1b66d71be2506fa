"""Maintenance beside the requests, if the operator asks for it: `serve --maintain`.

Every branch that has moved is optimized (rows of recent commits are stored in tables, small fragments are put together, indexes are
brought up to date), and what nothing keeps is removed. One step at a time, each followed by a pause that grows with it; every step
is in the log, in the metrics and, if it changed anything, in the history.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.errors import OmnigraphError

if TYPE_CHECKING:
    from omnigraph.history.values import Entry
    from omnigraph.server.logs import RequestLog
    from omnigraph.server.service import Service
    from omnigraph.server.settings import MaintenancePolicy
    from omnigraph.snapshot import Repository

ACTOR = "maintenance"
PAUSE = 4
"""After a step, this many times as long passes before the next one: maintenance takes a fifth of the time at most."""


class Maintenance:
    """Runs in a thread of its own, until it is stopped; a step that has begun is completed, unless the process ends."""

    def __init__(self, service: Service, policy: MaintenancePolicy, log: RequestLog) -> None:
        self._service = service
        self._policy = policy
        self._log = log
        self._heads: dict[tuple[str, str], str] = {}
        """By graph and branch: the commit that needed nothing, or was made here."""
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._run, name="omnigraph-maintenance", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._policy.every_s):
            self.maintain_all()

    def maintain_all(self) -> None:
        """One round over all graphs."""
        for served in self._service.served.graphs.values():
            # The operator has asked for it, so no policy of the graph is asked.
            repository = served.graph._repository
            self._do(served.id, "optimize", partial(self._optimize, repository, served.id))
            self._do(served.id, "cleanup", partial(self._clean_up, repository))

    def _do(self, graph: str, step: str, work: Callable[[], str]) -> None:
        if self._stopped.is_set():
            return
        started = time.monotonic()
        error: OmnigraphError | None = None
        did = ""
        try:
            did = work()
        except OmnigraphError as failure:  # the next round tries again
            error = failure
        took = time.monotonic() - started
        self._service.metrics.add_maintenance(graph, step, took, is_done=error is None)
        if error is not None:
            self._log.write("maintenance_failed", graph=graph, step=step, error=error.message, hint=error.hint)
        elif did:
            self._log.write("maintained", graph=graph, step=step, did=did, ms=round(took * 1000, 1))
        self._stopped.wait(PAUSE * took)

    def _optimize(self, repository: Repository, graph: str) -> str:
        """What was done."""
        moved = [entry for entry in repository.history.branches.list() if self._has_moved(graph, entry)]
        done = [branch for branch in (entry.branch for entry in moved) if self._optimized(repository, graph, branch)]
        return f"optimized {', '.join(done)}" if done else ""

    def _has_moved(self, graph: str, entry: Entry) -> bool:
        return self._heads.get((graph, entry.branch)) != entry.head.commit.id

    def _optimized(self, repository: Repository, graph: str, branch: str) -> bool:
        """Whether there was anything to do."""
        from omnigraph.maintenance.optimize import maintain

        if self._stopped.is_set():
            return False
        before = repository.history.chain.head(branch).head.commit
        commit = maintain(repository, branch, rewrite=True, actor=ACTOR).commit
        self._heads[graph, branch] = (commit or before).id
        return commit is not None

    def _clean_up(self, repository: Repository) -> str:
        """What was removed."""
        from omnigraph.maintenance.cleanup_job import cleanup

        report = cleanup(repository, keep=None, older_than=self._policy.retain, branches=None, dry_run=False)
        return f"removed {report.files} files, {report.bytes} bytes" if report.files else ""
