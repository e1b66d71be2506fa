"""What `optimize` did, or would do."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.wire.history import commit_json
from omnigraph.wire.members import JsonObject, present

if TYPE_CHECKING:
    from omnigraph.maintenance.health import TableShape
    from omnigraph.maintenance.optimize import OptimizeReport


def optimize_json(uri: str, branch: str, report: OptimizeReport, *, dry_run: bool) -> JsonObject:
    """{uri, branch, dry_run, commit?, tables: [{table, actions: [text], before: shape, after: shape}]}; a shape is {rows,
    fragments, deleted_rows, bytes, indexes, pending: [{column, kind, rows, reason}]}."""
    return present(
        {
            "uri": uri,
            "branch": branch,
            "dry_run": dry_run,
            "commit": None if report.commit is None else commit_json(report.commit),
            "tables": [
                {
                    "table": table.table_key,
                    "actions": list(table.actions),
                    "before": _shape_json(table.before),
                    "after": _shape_json(table.after),
                }
                for table in report.tables
            ],
        }
    )


def _shape_json(shape: TableShape) -> JsonObject:
    return {
        "rows": shape.rows,
        "fragments": shape.fragments,
        "deleted_rows": shape.deleted_rows,
        "bytes": shape.bytes,
        "indexes": shape.indexes,
        "pending": [
            {"column": index.column, "kind": index.kind, "rows": index.rows, "reason": index.reason}
            for index in shape.pending
        ],
    }
