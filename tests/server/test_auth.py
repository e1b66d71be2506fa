"""Who may ask: tokens, the states of a server, and what a gate refuses."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from urllib.parse import quote

import pytest
from serving import ADD, ALL, tokens
from starlette.testclient import TestClient

import omnigraph as og
from omnigraph.errors import UsageError
from omnigraph.policy.ask import AccessRequest, denied
from omnigraph.server.auth import StaticTokens, TokenEntry, new_token, tokens_of
from omnigraph.server.registry import Allowing
from omnigraph.server.route import Route
from omnigraph.server.routes import ROUTES
from omnigraph.server.startup import NamedGraphs, OnlyReads, source_of

ADA = {"Authorization": "Bearer t-ada"}
PATHS = {"graph_id": "people", "name": "everyone", "branch": "main", "commit_id": "01ARZ3NDEKTSV4RRFFQ69G5FAV"}
GUARDED = [route for route in ROUTES if not route.is_open]


def call(client: TestClient, route: Route, headers: dict[str, str]) -> int:
    body = {} if route.body is None or route.body.component is None else {"json": {}}
    return client.request(route.method, route.path.format_map(_Named(PATHS)), headers=headers, **body).status_code


class _Named(dict[str, str]):
    def __missing__(self, name: str) -> str:
        return "x"


@pytest.fixture
def guarded(start: Callable[..., TestClient]) -> TestClient:
    return start(verifiers=(tokens(ada="t-ada", bo="t-bo"),), gate=Allowing(), server_gate=Allowing())


def test_every_guarded_route_wants_a_token_that_is_known(guarded: TestClient) -> None:
    for route in GUARDED:
        for headers in (
            {},
            {"Authorization": "Bearer wrong"},
            {"Authorization": "Basic t-ada"},
            {"Authorization": "Bearer"},
        ):
            assert call(guarded, route, headers) == 401, route.path


def test_a_known_token_without_grants_is_refused_and_not_unknown(guarded: TestClient) -> None:
    for route in GUARDED:
        for scheme in ("Bearer", "bearer", "BEARER"):
            status = call(guarded, route, {"Authorization": f"{scheme} t-bo"})
            assert status in (400, 403, 404, 415), route.path


def test_open_routes_want_no_token(guarded: TestClient) -> None:
    for route in ROUTES:
        if route.is_open:
            expected = 404 if "{file}" in route.path else 200  # a file of the studio that does not exist
            assert call(guarded, route, {}) == expected, route.path


def test_a_missing_token_is_told_how_to_send_one(guarded: TestClient) -> None:
    answer = guarded.get("snapshot")
    assert answer.headers["www-authenticate"] == 'Bearer realm="omnigraph"'
    assert answer.json()["code"] == "unauthorized"


def test_a_graph_without_a_policy_is_read_only_for_those_who_have_a_token(start: Callable[..., TestClient]) -> None:
    client = start(verifiers=(tokens(ada="t-ada"),), gate=OnlyReads)
    assert client.post("query", json={"query": ALL}, headers=ADA).status_code == 200
    assert client.get("queries", headers=ADA).status_code == 200
    assert client.post("mutate", json={"query": ADD, "params": {"name": "x"}}, headers=ADA).status_code == 403
    assert client.post("export", json={}, headers=ADA).status_code == 403
    assert client.post("queries/everyone", headers=ADA).status_code == 404


def test_the_graphs_are_not_listed_unless_that_is_granted(start: Callable[..., TestClient]) -> None:
    assert start(server_gate=Allowing()).get("/graphs").status_code == 403
    assert start(server_gate=Allowing(frozenset({"graph_list"}))).get("/graphs").status_code == 200


class OnBranches:
    """A gate that allows actions on some branches, and remembers what it was asked."""

    def __init__(self, **allowed: str) -> None:
        self.allowed = allowed
        self.asked: list[AccessRequest] = []

    def check(self, actor: str | None, ask: AccessRequest, /) -> None:
        self.asked.append(ask)
        branch = ask.target_branch or ask.branch or ""
        if self.allowed.get(ask.action) not in ("*", branch):
            raise denied(actor, ask)


def test_space_around_a_branch_does_not_pass_a_rule(start: Callable[..., TestClient]) -> None:
    gate = OnBranches(read="*", change="side")
    client = start(verifiers=(tokens(ada="t-ada"),), gate=gate)
    for branch in ("main", " main", "main ", "\tmain\n", None):
        asked = {"query": ADD, "params": {"name": "x"}, "branch": branch}
        answer = client.post("mutate", json=asked, headers=ADA)
        assert answer.status_code == 403, branch
        assert answer.json()["problem"]["details"] == {"action": "change", "branch": "main"}


def test_a_denial_takes_no_place_and_reads_no_byte_of_a_streamed_body(start: Callable[..., TestClient]) -> None:
    client = start(verifiers=(tokens(ada="t-ada"),), gate=OnBranches(read="*"))

    def body() -> object:
        raise AssertionError("the body was read")
        yield b""

    headers = {**ADA, "Content-Type": "application/x-ndjson"}
    assert client.post("load/ndjson", content=body(), headers=headers).status_code == 403  # type: ignore[arg-type]


def test_a_stored_query_that_may_not_be_invoked_looks_like_one_that_is_not_there(
    start: Callable[..., TestClient],
) -> None:
    client = start(verifiers=(tokens(ada="t-ada"),), gate=OnBranches(read="*"))
    known, unknown = (client.post(f"queries/{name}", headers=ADA) for name in ("everyone", "nothing"))
    assert known.status_code == unknown.status_code == 404
    assert known.text.replace("everyone", "nothing") == unknown.text
    assert client.get("queries", headers=ADA).json()["queries"]


def test_invoking_needs_the_right_to_read_too(start: Callable[..., TestClient]) -> None:
    client = start(verifiers=(tokens(ada="t-ada"),), gate=OnBranches(invoke_query="*"))
    assert client.post("queries/everyone", headers=ADA).status_code == 403
    assert client.post("queries/add", json={"params": {"name": "x"}}, headers=ADA).status_code == 403


def test_the_changes_of_a_commit_that_may_not_be_read_look_unknown(
    start: Callable[..., TestClient], client: TestClient
) -> None:
    commit = client.get("snapshot").json()["graph_commit_id"]
    hidden = start(verifiers=(tokens(ada="t-ada"),), gate=OnBranches())
    answer = hidden.get(f"commits/{commit}/changes", headers=ADA)
    assert (answer.status_code, answer.json()["problem"]["code"]) == (404, "commit_not_found")


def test_a_snapshot_is_judged_by_the_branch_of_its_commit(start: Callable[..., TestClient], client: TestClient) -> None:
    client.post("branches", json={"name": "private"})
    made = client.post("mutate", json={"query": ADD, "params": {"name": "p"}, "branch": "private"}).json()
    commit = made["commit"]["graph_commit_id"]
    only_main = start(verifiers=(tokens(ada="t-ada"),), gate=OnBranches(read="main"))
    assert only_main.post("query", json={"query": ALL, "snapshot": commit}, headers=ADA).status_code == 403
    assert only_main.post("query", json={"query": ALL}, headers=ADA).status_code == 200


def test_a_merge_whose_deletion_is_refused_is_a_merge(start: Callable[..., TestClient], client: TestClient) -> None:
    client.post("branches", json={"name": "done"})
    client.post("mutate", json={"query": ADD, "params": {"name": "d"}, "branch": "done"})
    gate = OnBranches(read="*", branch_merge="*")
    judged = start(verifiers=(tokens(ada="t-ada"),), gate=gate)
    answer = judged.post("branches/merge", json={"source": "done", "delete_branch": True}, headers=ADA)
    assert answer.status_code == 200, answer.text
    assert answer.json()["branch_deleted"] is False
    assert answer.json()["branch_delete_error"]


def test_a_denial_is_in_the_log_and_a_token_never(start: Callable[..., TestClient]) -> None:
    log = StringIO()
    client = start(verifiers=(tokens(ada="t-ada-secret"),), gate=OnBranches(), log=log)
    client.get("snapshot", headers={"Authorization": "Bearer t-ada-secret"})
    client.get("snapshot", headers={"Authorization": "Bearer wrong-secret"})
    events = [json.loads(line) for line in log.getvalue().splitlines()]
    assert [event["event"] for event in events] == ["denied", "request", "request"]
    assert (events[0]["actor"], events[0]["action"], events[1]["status"]) == ("ada", "read", 403)
    assert "secret" not in log.getvalue()


# ---------------------------------------------------------------- where tokens come from


def test_a_token_may_expire() -> None:
    clock = [100.0]
    entry = TokenEntry("ada", hashlib.sha256(b"t").digest(), expires=200.0)
    known = StaticTokens([entry], clock=lambda: clock[0])
    assert known.verify("t") is not None
    clock[0] = 200.0
    assert known.verify("t") is None


def test_the_first_source_of_tokens_wins(tmp_path: Path) -> None:
    token, entry = new_token("ada", expires=dt.datetime(2999, 1, 1, tzinfo=dt.UTC), note="of the test")
    file = tmp_path / "tokens.yaml"
    file.write_text(f"{entry}\n")
    environment = {
        "OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(file),
        "OMNIGRAPH_SERVER_BEARER_TOKENS_JSON": '{"bo": "t-bo"}',
        "OMNIGRAPH_SERVER_BEARER_TOKEN": "one",
    }
    for expected, wanted in ((token, "ada"), ("t-bo", "bo"), ("one", "default")):
        known = tokens_of(environment)
        assert known is not None
        assert (known.verify(expected) or pytest.fail("unknown")).id == wanted
        environment.pop(next(iter(environment)))
    assert tokens_of(environment) is None
    assert token not in entry
    assert len(token) >= 43


@pytest.mark.parametrize(
    "text",
    [
        '{"ada": ""}',
        '{"": "t"}',
        '{"ada": "t", "bo": "t"}',
        "[]x",
        "{}",
        "17",
        '[{"actor": "ada"}]',
        '[{"actor": "ada", "sha256": "zz"}]',
        '[{"actor": "ada", "sha256": "00", "more": 1}]',
        '[{"actor": "ada", "sha256": "' + "0" * 64 + '", "expires": "soon"}]',
        "{secret-token: [",
    ],
)
def test_tokens_that_are_wrong_are_refused_and_not_repeated(tmp_path: Path, text: str) -> None:
    file = tmp_path / "tokens.json"
    file.write_text(text)
    with pytest.raises(UsageError) as refusal:
        tokens_of({"OMNIGRAPH_SERVER_BEARER_TOKENS_FILE": str(file)})
    assert "secret-token" not in str(refusal.value)


def test_tokens_in_a_secret_of_aws_need_boto3() -> None:
    with pytest.raises(UsageError, match="boto3"):
        tokens_of({"OMNIGRAPH_SERVER_BEARER_TOKENS_AWS_SECRET": "name"})


# ---------------------------------------------------------------- states


def source(
    people: Path, environment: dict[str, str], *, is_loopback: bool = False, is_open: bool = False
) -> NamedGraphs:
    made, _ = source_of(
        [str(people)], None, environment, queries=None, is_loopback=is_loopback, is_open=is_open, requires_all=False
    )
    assert isinstance(made, NamedGraphs)
    return made


def test_a_server_without_tokens_is_refused_unless_it_is_local_or_told_to_be_open(people: Path) -> None:
    with pytest.raises(UsageError, match="no tokens"):
        source(people, {})
    assert source(people, {}, is_open=True).load().is_open
    local = source(people, {}, is_loopback=True)
    assert local.start_token is not None
    served = local.load()
    (verifier,) = served.verifiers
    assert (verifier.verify(local.start_token) or pytest.fail("unknown")).id == "local"
    assert served.graphs["people"].gate is None
    assert local.start_token not in repr(local)


def test_tokens_and_an_open_server_exclude_each_other(people: Path) -> None:
    with pytest.raises(UsageError, match="exclude"):
        source(people, {"OMNIGRAPH_SERVER_BEARER_TOKEN": "t"}, is_open=True)


def test_a_graph_that_is_not_there_is_set_aside(people: Path, tmp_path: Path) -> None:
    both = NamedGraphs([str(people), str(tmp_path / "gone")], {})
    served = both.load()
    assert (set(served.graphs), set(served.set_aside)) == ({"people"}, {"gone"})
    with pytest.raises(UsageError, match="gone"):
        NamedGraphs(both.uris, {}, requires_all=True).load()
    with pytest.raises(UsageError, match="gone"):
        NamedGraphs([str(tmp_path / "gone")], {}).load()


def test_two_graphs_of_one_name_are_refused(people: Path) -> None:
    with pytest.raises(UsageError, match="'people'"):
        NamedGraphs([str(people), f"{people}/"], {}).load()


class OnlyMain:
    """Reads of main, and one stored query."""

    def __init__(self, *, reads: bool) -> None:
        self.reads = reads

    def check(self, actor: str | None, ask: AccessRequest) -> None:
        is_read = self.reads and ask.action == "read" and ask.branch in (None, "main")
        if not is_read and not (ask.action == "invoke_query" and ask.query == "everyone"):
            raise denied(actor, ask)


def test_a_caller_knows_of_the_branches_and_tags_that_it_may_read(
    start: Callable[..., TestClient], people: Path
) -> None:
    graph = og.open(people)
    graph.branches.create("secret")
    graph.mutate(ADD, {"name": "Hidden"}, branch="secret")
    graph.tags.create("hidden", "secret")
    graph.tags.create("shown", "main")
    client = start(verifiers=(tokens(ada="t-ada"),), gate=OnlyMain(reads=True))
    for path in ("branches?detail=1", "tags", "log", "storage"):
        text = client.get(path, headers=ADA).text
        assert "secret" not in text
        assert "hidden" not in text
    assert client.get("branches", headers=ADA).json()["branches"] == ["main"]
    assert [tag["name"] for tag in client.get("tags", headers=ADA).json()["tags"]] == ["shown"]
    storage = client.get("storage", headers=ADA).json()
    assert [kept["name"] for kept in storage["kept"]] == ["branch main", "tag shown"]
    assert (storage["branches"], storage["tags"]) == (1, 1)
    graph.branches.delete("secret", force=True)


def test_a_refusal_does_not_tell_which_branch_a_commit_or_tag_is_on(
    start: Callable[..., TestClient], people: Path
) -> None:
    """What exists on a branch that may not be read is refused in the words in which anything unknown is."""
    graph = og.open(people)
    graph.branches.create("secret")
    commit = graph.mutate(ADD, {"name": "Unseen"}, branch="secret").commit
    assert commit is not None
    graph.tags.create("unseen", "secret")
    client = start(verifiers=(tokens(ada="t-ada"),), gate=OnlyMain(reads=True))
    for method, path in (
        ("GET", "catalog?rev={}"),
        ("GET", "snapshot?snapshot={}"),
        ("GET", "schema/diff?from=main&to={}"),
        ("GET", "diff?from={}&to=main"),
        ("DELETE", "tags/{}"),
    ):
        unknown = client.request(method, path.format("nowhere"), headers=ADA)
        assert unknown.status_code == 403, path
        for named in (commit.id, commit.id[:20], "unseen"):
            refused = client.request(method, path.format(named), headers=ADA)
            assert refused.status_code == 403
            assert refused.text == unknown.text.replace("nowhere", named), path
    graph.tags.delete("unseen")
    graph.branches.delete("secret", force=True)


def test_no_revision_tells_whether_there_is_a_branch(start: Callable[..., TestClient], people: Path) -> None:
    """Also where it leads to a commit of main, which may be read."""
    graph = og.open(people)
    graph.branches.create("secret")
    graph.mutate(ADD, {"name": "Unseen"}, branch="secret")
    at = quote(graph.head().at.isoformat())
    client = start(verifiers=(tokens(ada="t-ada"),), gate=OnlyMain(reads=True))
    for path in (
        "catalog?rev={}~0",
        "catalog?rev={}~1",
        "entities/Person?rev={}~1",
        f"catalog?rev={{}}&at={at}",
        "diff?from=main&to={}~1",
        "schema/diff?from={}~1&to=main",
        "log?ref={}~1",
    ):
        assert client.get(path.format("main"), headers=ADA).status_code == 200, path
        unknown, known = (client.get(path.format(name), headers=ADA) for name in ("nowhere", "secret"))
        assert (unknown.status_code, known.status_code) == (403, 403), path
        assert known.text == unknown.text.replace("nowhere", "secret"), path
    graph.branches.delete("secret", force=True)


def test_a_caller_with_one_stored_query_is_told_of_it(start: Callable[..., TestClient]) -> None:
    client = start(verifiers=(tokens(ada="t-ada"),), gate=OnlyMain(reads=False))
    listed = client.get("queries", headers=ADA)
    assert [query["name"] for query in listed.json()["queries"]] == ["everyone"]
    assert client.get("policy/me", headers=ADA).status_code == 200
    assert client.get("snapshot", headers=ADA).status_code == 403
