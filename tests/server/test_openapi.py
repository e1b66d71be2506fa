"""The OpenAPI document: valid, kept, and saying what the table says."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from openapi_spec_validator import validate
from starlette.testclient import TestClient

from omnigraph.server.openapi import SECURITY, openapi, openapi_text
from omnigraph.server.route import Route
from omnigraph.server.routes import ROUTES

KEPT = Path(__file__).parents[2] / "docs" / "openapi.json"
ENUMS = {
    "LoadMode": {"append", "merge", "overwrite", "patch", "delete"},  # the last two are not in the contract
    "BranchMergeOutcome": {"already_up_to_date", "fast_forward", "merged"},
    "ErrorCode": {
        *("unauthorized", "forbidden", "bad_request", "not_found"),
        *("method_not_allowed", "conflict", "too_many_requests", "internal"),
    },
    "MergeConflictKindOutput": {
        *("divergent_insert", "divergent_update", "delete_vs_update", "orphan_edge"),
        *("unique_violation", "cardinality_violation", "value_constraint_violation"),
    },
    "ParamKind": {"string", "bool", "int", "bigint", "float", "date", "datetime", "blob", "vector", "list"},
    "BlobEntityKind": {"node", "edge"},
    "EntityKindOutput": {"node", "edge"},
    "ChangeOpOutput": {"insert", "update", "delete"},
    "ChangeDiffRefusalReason": {"parentless_commit", "schema_boundary"},
}

SHAPES = {
    "Health": "status version internal_schema_version source_version?",
    "Readiness": "ready status booted_serving_digest state_revision state_cas served_graph_count quarantined_graph_count"
    " shutdown_grace_seconds",
    "QueryRequest": "query name? params? branch? snapshot?",
    "ReadRequest": "query_source query_name? params? branch? snapshot?",
    "ChangeRequest": "query name? params? branch? message?",
    "InvokeQueryRequest": "params? branch? snapshot? expect_mutation? message?",
    "LoadRequest": "data branch? from? mode? message?",
    "SchemaApplyRequest": "schema_source allow_data_loss?",
    "BranchCreateRequest": "name from?",
    "BaselineRequest": "branch? kind? type? op?",
    "Read": "query_name target row_count columns? rows graph_commit_id?",
    "Change": "branch query_name affected_nodes affected_edges actor_id commit",
    "Commit": "graph_commit_id graph_branch graph_manifest_version parent_commit_id merged_parent_commit_id actor_id created_at"
    " kind? message?",
    "Load": "branch base_branch branch_created mode nodes edges total_entities actor_id commit",
    "Ingest": "uri branch base_branch branch_created mode nodes edges total_entities actor_id commit",
    "Snapshot": "graph_branch graph_manifest_version internal_schema_version datasets graph_commit_id?",
    "SchemaSource": "schema_source",
    "SchemaApply": "uri supported applied step_count graph_manifest_version steps",
    "QueryEntry": "name tool_name description? instruction? mutation params",
    "QueryParam": "name kind item_kind? vector_dim? nullable",
    "BranchList": "branches details?",
    "BranchCreate": "uri name from actor_id",
    "BranchDelete": "uri name actor_id",
    "Cause": "graph_commit_id parent_commit_id? merged_parent_commit_id? authored_branch authored_at actor_id?",
    "ChangeItem": "kind type id op before? after?",
    "ChangeImage": "properties endpoints?",
    "CommitChanges": "cause changes next_page_token? schema_steps?",
    "ChangeFeed": "blocks next_page_token? cursor? caught_up?",
    "Problem": "code retry outcome hint? rule? file? line? column? details?",
}
"""The members of the contract's shapes; `?` may be left out, as may what a shape has besides."""
PARAMETERS = {
    "cluster_getSnapshot": "branch?",
    "cluster_getSchema": "branch? snapshot?",
    "cluster_loadNdjson": "branch? from? mode?",
    "cluster_getBlob": "entity type id property branch? snapshot?",
    "cluster_headBlob": "entity type id property branch? snapshot?",
    "cluster_listCommits": "branch? limit? before? page_token? actor? kind? since? until?",
    "cluster_getCommitChanges": "page_token? limit? kind? type? op?",
    "cluster_mutate_if_graph_commit": "",
}
"""The query parameters of its routes."""


def told(text: str) -> tuple[set[str], set[str]]:
    """All names, and those that are required."""
    names = text.split()
    return {name.rstrip("?") for name in names}, {name for name in names if not name.endswith("?")}


@pytest.mark.parametrize("name", SHAPES)
def test_a_shape_has_the_members_of_the_contract(name: str) -> None:
    schema = openapi()["components"]["schemas"][name]
    every, required = told(SHAPES[name])
    assert every <= set(schema["properties"])
    assert set(schema.get("required", ())) == required


@pytest.mark.parametrize("operation_id", PARAMETERS)
def test_a_route_has_the_parameters_of_the_contract(operation_id: str) -> None:
    (route,) = [route for route in ROUTES if route.operation_id == operation_id]
    operation = openapi()["paths"][route.path][route.method.lower()]
    given = [each for each in operation.get("parameters", []) if each["in"] == "query"]
    every, required = told(PARAMETERS[operation_id])
    assert every <= {each["name"] for each in given}
    assert {each["name"] for each in given if each.get("required")} == required


def test_the_conditional_routes_require_their_header() -> None:
    for route in ROUTES:
        operation = openapi()["paths"][route.path][route.method.lower()]
        headers = {
            each["name"] for each in operation.get("parameters", []) if each["in"] == "header" and each.get("required")
        }
        assert ("Omnigraph-If-Graph-Commit" in headers) == route.path.endswith("/if-graph-commit")


def test_the_document_is_valid() -> None:
    validate(openapi())


def test_the_kept_document_is_the_one_that_the_table_makes() -> None:
    assert KEPT.read_text(encoding="utf-8") == openapi_text(), "python -m omnigraph.cli.reference docs"


@pytest.mark.parametrize("name", ENUMS)
def test_an_enumeration_is_a_component_of_its_own(name: str) -> None:
    assert set(openapi()["components"]["schemas"][name]["enum"]) == ENUMS[name]


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: route.operation_id)
def test_an_operation_says_what_its_route_says(route: Route) -> None:
    document = openapi()
    operation = document["paths"][route.path][route.method.lower()]
    assert operation["operationId"] == route.operation_id
    assert {int(status) for status in operation["responses"]} == {*route.responses, *route.statuses}
    assert ("security" in operation) == (not route.is_open)
    given = {(each["in"], each["name"]): each for each in operation.get("parameters", [])}
    for parameter in route.parameters:
        assert given[parameter.place, parameter.name].get("required", False) == parameter.required
    if route.body is not None:
        assert operation["requestBody"]["required"] == route.body.is_required
        assert list(operation["requestBody"]["content"]) == [route.body.media_type]


def test_an_open_server_describes_itself_without_security(client: TestClient) -> None:
    document = client.get("/openapi.json").json()
    assert document == json.loads(openapi_text(is_open=True))
    assert SECURITY not in json.dumps(document)
