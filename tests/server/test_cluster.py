"""A cluster over HTTP: the applied revision with its queries and policies, reloads, and actors who may do nothing."""

from __future__ import annotations

import datetime as dt
import json
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from serving import ALL, QUERIES, RECORDS, SCHEMA
from starlette.testclient import TestClient

import omnigraph as og
from omnigraph.cluster.applying import apply
from omnigraph.cluster.config import read_config
from omnigraph.cluster.policies import books_of
from omnigraph.errors import ConfigurationError, UsageError
from omnigraph.server.app import Application
from omnigraph.server.logs import RequestLog
from omnigraph.server.openapi import openapi
from omnigraph.server.routes import ROUTES
from omnigraph.server.startup import ClusterGraphs, source_of

DATA = """
version: 1
groups: { devs: [ada], agents: [bot], nobodies: [none] }
protected_branches: [main]
rules:
  - id: devs-read
    allow: { actors: { group: devs }, actions: [read, export] }
  - id: devs-write
    allow: { actors: { group: devs }, actions: [change], branch_scope: unprotected }
  - id: bots-ask
    allow: { actors: { group: agents }, actions: [invoke_query, read], queries: [everyone] }
  - id: cy-names
    allow: { actors: { actor: cy }, actions: [change], types: [City], branches: ["names/*"] }
  - id: eve-exports
    allow: { actors: { actor: eve }, actions: [export] }
  - id: cy-starts
    allow: { actors: { actor: cy }, actions: [branch_create], branches: ["names/*"] }
"""
SERVER = """
version: 1
groups: { devs: [ada] }
rules: [{ id: devs-manage, allow: { actors: { group: devs }, actions: [graph_list, config_manage] } }]
"""
CLUSTER = """
version: 1
metadata: { name: company }
graphs:
  people: { schema: people.pg, queries: queries }
  plain: { schema: people.pg }
policies:
  data: { file: data.yaml, applies_to: [people] }
  server: { file: server.yaml, applies_to: [cluster] }
server: { cors: ["https://studio.example"], limits: { body: 2048 }, mcp: { adhoc: false } }
"""
TOKENS = {"ada": "t-ada", "bot": "t-bot", "none": "t-none", "stranger": "t-stranger", "cy": "t-cy", "eve": "t-eve"}
ENVIRONMENT = {"OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": json.dumps(TOKENS)}


def write(folder: Path, **files: str) -> Path:
    (folder / "queries").mkdir(parents=True, exist_ok=True)
    texts = {"people.pg": SCHEMA, "queries/q.gq": QUERIES, "data.yaml": DATA, "server.yaml": SERVER}
    for name, text in {**texts, "cluster.yaml": CLUSTER, **files}.items():
        (folder / name).write_text(text)
    return folder


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = write(tmp_path_factory.mktemp("company"))
    config = read_config(place)
    assert apply(config).converged
    records = place / "people.jsonl"
    records.write_text(RECORDS.strip() + "\n")
    og.open(config.graphs["people"].uri).load(records, mode="merge", engine="local")
    return place


@pytest.fixture(scope="module")
def client(folder: Path) -> Iterator[TestClient]:
    source = ClusterGraphs(str(folder), ENVIRONMENT)
    app = Application(source, source.load(), None, RequestLog("json", StringIO()))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        yield client


def asked(client: TestClient, actor: str | None, method: str, path: str, **more: Any) -> Any:
    headers = {} if actor is None else {"Authorization": f"Bearer {TOKENS[actor]}"}
    return client.request(method, path, headers=headers, **more)


def test_a_policy_decides_over_http(client: TestClient) -> None:
    query = {"query": ALL}
    assert asked(client, "ada", "POST", "/graphs/people/query", json=query).json()["row_count"] == 2
    change = {"query": 'query add() { insert Person { name: "Cy" } }'}
    refused = asked(client, "ada", "POST", "/graphs/people/mutate", json=change)
    assert refused.status_code == 403
    assert refused.json()["problem"]["details"] == {"action": "change", "branch": "main"}
    assert "devs" not in refused.text
    assert asked(client, "ada", "POST", "/graphs/people/branches", json={"name": "x"}).status_code == 403
    assert asked(client, "stranger", "POST", "/graphs/people/query", json=query).status_code == 403
    assert asked(client, None, "POST", "/graphs/people/query", json=query).status_code == 401


def test_an_agent_sees_its_stored_query_and_nothing_else(client: TestClient) -> None:
    assert asked(client, "bot", "POST", "/graphs/people/queries/everyone").json()["row_count"] == 2
    assert asked(client, "bot", "POST", "/graphs/people/query", json={"query": ALL}).status_code == 403
    for path in ("schema", "snapshot", "commits", "branches"):
        assert asked(client, "bot", "GET", f"/graphs/people/{path}").status_code == 403
    catalogue = asked(client, "bot", "GET", "/graphs/people/queries").json()["queries"]
    assert [query["name"] for query in catalogue] == ["everyone"]
    listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Authorization": f"Bearer {TOKENS['bot']}", "Accept": "application/json, text/event-stream"}
    tools = client.post("/graphs/people/mcp", json=listed, headers=headers).json()["result"]["tools"]
    assert [tool["name"] for tool in tools if "graph" not in tool["name"]] == ["everyone"]
    other = asked(client, "bot", "POST", "/graphs/people/queries/by_name")
    unknown = asked(client, "bot", "POST", "/graphs/people/queries/nothing")
    assert (other.status_code, unknown.status_code) == (404, 404)
    assert other.json()["error"].replace("by_name", "") == unknown.json()["error"].replace("nothing", "")


def test_who_may_export_need_not_be_allowed_to_read(client: TestClient) -> None:
    asked(client, "cy", "POST", "/graphs/people/branches", json={"name": "names/2"})
    for branch in ("main", "names/2"):
        exported = asked(client, "eve", "POST", "/graphs/people/export", json={"branch": branch})
        assert (exported.status_code, len(exported.text.splitlines())) == (200, 4)
        assert "omnigraph-graph-commit" not in exported.headers
    assert asked(client, "eve", "GET", "/graphs/people/snapshot").status_code == 403
    assert "omnigraph-graph-commit" in asked(client, "ada", "POST", "/graphs/people/export", json={}).headers


def test_a_cluster_can_leave_agents_the_stored_queries_alone(client: TestClient) -> None:
    listed = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    headers = {"Authorization": f"Bearer {TOKENS['ada']}", "Accept": "application/json, text/event-stream"}
    tools = client.post("/graphs/people/mcp", json=listed, headers=headers).json()["result"]["tools"]
    names = {tool["name"] for tool in tools}
    assert "schema_get" in names
    assert names.isdisjoint({"query", "mutate", "explain", "lint"})


def test_a_rule_about_types_and_branches_holds_over_http(client: TestClient) -> None:
    assert asked(client, "cy", "POST", "/graphs/people/branches", json={"name": "names/1"}).status_code == 200
    assert asked(client, "cy", "POST", "/graphs/people/branches", json={"name": "other"}).status_code == 403

    def add(kind: str, branch: str) -> int:
        change = {"query": f'query add() {{ insert {kind} {{ name: "Oslo" }} }}', "branch": branch}
        return int(asked(client, "cy", "POST", "/graphs/people/mutate", json=change).status_code)

    assert [add("City", "names/1"), add("Person", "names/1"), add("City", "main")] == [200, 403, 403]
    load = {"data": '{"type": "Person", "data": {"name": "Eve"}}', "branch": "names/1"}
    assert asked(client, "cy", "POST", "/graphs/people/load", json=load).status_code == 403
    load["data"] = '{"type": "City", "data": {"name": "Bonn"}}'
    assert asked(client, "cy", "POST", "/graphs/people/load", json=load).status_code == 200


def test_a_denial_is_in_the_log_with_its_rule_and_not_in_the_answer(folder: Path) -> None:
    source, log = ClusterGraphs(str(folder), ENVIRONMENT), StringIO()
    app = Application(source, source.load(), None, RequestLog("json", log))
    with TestClient(app, base_url="http://localhost") as client:
        change = {"query": 'query add() { insert City { name: "Oslo" } }'}
        answer = asked(client, "ada", "POST", "/graphs/people/mutate", json=change)
    assert "devs-write" not in answer.text
    (line,) = [json.loads(line) for line in log.getvalue().splitlines() if '"denied"' in line]
    assert (line["actor"], line["action"], line["branch"]) == ("ada", "change", "main")
    assert line["why"] == "devs-write allows change only on unprotected branches; 'main' is protected"


def test_a_graph_without_a_policy_is_read_only(client: TestClient) -> None:
    assert asked(client, "stranger", "GET", "/graphs/plain/schema").status_code == 200
    assert asked(client, "ada", "POST", "/graphs/plain/export", json={}).status_code == 403


def test_the_policy_of_the_cluster_decides_who_lists_graphs(client: TestClient) -> None:
    listed = asked(client, "ada", "GET", "/graphs").json()["graphs"]
    assert [each["graph_id"] for each in listed] == ["people", "plain"]
    assert asked(client, "bot", "GET", "/graphs").status_code == 403


NAMES = {
    "graph_id": "people",
    "branch": "main",
    "commit_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
    "name": "everyone",
    "query": ALL,
    "query_source": ALL,
    "schema_source": SCHEMA,
    "schema": SCHEMA,
    "data": RECORDS,
    "type": "Person",
    "id": "Ada",
    "property": "name",
    "from": "main",
    "to": "main",
    "source": "main",
    "Omnigraph-If-Graph-Commit": "01ARZ3NDEKTSV4RRFFQ69G5FAV",
}
"""What a request says under these names; of everything else, something that its schema takes."""
SECRETS = ("Ada", "Person", "LivesIn", "All people", "by_name", "Adds one")
DOCUMENT = openapi()


def sample(schema: dict[str, Any], name: str = "") -> Any:
    while "$ref" in schema:
        schema = DOCUMENT["components"]["schemas"][schema["$ref"].rpartition("/")[2]]
    if "enum" in schema:
        return schema["enum"][0]
    if "anyOf" in schema or "oneOf" in schema:
        return sample((schema.get("anyOf") or schema["oneOf"])[0], name)
    kind = schema.get("type", "string")
    match kind if isinstance(kind, str) else kind[0]:
        case "object":
            members = schema.get("properties", {})
            return {member: sample(members.get(member, {}), member) for member in schema.get("required", ())}
        case "array":
            return [sample(schema.get("items", {}), name)] if schema.get("minItems") else []
        case "integer" | "number":
            return schema.get("minimum", 1)
        case "boolean":
            return False
    return NAMES.get(name, "x")


def request_of(route: Any) -> dict[str, Any]:
    """A request that is as it should be, made from what the document says."""
    operation = DOCUMENT["paths"][route.path][route.method.lower()]
    made: dict[str, Any] = {"params": {}, "headers": {}}
    path = route.path
    for parameter in operation.get("parameters", ()):
        value = sample(parameter.get("schema", {}), parameter["name"])
        if parameter["in"] == "path":
            path = path.replace(f"{{{parameter['name']}}}", str(NAMES.get(parameter["name"], value)))
        elif parameter.get("required"):
            made["params" if parameter["in"] == "query" else "headers"][parameter["name"]] = str(value)
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        if media_type == "application/json":
            made["json"] = sample(content.get("schema", {}))
        else:
            made |= {"content": RECORDS, "headers": {**made["headers"], "Content-Type": media_type}}
        break
    return {"path": path, **made}


@pytest.mark.parametrize("actor", ["none", "stranger"])
@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.method} {route.path}")
def test_an_actor_without_grants_gets_nothing(client: TestClient, route: Any, actor: str) -> None:
    request = request_of(route)
    headers = {**request.pop("headers"), "Authorization": f"Bearer {TOKENS[actor]}"}
    if route.path.endswith("/mcp"):
        request["json"] = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    answer = client.request(route.method, request.pop("path"), headers=headers, **request)
    shown = f"{answer.status_code} {dict(answer.headers)} {answer.text}"
    if route.path not in ("/openapi.json", "/language"):  # the same whatever is served
        assert not any(secret in shown for secret in SECRETS), shown
    if not route.is_open and not route.path.endswith(("/mcp", "/policy/me")):
        assert answer.status_code in (401, 403, 404), shown


def test_a_reload_serves_what_was_applied_and_keeps_the_old_set_when_it_cannot(tmp_path: Path) -> None:
    folder = write(tmp_path)
    apply(read_config(folder))
    source = ClusterGraphs(str(folder), ENVIRONMENT)
    app = Application(source, source.load(), None, RequestLog("json", StringIO()))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        more = QUERIES + "\nquery more() { match { $p: Person } return { $p.name as name } }"
        write(folder, **{"queries/q.gq": more, "data.yaml": DATA.replace("[everyone]", "[more]")})
        invoke = "/graphs/people/queries/more"
        assert asked(client, "ada", "POST", "/-/reload").status_code == 200  # nothing was applied yet
        assert asked(client, "bot", "POST", invoke).status_code == 404
        apply(read_config(folder))
        assert asked(client, "bot", "POST", "/-/reload").status_code == 403
        (folder / "people.pg").write_text("node {")  # somebody is editing the folder: what was applied counts
        assert asked(client, "ada", "POST", "/-/reload").status_code == 200
        assert asked(client, "bot", "POST", invoke).status_code == 200
        for payload in (folder / "__cluster" / "catalogue").iterdir():
            payload.write_text("damaged")
        failed = asked(client, "ada", "POST", "/-/reload")
        assert failed.status_code == 400
        assert "catalogue" in failed.json()["error"]
        assert asked(client, "bot", "POST", invoke).status_code == 200


def test_a_deployment_over_http_applies_the_folder_and_serves_it(tmp_path: Path) -> None:
    folder = write(tmp_path)
    apply(read_config(folder))
    source = ClusterGraphs(str(folder), ENVIRONMENT)
    app = Application(source, source.load(), None, RequestLog("json", StringIO()))
    with TestClient(app, base_url="http://localhost", raise_server_exceptions=False) as client:
        assert asked(client, "ada", "POST", "/cluster/plan").json()["converged"]
        more = QUERIES + "\nquery more() { match { $p: Person } return { $p.name as name } }"
        write(folder, **{"queries/q.gq": more, "data.yaml": DATA.replace("[everyone]", "[more]")})
        planned = asked(client, "ada", "POST", "/cluster/plan").json()
        assert {"address": "query.people.more", "operation": "create", "disposition": "applied"} in planned[
            "operations"
        ]
        assert asked(client, "bot", "POST", "/graphs/people/queries/more").status_code == 404
        deployed = asked(client, "ada", "POST", "/cluster/deployments").json()
        assert (deployed["id"], deployed["converged"]) == (str(planned["state_revision"] + 1), True)
        assert asked(client, "bot", "POST", "/graphs/people/queries/more").status_code == 200

        listed = asked(client, "ada", "GET", "/cluster/deployments").json()["deployments"]
        assert [each["id"] for each in listed] == [str(number) for number in range(deployed["state_revision"], 0, -1)]
        first, last = [asked(client, "ada", "GET", f"/cluster/deployments/{listed[at]['id']}").json() for at in (-1, 0)]
        assert "query.people.more" not in first["resources"]
        assert last["resources"]["query.people.more"]["file"] == "queries/q.gq"
        for unknown in ("999", "0", "x", "..%2f1"):
            assert asked(client, "ada", "GET", f"/cluster/deployments/{unknown}").status_code == 404
        for method, path in (
            ("POST", "/cluster/plan"),
            ("GET", "/cluster/deployments"),
            ("POST", "/cluster/deployments"),
        ):
            assert asked(client, "bot", method, path).status_code == 403
        (folder / "people.pg").write_text("node {")
        assert asked(client, "ada", "POST", "/cluster/deployments").status_code == 400
        assert asked(client, "bot", "POST", "/graphs/people/queries/more").status_code == 200
        books = books_of(str(write(folder)))
        books.lock("held", "apply", None, dt.datetime.now(dt.UTC))
        assert asked(client, "ada", "POST", "/cluster/deployments").status_code == 409


def test_a_cluster_with_policies_does_not_start_without_tokens(folder: Path) -> None:
    with pytest.raises(UsageError, match="there are no tokens"):
        ClusterGraphs(str(folder), {}).load()
    options: dict[str, Any] = {"queries": None, "is_loopback": True, "requires_all": False}
    with pytest.raises(UsageError, match="there are no tokens"):
        source_of([], str(folder), {}, is_open=False, **options)
    source, _ = source_of([], str(folder), ENVIRONMENT, is_open=False, **options)
    assert set(source.load().graphs) == {"people", "plain"}


def test_a_cluster_that_was_never_applied_is_not_served(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="nothing was applied"):
        ClusterGraphs(str(write(tmp_path)), ENVIRONMENT).load()


def test_settings_of_the_cluster_file_hold_for_the_server(folder: Path) -> None:
    from omnigraph.server.settings import ServerSettings

    settings = ClusterGraphs(str(folder), ENVIRONMENT).settings(ServerSettings())
    assert settings.cors_origins == {"https://studio.example"}
    assert settings.limits.body_bytes == 2048
