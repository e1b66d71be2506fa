"""What a clone, a push or a pull copied."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.wire.members import JsonObject

if TYPE_CHECKING:
    from omnigraph.maintenance.replication import CopyReport


def copy_json(source: str, target: str, report: CopyReport) -> JsonObject:
    """{source, target, commits: {branch: number}, tags: [name], objects, bytes, present}."""
    return {
        "source": source,
        "target": target,
        "commits": dict(report.commits),
        "tags": list(report.tags),
        "objects": report.objects,
        "bytes": report.bytes,
        "present": report.present,
    }
