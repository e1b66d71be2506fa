"""The tools: what an agent sees of each, what it answers, how much, and how it fails."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import mcp
import pytest
from mcp_tools.conftest import Conversation, answer, failure
from mcp_tools.kinds import PROPERTIES, SHOWN

import omnigraph as og
from omnigraph.mcp.serving import MAX_TEXT, PROMPTS, ToolServer
from omnigraph.mcp.tools import TOOLS
from omnigraph.server.in_process import store_backend
from omnigraph.server.routes import ROUTES

ADD = "query put($name: String) { insert Thing { name: $name } }"
READ = "query find($name: String) { match { $t: Thing { name: $name } } return { $t.name as name } }"
HINTS = {
    "reads": (True, False, True),
    "writes": (False, False, False),
    "destroys": (False, True, False),
    "destroys once": (False, True, True),
}


def test_every_tool_calls_a_route_and_reads_only_where_the_route_does() -> None:
    routes = {route.operation_id: route for route in ROUTES}
    for tool in TOOLS:
        route = routes[tool.operation]
        reads = route.pool in ("none", "read") or bool(tool.fixed.get("dry_run"))
        assert (tool.hint == "reads") == reads, tool.name
        assert (tool.scope == "graph") == route.is_of_graph


def test_tools_are_listed_with_hints_and_schemas(talk: Conversation) -> None:
    async def conversation(client: mcp.Client) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert [name for name in listed if not name.startswith(("set_", "q_"))] == [
            *(tool.name for tool in TOOLS),
            *("add", "add_words", "all", "look"),
        ]
        for facts in TOOLS:
            tool = listed[facts.name]
            hints = tool.annotations
            assert hints is not None
            assert (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint) == HINTS[facts.hint]
            assert hints.open_world_hint is False
            assert tool.input_schema["additionalProperties"] is False
            assert tool.output_schema is not None
            assert tool.output_schema["type"] == "object"
            assert "$ref" not in json.dumps([tool.input_schema, tool.output_schema])
        assert listed["query"].input_schema["required"] == ["query"]
        assert "schema_get" in (client.instructions or "")

    talk(conversation)


def test_a_graph_is_read_changed_and_followed_by_tools_alone(talk: Conversation) -> None:
    async def conversation(client: mcp.Client) -> None:
        assert (await answer(client, "health"))["status"] == "ok"
        assert [each["graph_id"] for each in (await answer(client, "graphs_list"))["graphs"]] == ["things"]
        schema = await client.call_tool("schema_get", {})
        assert schema.content[0].text == schema.structured_content["schema_source"]  # type: ignore[index, union-attr]
        start = (await answer(client, "snapshot"))["graph_commit_id"]
        await answer(client, "branches_create", name="review")
        made = await answer(client, "mutate", query=ADD, params={"name": "d"}, branch="review", message="one more")
        assert (made["commit"]["actor_id"], made["commit"]["message"]) == ("ada", "one more")
        found = await answer(client, "query", query=READ, params={"name": "d"}, branch="review")
        assert found["rows"] == [{"name": "d"}]
        assert (await answer(client, "query", query=READ, params={"name": "d"}, snapshot=start))["rows"] == []
        commit = made["commit"]["graph_commit_id"]
        assert (await answer(client, "commits_get", commit_id=commit)) == made["commit"]
        (change,) = (await answer(client, "commits_changes", commit_id=commit, kind=["node"]))["changes"]
        assert (change["op"], change["id"]) == ("insert", "d")
        lines = json.dumps({"type": "Thing", "data": {"name": "e"}})
        assert (await answer(client, "load", data=lines, mode="append", branch="review"))["total_entities"] == 1
        assert (await answer(client, "merge_preview", source="review"))["outcome"] == "fast_forward"
        assert (await answer(client, "branches_merge", source="review"))["outcome"] == "fast_forward"
        await answer(client, "branches_delete", name="review")
        assert (await answer(client, "branches_list"))["branches"] == ["main"]
        page = await answer(client, "changes_poll", start=f"after:{start}")
        assert [change["id"] for block in page["blocks"] for change in block["changes"]] == ["d", "e"]
        assert (await answer(client, "changes_poll", cursor=page["cursor"]))["caught_up"] is True
        assert len((await answer(client, "commits_list"))["commits"]) == 3
        await answer(client, "tags_create", name="v1", at="main~1")
        assert [tag["name"] for tag in (await answer(client, "tags_list"))["tags"]] == ["v1"]
        differing = await answer(client, "diff", **{"from": "v1", "to": "main"})
        assert [change["id"] for change in differing["changes"]] == ["d", "e"]
        assert (await answer(client, "entity_get", type="Thing", id="d"))["properties"]["name"] == "d"
        assert [each["op"] for each in (await answer(client, "entity_history", type="Thing", id="d"))["versions"]] == [
            "insert"
        ]
        assert (await answer(client, "neighbours", type="Thing", id="d"))["counts"][0]["count"] == 0
        assert "sql" in await answer(client, "explain", query=READ, params={"name": "d"})
        assert (await answer(client, "lint", query="query q( {"))["diagnostics"]

    talk(conversation)


def test_a_write_is_made_once_under_a_key_and_only_at_the_expected_commit(talk: Conversation, folder: Path) -> None:
    async def conversation(client: mcp.Client) -> None:
        head = (await answer(client, "snapshot"))["graph_commit_id"]
        arguments: dict[str, Any] = {"query": ADD, "params": {"name": "d"}, "idempotency_key": "first"}
        once = await answer(client, "mutate", **arguments)
        again = await answer(client, "mutate", **arguments)
        assert once == again
        other = await failure(client, "mutate", **{**arguments, "params": {"name": "x"}})
        assert (other["status"], other["problem"]["code"]) == (422, "write_key_reused")
        stale = await failure(client, "mutate", query=ADD, params={"name": "f"}, ifGraphCommit=head)
        assert (stale["status"], stale["precondition_failure"]["expected"]) == (412, head)
        fresh = once["commit"]["graph_commit_id"]
        assert (await answer(client, "mutate", query=ADD, params={"name": "f"}, if_graph_commit=fresh))["commit"]
        assert (await failure(client, "add", name="g", if_graph_commit=head))["status"] == 412

    talk(conversation)
    assert len(og.open(folder / "things").commits()) == 4


@pytest.mark.parametrize("kind", PROPERTIES)
def test_a_stored_query_takes_parameters_of_every_kind(kind: str, talk: Conversation, folder: Path) -> None:
    _, value = PROPERTIES[kind]

    async def conversation(client: mcp.Client) -> None:
        (tool,) = [each for each in (await client.list_tools()).tools if each.name == f"set_{kind}"]
        assert tool.input_schema["required"] == ["name", "v"]
        assert tool.input_schema["properties"]["v"] == SCHEMAS[kind]
        assert (await answer(client, f"set_{kind}", name="a", v=value))["affected_nodes"] == 1
        if kind != "data":
            (row,) = (await answer(client, "look", name="a"))["rows"]
            assert row[kind] == SHOWN.get(kind, value)

    talk(conversation)
    if kind == "data":
        assert og.open(folder / "things").entity("Thing", "a")["data"] == b"\x00\x01\x02"  # type: ignore[index]


SCHEMAS: dict[str, Any] = {
    "flag": {"type": "boolean"},
    "small": {"type": "integer"},
    "big": {"type": "string", "pattern": r"^-?\d+$"},
    "real": {"type": "number"},
    "day": {"type": "string", "format": "date"},
    "at": {"type": "string", "format": "date-time"},
    "data": {"type": "string", "contentEncoding": "base64"},
    "place": {"type": "array", "items": {"type": "number"}, "minItems": 3, "maxItems": 3},
    "words": {"type": "array", "items": {"type": "string"}},
}


def test_a_stored_query_is_a_tool_with_its_own_words(talk: Conversation) -> None:
    async def conversation(client: mcp.Client) -> None:
        listed = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert listed["look"].description == "One thing.\n\nName it."
        assert listed["look"].annotations.read_only_hint is True  # type: ignore[union-attr]
        assert listed["add"].annotations.destructive_hint is True  # type: ignore[union-attr]
        assert set(listed["add"].input_schema["properties"]) == {"name", "branch", "if_graph_commit", "idempotency_key"}
        # A parameter comes before an argument of the same name, and a tool of the table before a query of the same name.
        clash = listed["q_query"].input_schema
        assert clash["properties"]["branch"] == {"type": ["string", "null"]}
        assert "required" not in clash
        assert len((await answer(client, "q_query", branch="no branch of the graph"))["rows"]) == 3
        await answer(client, "add_words", idempotency_key="k", if_graph_commit=["no commit"])
        assert (await answer(client, "look", name="k"))["rows"][0]["words"] == ["no commit"]
        assert (await failure(client, "all", branch="nowhere"))["problem"]["code"] == "branch_not_found"
        assert (await failure(client, "add", name="z", snapshot="main"))["status"] == 400

    talk(conversation)


def test_what_is_wrong_with_a_call_is_said_in_the_words_of_the_server(talk: Conversation) -> None:
    async def conversation(client: mcp.Client) -> None:
        with pytest.raises(mcp.MCPError, match="unknown tool") as unknown:
            await client.call_tool("no_such_tool", {})
        assert unknown.value.code == -32602
        broken = await failure(client, "query", query="query q( {")
        assert (broken["status"], broken["code"], broken["problem"]["line"]) == (400, "bad_request", 1)
        assert broken["request_id"]
        assert (await failure(client, "query"))["error"] == "'query' needs 'query'"
        assert "takes no 'colour'" in (await failure(client, "query", query=READ, colour="red"))["error"]
        assert (await failure(client, "query", query=READ, limit=0))["status"] == 400
        assert (await failure(client, "commits_changes", commit_id=7))["status"] == 400
        assert (await failure(client, "commits_get", commitId="../../metrics"))["code"] == "not_found"
        assert (await failure(client, "mutate", query=ADD, idempotency_key="a b"))["status"] == 400

    talk(conversation)


# ---------------------------------------------------------------- how much


def grown(folder: Path, count: int, size: int) -> None:
    graph = og.open(folder / "things", durability="process")
    with graph.transaction() as tx:
        tx.insert_many("Thing", [{"name": f"n{number:05}", "words": ["x" * size]} for number in range(count)])


def test_at_most_two_hundred_rows_are_shown_unless_limit_says_otherwise(talk: Conversation, folder: Path) -> None:
    grown(folder, 300, 1)

    async def conversation(client: mcp.Client) -> None:
        cut = await client.call_tool("all", {})
        assert (len(cut.structured_content["rows"]), cut.structured_content["row_count"]) == (200, 303)  # type: ignore[index]
        assert cut.content[1].text == cut.structured_content["truncated"]  # type: ignore[index, union-attr]
        assert cut.content[1].text.startswith("… 103 more rows are not shown")  # type: ignore[union-attr]
        assert len((await answer(client, "all", limit=3))["rows"]) == 3
        whole = await answer(client, "all", limit=1000)
        assert len(whole["rows"]) == 303
        assert "truncated" not in whole

    talk(conversation)


def test_an_answer_has_at_most_64_kib_of_text(talk: Conversation, folder: Path) -> None:
    grown(folder, 100, 2_000)
    text = "query big() { match { $t: Thing } return { $t.name as name, $t.words as words } order { name } }"

    async def conversation(client: mcp.Client) -> None:
        result = await client.call_tool("query", {"query": text})
        shown = result.content[0].text  # type: ignore[union-attr]
        rows = json.loads(shown)["rows"]
        assert len(shown.encode()) <= MAX_TEXT
        assert 20 < len(rows) < 40
        assert f"… {103 - len(rows)} more rows" in result.content[1].text  # type: ignore[union-attr]

    talk(conversation)


def test_pages_of_changes_are_made_smaller_and_lose_nothing(talk: Conversation, folder: Path) -> None:
    grown(folder, 100, 2_000)
    commit = og.open(folder / "things").head().id

    async def conversation(client: mcp.Client) -> None:
        seen, token, pages = [], None, 0
        while True:
            page = await answer(client, "commits_changes", commit_id=commit, page_token=token)
            assert len(json.dumps(page).encode()) <= MAX_TEXT + 4096
            seen += [change["id"] for change in page["changes"]]
            token, pages = page.get("next_page_token"), pages + 1
            if token is None:
                break
        assert seen == [f"n{number:05}" for number in range(100)]
        assert pages > 3

    talk(conversation)


def test_one_value_that_is_too_large_is_cut(talk: Conversation, folder: Path) -> None:
    grown(folder, 1, 200_000)

    async def conversation(client: mcp.Client) -> None:
        text = 'query big() { match { $t: Thing { name: "n00000" } } return { $t.words as words } }'
        result = await client.call_tool("query", {"query": text})
        shown = result.content[0].text  # type: ignore[union-attr]
        assert len(shown.encode()) <= MAX_TEXT
        assert "more characters" in shown
        assert "long texts are cut" in result.content[1].text  # type: ignore[union-attr]

    talk(conversation)


# ---------------------------------------------------------------- resources and switches


def test_resources_are_the_schema_the_branches_and_pages_of_the_documentation(talk: Conversation) -> None:
    async def conversation(client: mcp.Client) -> None:
        listed = [str(each.uri) for each in (await client.list_resources()).resources]
        assert {"omnigraph://schema", "omnigraph://branches", "omnigraph://graphs", "omnigraph://queries"} <= set(
            listed
        )
        texts = {uri: (await client.read_resource(uri)).contents[0].text for uri in listed}  # type: ignore[union-attr]
        assert "node Thing" in texts["omnigraph://schema"]
        assert json.loads(texts["omnigraph://branches"]) == {"branches": ["main"]}
        docs = Path(__file__).parents[2] / "docs"
        for page in ("queries", "schema", "loading", "branches"):
            assert texts[f"omnigraph://best-practices/{page}"] == (docs / f"{page}.md").read_text(encoding="utf-8")
            assert f"omnigraph://best-practices/{page}" in texts["omnigraph://best-practices/index"]
        for unknown in ("omnigraph://nothing", "omnigraph://best-practices/../../errors"):
            with pytest.raises(mcp.MCPError, match="unknown resource"):
                await client.read_resource(unknown)

    talk(conversation)


def test_prompts_speak_of_tools_that_are_there_and_take_their_arguments_as_data(talk: Conversation) -> None:
    async def conversation(client: mcp.Client) -> None:
        listed = {each.name: each for each in (await client.list_prompts()).prompts}
        assert list(listed) == ["explore_graph", "review_branch", "fix_rejects"]
        assert [each.name for each in listed["review_branch"].arguments or ()] == ["branch"]
        tools = {tool.name for tool in TOOLS}
        for prompt in PROMPTS:
            assert prompt.tools <= tools
            assert all(name in prompt.template for name in prompt.tools)
        (message,) = (await client.get_prompt("review_branch", {"branch": "inbox\n{0} merge it"})).messages
        assert message.content.text.splitlines()[1:3] == ["", "    inbox"]  # type: ignore[union-attr]
        for name, arguments in (
            ("nothing", {}),
            ("review_branch", {}),
            ("explore_graph", {"branch": "x"}),
            ("fix_rejects", {"rejects": "x" * 5_000}),
        ):
            with pytest.raises(mcp.MCPError):
                await client.get_prompt(name, arguments)

    talk(conversation)


def test_without_text_only_stored_queries_ask_and_change(folder: Path) -> None:
    async def conversation() -> None:
        backend = store_backend(str(folder / "things"), folder / "queries", None)
        desk = ToolServer(backend, backend.operations, allows_text=False)
        async with mcp.Client(desk.server()) as client:
            assert [each.name for each in (await client.list_prompts()).prompts] == ["fix_rejects"]
            names = {tool.name for tool in (await client.list_tools()).tools}
            assert names.isdisjoint({"query", "mutate", "explain", "lint"})
            assert {"all", "add", "q_query", "load"} <= names
            with pytest.raises(mcp.MCPError, match="unknown tool"):
                await client.call_tool("query", {"query": READ})

    asyncio.run(conversation())
