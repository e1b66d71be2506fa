"""What maintenance did: copies, compaction, cleanup, verification, repair, vectors of texts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.wire.history import commit_json
from omnigraph.wire.members import JsonObject, present

if TYPE_CHECKING:
    from omnigraph.maintenance.embed import EmbedReport
    from omnigraph.maintenance.optimize import OptimizeReport
    from omnigraph.maintenance.replication import CopyReport
    from omnigraph.maintenance.reports import CleanupReport, KeptBy, StorageReport, TableShape, TypeStorage
    from omnigraph.maintenance.verify.findings import Finding, RepairReport, VerifyReport


# What a clone, a push or a pull copied.


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


# What `optimize` did, or would do.


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
                    "worthwhile": table.is_worthwhile,
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


def verify_json(report: VerifyReport) -> JsonObject:
    """{whole, deep, commits, objects, files, bytes, rows?, findings: [...]}."""
    return present(
        {
            "whole": report.is_whole,
            "deep": report.is_deep,
            "commits": report.commits,
            "objects": report.objects,
            "files": report.files,
            "bytes": report.bytes,
            "rows": report.rows if report.is_deep else None,
            "findings": [finding_json(finding) for finding in report.findings],
        }
    )


def finding_json(finding: Finding) -> JsonObject:
    """{kind, object_kind, object, problem, action, commits, total_commits, types, rows?, ids}."""
    return present(
        {
            "kind": finding.kind,
            "object_kind": finding.object_kind,
            "object": finding.object,
            "problem": finding.problem,
            "action": finding.action,
            "commits": list(finding.commits),
            "total_commits": finding.total_commits,
            "types": list(finding.types),
            "rows": finding.rows,
            "ids": list(finding.ids),
        }
    )


def repair_json(report: RepairReport) -> JsonObject:
    """{done, whole, steps: [{kind, object, action, commit?}], findings: [...], remaining: [...]}."""
    steps = [
        {
            "kind": step.kind,
            "object": step.object,
            "action": step.action,
            "commit": step.commit and commit_json(step.commit),
        }
        for step in report.steps
    ]
    return {
        "done": report.is_done,
        "whole": report.is_whole,
        "steps": [present(step) for step in steps],
        "findings": [finding_json(finding) for finding in report.findings],
        "remaining": [finding_json(finding) for finding in report.remaining],
    }


def cleanup_json(report: CleanupReport) -> JsonObject:
    """{dry_run, files, bytes, removed: {kind: {files, bytes}}, waiting: {files, bytes}, watermarks, kept, foreign}."""
    return {
        "dry_run": report.is_dry_run,
        "files": report.files,
        "bytes": report.bytes,
        "removed": {
            kind: {"files": totals.files, "bytes": totals.bytes} for kind, totals in sorted(report.removed.items())
        },
        "waiting": {"files": report.waiting.files, "bytes": report.waiting.bytes},
        "watermarks": dict(report.watermarks),
        "kept": [kept_json(kept) for kept in report.kept],
        "foreign": list(report.foreign),
    }


def kept_json(kept: KeptBy) -> JsonObject:
    """{name, commits, files_alone, bytes_alone}."""
    return {
        "name": kept.name,
        "commits": kept.commits,
        "files_alone": kept.files_alone,
        "bytes_alone": kept.bytes_alone,
    }


def storage_json(report: StorageReport) -> JsonObject:
    """{branch, reclaimable_bytes, types: [...], kept: [...], history: {files, bytes}, held_bytes}."""
    return {
        "branch": report.branch,
        "reclaimable_bytes": report.reclaimable_bytes,
        "types": [type_storage_json(type_) for type_ in report.types],
        "kept": [kept_json(kept) for kept in report.kept],
        "history": {"files": report.history_objects.files, "bytes": report.history_objects.bytes},
        "held_bytes": report.held_bytes,
    }


def type_storage_json(usage: TypeStorage) -> JsonObject:
    """{type, rows, fragments, deleted_rows, live_bytes, history_bytes, adjacency_bytes, reclaimable_bytes, indexes}."""
    return {
        "type": usage.type,
        "rows": usage.rows,
        "fragments": usage.fragments,
        "deleted_rows": usage.deleted_rows,
        "live_bytes": usage.live_bytes,
        "history_bytes": usage.history_bytes,
        "adjacency_bytes": usage.adjacency_bytes,
        "reclaimable_bytes": usage.reclaimable_bytes,
        "indexes": [index.to_json() for index in usage.indexes],
    }


# What `embed` computed, or would compute.


def embed_json(uri: str, branch: str, report: EmbedReport, *, dry_run: bool) -> JsonObject:
    """{uri, branch, dry_run, rows, commits: [commit], properties: [{type, property, model, rows}]}."""
    return {
        "uri": uri,
        "branch": branch,
        "dry_run": dry_run,
        "rows": report.rows,
        "commits": [commit_json(commit) for commit in report.commits],
        "properties": [
            {"type": property.type, "property": property.property, "model": property.model, "rows": property.rows}
            for property in report.properties
        ],
    }
