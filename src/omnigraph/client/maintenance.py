"""Maintenance of a served graph: storage reports, compaction, cleanup, and prepared writes."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from omnigraph.client import decoding
from omnigraph.client.connection import segment
from omnigraph.client.decoding import optional_commit
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
from omnigraph.history.values import Commit, from_microseconds
from omnigraph.indexing.indexes import IndexState
from omnigraph.maintenance.cleanup import Totals
from omnigraph.maintenance.optimize import OptimizeReport, TableReport
from omnigraph.maintenance.reports import CleanupReport, KeptBy, PendingIndex, StorageReport, TableShape, TypeStorage

if TYPE_CHECKING:
    from omnigraph.graph.maintenance import PreparedWrite
    from omnigraph.maintenance.optimize import OptimizeReport
    from omnigraph.maintenance.reports import CleanupReport, StorageReport
    from omnigraph.tasks.engines import Engine


# Maintenance reports of a server as the library's values.

Json = Mapping[str, Any]


def storage_report(value: Json) -> StorageReport:
    types = tuple(
        TypeStorage(**{**type_, "indexes": tuple(_index(index) for index in type_["indexes"])})
        for type_ in value["types"]
    )
    return StorageReport(value["branch"], types, _kept(value["kept"]), Totals(**value["history"]), value["held_bytes"])


def _index(value: Json) -> IndexState:
    counts = (value["covered_rows"], value["pending_rows"])
    return IndexState(value["table"], value["column"], value["kind"], *counts, value.get("reason"))


def _kept(values: list[Json]) -> tuple[KeptBy, ...]:
    return tuple(KeptBy(**value) for value in values)


def cleanup_report(value: Json) -> CleanupReport:
    return CleanupReport(
        value["dry_run"],
        {kind: Totals(**totals) for kind, totals in value["removed"].items()},
        Totals(**value["waiting"]),
        value["watermarks"],
        _kept(value["kept"]),
        tuple(value["foreign"]),
    )


def optimize_report(value: Json) -> OptimizeReport:
    tables = tuple(
        TableReport(
            table["table"],
            tuple(table["actions"]),
            _shape(table["before"]),
            _shape(table["after"]),
            table["worthwhile"],
        )
        for table in value["tables"]
    )
    return OptimizeReport(optional_commit(value.get("commit")), tables)


def _shape(value: Json) -> TableShape:
    return TableShape(**{**value, "pending": tuple(PendingIndex(**index) for index in value["pending"])})


def prepared_write(value: Json) -> PreparedWrite:
    return PreparedWrite(
        value["graph_commit_id"],
        value["branch"],
        value["kind"],
        from_microseconds(value["prepared_at"]),
        value["total_entities"],
        value.get("actor_id"),
        value.get("state", "resumable"),
    )


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
        return optimize_report(self._state.connection.send("POST", path, body=body, repeat="unsent").json())

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
        return cleanup_report(sent.json())

    def storage(self, branch: str = MAIN) -> StorageReport:
        """How much storage each type takes at the head of a branch, and how much cleanup could reclaim."""
        return storage_report(self._state.get("/storage", branch=branch).json())


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
        return [prepared_write(prepared) for prepared in self._state.get("/maintenance/recovery").json()["prepared"]]

    def resume(self, commit_id: str) -> Commit:
        """Publish what was staged; if it was published already, the commit is the same."""
        return decoding.commit(self._send(commit_id, "resume")["commit"])

    def discard(self, commit_id: str) -> None:
        """Discard a prepared write; it is never published."""
        self._send(commit_id, "discard")

    def _send(self, commit_id: str, verb: str) -> Json:
        path = f"{self._state.path}/maintenance/recovery/{segment(commit_id)}/{verb}"
        answer: Json = self._state.connection.send("POST", path, repeat="unsent").json()
        return answer


def _duration(value: str | float | dt.timedelta | None) -> str | None:
    """A duration as a request writes it. Fractions of a second are rounded up, which keeps more."""
    if value is None or isinstance(value, str):
        return value
    return str(math.ceil(value.total_seconds() if isinstance(value, dt.timedelta) else value))
