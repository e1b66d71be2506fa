"""Maintenance reports of a server as the library's values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from omnigraph.client.decoding import optional_commit
from omnigraph.graph import PreparedWrite
from omnigraph.history import from_microseconds
from omnigraph.maintenance.cleanup import Totals
from omnigraph.maintenance.health import PendingIndex, TableShape
from omnigraph.maintenance.indexes import IndexState
from omnigraph.maintenance.optimize import OptimizeReport, TableReport
from omnigraph.maintenance.reports import CleanupReport, KeptBy, StorageReport, TypeStorage

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
        TableReport(table["table"], tuple(table["actions"]), _shape(table["before"]), _shape(table["after"]))
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
    )
