"""The shapes of requests and answers as JSON schemas with names. OpenAPI shows them, and requests are checked by them."""

from __future__ import annotations

from omnigraph.server.components_extensions import OUR_COMPONENTS
from omnigraph.server.route import (
    ANY_OBJECT,
    COUNT,
    FLAG,
    INTEGER,
    MICROSECONDS,
    TEXT,
    Schema,
    array,
    enum,
    nullable,
    ref,
    shape,
)

ERROR_CODES = (
    "unauthorized",
    "forbidden",
    "bad_request",
    "not_found",
    "method_not_allowed",
    "conflict",
    "too_many_requests",
    "internal",
)

_ENUMS: dict[str, Schema] = {
    "LoadMode": enum("append", "merge", "patch", "delete", "overwrite"),
    "Missing": enum("refuse", "skip", "stub"),
    "BranchMergeOutcome": enum("already_up_to_date", "fast_forward", "merged"),
    "ErrorCode": enum(*ERROR_CODES),
    "MergeConflictKindOutput": enum(
        "divergent_insert",
        "divergent_update",
        "delete_vs_update",
        "orphan_edge",
        "unique_violation",
        "cardinality_violation",
        "value_constraint_violation",
    ),
    "ParamKind": enum("string", "bool", "int", "bigint", "float", "date", "datetime", "blob", "vector", "list"),
    "BlobEntityKind": enum("node", "edge"),
    "EntityKindOutput": enum("node", "edge"),
    "ChangeOpOutput": enum("insert", "update", "delete"),
    "ChangeDiffRefusalReason": enum("parentless_commit", "schema_boundary"),
}

_REQUESTS: dict[str, Schema] = {
    "QueryRequest": shape(
        {"query": TEXT},
        {
            "name": nullable(TEXT),
            "params": nullable(ANY_OBJECT),
            "branch": nullable(TEXT),
            "snapshot": nullable(TEXT),
        },
    ),
    "ReadRequest": shape(
        {"query_source": TEXT},
        {
            "query_name": nullable(TEXT),
            "params": nullable(ANY_OBJECT),
            "branch": nullable(TEXT),
            "snapshot": nullable(TEXT),
        },
    ),
    "ChangeRequest": shape(
        {"query": TEXT},
        {
            "name": nullable(TEXT),
            "params": nullable(ANY_OBJECT),
            "branch": nullable(TEXT),
            "message": nullable(TEXT),
        },
    ),
    "InvokeQueryRequest": shape(
        {},
        {
            "params": nullable(ANY_OBJECT),
            "branch": nullable(TEXT),
            "snapshot": nullable(TEXT),
            "expect_mutation": nullable(FLAG),
            "message": nullable(TEXT),
        },
    ),
    "LoadRequest": shape(
        {"data": TEXT},
        {
            "branch": nullable(TEXT),
            "from": nullable(TEXT),
            "mode": nullable(ref("LoadMode")),
            "missing": nullable(ref("Missing")),
            "message": nullable(TEXT),
        },
    ),
    "ExportRequest": shape(
        {},
        {
            "branch": nullable(TEXT),
            "snapshot": nullable(TEXT),
            "type_names": nullable(array(TEXT)),
            "format": nullable(enum("ndjson", "arrow", "parquet", "csv")),
        },
        closed=True,
    ),
    "SchemaApplyRequest": shape({"schema_source": TEXT}, {"allow_data_loss": nullable(FLAG)}),
    "BranchCreateRequest": shape({"name": TEXT}, {"from": nullable(TEXT)}),
    "BranchMergeRequest": shape(
        {"source": TEXT},
        {
            "target": nullable(TEXT),
            "delete_branch": nullable(FLAG),
            "message": nullable(TEXT),
            "strategy": nullable(ref("MergeStrategy")),
            "by": nullable(ref("MergeBy")),
            "dry_run": nullable(FLAG),
            "expect": nullable(shape({"source": TEXT, "target": TEXT}, closed=True)),
            "resolutions": nullable(array(ref("MergeResolution"))),
        },
    ),
    "BaselineRequest": shape(
        {},
        {
            "branch": nullable(TEXT),
            "kind": nullable(array(ref("EntityKindOutput"))),
            "type": nullable(array(TEXT)),
            "op": nullable(array(ref("ChangeOpOutput"))),
        },
        closed=True,
    ),
}

_NAMED_COUNT = shape(
    {"name": TEXT, "entities_loaded": COUNT},
    {
        "inserted": COUNT,
        "updated": COUNT,
        "unchanged": COUNT,
        "deleted": COUNT,
        "duplicates": COUNT,
        "skipped": COUNT,
        "stubs": COUNT,
        "without_adjacency": TEXT,
    },
)

_LOAD: dict[str, Schema] = {
    "branch": TEXT,
    "base_branch": nullable(TEXT),
    "branch_created": FLAG,
    "mode": ref("LoadMode"),
    "nodes": array(_NAMED_COUNT),
    "edges": array(_NAMED_COUNT),
    "total_entities": COUNT,
    "actor_id": nullable(TEXT),
    "commit": nullable(ref("Commit")),
}

_LOAD_GAPS: dict[str, Schema] = {
    "rejected": COUNT,
    "missing": array(
        shape({"edge": TEXT, "end": TEXT, "node": TEXT, "edges": COUNT, "nodes": COUNT, "examples": array(TEXT)})
    ),
}
"""What a load says of edges that name missing nodes, when it was asked what to do about them."""

_READ: dict[str, Schema] = {
    "query_name": TEXT,
    "target": shape({"branch": nullable(TEXT), "snapshot": nullable(TEXT)}),
    "row_count": COUNT,
    "rows": array(ANY_OBJECT),
}

_ANSWERS: dict[str, Schema] = {
    "Health": shape(
        {"status": enum("ok"), "version": TEXT, "internal_schema_version": INTEGER}, {"source_version": TEXT}
    ),
    "Readiness": shape(
        {
            "ready": FLAG,
            "status": enum("serving", "loading", "blocked", "draining"),
            "booted_serving_digest": TEXT,
            "state_revision": INTEGER,
            "state_cas": TEXT,
            "served_graph_count": COUNT,
            "quarantined_graph_count": COUNT,
            "shutdown_grace_seconds": COUNT,
        }
    ),
    "GraphList": shape({"graphs": array(shape({"graph_id": TEXT, "uri": TEXT}))}),
    "Commit": shape(
        {
            "graph_commit_id": TEXT,
            "graph_branch": nullable(TEXT),
            "graph_manifest_version": COUNT,
            "parent_commit_id": nullable(TEXT),
            "merged_parent_commit_id": nullable(TEXT),
            "actor_id": nullable(TEXT),
            "created_at": MICROSECONDS,
        },
        {"kind": TEXT, "message": TEXT},
    ),
    "CommitList": shape({"commits": array(ref("Commit"))}, {"next_page_token": TEXT}),
    "Snapshot": shape(
        {
            "graph_branch": TEXT,
            "graph_manifest_version": COUNT,
            "internal_schema_version": INTEGER,
            "datasets": array(
                shape(
                    {
                        "entity_kind": ref("EntityKindOutput"),
                        "type_name": TEXT,
                        "dataset_path": TEXT,
                        "published_dataset_version": COUNT,
                        "native_dataset_branch": nullable(TEXT),
                        "entity_count": COUNT,
                    }
                )
            ),
        },
        {"graph_commit_id": TEXT},
    ),
    "SchemaSource": shape({"schema_source": TEXT}, {"hash": TEXT}),
    "SchemaApply": shape(
        {
            "uri": TEXT,
            "supported": FLAG,
            "applied": FLAG,
            "step_count": COUNT,
            "graph_manifest_version": COUNT,
            "steps": array(ANY_OBJECT),
        },
        {"commit": nullable(ref("Commit"))},
    ),
    "Read": shape(_READ, {"columns": array(TEXT), "graph_commit_id": TEXT}),
    "Change": shape(
        {
            "branch": TEXT,
            "query_name": TEXT,
            "affected_nodes": COUNT,
            "affected_edges": COUNT,
            "actor_id": nullable(TEXT),
            "commit": nullable(ref("Commit")),
        },
        {"types": ANY_OBJECT},
    ),
    "ReadOrChange": {"anyOf": [ref("Read"), ref("Change")]},
    "Load": shape(_LOAD, _LOAD_GAPS),
    "Ingest": shape({"uri": TEXT, **_LOAD}, _LOAD_GAPS),
    "QueryParam": shape(
        {"name": TEXT, "kind": ref("ParamKind"), "nullable": FLAG},
        {"item_kind": ref("ParamKind"), "vector_dim": COUNT},
    ),
    "QueryEntry": shape(
        {"name": TEXT, "tool_name": TEXT, "mutation": FLAG, "params": array(ref("QueryParam"))},
        {"description": TEXT, "instruction": TEXT},
    ),
    "QueryList": shape({"queries": array(ref("QueryEntry"))}),
    "BranchList": shape({"branches": array(TEXT)}, {"details": array(ref("BranchDetail"))}),
    "BranchCreate": shape({"uri": TEXT, "name": TEXT, "from": TEXT, "actor_id": nullable(TEXT)}),
    "BranchDelete": shape({"uri": TEXT, "name": TEXT, "actor_id": nullable(TEXT)}),
    "Merge": shape(
        {
            "source": TEXT,
            "target": TEXT,
            "outcome": ref("BranchMergeOutcome"),
            "actor_id": nullable(TEXT),
        },
        {
            "branch_deleted": FLAG,
            "branch_delete_error": TEXT,
            "commit": ref("Commit"),
            "changes": ANY_OBJECT,
            "bases": array(TEXT),
            "source_commit": TEXT,
            "target_commit": TEXT,
            "schema_steps": array(ANY_OBJECT),
        },
    ),
    "Cause": shape(
        {"graph_commit_id": TEXT, "authored_branch": TEXT, "authored_at": MICROSECONDS},
        {"parent_commit_id": TEXT, "merged_parent_commit_id": TEXT, "actor_id": TEXT},
    ),
    "ChangeImage": shape({"properties": ANY_OBJECT}, {"endpoints": shape({"from": TEXT, "to": TEXT})}),
    "ChangeItem": shape(
        {
            "kind": ref("EntityKindOutput"),
            "type": shape({"id": TEXT, "name": TEXT}),
            "id": TEXT,
            "op": ref("ChangeOpOutput"),
        },
        {"before": ref("ChangeImage"), "after": ref("ChangeImage")},
    ),
    "CommitChanges": shape(
        {"cause": ref("Cause"), "changes": array(ref("ChangeItem"))},
        {"next_page_token": TEXT, "schema_steps": array(ANY_OBJECT)},
    ),
    "ChangeFeed": shape(
        {
            "blocks": array(
                shape({"cause": ref("Cause"), "changes": array(ref("ChangeItem"))}, {"schema_steps": array(ANY_OBJECT)})
            )
        },
        {"next_page_token": TEXT, "cursor": TEXT, "caught_up": FLAG},
    ),
    "Reload": shape({"graphs": array(TEXT), "state_revision": INTEGER}),
    "ClusterPlan": shape(
        {
            "name": TEXT,
            "config_digest": TEXT,
            "state_revision": INTEGER,
            "state_cas": TEXT,
            "operations": array(ref("ClusterOperation")),
            "converged": FLAG,
        }
    ),
    "ClusterOperation": shape(
        {
            "address": TEXT,
            "operation": enum("create", "update", "delete"),
            "disposition": enum("applied", "derived", "deferred", "blocked"),
        },
        {
            "reason": TEXT,
            "migration": array(TEXT),
            "approvals_required": array(shape({"address": TEXT, "digest": TEXT})),
            "binding_change": FLAG,
            "metadata_change": TEXT,
        },
    ),
    "Deployment": shape(
        {
            "id": TEXT,
            "state_revision": INTEGER,
            "state_cas": TEXT,
            "config_digest": TEXT,
            "operations": array(ref("ClusterOperation")),
            "errors": array(TEXT),
            "converged": FLAG,
        }
    ),
    "DeploymentList": shape({"deployments": array(shape({"id": TEXT, "state_revision": INTEGER}))}),
    "DeploymentState": shape(
        {"id": TEXT, "state_revision": INTEGER, "state_cas": TEXT, "config_digest": TEXT, "resources": ANY_OBJECT}
    ),
}

_ERRORS: dict[str, Schema] = {
    "MergeConflict": shape(
        {
            "entity_kind": ref("EntityKindOutput"),
            "type_name": TEXT,
            "entity_id": nullable(TEXT),
            "kind": ref("MergeConflictKindOutput"),
            "message": TEXT,
        }
    ),
    "Problem": shape(
        {"code": TEXT, "retry": FLAG, "outcome": enum("not_committed", "unknown")},
        {"hint": TEXT, "rule": TEXT, "file": TEXT, "line": INTEGER, "column": INTEGER, "details": ANY_OBJECT},
    ),
    "Error": shape(
        {"error": TEXT},
        {
            "code": ref("ErrorCode"),
            "merge_conflicts": array(ref("MergeConflict")),
            "published_dataset_version_conflict": shape(
                {
                    "entity_kind": ref("EntityKindOutput"),
                    "type_name": TEXT,
                    "expected_published_dataset_version": INTEGER,
                    "actual_published_dataset_version": INTEGER,
                }
            ),
            "manifest_conflict": shape(
                {"table_key": TEXT, "expected": INTEGER, "actual": INTEGER}, {"entity_id": TEXT}
            ),
            "read_set_conflict": shape({"member": TEXT, "expected": nullable(TEXT), "actual": nullable(TEXT)}),
            "key_conflict": shape({"entity_kind": ref("EntityKindOutput"), "type_name": TEXT}, {"entity_id": TEXT}),
            "resource_limit": shape({"resource": TEXT, "limit": INTEGER, "actual": INTEGER}),
            "precondition_failure": shape({"expected": TEXT}, {"actual": TEXT}),
            "blob_range": shape({"start": INTEGER, "end": INTEGER, "length": INTEGER}),
            "recovery_required": shape({"operation_id": TEXT}),
            "change_feed_gap": shape({"first_unreadable_commit_id": TEXT}, {"cursor": TEXT}),
            "change_diff_refusal": shape(
                {"reason": ref("ChangeDiffRefusalReason"), "graph_commit_id": TEXT}, {"type_name": TEXT}
            ),
            "external_blob_source": shape({"uri": TEXT, "reason": TEXT}),
            "problem": ref("Problem"),
        },
    ),
}

_MCP: dict[str, Schema] = {
    "McpMessage": shape(
        {"jsonrpc": enum("2.0")},
        {"id": {"type": ["string", "integer", "null"]}, "method": TEXT, "params": ANY_OBJECT, "result": ANY_OBJECT,
         "error": shape({"code": INTEGER, "message": TEXT})},
    ),
    "McpRefusal": {"anyOf": [ref("Error"), ref("McpMessage")]},
}  # fmt: skip

COMPONENTS: dict[str, Schema] = {**_ENUMS, **_REQUESTS, **_ANSWERS, **_ERRORS, **_MCP, **OUR_COMPONENTS}
