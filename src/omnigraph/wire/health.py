"""What verification found, and what a repair did."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.wire.history import commit_json
from omnigraph.wire.members import JsonObject, present

if TYPE_CHECKING:
    from omnigraph.pipeline.repair.report import RepairReport
    from omnigraph.pipeline.verify.findings import Finding, VerifyReport


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
