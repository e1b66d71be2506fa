"""The headers of requests and answers, row by row."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator
from urllib.parse import quote

import pytest
from serving import ADD, ALL, SCHEMA, tokens
from starlette.testclient import TestClient

from omnigraph.server.bodies import compressed
from omnigraph.server.routes import ROUTES
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


# ---------------------------------------------------------------- made from the table of routes

READ_TEXT = {"query": ALL}
LINES = {"content": LINE.replace("Paris", "Oslo"), "headers": {"Content-Type": "application/x-ndjson"}}
OF_SNAPSHOT: dict[str, tuple[str, dict[str, object]]] = {
    "cluster_getSnapshot": ("snapshot", {}),
    "cluster_getSchema": ("schema", {}),
    "cluster_applySchema": ("schema/apply", {"json": {"schema_source": SCHEMA}}),
    "cluster_query": ("query", {"json": READ_TEXT}),
    "cluster_read": ("read", {"json": {"query_source": ALL}}),
    "cluster_mutate": ("mutate", {"json": mutation("a")}),
    "cluster_mutate_if_graph_commit": ("mutate/if-graph-commit", {"json": mutation("b")}),
    "cluster_change": ("change", {"json": mutation("c")}),
    "cluster_list_queries": ("queries", {}),
    "cluster_invoke_query": ("queries/everyone", {}),
    "cluster_invoke_query_if_graph_commit": (
        "queries/add/if-graph-commit",
        {"json": {"params": {"name": "d"}}},
    ),
    "cluster_load": ("load", {"json": {"data": LINE.replace("Paris", "Bonn")}}),
    "cluster_loadNdjson": ("load/ndjson", LINES),
    "cluster_ingest": ("ingest", {"json": {"data": LINE.replace("Paris", "Kiel")}}),
    "cluster_export": ("export", {}),
    "cluster_createBranch": ("branches", {"json": {"name": "of-table"}}),
    "cluster_mergeBranches": ("branches/merge", {"json": {"source": "of-table", "dry_run": True}}),
    "cluster_listCommits": ("commits", {}),
    "cluster_getCommit": ("commits/{head}", {}),
    "cluster_getCommitChanges": ("commits/{head}/changes", {}),
    "cluster_pollChanges": ("changes?start=now", {}),
    "cluster_captureChangeBaseline": ("changes/baseline", {}),
    "getCatalog": ("catalog", {}),
    "listEntities": ("entities/Person", {}),
    "getEntity": ("entity?type=Person&id=Ada", {}),
    "getEntityHistory": ("entity/history?type=Person&id=Ada", {}),
    "getNeighbours": ("entity/neighbours?type=Person&id=Ada", {}),
    "getDiff": ("diff?from=main~1&to=main", {}),
    "getSchemaDiff": ("schema/diff?from=main~1&to=main", {}),
    "createTag": ("tags", {"json": {"name": "of-table-too"}}),
    "explainQuery": ("explain", {"json": READ_TEXT}),
    "lintText": ("lint", {"json": READ_TEXT}),
    "completeQuery": ("complete", {"json": {"query": "", "line": 1, "column": 1}}),
    "getStorage": ("storage", {}),
    "optimizeGraph": ("maintenance/optimize", {}),
}
"""A request of each route whose answer is read from a snapshot or made by a commit."""
OF_NO_SNAPSHOT = {
    "cluster_listBranches": "it is of all branches, and its ETag of all heads",
    "cluster_deleteBranch": "nothing is left to name",
    "getLog": "it is of several branches, and its ETag of all heads",
    "listTags": "it is of all tags",
    "deleteTag": "nothing is left to name",
    "formatQueries": "it reads no graph",
    "getRights": "it is of the policy",
    "createTicket": "it is of the server",
    **dict.fromkeys(("startLoad", "startUpload", "listJobs", "getJob", "cancelJob", "followJob", "getRejects"), "jobs"),
    "cleanUpGraph": "it makes no commit",
    "listPrepared": "what is prepared is in no snapshot yet",
    "discardPrepared": "it makes no commit",
    "cluster_mcp": "its answers name commits inside",
}
TESTED_ELSEWHERE = {
    "cluster_getBlob",  # tests/server/test_blobs.py
    "cluster_headBlob",
    "loadArrow",  # tests/server/test_jobs.py
    "loadFiles",
    "streamChanges",  # tests/server/test_feeds.py
    "resumePrepared",  # tests/server/test_extensions.py
}


def test_every_answer_of_a_snapshot_names_its_commit(start: Callable[..., TestClient]) -> None:
    client = start()
    of_graph = {route.operation_id: route for route in ROUTES if route.is_of_graph}
    assert of_graph.keys() == OF_SNAPSHOT.keys() | OF_NO_SNAPSHOT.keys() | TESTED_ELSEWHERE
    for operation_id, (path, options) in OF_SNAPSHOT.items():
        route, at = of_graph[operation_id], head(client)
        headers = {"Omnigraph-If-Graph-Commit": at} if route.needs_head else {}
        asked = {**options, "headers": {**options.get("headers", {}), **headers}}  # type: ignore[dict-item]
        answer = client.request(route.method, path.replace("{head}", at), **asked)  # type: ignore[arg-type]
        assert answer.status_code == 200, (operation_id, answer.text)
        assert len(answer.headers["omnigraph-graph-commit"]) == 26, operation_id
        if route.method == "GET" and path in ("snapshot", "schema", "commits", "catalog"):
            assert answer.headers["etag"] == f'"{answer.headers["omnigraph-graph-commit"]}"'


def test_a_baseline_names_the_commit_of_its_last_line(client: TestClient) -> None:
    answer = client.post("changes/baseline")
    last = json.loads(answer.text.splitlines()[-1])
    assert answer.headers["omnigraph-graph-commit"] == last["baseline"]["snapshot_commit_id"]


@pytest.mark.parametrize(
    ("accepted", "coding"),
    [
        ("gzip, deflate", "gzip"),
        ("gzip, zstd", "zstd"),
        ("zstd;q=0.5, gzip;q=0.8", "gzip"),
        ("ZSTD", "zstd"),
        ("gzip;q=0", None),
        ("gzip;q=0.1, identity", None),
        ("br", None),
        ("gzip;q=x", None),
        ("", None),
    ],
)
def test_exports_are_compressed_as_the_client_asks(client: TestClient, accepted: str, coding: str | None) -> None:
    import pyarrow as pa

    for path in ("export", "changes/baseline"):
        plain = client.post(path, headers={"Accept-Encoding": "identity"})
        assert "content-encoding" not in plain.headers
        with client.stream("POST", f"/graphs/people/{path}", headers={"Accept-Encoding": accepted}) as answer:
            assert answer.headers.get("content-encoding") == coding
            assert "Accept-Encoding" in answer.headers["vary"]
            raw = b"".join(answer.iter_raw())
        name = {"gzip": "gzip", "zstd": "zstd"}.get(coding or "")
        found = raw if name is None else pa.CompressedInputStream(pa.BufferReader(raw), name).read()
        assert bytes(found) == plain.content
    arrow = client.post("export", json={"format": "arrow", "type_names": ["City"]}, headers={"Accept-Encoding": "gzip"})
    assert "content-encoding" not in arrow.headers


def test_a_compressed_stream_holds_little_and_ends_with_its_source() -> None:
    closed = []

    def source() -> Iterator[bytes]:
        try:
            while True:
                yield random.randbytes(65_536)
        finally:
            closed.append(True)

    for name in ("gzip", "zstd"):
        stream, _ = compressed(source(), {"accept-encoding": name})
        made = [len(next(stream)) for _ in range(40)]
        assert sum(made) > 30 * 65_536  # what goes in comes out: it is not gathered
        stream.close()  # type: ignore[attr-defined]
    assert closed == [True, True]


def test_editors_get_the_words_of_both_languages(client: TestClient) -> None:
    answer = client.get("/language")
    words = answer.json()
    assert {"match", "return", "order"} <= set(words["queries"]["keywords"])
    assert {"lower", "coalesce"} <= {each["name"] for each in words["queries"]["functions"]}
    assert {"node", "edge", "interface"} <= set(words["schemas"]["keywords"])
    assert {"String", "Vector"} <= set(words["schemas"]["types"])
    assert client.get("/language", headers={"If-None-Match": answer.headers["etag"]}).status_code == 304
    offered = client.post("complete", json={"query": "query q() { return { low", "line": 1, "column": 25}).json()
    assert {"label": "lower", "kind": "function", "detail": "lower(text)"} in offered["items"]


def test_the_catalog_says_what_each_index_covers(start: Callable[..., TestClient]) -> None:
    client = start()
    client.post("mutate", json=mutation("Indexed"))

    def indexes() -> dict[str, dict[str, object]]:
        (person,) = [each for each in client.get("catalog").json()["nodes"] if each["name"] == "Person"]
        return {f"{each['property']} {each['kind']}": each for each in person["indexes"]}

    before = indexes()
    assert before.keys() == {"id BTREE", "name BTREE", "name INVERTED"}
    assert before["name BTREE"]["pending_rows"] >= 1  # type: ignore[operator]
    assert before["name BTREE"]["reason"] in ("never built", "written since the index was built")
    assert client.post("maintenance/optimize").status_code == 200
    after = indexes()
    assert (after["name BTREE"]["pending_rows"], "reason" in after["name BTREE"]) == (0, False)
    (lives,) = [each for each in client.get("catalog").json()["edges"] if each["name"] == "LivesIn"]
    assert {each["property"] for each in lives["indexes"]} == {"id", "from", "to"}
