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
    "LoadMode": {"append", "merge", "overwrite"},
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
