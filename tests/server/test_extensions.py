"""Routes that the contract does not have: what they answer, their pages, their limits, and what they refuse."""

from __future__ import annotations

import base64
import datetime as dt
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pytest
from serving import Fixed, people_client, tokens
from starlette.testclient import TestClient

import omnigraph as og
from omnigraph.errors import PolicyDenied, UsageError
from omnigraph.policy.ask import AccessRequest
from omnigraph.server.components import COMPONENTS
from omnigraph.server.handlers.jobs import file_name
from omnigraph.server.routes import ROUTES
from omnigraph.server.validation import check

ARROW = {"Accept": "application/vnd.apache.arrow.stream"}


def got(client: TestClient, path: str, status: int = 200, **options: Any) -> Any:
    answer = client.get(path, **options)
    assert answer.status_code == status, answer.text
    return answer.json()


def posted(client: TestClient, path: str, body: Any, status: int = 200) -> Any:
    answer = client.post(path, json=body)
    assert answer.status_code == status, answer.text
    return answer.json()


def check_any(body: Any, schema: dict[str, Any]) -> None:
    """Of alternatives one has to fit."""
    failures = []
    for each in schema.get("anyOf", [schema]):
        try:
            check(body, each, "the answer")
            return
        except UsageError as error:
            failures.append(error.message)
    raise AssertionError(failures)


@pytest.fixture(autouse=True)
def every_answer_is_of_its_shape(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a handler gives is checked by the schema that the table names for it."""
    from omnigraph.server.app import Application, RouteCall

    handled = Application._handled
    shapes = {
        route.operation_id: answer.component
        for route in ROUTES
        if (answer := route.responses.get(200) or route.responses.get(202)) is not None
    }

    async def checked(self: Application, call: RouteCall, handler: Any) -> Any:
        answer = await handled(self, call, handler)
        component = shapes.get(call.route.operation_id)
        if component is not None and isinstance(answer.body, dict):
            check_any(answer.body, COMPONENTS[component])
        return answer

    monkeypatch.setattr(Application, "_handled", checked)


# ---------------------------------------------------------------- reads


def test_the_catalog_says_what_the_schema_says(client: TestClient) -> None:
    value = got(client, "catalog")
    person = next(node for node in value["nodes"] if node["name"] == "Person")
    assert (person["key"], person["entity_count"]) == (["name"], 2)
    assert [each["name"] for each in person["properties"]] == ["name", "age", "born"]
    assert person["properties"][1] == {"name": "age", "type": "I32?", "scalar": "I32", "nullable": True, "list": False}
    knows = next(edge for edge in value["edges"] if edge["name"] == "Knows")
    assert (knows["from"], knows["to"], knows["max_out"]) == ("Person", "Person", None)
    commit = value["graph_commit_id"]
    answer = client.get("catalog")
    assert answer.headers["etag"] == f'"{commit}"'
    assert client.get("catalog", headers={"If-None-Match": f'"{commit}"'}).status_code == 304
    assert "immutable" in client.get(f"catalog?rev={commit}").headers["cache-control"]
    assert got(client, "catalog?rev=nowhere", 404)["code"] == "not_found"


def test_a_type_is_a_table_with_pages_that_do_not_shift(client: TestClient) -> None:
    first = got(client, "entities/Person?limit=1&order=age:desc")
    assert (first["entity_kind"], first["columns"]) == ("node", ["id", "name", "age", "born"])
    assert [row["name"] for row in first["rows"]] == ["Ada"]
    client.post("mutate", json={"query": 'query q() { insert Person { name: "Zed", age: 99 } }'})
    second = got(client, f"entities/Person?limit=1&order=age:desc&page_token={first['next_page_token']}")
    assert [row["name"] for row in second["rows"]] == ["Bo"]
    assert second["graph_commit_id"] == first["graph_commit_id"]
    assert "next_page_token" not in second
    client.post("mutate", json={"query": 'query q() { delete Person where name = "Zed" }'})


@pytest.mark.parametrize(
    ("filters", "names"),
    [
        ("filter=age.ge:30", ["Ada"]),
        ("filter=age.lt:30&filter=name.prefix:B", ["Bo"]),
        ("filter=name.in:Ada,Bo", ["Ada", "Bo"]),
        ('filter=name.in:["Ada"]', ["Ada"]),
        ("filter=name.ne:Ada", ["Bo"]),
        ("filter=name.contains:d", ["Ada"]),
        ("filter=born.isnull", ["Ada", "Bo"]),
        ("filter=age.notnull&filter=id.eq:Bo", ["Bo"]),
    ],
)
def test_filters_are_conditions_of_a_query_that_is_shown(client: TestClient, filters: str, names: list[str]) -> None:
    answer = client.get(f"entities/Person?{filters}")
    assert sorted(row["name"] for row in answer.json()["rows"]) == names
    text = unquote(answer.headers["omnigraph-query"])
    assert text.startswith("query entities(")
    assert posted(client, "lint", {"query": text})["diagnostics"] == []


def test_an_edge_type_is_a_table_too(client: TestClient) -> None:
    value = got(client, "entities/Knows?filter=from.eq:Ada")
    assert value["rows"] == [{"id": "ada-bo", "from": "Ada", "to": "Bo", "since": "2020-05-01"}]
    assert got(client, "entities/LivesIn")["rows"] == []


def test_properties_may_have_any_name(tmp_path: Path) -> None:
    graph = og.init(tmp_path / "odd", "node P { in: String? order: I32? limit: I32? as: Bool? }")
    with graph.transaction() as tx:
        tx.insert("P", {"id": "p", "in": "here", "order": 1, "limit": 2, "as": True})
    with people_client(Fixed({"people": tmp_path / "odd"}, queries="")) as client:
        value = got(client, "entities/P?filter=in.eq:here&order=order")
        assert value["rows"] == [{"id": "p", "in": "here", "order": 1, "limit": 2, "as": True}]


@pytest.mark.parametrize(
    "path",
    [
        "entities/Nobody",
        "entities/Person?filter=age",
        "entities/Person?filter=age.like:3",
        "entities/Person?filter=shoe.eq:3",
        "entities/Person?filter=age.eq:old",
        "entities/Person?order=shoe",
        "entities/Person?order=age:sideways",
        "entities/Person?limit=0",
        "entities/Person?page_token=x",
        "entity?type=Person",
        "entity/neighbours?type=Knows&id=ada-bo",
        "entity/neighbours?type=Person&id=Ada&edge=Eats",
        "entity/neighbours?type=Person&id=Ada&direction=up",
        "diff?from=main",
        "log?limit=0",
    ],
)
def test_what_is_wrong_with_a_request_is_400(client: TestClient, path: str) -> None:
    assert got(client, path, 400)["code"] == "bad_request"


@pytest.mark.parametrize("path", ["entities/Person?limit=1001", "diff?from=main&to=main&limit=8193", "log?limit=1001"])
def test_larger_pages_than_there_are_are_413(client: TestClient, path: str) -> None:
    assert got(client, path, 413)["resource_limit"]["actual"] > 1_000


def test_a_token_of_another_request_is_refused(client: TestClient) -> None:
    token = got(client, "entities/Person?limit=1")["next_page_token"]
    for path in ("entities/Person?limit=1&order=age&", "entities/City?limit=1&", "log?"):
        assert "page token rejected" in got(client, f"{path}page_token={token}", 400)["error"]


@pytest.mark.parametrize("path", ["entities/Person", "entities/Person?order=age&filter=age.ge:1", "entities/Knows"])
def test_arrow_has_the_values_of_json(client: TestClient, path: str) -> None:
    answer = client.get(path, headers=ARROW)
    assert answer.headers["content-type"] == "application/vnd.apache.arrow.stream"
    rows = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    shown = got(client, path)["rows"]
    assert [{name: _plain(value) for name, value in row.items()} for row in rows] == shown
    assert answer.headers["omnigraph-row-count"] == str(len(shown))
    assert answer.headers["omnigraph-graph-commit"] == got(client, path)["graph_commit_id"]
    page = client.get("entities/Person?limit=1", headers=ARROW)
    assert page.headers["omnigraph-next-page-token"] == got(client, "entities/Person?limit=1")["next_page_token"]


def _plain(value: Any) -> Any:
    return value.isoformat() if hasattr(value, "isoformat") else value


def test_one_entity(client: TestClient) -> None:
    value = got(client, "entity?type=Knows&id=ada-bo")
    assert value["properties"] == {"since": "2020-05-01"}
    assert (value["endpoints"], value["entity_kind"]) == ({"from": "Ada", "to": "Bo"}, "edge")
    assert got(client, "entity?type=Person&id=Nobody", 404)["code"] == "not_found"


def test_the_versions_of_an_entity_newest_first(client: TestClient) -> None:
    for text in ("insert Person { name: \"V\", age: 1 }", 'update Person set { age: 2 } where name = "V"',
                 'delete Person where name = "V"'):  # fmt: skip
        posted(client, "mutate", {"query": f"query q() {{ {text} }}"})
    value = got(client, "entity/history?type=Person&id=V")
    assert [each["op"] for each in value["versions"]] == ["delete", "update", "insert"]
    assert [each.get("properties", {}).get("age") for each in value["versions"]] == [None, 2, 1]
    page = got(client, "entity/history?type=Person&id=V&limit=2")
    rest = got(client, f"entity/history?type=Person&id=V&limit=2&page_token={page['next_page_token']}")
    assert [*page["versions"], *rest["versions"]] == value["versions"]
    assert got(client, "entity/history?type=Person&id=Never", 404)


def test_neighbours_are_counted_whole_and_shown_in_pages(client: TestClient) -> None:
    value = got(client, "entity/neighbours?type=Person&id=Ada")
    assert value["counts"] == [
        {"edge": "Knows", "direction": "out", "type": "Person", "count": 1},
        {"edge": "Knows", "direction": "in", "type": "Person", "count": 0},
        {"edge": "LivesIn", "direction": "out", "type": "City", "count": 0},
    ]
    assert [(node["id"], node["label"], node["properties"]["age"]) for node in value["nodes"]] == [("Bo", "Bo", 27)]
    (edge,) = value["edges"]
    assert edge == {"type": "Knows", "id": "ada-bo", "from": "Ada", "to": "Bo", "properties": {"since": "2020-05-01"}}
    assert got(client, "entity/neighbours?type=Person&id=Bo&direction=in")["nodes"][0]["id"] == "Ada"
    assert got(client, "entity/neighbours?type=Person&id=Bo&edge=LivesIn")["edges"] == []
    assert got(client, "entity/neighbours?type=Person&id=Nobody", 404)


def test_pages_of_neighbours_go_across_edges(start: Callable[..., TestClient], people: Path) -> None:
    graph = og.open(people)
    graph.branches.create("crowd")
    with graph.transaction("crowd") as tx:
        for name in "abcde":
            tx.insert("Person", name=name)
            tx.insert("Knows", id=f"k{name}", from_="Ada", to=name)
            tx.insert("Knows", id=f"back{name}", from_=name, to="Ada")
    client, path, seen = start(), "entity/neighbours?type=Person&id=Ada&rev=crowd&limit=4", list[str]()
    page = got(client, path)
    while True:
        seen += [edge["id"] for edge in page["edges"]]
        if "next_page_token" not in page:
            break
        page = got(client, f"{path}&page_token={page['next_page_token']}")
    assert len(seen) == len(set(seen)) == 11
    graph.branches.delete("crowd", force=True)


# ---------------------------------------------------------------- history


def test_a_diff_in_pages_in_numbers_and_as_arrow(client: TestClient) -> None:
    before = got(client, "commits?limit=1")["commits"][0]["graph_commit_id"]
    text = 'query q() { insert Person { name: "D1", age: 1 } insert Person { name: "D2" } update Person set { age: 37 } where name = "Ada" }'
    posted(client, "mutate", {"query": text})
    after = got(client, "commits?limit=1")["commits"][0]["graph_commit_id"]
    whole = got(client, f"diff?from={before}&to=main")
    assert [(each["op"], each["id"]) for each in whole["changes"]] == [
        ("update", "Ada"),
        ("insert", "D1"),
        ("insert", "D2"),
    ]
    assert (whole["from"], whole["to"]) == (before, after)
    page = got(client, f"diff?from={before}&to=main&limit=2")
    rest = got(client, f"diff?from={before}&to=main&limit=2&page_token={page['next_page_token']}")
    assert [*page["changes"], *rest["changes"]] == whole["changes"]
    summary = got(client, f"diff?from={before}&to={after}&summary=1")["summary"]
    assert summary == [
        {"entity_kind": "node", "type_name": "Person", "insert": 2, "update": 1, "delete": 0, "properties": {"age": 1}}
    ]
    assert got(client, f"diff?from={before}&to=main&op=delete")["changes"] == []
    answer = client.get(f"diff?from={before}&to={after}", headers=ARROW)
    rows = pa.ipc.open_stream(answer.content).read_all().to_pylist()
    assert [(row["op"], row["id"], json.loads(row["after"])) for row in rows] == [
        (each["op"], each["id"], each["after"]) for each in whole["changes"]
    ]
    assert "immutable" in answer.headers["cache-control"]
    posted(
        client,
        "mutate",
        {
            "query": 'query q() { delete Person where name starts_with "D" update Person set { age: 36 } where name = "Ada" }'
        },
    )


def test_the_log_of_several_branches_is_in_one_order(client: TestClient) -> None:
    posted(client, "branches", {"name": "side"})
    for branch, name in (("side", "L1"), ("main", "L2"), ("side", "L3")):
        posted(client, "mutate", {"query": f'query q() {{ insert Person {{ name: "{name}" }} }}', "branch": branch})
    posted(client, "branches/merge", {"source": "side"})
    posted(client, "tags", {"name": "merged"})
    value = got(client, "log")
    ids = [each["graph_commit_id"] for each in value["commits"]]
    assert len(ids) == len(set(ids))
    for commit in value["commits"]:
        for parent in (commit["parent_commit_id"], commit["merged_parent_commit_id"]):
            assert parent not in ids or ids.index(parent) > ids.index(commit["graph_commit_id"])
    assert sorted(value["refs"][ids[0]]) == ["main", "merged"]
    assert sum("side" in names for names in value["refs"].values()) == 1
    first = got(client, "log?limit=3")
    rest = got(client, f"log?limit=1000&page_token={first['next_page_token']}")
    assert [*first["commits"], *rest["commits"]] == value["commits"]
    assert {each["graph_commit_id"] for each in got(client, "log?ref=side")["commits"]} < set(ids)
    then = dt.datetime.fromtimestamp(value["commits"][2]["created_at"] / 1e6, dt.UTC)
    earlier = got(client, f"log?at={then:%Y-%m-%dT%H:%M:%S.%fZ}")["commits"]
    assert earlier == [each for each in value["commits"] if each["created_at"] <= value["commits"][2]["created_at"]]
    assert got(client, "log?at=1999-01-01", 404)["code"] == "not_found"
    etag = client.get("log").headers["etag"]
    assert client.get("log", headers={"If-None-Match": etag}).status_code == 304
    client.delete("tags/merged")
    assert client.get("log").headers["etag"] != etag


def test_schemas_of_two_revisions_differ_by_steps(client: TestClient) -> None:
    assert got(client, "schema/diff?from=main&to=main")["steps"] == []
    source = got(client, "schema")["schema_source"]
    posted(client, "schema/apply", {"schema_source": source + "\nnode Team { name: String @key }"})
    value = got(client, "schema/diff?from=main~1&to=main")
    assert (value["supported"], value["lines"]) == (True, ["add node type 'Team'"])
    assert [step["kind"] for step in value["steps"]] == ["add_type"]
    back = got(client, "schema/diff?from=main&to=main~1")
    assert [step["kind"] for step in back["steps"]] == ["drop_type"]
    assert got(client, "schema/diff?from=main&to=nowhere", 404)["code"] == "not_found"


def test_tags_are_made_listed_and_removed(client: TestClient) -> None:
    head = got(client, "commits?limit=1")["commits"][0]["graph_commit_id"]
    assert posted(client, "tags", {"name": "v/1"}) == {"name": "v/1", "graph_commit_id": head, "graph_branch": "main"}
    posted(client, "tags", {"name": "old", "at": "main~1"})
    assert [tag["name"] for tag in got(client, "tags")["tags"]] == ["old", "v/1"]
    assert posted(client, "tags", {"name": "v/1", "at": "main~1"}, 409)["problem"]["code"] == "already_exists"
    assert posted(client, "tags", {"name": "a b"}, 400)
    assert posted(client, "tags", {"name": "x", "at": "nowhere"}, 404)
    assert client.delete("tags/v%2F1").json() == {"name": "v/1"}
    assert client.delete("tags/v%2F1").status_code == 404
    client.delete("tags/old")


def test_branches_in_detail(client: TestClient) -> None:
    posted(client, "branches", {"name": "ahead", "from": "main"})
    for branch in ("ahead", "main"):
        posted(client, "mutate", {"query": 'query q() { insert Person { name: "B1" } }', "branch": branch})
    value = got(client, "branches?detail=1")
    details = {each["name"]: each for each in value["details"]}
    assert sorted(details) == value["branches"]
    assert [(details[name]["ahead"], details[name]["behind"]) for name in ("main", "ahead")] == [(0, 0), (1, 1)]
    assert "details" not in got(client, "branches")
    client.delete("branches/ahead")


# ---------------------------------------------------------------- merge with review


@pytest.fixture
def disputed(client: TestClient) -> dict[str, Any]:
    """A review of branch `work`, which changed what main changed."""
    client.delete("branches/work")
    posted(client, "mutate", {"query": 'query q() { delete Person where name = "M" }'})
    posted(client, "mutate", {"query": 'query q() { insert Person { name: "M", age: 1 } }'})
    posted(client, "branches", {"name": "work"})
    for branch, age in (("work", 2), ("main", 3)):
        text = f'query q() {{ update Person set {{ age: {age} }} where name = "M" }}'
        posted(client, "mutate", {"query": text, "branch": branch})
    value: dict[str, Any] = posted(client, "branches/merge", {"source": "work", "dry_run": True})
    return value


def resolution(review: dict[str, Any], **choice: Any) -> dict[str, Any]:
    (conflict,) = review["conflicts"]
    return {
        **{name: conflict[name] for name in ("entity_kind", "type_name", "entity_id")},
        "seen": conflict["digest"],
        **choice,
    }


def test_a_dry_run_shows_the_three_images(client: TestClient, disputed: dict[str, Any]) -> None:
    assert (disputed["outcome"], disputed["dry_run"]) == ("conflicts", True)
    (conflict,) = disputed["conflicts"]
    assert (conflict["kind"], conflict["fields"]) == ("divergent_update", ["age"])
    assert [conflict[side]["properties"]["age"] for side in ("base", "ours", "theirs")] == [1, 3, 2]
    head = got(client, "commits?limit=1")["commits"][0]["graph_commit_id"]
    assert (disputed["target_commit"], len(disputed["base"])) == (head, 1)
    refused = posted(client, "branches/merge", {"source": "work"}, 409)
    assert [set(each) for each in refused["merge_conflicts"]] == [
        {"entity_kind", "type_name", "entity_id", "kind", "message"}
    ]


def test_a_reviewed_merge_takes_what_was_decided(client: TestClient, disputed: dict[str, Any]) -> None:
    value = {"properties": {"name": "M", "age": 5}}
    body = {
        "source": "work",
        "resolutions": [resolution(disputed, take="value", value=value)],
        "expect": {"source": disputed["source_commit"], "target": disputed["target_commit"]},
        "message": "reviewed",
    }
    merged = posted(client, "branches/merge", body)
    assert merged["outcome"] == "merged"
    assert merged["commit"]["message"] == "reviewed\n\nresolved: Person 'M' (value)"
    assert got(client, "entity?type=Person&id=M")["properties"]["age"] == 5
    assert posted(client, "branches/merge", body, 412)["precondition_failure"]["expected"] == disputed["target_commit"]


def test_a_stale_resolution_is_409_and_a_wrong_one_400(client: TestClient, disputed: dict[str, Any]) -> None:
    posted(client, "mutate", {"query": 'query q() { update Person set { age: 8 } where name = "M" }'})
    stale = {"source": "work", "resolutions": [resolution(disputed, take="theirs")]}
    refused = posted(client, "branches/merge", stale, 409)
    assert (refused["code"], refused["problem"]["code"]) == ("conflict", "stale_resolution")
    for choice in ({"take": "both"}, {"take": "value"}, {"take": "ours", "more": 1}):
        posted(client, "branches/merge", {"source": "work", "resolutions": [resolution(disputed, **choice)]}, 400)
    assert posted(client, "branches/merge", {"source": "work", "strategy": "theirs"})["outcome"] == "merged"


def test_if_match_is_the_head_of_the_target(client: TestClient, disputed: dict[str, Any]) -> None:
    body = {"source": "work", "strategy": "theirs"}
    for commit, status in ((disputed["source_commit"], 412), (disputed["target_commit"], 200)):
        answer = client.post("branches/merge", json=body, headers={"If-Match": f'"{commit}"'})
        assert answer.status_code == status, answer.text


# ---------------------------------------------------------------- languages


def test_a_query_is_explained_and_run(client: TestClient) -> None:
    text = "query q($n: String) { match { $p: Person { name: $n } } return { $p.age } }"
    plan = posted(client, "explain", {"query": text, "params": {"n": "Ada"}})
    assert plan["access"]
    assert "run" not in plan
    assert posted(client, "explain", {"query": text, "params": {"n": "Ada"}, "run": True})["run"]["row_count"] == 1
    assert posted(client, "explain", {"query": "query"}, 400)["code"] == "bad_request"


def test_lint_says_where_and_is_never_an_error(client: TestClient) -> None:
    (mistake,) = posted(client, "lint", {"query": "query q() { match { $p: Persn } return { $p.name } }"})[
        "diagnostics"
    ]
    assert (mistake["severity"], mistake["line"], mistake["column"]) == ("error", 1, 25)
    assert mistake["end_column"] > mistake["column"]
    (broken,) = posted(client, "lint", {"query": "query q( {"})["diagnostics"]
    assert (broken["severity"], broken["line"]) == ("error", 1)
    (schema,) = posted(client, "lint", {"schema": "node P {\n  name: Strin @key\n}"})["diagnostics"]
    assert (schema["rule"], schema["line"]) == ("S006", 2)
    assert posted(client, "lint", {"schema": "node P { name: String @key }"})["diagnostics"] == []
    (advice,) = posted(client, "lint", {"query": "query q($x: I32) { match { $p: Person } return { $p.name } }"})[
        "diagnostics"
    ]
    assert (advice["severity"], advice["rule"]) == ("warning", "L203")
    posted(client, "lint", {}, 400)


def test_queries_are_printed_by_the_language(client: TestClient) -> None:
    text = posted(client, "format", {"query": "query q(){match{$p:Person}return{$p.name}}"})["query"]
    assert posted(client, "format", {"query": text})["query"] == text
    assert "$p: Person" in text
    assert posted(client, "format", {"query": "query"}, 400)["problem"]["line"] == 1


@pytest.mark.parametrize(
    ("before", "labels"),
    [
        ("query q() { match { $p: P", ["Person"]),
        ("query q() { match { $p: Person  $p.n", ["name"]),
        ("query q() { match { $p: Person  $p $k:knows $b  $k.s", ["since"]),
        ("query q() { match { $p: Person  $p kn", ["knows"]),
        ("query q($name: String) { match { $p: Person { name: $na", ["name"]),
        ("query q() { mat", ["match", "match_text"]),
        ("query q() { insert Ci", ["City"]),
    ],
)
def test_what_may_come_next(client: TestClient, before: str, labels: list[str]) -> None:
    body = {"query": before, "line": 1, "column": len(before) + 1}
    assert [item["label"] for item in posted(client, "complete", body)["items"]] == labels


# ---------------------------------------------------------------- maintenance


def test_storage_and_maintenance(client: TestClient) -> None:
    stored = got(client, "storage")
    assert {each["type"] for each in stored["types"]} >= {"node:Person"}
    assert stored["branches"] >= 1
    assert posted(client, "maintenance/optimize", {"dry_run": True})["dry_run"]
    assert posted(client, "maintenance/optimize", {})["commit"]["kind"] == "optimize"
    assert posted(client, "maintenance/cleanup", {"keep": 100})["dry_run"]
    assert not posted(client, "maintenance/cleanup", {"keep": 1000, "confirm": True})["dry_run"]
    assert posted(client, "maintenance/cleanup", {"older_than": "soon"}, 400)
    assert got(client, "maintenance/recovery") == {"prepared": []}
    missing = "01J00000000000000000000000"
    assert client.post(f"maintenance/recovery/{missing}/resume").status_code in (400, 404)
    assert client.post(f"maintenance/recovery/{missing}/discard").status_code in (400, 404)


class OnlyReadsOfMain:
    protected_branches = frozenset({"main"})

    def check(self, actor: str | None, ask: AccessRequest) -> None:
        if not (actor == "ada" and ask.action == "read" and ask.branch in ("main", None)):
            raise PolicyDenied("no", action=ask.action)


def test_rights_say_on_which_branches(client: TestClient, start: Callable[..., TestClient]) -> None:
    assert set(got(client, "policy/me")["actions"].values()) == {"all"}
    guarded = start(gate=OnlyReadsOfMain(), verifiers=(tokens(ada="a", bo="b"),))
    rights = got(guarded, "policy/me", headers={"Authorization": "Bearer a"})
    assert (rights["actor_id"], rights["actions"]["read"], rights["actions"]["change"]) == ("ada", "protected", "none")
    assert got(guarded, "policy/me", 403, headers={"Authorization": "Bearer b"})
    assert got(guarded, "policy/me", 401)


PATHS = {"type": "Person", "tag": "v", "commit_id": "01J00000000000000000000000", "job_id": "x"}
BODIES: dict[str, Any] = {
    "createTag": {"name": "t"},
    "explainQuery": {"query": "query q() { match { $p: Person } return { $p.name } }"},
    "lintText": {"query": "query q() { match { $p: Person } return { $p.name } }"},
    "formatQueries": {"query": "query q() { match { $p: Person } return { $p.name } }"},
    "completeQuery": {"query": "", "line": 1, "column": 1},
    "startLoad": {"sources": ["s3://inbox/x.jsonl"]},
    "createTicket": {"path": "/graphs/people/export"},
}
OURS = [route for route in ROUTES if route.tag == "ours" and route.is_of_graph and not route.path.endswith("/mcp")]


@pytest.mark.parametrize("route", OURS, ids=lambda route: route.operation_id)
def test_who_has_no_grant_gets_nothing(start: Callable[..., TestClient], route: Any) -> None:
    guarded = start(gate=OnlyReadsOfMain(), verifiers=(tokens(bo="b"),))
    path = route.path.replace("{graph_id}", "people")
    for name, value in PATHS.items():
        path = path.replace(f"{{{name}}}", value)
    query = {
        each.name: "main" if each.name in ("from", "to") else "Person" for each in route.parameters if each.required
    }
    body = BODIES.get(route.operation_id, {})
    options: dict[str, Any] = {"params": query}
    headers = {"Authorization": "Bearer b"}
    if route.body is not None and route.is_streamed_in:
        headers["Content-Type"] = f"{route.body.media_type}; boundary=x"
    elif route.body is not None:
        options["json"] = body
    assert guarded.request(route.method, path, **options).status_code == 401
    answer = guarded.request(route.method, path, headers=headers, **options)
    assert answer.status_code in (403, 404), answer.text
    assert "Ada" not in answer.text
    assert "String" not in answer.text


# ---------------------------------------------------------------- hostile requests


def token_of(text: bytes) -> str:
    return base64.urlsafe_b64encode(text).decode()


HOSTILE: list[tuple[str, str, dict[str, Any]]] = [
    ("GET", f"entities/Person?page_token={token_of(b'[' * 5_000)}", {}),
    ("GET", f"entities/Person?page_token={token_of(b'[[], 1e999, 1]')}", {}),
    ("GET", f"entities/Person?filter=age.eq:{'9' * 5_000}", {}),
    ("GET", "entities/Person?filter=age.in:[1e999]", {}),
    ("GET", "entities/Person?filter=age.eq:nan", {}),
    ("GET", "catalog?at=yesterday", {}),
    ("GET", "catalog?rev=%00", {}),
    ("GET", "entity?type=Person&id=%00", {}),
    ("POST", "format", {"json": {"query": f"query q() {{ match {{ $p: Person {'(' * 3_000}1{')' * 3_000} }} }}"}}),
    (
        "POST",
        "lint",
        {"json": {"query": f"query q() {{ match {{ $p: Person {'not ' * 5_000} true }} return {{ $p.name }} }}"}},
    ),
    ("POST", "complete", {"json": {"query": "query a(" * 20_000, "line": 1, "column": 10**9}}),
    ("POST", "maintenance/recovery/..%2F..%2Fgraph/discard", {}),
    ("POST", "maintenance/cleanup", {"json": {"keep": 10**30}}),
    ("POST", "tickets", {"json": {"path": "//["}}),
    ("POST", "jobs/load/upload", {"content": b"x", "headers": {"Content-Type": "multipart/form-data"}}),
    ("POST", "jobs/load/upload", {"content": b"x", "headers": {"Content-Type": "multipart/form-data; boundary=y"}}),
    ("POST", "jobs/load/upload", {"data": {"a": "b"}, "files": [("f", ("x.jsonl", b"{}"))]}),
    ("GET", "jobs/%00", {}),
]


@pytest.mark.parametrize(("method", "path", "options"), HOSTILE, ids=[f"{m} {p[:50]}" for m, p, _ in HOSTILE])
def test_a_hostile_request_is_answered_like_a_wrong_one(
    client: TestClient, method: str, path: str, options: dict[str, Any]
) -> None:
    answer = client.request(method, path, **options)
    assert answer.status_code in (200, 400, 404, 413), answer.text


def test_a_token_that_somebody_made_is_refused(client: TestClient) -> None:
    """Its digest is no secret: what it names is checked all the same."""
    commits, offset, asked = json.loads(
        base64.urlsafe_b64decode(got(client, "entities/Person?limit=1")["next_page_token"] + "==")
    )
    for forged in (
        [[], offset, asked],
        [commits * 2, offset, asked],
        [["nowhere"], offset, asked],
        [commits, -1, asked],
    ):
        token = token_of(json.dumps(forged).encode())
        assert client.get(f"entities/Person?limit=1&page_token={token}").status_code in (400, 404)


@pytest.mark.parametrize(
    ("given", "name"),
    [("..", "data.jsonl"), ("../../etc/x.csv", "x.csv"), ("a*.jsonl", "a_.jsonl"), (None, "data.jsonl"), ("\0", "_")],
)
def test_a_file_of_a_form_is_called_so_that_it_leads_nowhere(given: str | None, name: str) -> None:
    assert file_name(given) == name
