"""Requests and answers that the contract does not have."""

from __future__ import annotations

from omnigraph.api.history import PreparedJson, TagJson
from omnigraph.api.maintenance import CleanupJson, ServedOptimize, ServedStorage
from omnigraph.api.reads import ServedExplanation
from omnigraph.api.structs import ANY_OBJECT, COUNT, FLAG, TEXT, Schema, array, enum, nullable, ref, shape
from omnigraph.api.writes import MergeReview

_ANYTHING: Schema = {}
_PAGE: dict[str, Schema] = {"next_page_token": TEXT}
_IMAGE = ref("ChangeImage")

_CATALOG_PROPERTY = shape(
    {"name": TEXT, "type": TEXT, "scalar": TEXT, "nullable": FLAG, "list": FLAG},
    {
        "enum": array(TEXT),
        "vector_dim": COUNT,
        "default": _ANYTHING,
        "description": TEXT,
        "metric": TEXT,
        "language": TEXT,
        "embed": ANY_OBJECT,
        "interfaces": array(TEXT),
    },
)
_CONSTRAINT = shape(
    {"kind": enum("key", "unique", "index", "range", "check"), "fields": array(TEXT)},
    {"minimum": {"type": "number"}, "maximum": {"type": "number"}, "pattern": TEXT},
)
_DOCUMENTED: dict[str, Schema] = {"description": TEXT, "instruction": TEXT}
_TYPE: dict[str, Schema] = {
    "name": TEXT,
    "properties": array(_CATALOG_PROPERTY),
    "constraints": array(_CONSTRAINT),
    "entity_count": COUNT,
    "indexes": array(
        shape({"property": TEXT, "kind": TEXT, "covered_rows": COUNT, "pending_rows": COUNT}, {"reason": TEXT})
    ),
}
_ENTITY: dict[str, Schema] = {"entity_kind": ref("EntityKindOutput"), "type_name": TEXT, "id": TEXT}
_STATE: dict[str, Schema] = {
    "properties": ANY_OBJECT,
    "endpoints": shape({"from": TEXT, "to": TEXT}),
    "blobs": {"type": "object", "additionalProperties": COUNT, "description": "Blobs by name, with their sizes."},
}
_JOB = shape(
    {
        "job_id": TEXT,
        "state": enum("queued", "running", "done", "failed", "cancelled", "prepared"),
        "branch": TEXT,
        "seconds": {"type": "number"},
        "rows": COUNT,
        "bytes": COUNT,
        "rejected": COUNT,
    },
    {
        "mode": ref("LoadMode"),
        "stage": TEXT,
        "done": COUNT,
        "tasks": COUNT,
        "actor_id": nullable(TEXT),
        "result": ref("Load"),
        "error": ref("Error"),
    },
)

EXTENSIONS: dict[str, Schema] = {
    "Language": shape(
        {
            "queries": shape(
                {
                    "keywords": array(TEXT),
                    "functions": array(shape({"name": TEXT, "shape": TEXT, "meaning": TEXT})),
                    "forms": array(shape({"title": TEXT, "shape": TEXT, "example": TEXT})),
                }
            ),
            "schemas": shape({"keywords": array(TEXT), "types": array(TEXT)}),
        }
    ),
    "Catalog": shape(
        {
            "graph_commit_id": TEXT,
            "schema_hash": TEXT,
            "nodes": array(shape({**_TYPE, "key": array(TEXT)}, {**_DOCUMENTED, "implements": array(TEXT)})),
            "edges": array(
                shape(
                    {
                        **_TYPE,
                        "key": array(TEXT),
                        "from": TEXT,
                        "to": TEXT,
                        "min_out": COUNT,
                        "max_out": nullable(COUNT),
                    },
                    _DOCUMENTED,
                )
            ),
            "interfaces": array(
                shape(
                    {"name": TEXT, "properties": array(_CATALOG_PROPERTY), "types": array(TEXT)}, {"description": TEXT}
                )
            ),
        }
    ),
    "EntityPage": shape(
        {
            "entity_kind": ref("EntityKindOutput"),
            "type_name": TEXT,
            "columns": array(TEXT),
            "rows": array(ANY_OBJECT),
            "graph_commit_id": TEXT,
        },
        _PAGE,
    ),
    "EntityState": shape({**_ENTITY, "properties": ANY_OBJECT, "graph_commit_id": TEXT}, _STATE),
    "EntityVersions": shape(
        {
            **_ENTITY,
            "versions": array(shape({"commit": ref("Commit"), "op": ref("ChangeOpOutput")}, _STATE)),
        },
        _PAGE,
    ),
    "Neighbours": shape(
        {
            "nodes": array(shape({"type": TEXT, "id": TEXT, "label": TEXT, "properties": ANY_OBJECT})),
            "edges": array(shape({"type": TEXT, "id": TEXT, "from": TEXT, "to": TEXT, "properties": ANY_OBJECT})),
            "counts": array(shape({"edge": TEXT, "direction": enum("out", "in"), "type": TEXT, "count": COUNT})),
            "graph_commit_id": TEXT,
        },
        _PAGE,
    ),
    "Diff": shape(
        {"from": TEXT, "to": TEXT},
        {
            "changes": array(ref("ChangeItem")),
            "summary": array(
                shape(
                    {
                        "entity_kind": ref("EntityKindOutput"),
                        "type_name": TEXT,
                        "insert": COUNT,
                        "update": COUNT,
                        "delete": COUNT,
                        "properties": {"type": "object", "additionalProperties": COUNT},
                    }
                )
            ),
            **_PAGE,
        },
    ),
    "SchemaDiff": shape(
        {"from": TEXT, "to": TEXT, "supported": FLAG, "steps": array(ANY_OBJECT), "lines": array(TEXT)}
    ),
    "Log": shape(
        {"commits": array(ref("Commit")), "refs": {"type": "object", "additionalProperties": array(TEXT)}}, _PAGE
    ),
    "Tag": TagJson.json_schema(),
    "TagList": shape({"tags": array(ref("Tag"))}),
    "TagCreateRequest": shape({"name": TEXT}, {"at": nullable(TEXT)}, closed=True),
    "TagDelete": shape({"name": TEXT}),
    "BranchDetail": shape({"name": TEXT, "head": ref("Commit"), "ahead": COUNT, "behind": COUNT, "protected": FLAG}),
    "MergeStrategy": enum("fail", "ours", "theirs"),
    "MergeBy": enum("row", "property"),
    "MergeTake": enum("ours", "theirs", "base", "delete", "value"),
    "MergeResolution": shape(
        {
            "entity_kind": ref("EntityKindOutput"),
            "type_name": TEXT,
            "entity_id": TEXT,
            "take": ref("MergeTake"),
            "seen": TEXT,
        },
        {"value": nullable(_IMAGE)},
        closed=True,
    ),
    "MergeReview": MergeReview.json_schema(),
    "MergeOrReview": {"anyOf": [ref("Merge"), ref("MergeReview")]},
    "ExplainRequest": shape(
        {"query": TEXT},
        {"name": nullable(TEXT), "params": nullable(ANY_OBJECT), "branch": nullable(TEXT), "run": nullable(FLAG)},
        closed=True,
    ),
    "Explanation": ServedExplanation.json_schema(),
    "LintRequest": shape(
        {}, {"query": nullable(TEXT), "schema": nullable(TEXT), "branch": nullable(TEXT)}, closed=True
    ),
    "Diagnostics": shape(
        {
            "diagnostics": array(
                shape(
                    {
                        "line": COUNT,
                        "column": COUNT,
                        "end_line": COUNT,
                        "end_column": COUNT,
                        "rule": TEXT,
                        "severity": enum("error", "warning", "info"),
                        "message": TEXT,
                    },
                    {"hint": TEXT},
                )
            )
        }
    ),
    "FormatRequest": shape({"query": TEXT}, closed=True),
    "Formatted": shape({"query": TEXT}),
    "CompleteRequest": shape({"query": TEXT, "line": COUNT, "column": COUNT}, {"branch": nullable(TEXT)}, closed=True),
    "Completions": shape({"items": array(shape({"label": TEXT, "kind": TEXT}, {"detail": TEXT}))}),
    "Storage": ServedStorage.json_schema(),
    "OptimizeRequest": shape({}, {"branch": nullable(TEXT), "dry_run": nullable(FLAG)}, closed=True),
    "Optimized": ServedOptimize.json_schema(),
    "CleanupRequest": shape(
        {},
        {
            "keep": nullable(COUNT),
            "older_than": nullable(TEXT),
            "branches": nullable(array(TEXT)),
            "confirm": nullable(FLAG),
        },
        closed=True,
    ),
    "Cleaned": CleanupJson.json_schema(),
    "PreparedList": shape({"prepared": array(PreparedJson.json_schema())}),
    "Resumed": shape({"commit": ref("Commit")}),
    "Discarded": shape({"graph_commit_id": TEXT}),
    "Rights": shape(
        {
            "actor_id": nullable(TEXT),
            "actions": {
                "type": "object",
                "additionalProperties": enum("all", "none", "protected", "unprotected"),
            },
            "protected_branches": array(TEXT),
        }
    ),
    "TicketRequest": shape({"path": TEXT}, closed=True),
    "Ticket": shape({"ticket": TEXT, "expires_in": COUNT}),
    "JobLoadRequest": shape(
        {"sources": array(TEXT)},
        {
            "mode": nullable(ref("LoadMode")),
            "branch": nullable(TEXT),
            "from": nullable(TEXT),
            "format": nullable(enum("jsonl", "csv", "parquet")),
            "type": nullable(TEXT),
            "message": nullable(TEXT),
            "keep_rejects": nullable(FLAG),
            "missing": nullable(ref("Missing")),
        },
        closed=True,
    ),
    "Job": _JOB,
    "JobStarted": shape({"job_id": TEXT}),
    "JobList": shape({"jobs": array(ref("Job"))}),
}
