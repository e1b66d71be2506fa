"""What is null, what is left out, and that one thing is shown in one way: the tables of the contract."""

from __future__ import annotations

import pytest
from serving import ADD, ALL
from starlette.testclient import TestClient

LINES = '{"type": "Person", "data": {"name": "Eve"}}\n'
COMMIT = {
    *("graph_commit_id", "graph_branch", "graph_manifest_version", "parent_commit_id"),
    *("merged_parent_commit_id", "actor_id", "created_at", "kind"),
}


def add(client: TestClient, name: str, **more: object) -> dict[str, object]:
    answer = client.post("mutate", json={"query": ADD, "params": {"name": name}, **more})
    assert answer.status_code == 200, answer.text
    body: dict[str, object] = answer.json()
    return body


def test_health_and_readiness(client: TestClient) -> None:
    health = client.get("/healthz").json()
    assert health.keys() == {"status", "version", "internal_schema_version", "source_version"}
    assert (health["status"], health["version"], health["internal_schema_version"]) == ("ok", "0.10.0", 1)
    ready = client.get("/readyz")
    assert ready.status_code == 200
    assert ready.json() == {
        "ready": True,
        "status": "serving",
        "booted_serving_digest": "fixed",
        "state_revision": 1,
        "state_cas": "one",
        "served_graph_count": 1,
        "quarantined_graph_count": 0,
        "shutdown_grace_seconds": 30,
    }


def test_a_commit_is_the_same_object_in_the_receipt_by_its_id_and_in_the_list(client: TestClient) -> None:
    commit = add(client, "Cy")["commit"]
    assert isinstance(commit, dict)
    assert commit.keys() == COMMIT
    assert (commit["graph_branch"], commit["merged_parent_commit_id"], commit["actor_id"]) == (None, None, None)
    assert client.get(f"commits/{commit['graph_commit_id']}").json() == commit
    assert client.get("commits").json()["commits"][0] == commit


def test_the_commit_of_another_branch_names_it_and_the_first_commit_has_no_parent(client: TestClient) -> None:
    client.post("branches", json={"name": "side"})
    commit = add(client, "Di", branch="side", message="why")["commit"]
    assert isinstance(commit, dict)
    assert (commit["graph_branch"], commit["message"]) == ("side", "why")
    first = client.get("commits").json()["commits"][-1]
    assert (first["parent_commit_id"], first["graph_manifest_version"]) == (None, 0)


def test_a_mutation_that_changes_nothing_has_a_commit_that_is_null(client: TestClient) -> None:
    gone = {"query": 'query q() { delete Person where name = "Nobody" }'}
    body = client.post("mutate", json=gone).json()
    assert body == {
        "branch": "main",
        "query_name": "q",
        "affected_nodes": 0,
        "affected_edges": 0,
        "actor_id": None,
        "commit": None,
    }


def test_a_read_has_both_targets_and_no_columns_without_rows(client: TestClient) -> None:
    body = client.post("query", json={"query": ALL}).json()
    assert body.keys() == {"query_name", "target", "row_count", "columns", "rows", "graph_commit_id"}
    assert (body["target"], body["columns"]) == ({"branch": "main", "snapshot": None}, ["name"])
    at = client.post("query", json={"query": ALL, "snapshot": body["graph_commit_id"]}).json()
    assert at["target"] == {"branch": None, "snapshot": body["graph_commit_id"]}
    assert at["rows"] == body["rows"]
    none = 'query none() { match { $p: Person { name: "No" } } return { $p.name as name } }'
    empty = client.post("query", json={"query": none}).json()
    assert empty.keys() == {"query_name", "target", "row_count", "rows", "graph_commit_id"}


def test_two_reads_of_one_snapshot_are_equal_byte_by_byte(client: TestClient) -> None:
    first, second = (client.post("query", json={"query": ALL}) for _ in range(2))
    assert first.content == second.content
    assert first.headers["x-request-id"] != second.headers["x-request-id"]


def test_the_deprecated_read_takes_other_names_and_gives_no_commit(client: TestClient) -> None:
    body = client.post("read", json={"query_source": ALL, "query_name": "everyone"}).json()
    assert body.keys() == {"query_name", "target", "row_count", "columns", "rows"}


def test_the_other_spellings_of_a_mutation_are_taken(client: TestClient) -> None:
    for path in ("mutate", "change"):
        asked = {"query_source": ADD, "query_name": "add", "params": {"name": f"by {path}"}}
        assert client.post(path, json=asked).json()["affected_nodes"] == 1
    both = client.post("mutate", json={"query": ADD, "query_source": ADD})
    assert both.status_code == 400


def test_a_load_repeats_what_it_was_asked_even_when_the_branch_was_there(client: TestClient) -> None:
    body = client.post("load", json={"data": LINES, "branch": "made", "from": "main"}).json()
    assert body.keys() == {
        *("uri", "branch", "base_branch", "branch_created", "mode", "nodes", "edges", "total_entities"),
        *("actor_id", "commit"),
    }
    assert (body["base_branch"], body["branch_created"], body["mode"]) == ("main", True, "merge")
    assert (body["nodes"], body["edges"]) == ([{"name": "Person", "entities_loaded": 1}], [])
    again = client.post("load", json={"data": LINES, "branch": "made", "from": "main"}).json()
    assert (again["base_branch"], again["branch_created"], again["commit"]) == ("main", False, None)
    plain = client.post("load/ndjson", content=LINES, headers={"Content-Type": "application/x-ndjson"}).json()
    assert plain.keys() == body.keys() - {"uri"}
    assert plain["base_branch"] is None


def test_a_snapshot_lists_every_declared_type(client: TestClient) -> None:
    body = client.get("snapshot").json()
    assert body.keys() == {
        *("graph_branch", "graph_manifest_version", "internal_schema_version", "graph_commit_id", "datasets"),
    }
    types = {each["type_name"]: each for each in body["datasets"]}
    assert types.keys() == {"Person", "City", "Knows", "LivesIn"}
    assert (types["LivesIn"]["entity_count"], types["LivesIn"]["entity_kind"]) == (0, "edge")
    for each in types.values():
        assert each.keys() == {
            *("entity_kind", "type_name", "dataset_path", "published_dataset_version"),
            *("native_dataset_branch", "entity_count"),
        }
        assert each["native_dataset_branch"] is None


def test_branches_are_made_listed_merged_and_deleted(client: TestClient) -> None:
    made = client.post("branches", json={"name": "review/1"}).json()
    assert made.keys() == {"uri", "name", "from", "actor_id"}
    assert (made["name"], made["from"], made["actor_id"]) == ("review/1", "main", None)
    listed = client.get("branches").json()["branches"]
    assert listed == sorted(listed)
    assert {"main", "review/1"} <= set(listed)
    assert client.post("branches", json={"name": "review/1"}).status_code == 409
    still = client.post("branches/merge", json={"source": "review/1"}).json()
    assert still == {"source": "review/1", "target": "main", "outcome": "already_up_to_date", "actor_id": None}
    add(client, "Fay", branch="review/1")
    merged = client.post("branches/merge", json={"source": "review/1", "delete_branch": True}).json()
    assert (merged["outcome"], merged["branch_deleted"]) == ("fast_forward", True)
    assert merged["commit"].keys() == COMMIT | {"message"}
    assert client.delete("branches/review%2F1").status_code == 404
    client.post("branches", json={"name": "review/1"})
    assert client.delete("branches/review%2F1").json().keys() == {"uri", "name", "actor_id"}


def test_an_unmerged_branch_is_deleted_too(client: TestClient) -> None:
    client.post("branches", json={"name": "thrown"})
    add(client, "Gil", branch="thrown")
    assert client.delete("branches/thrown").status_code == 200


def test_the_schema_is_its_text_at_any_branch_or_snapshot(client: TestClient) -> None:
    commit = client.get("snapshot").json()["graph_commit_id"]
    text = client.get("schema").json()
    assert text.keys() == {"schema_source"}
    assert client.get("schema", params={"branch": "main"}).json() == text
    assert client.get("schema", params={"snapshot": commit}).json() == text
    assert client.get("schema", params={"snapshot": commit, "branch": "main"}).status_code == 400


def test_a_schema_is_applied_and_says_its_steps(client: TestClient) -> None:
    text = client.get("schema").json()["schema_source"]
    body = client.post("schema/apply", json={"schema_source": f"{text}\nnode Team {{ name: String @key }}"}).json()
    assert body.keys() == {"uri", "supported", "applied", "step_count", "graph_manifest_version", "steps"}
    assert (body["supported"], body["applied"], body["step_count"]) == (True, True, 1)
    again = client.post("schema/apply", json={"schema_source": f"{text}\nnode Team {{ name: String @key }}"}).json()
    assert (again["applied"], again["step_count"]) == (False, 0)
    assert again["graph_manifest_version"] == body["graph_manifest_version"]
    wrong = client.post("schema/apply", json={"schema_source": "node Person { name: I32 @key }"})
    assert wrong.status_code == 400


def test_the_stored_queries_say_their_parameters(client: TestClient) -> None:
    queries = {each["name"]: each for each in client.get("queries").json()["queries"]}
    assert list(queries) == ["add", "by_name", "everyone"]
    assert queries["everyone"] == {
        "name": "everyone",
        "tool_name": "everyone",
        "description": "All people",
        "mutation": False,
        "params": [],
    }
    assert queries["add"]["instruction"] == "Adds one"
    assert queries["add"]["params"] == [
        {"name": "name", "kind": "string", "nullable": False},
        {"name": "age", "kind": "int", "nullable": True},
    ]


def test_changes_say_their_cause_and_leave_out_what_is_not_there(client: TestClient) -> None:
    commit = add(client, "Hal")["commit"]
    assert isinstance(commit, dict)
    page = client.get(f"commits/{commit['graph_commit_id']}/changes").json()
    assert page.keys() == {"cause", "changes"}
    assert page["cause"].keys() == {"graph_commit_id", "parent_commit_id", "authored_branch", "authored_at"}
    (change,) = page["changes"]
    assert change.keys() == {"kind", "type", "id", "op", "after"}
    assert change["type"].keys() == {"id", "name"}
    assert change["after"].keys() == {"properties"}
    poll = client.get("changes", params={"start": f"after:{page['cause']['parent_commit_id']}"}).json()
    assert poll.keys() == {"blocks", "cursor", "caught_up"}
    assert poll["blocks"] == [page]
    linked = client.post("mutate", json={"query": 'query q() { insert Knows { from: "Hal", to: "Ada" } }'}).json()
    (edge,) = client.get(f"commits/{linked['commit']['graph_commit_id']}/changes").json()["changes"]
    assert edge["after"]["endpoints"] == {"from": "Hal", "to": "Ada"}


@pytest.mark.parametrize(("limit", "pages"), [(1, 3), (2, 2), (1000, 1)])
def test_commits_come_in_pages(client: TestClient, limit: int, pages: int) -> None:
    for name in ("p1", "p2", "p3"):
        add(client, name)
    whole = client.get("commits").json()
    assert "next_page_token" not in whole
    wanted = whole["commits"][:3]
    token, seen = None, []
    for _ in range(pages):
        page = client.get("commits", params={"limit": limit, **({"page_token": token} if token else {})}).json()
        seen += page["commits"]
        token = page.get("next_page_token")
    assert seen[:3] == wanted
    only = client.get("commits", params={"kind": "load", "actor": "loader"}).json()["commits"]
    assert [each["kind"] for each in only] == ["load"]
    assert client.get("commits", params={"until": "2001-01-01T00:00:00Z"}).json()["commits"] == []
    assert client.get("commits", params={"limit": 0}).status_code == 400
