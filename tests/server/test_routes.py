"""The table of routes against the contract: every row, with its operation, its action and its headers."""

from __future__ import annotations

import re

import pytest
from starlette.testclient import TestClient

from omnigraph.errors import MethodNotAllowed, RouteNotFound
from omnigraph.policy.ask import ACTIONS
from omnigraph.server.handlers import all_handlers
from omnigraph.server.route import PATH_PATTERNS, Router
from omnigraph.server.routes import ROUTES

G = "/graphs/{graph_id}"
CONTRACT = {
    ("GET", "/healthz"): ("health", None, (200,)),
    ("GET", "/readyz"): ("readiness", None, (200, 503)),
    ("GET", "/openapi.json"): ("openapi", None, (200,)),
    ("GET", "/graphs"): ("listGraphs", "graph_list", (200, 401, 403)),
    ("GET", f"{G}/snapshot"): ("cluster_getSnapshot", "read", (200, 404)),
    ("GET", f"{G}/schema"): ("cluster_getSchema", "read", (200, 404)),
    ("POST", f"{G}/schema/apply"): ("cluster_applySchema", "schema_apply", (200, 400, 409)),
    ("POST", f"{G}/query"): ("cluster_query", "read", (200, 400, 404)),
    ("POST", f"{G}/read"): ("cluster_read", "read", (200, 400, 404)),
    ("POST", f"{G}/mutate"): ("cluster_mutate", "change", (200, 400, 404, 409, 413)),
    ("POST", f"{G}/mutate/if-graph-commit"): (
        "cluster_mutate_if_graph_commit",
        "change",
        (200, 400, 404, 409, 412, 413),
    ),
    ("POST", f"{G}/change"): ("cluster_change", "change", (200, 400, 404, 409, 413)),
    ("GET", f"{G}/queries"): ("cluster_list_queries", "read", (200,)),
    ("POST", f"{G}/queries/{{name}}"): ("cluster_invoke_query", "invoke_query", (200, 400, 404)),
    ("POST", f"{G}/queries/{{name}}/if-graph-commit"): (
        "cluster_invoke_query_if_graph_commit",
        "invoke_query",
        (200, 400, 404, 412),
    ),
    ("POST", f"{G}/load"): ("cluster_load", "change", (200, 400, 404, 409, 413)),
    ("POST", f"{G}/load/ndjson"): ("cluster_loadNdjson", "change", (200, 400, 404, 409, 413, 415)),
    ("POST", f"{G}/ingest"): ("cluster_ingest", "change", (200, 400, 404, 409, 413)),
    ("POST", f"{G}/export"): ("cluster_export", "export", (200, 400, 404, 413, 415)),
    ("GET", f"{G}/blob"): ("cluster_getBlob", "read", (200, 206, 302, 304, 400, 404, 412, 416)),
    ("HEAD", f"{G}/blob"): ("cluster_headBlob", "read", (200, 302, 304, 400, 404, 412)),
    ("GET", f"{G}/branches"): ("cluster_listBranches", "read", (200,)),
    ("POST", f"{G}/branches"): ("cluster_createBranch", "branch_create", (200, 400, 409)),
    ("DELETE", f"{G}/branches/{{branch}}"): ("cluster_deleteBranch", "branch_delete", (200, 404, 409)),
    ("POST", f"{G}/branches/merge"): ("cluster_mergeBranches", "branch_merge", (200, 400, 404, 409)),
    ("GET", f"{G}/commits"): ("cluster_listCommits", "read", (200, 404)),
    ("GET", f"{G}/commits/{{commit_id}}"): ("cluster_getCommit", "read", (200, 404)),
    ("GET", f"{G}/commits/{{commit_id}}/changes"): ("cluster_getCommitChanges", "read", (200, 404, 409, 410, 413)),
    ("GET", f"{G}/changes"): ("cluster_pollChanges", "read", (200, 400, 404, 409, 410, 413)),
    ("POST", f"{G}/changes/baseline"): ("cluster_captureChangeBaseline", "export", (200, 400, 404, 413)),
}
TABLE = {(route.method, route.path): route for route in ROUTES}


@pytest.mark.parametrize("key", CONTRACT, ids=lambda key: " ".join(key))
def test_a_route_of_the_contract_is_in_the_table(key: tuple[str, str]) -> None:
    operation_id, action, statuses = CONTRACT[key]
    route = TABLE[key]
    assert (route.operation_id, route.action) == (operation_id, action)
    assert set(statuses) <= {*route.responses, *route.statuses}


def test_every_route_has_a_handler_of_its_own_and_an_action_that_policies_know() -> None:
    assert {route.operation_id for route in ROUTES} == set(all_handlers())
    assert len({route.operation_id for route in ROUTES}) == len(ROUTES)
    for route in ROUTES:
        assert route.action is None or route.action in ACTIONS
        assert route.is_open == (route.action is None), route.path


def test_only_routes_without_a_policy_action_are_open() -> None:
    assert {route.path for route in ROUTES if route.is_open} >= {"/healthz", "/readyz", "/livez", "/openapi.json"}
    assert not [route.path for route in ROUTES if route.is_open and route.is_of_graph]


def test_the_deprecated_routes_name_their_successors() -> None:
    successors = {route.operation_id: route.successor for route in ROUTES if route.successor}
    assert successors == {"cluster_read": "/query", "cluster_change": "/mutate", "cluster_ingest": "/load"}


@pytest.mark.parametrize(
    ("path", "operation_id", "names"),
    [
        (b"/graphs/p/branches/review%2F2026-07", "cluster_deleteBranch", {"graph_id": "p", "branch": "review/2026-07"}),
        (b"/graphs/p/branches/a%20b", "cluster_deleteBranch", {"graph_id": "p", "branch": "a b"}),
        (b"/graphs/p/branches/merge", "cluster_deleteBranch", {"graph_id": "p", "branch": "merge"}),
        (b"/graphs/p/branches/%7B%7D?x=/y", "cluster_deleteBranch", {"graph_id": "p", "branch": "{}"}),
    ],
)
def test_a_segment_is_split_before_it_is_decoded(path: bytes, operation_id: str, names: dict[str, str]) -> None:
    route, found = Router(ROUTES).find("DELETE", path)
    assert (route.operation_id, found) == (operation_id, names)


@pytest.mark.parametrize(
    "path", [b"/query", b"/graphs/", b"/graphs/p", b"/graphs//query", b"/graphs/p/query/", b"//healthz"]
)
def test_other_paths_are_not_found(path: bytes) -> None:
    with pytest.raises(RouteNotFound):
        Router(ROUTES).find("GET", path)


def test_a_wrong_method_says_which_are_right() -> None:
    with pytest.raises(MethodNotAllowed) as refusal:
        Router(ROUTES).find("PUT", b"/graphs/p/branches/merge")
    assert refusal.value.allowed == ("DELETE", "POST")


WRONG = ["x", "..%2f..%2fgraph.json", "%00", "a" * 5_000, "01M7JHWS8BWJ2FHTQQ7RN6TVQ", "01m7jhws8bwj2fhtqq7rn6tvqh"]


@pytest.mark.parametrize("wrong", WRONG)
def test_what_is_no_value_of_a_path_parameter_is_not_found(client: TestClient, wrong: str) -> None:
    for method, path in (
        ("POST", f"maintenance/recovery/{wrong}/resume"),
        ("POST", f"maintenance/recovery/{wrong}/discard"),
        ("GET", f"commits/{wrong}"),
        ("GET", f"jobs/{wrong}"),
    ):
        answer = client.request(method, path)
        assert (answer.status_code, answer.json()["code"]) == (404, "not_found"), (path, answer.text)


def test_every_path_parameter_has_its_pattern() -> None:
    names = {name for route in ROUTES for name in re.findall(r"{(\w+)}", route.path)}
    assert names == set(PATH_PATTERNS)
