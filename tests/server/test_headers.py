"""The headers of requests and answers, row by row."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import quote

import pytest
from serving import ADD, ALL, tokens
from starlette.testclient import TestClient

from omnigraph.server.settings import ServerSettings

ABSENT_ID = "01M7JHWS8BWJ2FHTQQ7RN6TVQH"


def mutation(name: str) -> dict[str, object]:
    return {"query": ADD, "params": {"name": name}}


def head(client: TestClient) -> str:
    return str(client.get("snapshot").json()["graph_commit_id"])


def test_the_actor_comes_from_the_token_and_from_nothing_else(start: Callable[..., TestClient]) -> None:
    client = start(verifiers=(tokens(ada="t-ada"),))
    headers = {"Authorization": "bearer t-ada", "X-Actor-Id": "eve"}
    body = client.post("mutate", json={**mutation("Actor"), "actor_id": "eve", "actor": "eve"}, headers=headers).json()
    assert body["actor_id"] == body["commit"]["actor_id"] == "ada"


@pytest.mark.parametrize("given", ["abc-1.2_3", "x" * 128])
def test_a_request_id_is_taken_over(client: TestClient, given: str) -> None:
    assert client.get("/healthz", headers={"X-Request-Id": given}).headers["x-request-id"] == given


@pytest.mark.parametrize("given", ["", "a b", "x" * 129, "a/b", "é".encode()])
def test_a_request_id_that_is_none_is_replaced(client: TestClient, given: str) -> None:
    made = client.get("/healthz", headers={"X-Request-Id": given}).headers["x-request-id"]
    assert len(made) == 26
    assert client.get("/nowhere").headers["x-request-id"] != made


def test_every_answer_says_how_it_may_be_kept(client: TestClient) -> None:
    for answer in (client.get("/healthz"), client.get("/nowhere"), client.post("query", json={"query": ALL})):
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-content-type-options"] == "nosniff"
    commit = client.get(f"commits/{head(client)}")
    assert commit.headers["cache-control"] == "private, max-age=31536000, immutable"


def test_reads_and_writes_name_their_commit(client: TestClient) -> None:
    made = client.post("mutate", json=mutation("Named"))
    commit = made.json()["commit"]["graph_commit_id"]
    assert made.headers["omnigraph-graph-commit"] == commit
    for answer in (
        *(client.get(path) for path in ("snapshot", "schema", "commits", f"commits/{commit}")),
        client.post("query", json={"query": ALL}),
        client.post("export", json={}),
        client.post("queries/everyone"),
    ):
        assert answer.headers["omnigraph-graph-commit"] == commit
    assert "run;dur=" in made.headers["server-timing"]


@pytest.mark.parametrize("path", ["snapshot", "schema", "commits", "branches"])
def test_what_the_client_has_already_is_not_sent_again(client: TestClient, path: str) -> None:
    tag = client.get(path).headers["etag"]
    same = client.get(path, headers={"If-None-Match": f'"other", W/{tag}'})
    assert (same.status_code, same.content) == (304, b"")
    client.post("mutate", json=mutation(f"for {path}"))
    assert client.get(path, headers={"If-None-Match": tag}).status_code == 200


@pytest.mark.parametrize(
    "value", [None, f'"{ABSENT_ID}"', f'W/"{ABSENT_ID}"', "*", f"{ABSENT_ID}, {ABSENT_ID}", "main"]
)
def test_a_condition_that_is_no_bare_commit_id_is_refused(client: TestClient, value: str | None) -> None:
    headers = {} if value is None else {"Omnigraph-If-Graph-Commit": value}
    assert client.post("mutate/if-graph-commit", json=mutation("No"), headers=headers).status_code == 400


def test_a_condition_given_twice_is_refused(client: TestClient) -> None:
    headers = [("Omnigraph-If-Graph-Commit", ABSENT_ID), ("Omnigraph-If-Graph-Commit", ABSENT_ID)]
    assert client.post("mutate/if-graph-commit", json=mutation("No"), headers=headers).status_code == 400


@pytest.mark.parametrize(
    ("method", "path"), [("GET", "snapshot"), ("POST", "query"), ("POST", "mutate"), ("POST", "load")]
)
def test_the_condition_is_refused_where_it_means_nothing(client: TestClient, method: str, path: str) -> None:
    headers = {"Omnigraph-If-Graph-Commit": ABSENT_ID}
    assert client.request(method, path, json={"query": ALL, "data": ""}, headers=headers).status_code == 400


def test_a_write_is_made_only_at_the_expected_commit(client: TestClient) -> None:
    at = head(client)
    made = client.post("mutate/if-graph-commit", json=mutation("If"), headers={"Omnigraph-If-Graph-Commit": at})
    assert made.status_code == 200
    late = client.post("mutate/if-graph-commit", json=mutation("Late"), headers={"Omnigraph-If-Graph-Commit": at})
    assert late.status_code == 412
    assert late.json()["precondition_failure"] == {"expected": at, "actual": head(client)}
    assert "code" not in late.json()


LINE = '{"type": "City", "data": {"name": "Paris"}}\n'


@pytest.mark.parametrize(
    ("method", "path", "body"),
    [
        ("POST", "mutate", mutation("Matched")),
        ("POST", "change", mutation("Matched too")),
        ("POST", "load", {"data": LINE}),
        ("POST", "branches", {"name": "at-head"}),
        ("POST", "branches/merge", {"source": "to-merge"}),
        ("POST", "schema/apply", {"schema_source": ""}),
    ],
)
def test_if_match_is_the_condition_of_any_write(
    client: TestClient, method: str, path: str, body: dict[str, object]
) -> None:
    wrong = client.request(method, path, json=body, headers={"If-Match": f'"{ABSENT_ID}"'})
    assert wrong.status_code == 412, wrong.text
    assert wrong.json()["precondition_failure"] == {"expected": ABSENT_ID, "actual": head(client)}
    for malformed in (ABSENT_ID, "*", f'W/"{ABSENT_ID}"', f'"{ABSENT_ID}", "{ABSENT_ID}"'):
        assert client.request(method, path, json=body, headers={"If-Match": malformed}).status_code == 400
    if path != "schema/apply":
        client.post("branches", json={"name": "to-merge"})
        right = client.request(method, path, json=body, headers={"If-Match": f'"{head(client)}"'})
        assert right.status_code == 200, right.text


def test_the_message_of_a_commit_comes_in_a_header_or_in_the_body(client: TestClient) -> None:
    told = client.post("mutate", json=mutation("Told"), headers={"Omnigraph-Message": quote("warum? — so")})
    assert told.json()["commit"]["message"] == "warum? — so"
    both = client.post("mutate", json={**mutation("Both"), "message": "body"}, headers={"Omnigraph-Message": "header"})
    assert both.json()["commit"]["message"] == "body"
    long = client.post("mutate", json=mutation("Long"), headers={"Omnigraph-Message": "x" * 1025})
    assert long.status_code == 413
    assert client.post("mutate", json=mutation("Bad"), headers={"Omnigraph-Message": "%ff"}).status_code == 400


def test_deprecated_routes_name_their_successor_and_only_those(client: TestClient) -> None:
    for path, body, successor in (
        ("read", {"query_source": ALL}, "query"),
        ("change", mutation("Old"), "mutate"),
        ("ingest", {"data": LINE}, "load"),
    ):
        answer = client.post(path, json=body)
        assert answer.headers["deprecation"] == "true"
        assert answer.headers["link"] == f'</graphs/people/{successor}>; rel="successor-version"'
    assert "deprecation" not in client.post("query", json={"query": ALL}).headers


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example:80", ""])
def test_a_name_that_is_not_the_servers_is_refused(client: TestClient, host: str) -> None:
    answer = client.get("/healthz", headers={"Host": host})
    assert (answer.status_code, answer.json()["code"]) == (403, "forbidden")


@pytest.mark.parametrize("host", ["localhost", "localhost:8080", "127.0.0.1:1", "[::1]:99", "LOCALHOST"])
def test_loopback_names_are_the_servers(client: TestClient, host: str) -> None:
    assert client.get("/healthz", headers={"Host": host}).status_code == 200


def test_a_configured_name_is_the_servers(start: Callable[..., TestClient]) -> None:
    client = start(settings=ServerSettings(hosts=frozenset({"db.example.com"})))
    assert client.get("/healthz", headers={"Host": "db.example.com:443"}).status_code == 200


@pytest.mark.parametrize("origin", ["http://evil.example", "null", "http://localhost:9999"])
def test_a_page_of_another_site_may_not_write(client: TestClient, origin: str) -> None:
    answer = client.post("mutate", json=mutation("Evil"), headers={"Origin": origin})
    assert answer.status_code == 403
    own = client.post("mutate", json=mutation("Own"), headers={"Origin": "http://localhost"})
    assert own.status_code == 200


def test_cors_is_for_the_named_origins_and_without_credentials(start: Callable[..., TestClient]) -> None:
    site = "https://studio.example"
    client = start(settings=ServerSettings(cors_origins=frozenset({site})))
    asking = {"Origin": site, "Access-Control-Request-Method": "POST"}
    preflight = client.options("/graphs/people/mutate", headers=asking)
    assert (preflight.status_code, preflight.headers["access-control-allow-origin"]) == (200, site)
    assert preflight.headers["access-control-allow-methods"] == "GET, POST, DELETE, HEAD"
    assert preflight.headers["access-control-max-age"] == "600"
    assert "access-control-allow-credentials" not in preflight.headers
    answer = client.post("mutate", json=mutation("Cors"), headers={"Origin": site})
    assert answer.status_code == 200
    assert "Omnigraph-Graph-Commit" in answer.headers["access-control-expose-headers"]
    other = client.get("/healthz", headers={"Origin": "https://other.example"})
    assert "access-control-allow-origin" not in other.headers
    refused = client.options("/graphs/people/mutate", headers={**asking, "Origin": "https://other.example"})
    assert refused.status_code == 405


def test_without_cors_no_origin_is_told_anything(client: TestClient) -> None:
    assert not [name for name in client.get("/healthz", headers={"Origin": "http://a"}).headers if "access" in name]
