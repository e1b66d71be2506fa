"""Reading and writing over HTTP: stored queries, loads, streams, limits, keys that make a write once."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from serving import ADD, ALL, SCHEMA, Fixed, people_client, tokens
from starlette.testclient import TestClient

import omnigraph as og
from omnigraph._internal.deadlines import Deadline
from omnigraph.errors import QueryTimeout
from omnigraph.read.result import Rows
from omnigraph.server.handlers import reads
from omnigraph.server.registry import Served
from omnigraph.server.settings import Limits, ServerSettings

NDJSON = {"Content-Type": "application/x-ndjson"}
MIB = 1024 * 1024


def person(name: str) -> str:
    return f'{{"type": "Person", "data": {{"name": "{name}"}}}}\n'


def names(client: TestClient, **target: str) -> list[str]:
    return [row["name"] for row in client.post("query", json={"query": ALL, **target}).json()["rows"]]


# ---------------------------------------------------------------- stored queries


@pytest.mark.parametrize("options", [{}, {"content": b""}, {"json": {}}, {"json": {"params": None}}])
def test_the_body_of_a_stored_query_may_be_left_out(client: TestClient, options: dict[str, object]) -> None:
    body = client.post("queries/everyone", **options).json()  # type: ignore[arg-type]
    assert (body["query_name"], body["target"]) == ("everyone", {"branch": "main", "snapshot": None})


def test_a_stored_query_takes_parameters_branch_and_snapshot(client: TestClient) -> None:
    commit = client.get("snapshot").json()["graph_commit_id"]
    asked = {"params": {"name": "Ada"}, "snapshot": commit}
    assert client.post("queries/by_name", json=asked).json()["rows"] == [{"age": 36}]
    made = client.post("queries/add", json={"params": {"name": "Stored"}, "message": "by name"}).json()
    assert (made["affected_nodes"], made["commit"]["message"]) == (1, "by name")


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("everyone", {"expect_mutation": True}),
        ("add", {"expect_mutation": False, "params": {"name": "x"}}),
        ("add", {"snapshot": "main", "params": {"name": "x"}}),
    ],
)
def test_a_stored_query_of_the_other_kind_is_refused(client: TestClient, name: str, body: dict[str, object]) -> None:
    assert client.post(f"queries/{name}", json=body).status_code == 400


def test_only_a_stored_mutation_can_be_conditional(client: TestClient) -> None:
    at = {"Omnigraph-If-Graph-Commit": client.get("snapshot").json()["graph_commit_id"]}
    assert client.post("queries/everyone/if-graph-commit", headers=at).status_code == 400
    body = {"params": {"name": "Conditional"}}
    assert client.post("queries/add/if-graph-commit", json=body, headers=at).status_code == 200
    assert client.post("queries/add/if-graph-commit", json=body, headers=at).status_code == 412


# ---------------------------------------------------------------- loads


def test_a_write_is_read_at_once(client: TestClient) -> None:
    client.post("mutate", json={"query": ADD, "params": {"name": "Now"}})
    assert "Now" in names(client)


@pytest.mark.parametrize("path", ["load", "load/ndjson", "ingest"])
def test_a_load_is_one_commit_or_nothing(client: TestClient, path: str) -> None:
    def load(lines: str, **target: str) -> object:
        if path == "load/ndjson":
            return client.post(path, content=lines, params=target, headers=NDJSON)
        return client.post(path, json={"data": lines, **target})

    before = names(client)
    bad = load(person(f"half {path}") + '{"type": "Nothing", "data": {}}\n')
    assert bad.status_code == 400  # type: ignore[attr-defined]
    assert names(client) == before
    good = load(person(f"whole {path}"), branch="main", mode="append")
    assert good.json()["total_entities"] == 1  # type: ignore[attr-defined]
    assert f"whole {path}" in names(client)


def test_edges_with_a_key_and_edges_that_are_doubled(tmp_path: Path) -> None:
    place = tmp_path / "met"
    graph = og.init(place, SCHEMA + "edge Met: Person -> Person @key(src, dst)\nedge Saw: Person -> Person\n")
    with graph.transaction() as tx:
        tx.insert("Person", name="a")
    lines = '{"edge": "Met", "from": "a", "to": "a"}\n{"edge": "Saw", "from": "a", "to": "a"}\n'
    with people_client(Fixed({"people": place})) as client:
        keys = {each["name"]: each["key"] for each in client.get("catalog").json()["edges"]}
        assert (keys["Met"], keys["Saw"]) == (["src", "dst"], [])
        for expected in ({}, {"duplicates": 1}):
            headers = {"Accept": "application/vnd.omnigraph+json"}
            answer = client.post("load", json={"data": lines, "mode": "merge"}, headers=headers).json()
            met, saw = answer["edges"]
            assert "duplicates" not in met
            assert {name: saw[name] for name in saw if name == "duplicates"} == expected
        counted = client.post(
            "mutate",
            json={"query": 'query q() { upsert Person { name: "a" } create Person { name: "b" } }'},
            headers=headers,
        )
        assert counted.json()["types"] == {"node:Person": {"inserted": 1, "updated": 0, "deleted": 0, "replaced": 1}}
    assert graph.entity("Met", '["a","a"]') is not None


def test_ingest_makes_its_branch_from_main_and_load_does_not(client: TestClient) -> None:
    assert client.post("load", json={"data": person("x"), "branch": "inbox"}).status_code == 404
    assert "inbox" not in client.get("branches").json()["branches"]
    body = client.post("ingest", json={"data": person("x"), "branch": "inbox"}).json()
    assert (body["branch_created"], body["base_branch"]) == (True, "main")


def test_a_body_up_to_the_limit_is_taken_and_a_byte_more_is_not(start: Callable[..., TestClient]) -> None:
    client = start(settings=ServerSettings(limits=Limits(body_bytes=1000, load_body_bytes=5000)))
    line = person("limit")
    exact = line + " " * (5000 - len(line))
    assert client.post("load/ndjson", content=exact, headers=NDJSON).status_code == 200
    for body in (exact + " ", iter([exact.encode(), b" "])):
        answer = client.post("load/ndjson", content=body, headers=NDJSON)  # type: ignore[arg-type]
        assert answer.status_code == 413
        assert answer.json()["resource_limit"] == {
            "resource": "graph_batch_request_bytes",
            "limit": 5000,
            "actual": 5001,
        }
    assert client.post("query", json={"query": ALL, "name": "x" * 1000}).status_code == 413
    assert client.post("load", json={"data": line, "message": "x" * 1000}).status_code == 200


def test_the_limits_are_those_of_the_contract() -> None:
    limits = Limits()
    assert (limits.body_bytes, limits.load_body_bytes) == (MIB, 32 * MIB)
    assert (limits.actor_writes, limits.actor_bytes) == (16, 4 * 1024 * MIB)
    assert (limits.query_bytes, limits.result_rows, limits.result_bytes) == (256 * 1024, 1_000_000, 256 * MIB)
    assert limits.query_seconds == 60
    assert Limits.of({"OMNIGRAPH_PER_ACTOR_INFLIGHT_MAX": "3"}).actor_writes == 3
    with pytest.raises(og.errors.UsageError, match="OMNIGRAPH_PER_ACTOR_BYTES_MAX"):
        Limits.of({"OMNIGRAPH_PER_ACTOR_BYTES_MAX": "many"})


@pytest.mark.parametrize(
    ("limits", "resource"),
    [
        (Limits(query_bytes=10), "query_bytes"),
        (Limits(result_rows=1), "query_result_rows"),
        (Limits(result_bytes=1), "query_result_bytes"),
        (Limits(query_seconds=1e-9), "query_milliseconds"),
    ],
)
def test_a_query_has_limits(start: Callable[..., TestClient], limits: Limits, resource: str) -> None:
    answer = start(settings=ServerSettings(limits=limits)).post("query", json={"query": ALL})
    assert answer.status_code == 413, answer.text
    assert answer.json()["resource_limit"]["resource"] == resource


# ---------------------------------------------------------------- once


def test_a_write_that_comes_again_under_its_key_is_answered_as_the_first_time(client: TestClient) -> None:
    for path, options in (
        ("mutate", {"json": {"query": ADD, "params": {"name": "Once"}}}),
        ("queries/add", {"json": {"params": {"name": "Once stored"}}}),
        ("load", {"json": {"data": person("Once loaded")}}),
        ("load/ndjson", {"content": person("Once streamed"), "params": {"branch": "once", "from": "main"}}),
        ("branches", {"json": {"name": "made-once"}}),
        ("branches/merge", {"json": {"source": "once"}}),
    ):
        headers = {"Idempotency-Key": "the key", **(NDJSON if path == "load/ndjson" else {})}
        headers["Idempotency-Key"] = f"key-{path}"
        first = client.post(path, headers=headers, **options)  # type: ignore[arg-type]
        assert first.status_code == 200, first.text
        assert "idempotent-replayed" not in first.headers
        heads = client.get("branches").headers["etag"]
        again = client.post(path, headers=headers, **options)  # type: ignore[arg-type]
        assert (again.status_code, again.json()) == (200, first.json())
        assert again.headers["idempotent-replayed"] == "true"
        assert client.get("branches").headers["etag"] == heads


@pytest.mark.parametrize(
    ("path", "one", "other"),
    [
        ("mutate", {"query": ADD, "params": {"name": "k1"}}, {"query": ADD, "params": {"name": "k2"}}),
        ("load", {"data": person("k3")}, {"data": person("k4")}),
        ("branches", {"name": "k5"}, {"name": "k5", "from": "once"}),
    ],
)
def test_a_key_that_was_used_for_another_body_is_refused(
    client: TestClient, path: str, one: dict[str, object], other: dict[str, object]
) -> None:
    client.post("branches", json={"name": "once"})
    headers = {"Idempotency-Key": f"reused-{path}"}
    assert client.post(path, json=one, headers=headers).status_code == 200
    answer = client.post(path, json=other, headers=headers)
    assert (answer.status_code, answer.json()["code"]) == (422, "bad_request")


def test_a_branch_that_has_no_utf8_is_refused_under_a_key_too(client: TestClient) -> None:
    body = b'{"query": "query q() { delete Person where name = 1 }", "branch": "\\uD800"}'
    headers = {"Content-Type": "application/json", "Idempotency-Key": "odd"}
    assert client.post("mutate", content=body, headers=headers).status_code == 400
    pair = b'{"query": "query q() { match { $p: Person } return { $p.name } }", "name": "\\ud83d\\ude00"}'
    assert "not found" in client.post("query", content=pair, headers={"Content-Type": "application/json"}).text


@pytest.mark.parametrize("key", ["", "a b", "x" * 129, "é".encode()])
def test_a_key_that_is_none_is_refused(client: TestClient, key: str) -> None:
    answer = client.post("mutate", json={"query": ADD, "params": {"name": "x"}}, headers={"Idempotency-Key": key})
    assert answer.status_code == 400


def test_a_failed_write_may_be_tried_again_under_its_key(client: TestClient) -> None:
    headers = {"Idempotency-Key": "later"}
    assert client.post("branches/merge", json={"source": "not-yet"}, headers=headers).status_code == 404
    client.post("branches", json={"name": "not-yet"})
    assert client.post("branches/merge", json={"source": "not-yet"}, headers=headers).status_code == 200


def test_the_key_of_another_actor_is_another_key(start: Callable[..., TestClient]) -> None:
    client = start(verifiers=(tokens(ada="t-ada", bo="t-bo"),))
    asked = {"query": ADD, "params": {"name": "Whose"}}
    made = {
        client.post(
            "mutate", json=asked, headers={"Authorization": f"Bearer t-{who}", "Idempotency-Key": "same"}
        ).json()["commit"]["graph_commit_id"]
        for who in ("ada", "bo")
    }
    assert len(made) == 2


def test_another_process_answers_from_the_commit(people: Path) -> None:
    """Two servers on one graph share nothing but its files."""
    asked = {"query": ADD, "params": {"name": "Twice"}}
    with people_client(Fixed({"people": people})) as one, people_client(Fixed({"people": people})) as other:
        answers = [each.post("mutate", json=asked, headers={"Idempotency-Key": "both"}) for each in (one, other)]
    assert answers[0].json() == answers[1].json()
    assert answers[1].headers["idempotent-replayed"] == "true"


# ---------------------------------------------------------------- places


class Blocking:
    """A gate that holds writes, in the threads that make them, until it is let go."""

    def __init__(self) -> None:
        self.entered = threading.Semaphore(0)
        self.go_on = threading.Event()

    def check(self, actor: str | None, ask: og.AccessRequest, /) -> None:
        if ask.action == "change" and threading.current_thread().name.startswith("omnigraph-write"):
            self.entered.release()
            self.go_on.wait(120)


def test_an_actor_has_so_many_writes_in_flight_and_no_more(start: Callable[..., TestClient]) -> None:
    gate = Blocking()
    settings = ServerSettings(limits=Limits(actor_writes=2))
    client = start(verifiers=(tokens(ada="t-ada", bo="t-bo"),), gate=gate, settings=settings)
    answers: list[int] = []

    def write(name: str, who: str = "ada") -> int:
        headers = {"Authorization": f"Bearer t-{who}"}
        return client.post("mutate", json={"query": ADD, "params": {"name": name}}, headers=headers).status_code

    threads = [threading.Thread(target=lambda n=n: answers.append(write(f"slot {n}"))) for n in range(2)]
    for thread in threads:
        thread.start()
    for _ in threads:
        assert gate.entered.acquire(timeout=120)
    refused = client.post(
        "mutate", json={"query": ADD, "params": {"name": "third"}}, headers={"Authorization": "Bearer t-ada"}
    )
    assert (refused.status_code, refused.json()["code"]) == (429, "too_many_requests")
    assert refused.headers["retry-after"] == "60"
    assert client.post("query", json={"query": ALL}, headers={"Authorization": "Bearer t-ada"}).status_code == 200
    gate.go_on.set()
    for thread in threads:
        thread.join()
    assert answers == [200, 200]
    assert write("after") == 200


def test_conflicting_writes_end_in_typed_conflicts_and_one_of_them_wins(client: TestClient) -> None:
    statuses: list[int] = []
    barrier = threading.Barrier(8)

    def update(age: int) -> None:
        barrier.wait()
        text = 'query older($age: I32) { update Person set { age: $age } where name = "Bo" }'
        statuses.append(client.post("mutate", json={"query": text, "params": {"age": age}}).status_code)

    threads = [threading.Thread(target=update, args=(age,)) for age in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert set(statuses) <= {200, 409}
    assert 200 in statuses


# ---------------------------------------------------------------- streams


def test_an_export_has_nodes_before_edges_and_loads_again(client: TestClient, tmp_path: Path) -> None:
    answer = client.post("export", json={})
    assert answer.headers["content-type"] == "application/x-ndjson"
    records = [json.loads(line) for line in answer.text.splitlines()]
    kinds = ["type" if "type" in record else "edge" for record in records]
    assert kinds == sorted(kinds, reverse=True)
    assert {"edge", "from", "to", "data"} <= records[-1].keys()
    only = client.post("export", json={"type_names": ["City"]}).text.splitlines()
    assert {json.loads(line)["type"] for line in only} == {"City"}
    assert client.post("export").text == answer.text


def test_a_baseline_ends_in_one_line_from_which_the_feed_goes_on(client: TestClient) -> None:
    *records, last = client.post("changes/baseline", json={"kind": ["node"]}).text.splitlines()
    baseline = json.loads(last)["baseline"]
    assert baseline.keys() == {"snapshot_commit_id", "resume_cursor"}
    assert all("type" in json.loads(line) for line in records)
    made = client.post("mutate", json={"query": ADD, "params": {"name": "Feed"}}).json()
    client.post("mutate", json={"query": 'query q() { insert Knows { from: "Feed", to: "Ada" } }'})
    feed = client.get("changes", params={"cursor": baseline["resume_cursor"], "kind": "node"}).json()
    assert feed["blocks"][0]["cause"]["graph_commit_id"] == made["commit"]["graph_commit_id"]
    assert [len(block["changes"]) for block in feed["blocks"]] == [1, 0]
    other = client.get("changes", params={"cursor": baseline["resume_cursor"]})
    assert (other.status_code, other.json()["error"].startswith("change cursor rejected:")) == (400, True)


def test_a_feed_comes_in_pages_and_only_the_last_has_a_cursor(client: TestClient) -> None:
    client.post("load", json={"data": "".join(person(f"page {n}") for n in range(5))})
    at = client.get("commits", params={"limit": 2}).json()["commits"][1]["graph_commit_id"]
    page = client.get("changes", params={"start": f"after:{at}", "limit": 2}).json()
    seen = 0
    while "next_page_token" in page:
        assert "cursor" not in page
        seen += sum(len(block["changes"]) for block in page["blocks"])
        page = client.get("changes", params={"page_token": page["next_page_token"], "limit": 2}).json()
    assert page["caught_up"] is True
    assert seen + sum(len(block["changes"]) for block in page["blocks"]) == 5


@pytest.mark.parametrize("filters", [{"op": ["insert", "delete"]}, {"type": ["Person", "City"], "kind": "node"}])
def test_filters_may_be_repeated(client: TestClient, filters: dict[str, object]) -> None:
    answer = client.get("changes", params={"start": "beginning", **filters})  # type: ignore[dict-item]
    assert answer.status_code == 200, answer.text
    changes = [change for block in answer.json()["blocks"] for change in block["changes"]]
    assert changes
    assert "update" not in {change["op"] for change in changes} or "op" not in filters


def test_answers_of_changes_use_no_word_of_storage(client: TestClient) -> None:
    texts = [
        client.get("changes", params=params).text
        for params in ({"start": "beginning"}, {"branch": "no"}, {"cursor": "x"}, {"limit": "9000"})
    ]
    for word in ("dataset", "fragment", "lance", "manifest"):
        assert not [text for text in texts if word in text.lower()]


# ---------------------------------------------------------------- reload, readiness


class Failing(Fixed):
    fails = False

    def load(self) -> Served:
        if self.fails:
            raise og.errors.UsageError("the configuration is wrong")
        return super().load()


def test_a_reload_that_fails_keeps_what_is_served(people: Path) -> None:
    from omnigraph.server.registry import Allowing

    source = Failing({"people": people}, server_gate=Allowing(frozenset({"config_manage", "graph_list"})))
    with people_client(source) as client:
        assert client.post("/-/reload").json() == {"graphs": ["people"], "state_revision": 1}
        source.fails = True
        refused = client.post("/-/reload")
        assert (refused.status_code, refused.json()["error"]) == (400, "the configuration is wrong")
        assert client.get("/graphs").json()["graphs"][0]["graph_id"] == "people"
        assert client.post("query", json={"query": ALL}).status_code == 200


def test_reloading_is_refused_to_who_may_not(client: TestClient) -> None:
    assert client.post("/-/reload").status_code == 403


def test_a_server_that_ends_is_not_ready(people: Path) -> None:
    with people_client(Fixed({"people": people})) as client:
        client.app.service.is_draining = True  # type: ignore[attr-defined]
        answer = client.get("/readyz")
        assert (answer.status_code, answer.json()["status"], answer.json()["ready"]) == (503, "draining", False)
        assert client.get("/healthz").status_code == 200


def test_metrics_tell_requests_and_commits(people: Path) -> None:
    from omnigraph.server.registry import Allowing

    with people_client(Fixed({"people": people}, server_gate=Allowing(frozenset({"metrics_read"})))) as client:
        client.post("mutate", json={"query": ADD, "params": {"name": "Counted"}})
        client.get("snapshot")
        written = client.post("mutate", json={"query": ADD, "params": {"name": "Counted twice"}})
        text = client.get("/metrics").text
    assert re.search(r'store;dur=[\d.]+;desc="1 request in 1 hop, [\d,]+ written"', written.headers["Server-Timing"])
    mutations = 'route="/graphs/{graph_id}/mutate"'
    assert f'omnigraph_store_requests_total{{operation="create",{mutations}}} 2.0' in text
    assert re.search(rf'omnigraph_store_bytes_total{{direction="written",{mutations}}} [1-9]', text)
    assert f"omnigraph_store_hops_count{{{mutations}}} 2.0" in text
    assert "omnigraph_publish_retries_total 0.0" in text
    assert 'omnigraph_http_requests_total{method="GET",route="/graphs/{graph_id}/snapshot",status="200"} 1.0' in text
    assert 'omnigraph_commits_total{branch_class="main",graph="people",kind="mutation"} 2.0' in text
    assert 'omnigraph_graph_ready{graph="people"} 1.0' in text
    assert "omnigraph_pool_wait_seconds_count" in text
    assert client.get("/metrics").status_code == 200


def test_one_line_of_the_log_is_one_request(start: Callable[..., TestClient]) -> None:
    from io import StringIO

    log = StringIO()
    client = start(log=log)
    answer = client.post("query", json={"query": ALL, "params": {}}, headers={"X-Request-Id": "mine"})
    (line,) = [json.loads(line) for line in log.getvalue().splitlines()]
    assert line.pop("time")
    assert line.pop("ms") > 0
    assert line == {
        "event": "request",
        "request_id": "mine",
        "graph": "people",
        "method": "POST",
        "route": "/graphs/{graph_id}/query",
        "status": 200,
        "rows": answer.json()["row_count"],
        "bytes": len(answer.content),
        "commit": answer.json()["graph_commit_id"],
    }


WIDE = "query q() {{ match {{ $p: Person }} return {{ {} }} }}".format(", ".join(f"$p.name as c{n}" for n in range(40)))


@pytest.fixture
def in_pieces(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Answers are encoded a row at a time. The number of rows of each piece that was made."""
    made: list[int] = []
    pieces = Rows._json_pieces

    def counted(self: Rows, cells: int) -> Iterator[list[dict[str, Any]]]:
        for piece in pieces(self, cells):
            made.append(len(piece))
            yield piece

    monkeypatch.setattr(reads, "PIECE_CELLS", 1)
    monkeypatch.setattr(Rows, "_json_pieces", counted)
    return made


def test_an_answer_in_pieces_is_the_whole_answer(client: TestClient, in_pieces: list[int]) -> None:
    body = client.post("query", json={"query": WIDE}).json()
    assert len(body["rows"]) == body["row_count"] == len(in_pieces) > 1
    assert {row["c0"] for row in body["rows"]} >= {"Ada", "Bo"}
    assert (
        client.post("query", json={"query": WIDE.replace("$p: Person", '$p: Person { name: "?" }')}).json()["rows"]
        == []
    )


def test_the_time_limit_ends_the_encoding(
    client: TestClient, in_pieces: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    class AtTheSecondPiece(Deadline):
        def check(self) -> None:
            if len(in_pieces) == 2:
                raise QueryTimeout(1.0)

    monkeypatch.setattr(reads, "Deadline", AtTheSecondPiece)
    answer = client.post("query", json={"query": WIDE})
    assert (answer.status_code, answer.json()["problem"]["code"]) == (413, "query_timeout")
    assert in_pieces == [1, 1]


def test_an_answer_beyond_the_limit_ends_while_it_is_encoded(start: Any, in_pieces: list[int]) -> None:
    small = start(settings=ServerSettings(limits=Limits(result_bytes=700)))
    assert small.post("query", json={"query": WIDE}).status_code == 413
    assert len(in_pieces) == 1
