"""What `embed` computed, or would compute."""

from __future__ import annotations

from omnigraph.maintenance.embed import EmbedReport
from omnigraph.wire.history import commit_json
from omnigraph.wire.members import JsonObject


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
