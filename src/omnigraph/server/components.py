"""Requests and answers as JSON schemas with names. OpenAPI shows them, and requests are checked by them."""

from __future__ import annotations

from omnigraph.api.changes import CauseJson, ChangeJson, CommitChangesJson, FeedJson, ImageJson
from omnigraph.api.history import ServedCommit, ServedSnapshot
from omnigraph.api.reads import ColumnJson, QueryJson, ServedRead
from omnigraph.api.structs import (
    ANY_OBJECT,
    COUNT,
    FLAG,
    INTEGER,
    TEXT,
    Schema,
    array,
    enum,
    nullable,
    ref,
    shape,
)
from omnigraph.api.writes import IngestJson, SchemaJson, ServedLoad, ServedMerge, ServedReceipt, ServedSchemaReceipt
from omnigraph.server.components_extensions import EXTENSIONS

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
    "Commit": ServedCommit.json_schema(),
    "CommitList": shape({"commits": array(ref("Commit"))}, {"next_page_token": TEXT}),
    "Snapshot": ServedSnapshot.json_schema(),
    "SchemaSource": SchemaJson.json_schema(),
    "SchemaApply": ServedSchemaReceipt.json_schema(),
    "Read": ServedRead.json_schema(),
    "Change": ServedReceipt.json_schema(),
    "ReadOrChange": {"anyOf": [ref("Read"), ref("Change")]},
    "Load": ServedLoad.json_schema(),
    "Ingest": IngestJson.json_schema(),
    "QueryParam": ColumnJson.json_schema(),
    "QueryEntry": QueryJson.json_schema(),
    "QueryList": shape({"queries": array(ref("QueryEntry"))}),
    "BranchList": shape({"branches": array(TEXT)}, {"details": array(ref("BranchDetail"))}),
    "BranchCreate": shape({"uri": TEXT, "name": TEXT, "from": TEXT, "actor_id": nullable(TEXT)}),
    "BranchDelete": shape({"uri": TEXT, "name": TEXT, "actor_id": nullable(TEXT)}),
    "Merge": ServedMerge.json_schema(),
    "Cause": CauseJson.json_schema(),
    "ChangeImage": ImageJson.json_schema(),
    "ChangeItem": ChangeJson.json_schema(),
    "CommitChanges": CommitChangesJson.json_schema(),
    "ChangeFeed": FeedJson.json_schema(),
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

COMPONENTS: dict[str, Schema] = {**_ENUMS, **_REQUESTS, **_ANSWERS, **_ERRORS, **_MCP, **EXTENSIONS}
