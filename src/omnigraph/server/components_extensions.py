"""The shapes of requests and answers that the contract does not have."""

from __future__ import annotations

from omnigraph.server.route import ANY_OBJECT, COUNT, FLAG, INTEGER, TEXT, Schema, array, enum, nullable, ref, shape

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
_TAG = shape({"name": TEXT, "graph_commit_id": TEXT, "graph_branch": TEXT})
_CONFLICT = shape(
    {
        "entity_kind": ref("EntityKindOutput"),
        "type_name": TEXT,
        "entity_id": nullable(TEXT),
        "kind": ref("MergeConflictKindOutput"),
        "message": TEXT,
        "fields": array(TEXT),
        "properties": array(ANY_OBJECT),
        "digest": TEXT,
    },
    {
        "base": _IMAGE,
        "ours": _IMAGE,
        "theirs": _IMAGE,
        "discarded_by": shape({}, {"ours": array(TEXT), "theirs": array(TEXT)}),
    },
)
_PREPARED = shape(
    {
        "graph_commit_id": TEXT,
        "branch": nullable(TEXT),
        "kind": nullable(TEXT),
        "prepared_at": INTEGER,
        "total_entities": COUNT,
        "actor_id": nullable(TEXT),
        "state": enum("resumable", "published", "moot", "provisional", "damaged"),
    }
)
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

OUR_COMPONENTS: dict[str, Schema] = {
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
    "Tag": _TAG,
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
    "MergeReview": shape(
        {
            "source": TEXT,
            "target": TEXT,
            "outcome": enum("already_up_to_date", "fast_forward", "merged", "conflicts"),
            "dry_run": FLAG,
            "base": array(TEXT),
            "source_commit": TEXT,
            "target_commit": TEXT,
            "changes": ANY_OBJECT,
            "conflicts": array(_CONFLICT),
        },
        {"schema_conflicts": array(ANY_OBJECT), "schema_steps": array(ANY_OBJECT), "hint": TEXT},
    ),
    "MergeOrReview": {"anyOf": [ref("Merge"), ref("MergeReview")]},
    "ExplainRequest": shape(
        {"query": TEXT},
        {"name": nullable(TEXT), "params": nullable(ANY_OBJECT), "branch": nullable(TEXT), "run": nullable(FLAG)},
        closed=True,
    ),
    "Explanation": shape(
        {
            "graph_commit_id": TEXT,
            "keys": TEXT,
            "steps": array(ANY_OBJECT),
            "inputs": array(ANY_OBJECT),
            "access": array(ANY_OBJECT),
            "sql": TEXT,
        },
        {
            "run": shape(
                {
                    "row_count": COUNT,
                    "reading_ms": {"type": "number"},
                    "engine_ms": {"type": "number"},
                    "total_ms": {"type": "number"},
                }
            )
        },
    ),
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
    "Storage": shape(
        {
            "branch": TEXT,
            "reclaimable_bytes": COUNT,
            "types": array(ANY_OBJECT),
            "kept": array(ANY_OBJECT),
            "history": shape({"files": COUNT, "bytes": COUNT}),
            "held_bytes": COUNT,
            "branches": COUNT,
            "tags": COUNT,
            "commits": COUNT,
        }
    ),
    "OptimizeRequest": shape({}, {"branch": nullable(TEXT), "dry_run": nullable(FLAG)}, closed=True),
    "Optimized": shape(
        {"uri": TEXT, "branch": TEXT, "dry_run": FLAG, "tables": array(ANY_OBJECT)}, {"commit": ref("Commit")}
    ),
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
    "Cleaned": shape(
        {"dry_run": FLAG, "files": COUNT, "bytes": COUNT, "removed": ANY_OBJECT},
        {"waiting": ANY_OBJECT, "watermarks": ANY_OBJECT, "kept": array(ANY_OBJECT), "foreign": array(TEXT)},
    ),
    "PreparedList": shape({"prepared": array(_PREPARED)}),
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
