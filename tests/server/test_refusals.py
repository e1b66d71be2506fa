"""Errors as answers: the table of the contract, row by row, over the wire."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from serving import ADD, ALL, people_client
from starlette.testclient import TestClient

import omnigraph as og
from omnigraph import errors
from omnigraph.errors import OmnigraphError, TooManyRequests
from omnigraph.server import problems
from omnigraph.server.components import ERROR_CODES
from omnigraph.server.problems import TABLE, error_json, row_of
from omnigraph.server.service import Admission
from omnigraph.server.settings import Limits

NDJSON = {"Content-Type": "application/x-ndjson"}


def asked(text: str, **params: object) -> dict[str, object]:
    return {"query": text, "params": params}


REFUSED: list[tuple[str, str, str, dict[str, Any], int, str | None, str]] = [
    ("a wrong query", "POST", "query", {"json": asked("query q() { nonsense }")}, 400, "bad_request", "query_error"),
    ("a mutation as a read", "POST", "query", {"json": asked(ADD, name="x")}, 400, "bad_request", "usage_error"),
    ("a read as a mutation", "POST", "mutate", {"json": asked(ALL)}, 400, "bad_request", "usage_error"),
    ("a missing parameter", "POST", "mutate", {"json": asked(ADD)}, 400, "bad_request", "parameter_error"),
    ("a value of another type", "POST", "mutate", {"json": asked(ADD, name=1)}, 400, "bad_request", "parameter_error"),
    ("two targets", "POST", "query", {"json": {"query": ALL, "branch": "main", "snapshot": "x"}}, 400, "bad_request", "usage_error"),
    ("no body", "POST", "query", {"headers": {"Content-Type": "application/json"}}, 400, "bad_request", "usage_error"),
    ("no JSON", "POST", "query", {"content": "{", "headers": {"Content-Type": "application/json"}}, 400, "bad_request", "usage_error"),
    ("no UTF-8", "POST", "query", {"content": b'{"query": "\xff"}', "headers": {"Content-Type": "application/json"}}, 400, "bad_request", "usage_error"),
    ("NaN", "POST", "query", {"content": '{"query": NaN}', "headers": {"Content-Type": "application/json"}}, 400, "bad_request", "usage_error"),
    ("deep nesting", "POST", "query", {"content": "[" * 200_000, "headers": {"Content-Type": "application/json"}}, 400, "bad_request", "usage_error"),
    ("half of a surrogate pair", "POST", "query", {"content": '{"query": "\\ud800"}', "headers": {"Content-Type": "application/json"}}, 400, "bad_request", "usage_error"),
    ("a list as a body", "POST", "query", {"json": []}, 400, "bad_request", "usage_error"),
    ("a number as text", "POST", "query", {"json": {"query": 1}}, 400, "bad_request", "usage_error"),
    ("a wrong format", "POST", "export", {"json": {"format": "odd"}}, 400, "bad_request", "usage_error"),
    ("a wrong mode", "POST", "load", {"json": {"data": "", "mode": "replace"}}, 400, "bad_request", "usage_error"),
    ("a record that cannot be read", "POST", "load", {"json": {"data": '{"type": "Person", "data": {"nam": 1}}\n'}}, 400, "bad_request", "rejected_records"),
    ("an end that is not there", "POST", "load", {"json": {"data": '{"edge": "Knows", "from": "Ada", "to": "Nobody"}\n'}}, 400, "bad_request", "endpoint_missing"),
    ("an unknown member of an export", "POST", "export", {"json": {"types": []}}, 400, "bad_request", "usage_error"),
    ("an unknown type of an export", "POST", "export", {"json": {"type_names": ["Nothing"]}}, 400, "bad_request", "usage_error"),
    ("an unknown parameter of a feed", "GET", "changes?what=1", {}, 400, "bad_request", "usage_error"),
    ("two starts of a feed", "GET", "changes?start=now&cursor=x", {}, 400, "bad_request", "usage_error"),
    ("a cursor that is none", "GET", "changes?cursor=x", {}, 400, "bad_request", "cursor_rejected"),
    ("a kind that is none", "GET", "changes?kind=thing", {}, 400, "bad_request", "usage_error"),
    ("a limit that is none", "GET", "changes?limit=many", {}, 400, "bad_request", "usage_error"),
    ("a read of an unknown branch", "POST", "query", {"json": {"query": ALL, "branch": "no"}}, 404, "not_found", "branch_not_found"),
    ("a revision as a branch", "POST", "query", {"json": {"query": ALL, "branch": "main~1"}}, 400, "bad_request", "usage_error"),
    ("an unknown snapshot", "POST", "query", {"json": {"query": ALL, "snapshot": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}}, 404, "not_found", "commit_not_found"),
    ("a mutation of an unknown branch", "POST", "mutate", {"json": {**asked(ADD, name="x"), "branch": "no"}}, 404, "not_found", "branch_not_found"),
    ("a load without a branch to make", "POST", "load", {"json": {"data": "", "branch": "no"}}, 404, "not_found", "branch_not_found"),
    ("an export of an unknown branch", "POST", "export", {"json": {"branch": "no"}}, 404, "not_found", "branch_not_found"),
    ("a baseline of an unknown branch", "POST", "changes/baseline", {"json": {"branch": "no"}}, 404, "not_found", "branch_not_found"),
    ("a feed of an unknown branch", "GET", "changes?branch=no", {}, 404, "not_found", "branch_not_found"),
    ("the schema of an unknown branch", "GET", "schema?branch=no", {}, 404, "not_found", "branch_not_found"),
    ("an unknown commit", "GET", "commits/01ARZ3NDEKTSV4RRFFQ69G5FAV", {}, 404, "not_found", "commit_not_found"),
    ("a name that no file can have as a commit", "GET", "commits/%E0%A4%AA" + "%E0%A4%A8" * 40, {}, 404, "not_found", "commit_not_found"),
    ("a name that no file can have as a tag", "DELETE", "tags/" + "%F0%9D%91%BB" * 40, {}, 404, "not_found", "tag_not_found"),
    ("a name that no file can have as a branch", "POST", "branches", {"json": {"name": "\u0928" * 40}}, 400, "bad_request", "usage_error"),
    ("a branch as a commit", "GET", "commits/main", {}, 404, "not_found", "commit_not_found"),
    ("the changes of an unknown commit", "GET", "commits/main/changes", {}, 404, "not_found", "commit_not_found"),
    ("an unknown branch to delete", "DELETE", "branches/no", {}, 404, "not_found", "branch_not_found"),
    ("an unknown branch to merge", "POST", "branches/merge", {"json": {"source": "no"}}, 404, "not_found", "branch_not_found"),
    ("an unknown stored query", "POST", "queries/no", {}, 404, "not_found", "not_found"),
    ("an unknown graph", "GET", "/graphs/other/snapshot", {}, 404, "not_found", "graph_not_found"),
    ("a flat path", "POST", "/query", {"json": {"query": ALL}}, 404, "not_found", "route_not_found"),
    ("another method", "GET", "query", {}, 405, "method_not_allowed", "method_not_allowed"),
    ("another content type", "POST", "query", {"content": "x", "headers": {"Content-Type": "text/plain"}}, 415, "bad_request", "unsupported_media_type"),
    ("JSON as lines", "POST", "load/ndjson", {"json": {}}, 415, "bad_request", "unsupported_media_type"),
    ("a compressed body", "POST", "load/ndjson", {"content": b"", "headers": {**NDJSON, "Content-Encoding": "gzip"}}, 415, "bad_request", "unsupported_media_type"),
    ("another charset", "POST", "query", {"content": "{}", "headers": {"Content-Type": "application/json; charset=latin-1"}}, 415, "bad_request", "unsupported_media_type"),
    ("a page that is too large", "GET", "changes?limit=8193", {}, 413, "bad_request", "limit_exceeded"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("method", "path", "options", "status", "code", "problem"),
    [row[1:] for row in REFUSED],
    ids=[row[0] for row in REFUSED],
)
def test_a_refusal_has_its_status_and_its_codes(
    client: TestClient, method: str, path: str, options: dict[str, Any], status: int, code: str | None, problem: str
) -> None:
    before = client.get("branches").headers["etag"]
    answer = client.request(method, path, **options)
    body = answer.json()
    assert (answer.status_code, body.get("code"), body["problem"]["code"]) == (status, code, problem), answer.text
    assert body["error"]
    assert body["problem"]["outcome"] == "not_committed"
    assert client.get("branches").headers["etag"] == before


def test_a_wrong_method_says_which_are_allowed(client: TestClient) -> None:
    assert client.get("query").headers["allow"] == "POST"


def test_a_wrong_query_says_where_it_is_wrong(client: TestClient) -> None:
    problem = client.post("query", json=asked("query q() {\n  match { $p: Nobody } return { $p.x } }")).json()[
        "problem"
    ]
    assert (problem["rule"], problem["line"]) == ("T1", 2)
    assert problem["column"] > 0


def test_rejected_records_are_listed_without_the_place_they_were_kept_in(client: TestClient, tmp_path: Path) -> None:
    lines = "".join(f'{{"type": "Person", "data": {{"name": "r{n}", "age": "old"}}}}\n' for n in range(120))
    body = client.post("load/ndjson", content=lines, headers=NDJSON).json()
    details = body["problem"]["details"]
    assert (details["total"], len(details["rejects"])) == (120, 100)
    assert details["rejects"][0]["file"] == "body"
    assert details["rejects"][0]["line"] == 1
    assert "omnigraph-" not in json.dumps(body)


def test_a_key_that_is_taken_is_a_conflict_that_names_it(client: TestClient) -> None:
    line = '{"type": "Person", "data": {"name": "Ada"}}\n'
    answer = client.post("load", json={"data": line, "mode": "append"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    assert answer.json()["key_conflict"] == {"entity_kind": "node", "type_name": "Person", "entity_id": "Ada"}
    assert "omnigraph-" not in answer.text


def test_merge_conflicts_are_all_listed_with_exactly_five_members(client: TestClient) -> None:
    client.post("branches", json={"name": "apart"})
    for branch, age in (("main", 40), ("apart", 50)):
        client.post("mutate", json={**asked(ADD, name="Ada", age=age), "branch": branch})
    answer = client.post("branches/merge", json={"source": "apart"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")
    (conflict,) = answer.json()["merge_conflicts"]
    assert {"entity_kind", "type_name", "entity_id", "kind", "message"} <= conflict.keys()
    assert (conflict["kind"], conflict["entity_id"]) == ("divergent_update", "Ada")


def test_the_first_commit_has_no_changes(client: TestClient) -> None:
    first = client.get("commits").json()["commits"][-1]["graph_commit_id"]
    answer = client.get(f"commits/{first}/changes")
    assert answer.status_code == 409
    assert answer.json()["change_diff_refusal"] == {"reason": "parentless_commit", "graph_commit_id": first}


def test_a_schema_that_belongs_to_a_cluster_is_changed_there(start: Callable[..., TestClient]) -> None:
    answer = start(in_cluster=True).post("schema/apply", json={"schema_source": "node A { x: String @key }"})
    assert (answer.status_code, answer.json()["code"]) == (409, "conflict")


# ---------------------------------------------------------------- the table itself

VERSIONS = "manifest_conflict"
EXAMPLES: list[tuple[OmnigraphError, int, str | None, str | set[str] | None]] = [
    (errors.SchemaError("m", rule="S1"), 400, "bad_request", None),
    (errors.UniqueViolation("m"), 400, "bad_request", None),
    (errors.CardinalityViolation("m"), 400, "bad_request", None),
    (errors.ValueViolation("m"), 400, "bad_request", None),
    (errors.Unauthorized("m"), 401, "unauthorized", None),
    (errors.PolicyDenied("m", action="read", branch="main"), 403, "forbidden", None),
    (errors.AlreadyExists("m"), 409, "conflict", None),
    (
        errors.ExpectedVersionMismatch("node:Person", 1, 2),
        409,
        "conflict",
        {VERSIONS, "published_dataset_version_conflict"},
    ),
    (errors.ExpectedVersionMismatch("schema", 1, 2), 409, "conflict", {VERSIONS, "read_set_conflict"}),
    (errors.BranchReplaced("m"), 409, "conflict", "read_set_conflict"),
    (errors.Contention("m"), 409, "conflict", None),
    (errors.HistoryGap("m", commit_id="C"), 410, None, "change_feed_gap"),
    (errors.PreconditionFailed("main", "A", "B"), 412, None, "precondition_failure"),
    (problems.BlobChanged("m"), 412, "conflict", None),
    (errors.LimitExceeded("m", resource="r", limit=1, actual=2), 413, "bad_request", "resource_limit"),
    (errors.QueryTimeout(60), 413, "bad_request", "resource_limit"),
    (errors.ResourceExhausted("m"), 413, "bad_request", "resource_limit"),
    (problems.RangeNotSatisfiable(9, 9, 3), 416, "bad_request", "blob_range"),
    (errors.WriteKeyReused("C"), 422, "bad_request", None),
    (errors.TooManyRequests("m"), 429, "too_many_requests", None),
    (errors.OutcomeUnknown("m: secret-place", commit_id="C"), 503, None, "recovery_required"),
    (errors.StorageTransient("secret-place", key="secret-place"), 503, "internal", None),
    (errors.PipelineFailed("m"), 503, "internal", None),
    (errors.StoragePermanent("secret-place", key="k"), 500, "internal", None),
    (errors.Damaged("secret-place", "what"), 500, "internal", None),
]


@pytest.mark.parametrize(("error", "status", "code", "member"), EXAMPLES, ids=lambda each: getattr(each, "code", None))
def test_an_error_of_the_engine_is_answered_as_the_table_says(
    error: OmnigraphError, status: int, code: str | None, member: str | set[str] | None
) -> None:
    body = error_json(error)
    assert row_of(error).status == status
    assert body.get("code") == code
    assert body["problem"]["code"] == error.code
    members = {member} if isinstance(member, str) else member or set()
    assert set(body) - {"error", "code", "problem"} == members
    assert "secret-place" not in json.dumps(body)
    if code is None:
        assert "code" not in body


def test_conditions_that_pass_say_when_to_come_again() -> None:
    def wait(error: OmnigraphError) -> str | None:
        return row_of(error).headers(error).get("Retry-After")

    assert wait(errors.TooManyRequests("m")) == "60"
    assert wait(errors.Contention("m")) == "1"
    assert wait(errors.ExpectedVersionMismatch("node:Person", 1, 2)) == "1"
    assert wait(errors.ExpectedVersionMismatch("schema", 1, 2, reason="Person.age was dropped")) is None
    assert wait(errors.StorageTransient("m", key="k")) == "5"


def test_every_kind_of_error_has_a_row_of_its_own_or_above_it() -> None:
    kinds = [kind for _, kind in inspect.getmembers(errors, inspect.isclass) if issubclass(kind, OmnigraphError)]
    for kind in kinds:
        row = next(TABLE[each] for each in kind.__mro__ if each in TABLE)
        assert row.code is None or row.code in ERROR_CODES


def test_a_defect_says_nothing_and_the_log_everything(people: Path) -> None:
    from io import StringIO

    from serving import Fixed

    log = StringIO()
    with people_client(Fixed({"people": people}), log=log) as client:

        def broken(*_arguments: object, **_options: object) -> None:
            raise ZeroDivisionError("secret")

        served = client.app.service.served.graphs["people"].graph  # type: ignore[attr-defined]
        served.snapshot = broken
        answer = client.get("snapshot")
    assert (answer.status_code, answer.json()["code"]) == (500, "internal")
    assert "secret" not in answer.text
    (defect,) = [json.loads(line) for line in log.getvalue().splitlines() if "defect" in line]
    assert defect["request_id"] == answer.headers["x-request-id"]
    assert "ZeroDivisionError" in defect["trace"]


def test_library_errors_are_the_only_ones_that_are_named(client: TestClient) -> None:
    assert issubclass(og.errors.LimitExceeded, og.errors.RequestRefused)


def test_an_actor_has_so_many_reads_in_flight_and_others_have_their_own() -> None:
    admission = Admission(Limits(actor_reads=2))
    with admission.reading("eve"), admission.reading("eve"):
        with pytest.raises(TooManyRequests, match="2 reads"), admission.reading("eve"):
            pass
        with admission.reading("ada"):
            pass
    with admission.reading("eve"):
        pass
