"""The protocol: which tools, resources and prompts a caller sees, and the answers to calls."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import mcp.types as protocol
from mcp import MCPError
from mcp.server import Server

from omnigraph._internal.guides import guide, title_of
from omnigraph.errors import OmnigraphError, UsageError
from omnigraph.mcp.binding import LIMIT, BoundTool, ToolRequest, bind, bind_stored
from omnigraph.mcp.tools import TOOLS, Backend, OperationResult, Scope, ToolFacts, ToolOperation, stored_tools
from omnigraph.version import VERSION

# Prompts: messages that tell an agent what to do with the tools.

MAX_ARGUMENT = 4_096


@dataclass(frozen=True)
class Prompt:
    """A message with placeholders for arguments, and the tools that it mentions."""

    name: str
    description: str
    template: str
    tools: frozenset[str]
    arguments: Mapping[str, str] = field(default_factory=dict)
    """The description of each argument, by name. All of them are required."""

    def text(self, arguments: Mapping[str, str]) -> str:
        """The message. UsageError for an argument that is missing, unknown or too long."""
        if arguments.keys() != self.arguments.keys():
            wanted = ", ".join(self.arguments) or "no arguments"
            raise UsageError(f"the prompt '{self.name}' takes {wanted}")
        for name, value in arguments.items():
            if len(value) > MAX_ARGUMENT:
                raise UsageError(f"'{name}' has more than {MAX_ARGUMENT} characters")
        return self.template.format(**{name: _quoted(value) for name, value in arguments.items()})


def _quoted(value: str) -> str:
    """An argument as an indented block, to mark it as data rather than instructions."""
    return "\n" + "\n".join(f"    {line}" for line in value.splitlines() or [""]) + "\n"


PROMPTS = (
    Prompt(
        "explore_graph",
        "Find out what the graph holds, and say what can be asked of it.",
        """\
Find out what this graph holds.
1. Read the schema with schema_get, and the number of entities with snapshot.
2. For the two or three largest types, look at a few entities with query (with `limit 5`).
3. Look at the last commits with commits_list: who writes, and what.
Then say in a few sentences what the graph is about, name five questions that it can answer, and write the query of each.
""",
        frozenset({"schema_get", "snapshot", "query", "commits_list"}),
    ),
    Prompt(
        "review_branch",
        "Review the changes of a branch before it is merged.",
        """\
Review a branch before it is merged into main. The branch is the one with this name:
{branch}
1. Ask merge_preview what a merge would do: its outcome, its numbers and its conflicts.
2. Look at the changes with diff from main to the branch; page on until you have seen all, or enough to judge.
3. Check what looks wrong with query on the branch: missing edges, doubled entities, values out of range.
Then say what changes, what is doubtful, and whether it should be merged. Do not merge: a person decides.
""",
        frozenset({"merge_preview", "diff", "query"}),
        {"branch": "The branch to review."},
    ),
    Prompt(
        "fix_rejects",
        "Mend the records that a load refused, and load them on a branch.",
        """\
A load was refused. This is what it said:
{rejects}
1. Read the schema with schema_get, and find the rule that each record breaks.
2. Mend the records where the right value is certain; list the others, and say what is missing.
3. Make a branch with branches_create, and load the mended records there with load and an idempotency_key.
4. Show with diff from main to the branch what would come in.
Do not merge: a person decides.
""",
        frozenset({"schema_get", "branches_create", "load", "diff"}),
        {"rejects": "The error of the load, with its records."},
    ),
)


# Resources that an agent can read without a tool: the schema, the branches, the stored queries, and pages of the documentation.

JSON = "application/json"
MARKDOWN = "text/markdown"
PAGES = ("queries", "schema", "loading", "branches")
"""Pages of the documentation that are part of the package."""
PAGES_URI = "omnigraph://best-practices/"


@dataclass(frozen=True)
class Resource:
    """A resource of the graph: the answer of an operation, or one text in it."""

    uri: str
    operation: str
    description: str
    mime_type: str = JSON
    member: str | None = None
    """The member of the answer that is returned as plain text."""

    @property
    def name(self) -> str:
        return self.uri.removeprefix("omnigraph://")


RESOURCES = (
    Resource("omnigraph://schema", "cluster_getSchema", "The schema of main.", "text/plain", "schema_source"),
    Resource("omnigraph://catalog", "getCatalog", "Types, properties and rules of main, as JSON."),
    Resource("omnigraph://branches", "cluster_listBranches", "The branches."),
    Resource("omnigraph://graphs", "listGraphs", "The graphs of the server."),
    Resource("omnigraph://queries", "cluster_list_queries", "The stored queries that you may run."),
)


def page_index() -> str:
    lines = ["# Best practices", "", *(f"- [{page}]({PAGES_URI}{page}): {title_of(guide(page))}" for page in PAGES)]
    return "\n".join(lines) + "\n"


def page_text(page: str) -> str:
    """A page of the documentation; KeyError if there is none."""
    if page == "index":
        return page_index()
    if page not in PAGES:
        raise KeyError(page)
    return guide(page)


# Answers shortened to a size that an agent can read, with a note of what was left out.

MAX_TEXT = 64 * 1024
"""Maximum size of an answer, in bytes of JSON."""

_TEXT_LENGTHS = (4096, 512, 64, 8)
"""Lengths to which texts and lists inside a value are shortened, tried in order until the whole fits."""


@dataclass(frozen=True)
class Fitted:
    """A value of allowed size, and how much of its list is left out."""

    value: dict[str, Any]
    shown: int = 0
    left_out: int = 0
    has_cut_texts: bool = False

    @property
    def is_whole(self) -> bool:
        return not self.left_out and not self.has_cut_texts


def json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))


def size_of(value: object) -> int:
    return len(json_text(value).encode())


def fitted(value: Mapping[str, Any], rows: str | None, limit: int) -> Fitted:
    """The value with at most `limit` members in the list `rows`, or fewer if it would be too large."""
    listed = value.get(rows) if rows is not None else None
    if rows is None or not isinstance(listed, list):
        return _with_short_texts(dict(value), 0, 0)
    shown = min(limit, len(listed))
    while True:
        part = {**value, rows: listed[:shown]}
        size = size_of(part)
        if size <= MAX_TEXT or shown <= 1:
            return _with_short_texts(part, shown, len(listed) - shown)
        shown = max(1, min(shown - 1, shown * MAX_TEXT // size))


def _with_short_texts(value: dict[str, Any], shown: int, left_out: int) -> Fitted:
    if size_of(value) <= MAX_TEXT:
        return Fitted(value, shown, left_out)
    for length in _TEXT_LENGTHS:
        short = _shortened(value, length)
        if size_of(short) <= MAX_TEXT:
            return Fitted(short, shown, left_out, has_cut_texts=True)
    return Fitted({}, 0, left_out + shown, has_cut_texts=True)


def _shortened(value: Any, length: int) -> Any:
    match value:
        case str() if len(value) > length:
            return f"{value[:length]}… ({len(value) - length} more characters)"
        case list():
            cut = [_shortened(item, length) for item in value[:length]]
            return [*cut, f"… ({len(value) - length} more)"] if len(value) > length else cut
        case dict():
            return {name: _shortened(item, length) for name, item in value.items()}
    return value


def cut_text(text: str) -> tuple[str, int]:
    """The beginning of a text, up to the maximum size, and how many bytes are left out."""
    data = text.encode()
    kept = data[:MAX_TEXT].decode("utf-8", "ignore")
    return kept, len(data) - len(kept.encode())


INVALID_PARAMS = -32602
FORBIDDEN = 403

INSTRUCTIONS = """\
A typed property graph that works like Git: branches, commits, merges.
- Read the schema first (schema_get); names of types and properties are exact.
- Give values as params. Do not build them into the text of a query.
- A search or ranking needs `limit` in the query; `limit` and `offset` give pages.
- A write answers with its commit. No commit: nothing changed.
- For a change of many things: branches_create, load, check with query and merge_preview or commits_changes, branches_merge.
- To change what you have read, give if_graph_commit, the commit you read; when the branch has moved on, read again.
- Give a write an idempotency_key, so that you may repeat it after a failure.
- Repeat only what says `retry`; other errors say what to change.
"""


@dataclass(frozen=True)
class ToolServer:
    """The tools of one caller: a server's own, a graph's, or both."""

    backend: Backend
    operations: Mapping[str, ToolOperation]
    scopes: frozenset[Scope] = frozenset({"server", "graph"})
    allows_text: bool = True
    """Whether queries may be passed as text; if not, only stored queries are tools."""
    name: str = field(default="omnigraph")

    def server(self) -> Server[Any]:
        """An MCP server for one caller."""
        return Server(
            self.name,
            version=VERSION,
            instructions=INSTRUCTIONS,
            on_list_tools=self._list_tools,
            on_call_tool=self._call_tool,
            on_list_resources=self._list_resources,
            on_read_resource=self._read_resource,
            on_list_prompts=self._list_prompts,
            on_get_prompt=self._get_prompt,
        )

    # ------------------------------------------------------------ tools

    async def tools(self) -> list[BoundTool]:
        """The tools that the caller may use."""
        chosen = [tool for tool in TOOLS if self._offers(tool)]
        bound = [tool for tool in bind(chosen, self.operations) if await self._may(tool.operation.action)]
        return bound + await self._stored()

    def _offers(self, facts: ToolFacts) -> bool:
        is_known = facts.operation in self.operations
        return facts.scope in self.scopes and is_known and (self.allows_text or not facts.takes_text)

    async def _stored(self) -> list[BoundTool]:
        if "graph" not in self.scopes:
            return []
        queries = await self.backend.stored_queries()
        # Names of tools that the caller does not see are taken too, so that the name of a tool does not reveal permissions.
        tools = stored_tools(queries, {tool.name for tool in TOOLS})
        return [bind_stored(tool, self.operations) for tool in tools]

    async def tool(self, name: str) -> BoundTool:
        """A tool that the caller may use. A tool that the caller may not use is refused like one that does not exist."""
        facts = next((tool for tool in TOOLS if tool.name == name), None)
        if facts is None:
            binding = next((tool for tool in await self._stored() if tool.name == name), None)
        else:
            binding = bind([facts], self.operations)[0] if self._offers(facts) else None
            if binding is not None and not await self._may(binding.operation.action):
                binding = None
        if binding is None:
            raise _unknown_tool()
        return binding

    async def _may(self, action: str | None) -> bool:
        return action is None or await self.backend.may(action)

    async def _list_tools(self, _context: Any, _params: Any) -> protocol.ListToolsResult:
        return protocol.ListToolsResult(tools=[_described(tool) for tool in await self.tools()])

    async def _call_tool(self, _context: Any, params: protocol.CallToolRequestParams) -> protocol.CallToolResult:
        tool = await self.tool(params.name)
        try:
            request = tool.request(params.arguments or {})
            answer = await self.backend.call(request.operation, request.arguments, request.headers)
        except OmnigraphError as error:
            return _failed(400, _error_body(error), None)
        if answer.status == FORBIDDEN:
            raise _unknown_tool()
        if not answer.is_success:
            return _failed(answer.status, _body_of(answer), answer.headers.get("x-request-id"))
        return await self._shown(tool, request, answer)

    async def _shown(self, tool: BoundTool, request: ToolRequest, answer: OperationResult) -> protocol.CallToolResult:
        value = answer.json()
        if tool.facts is not None and tool.facts.is_text:
            (text,) = value.values()
            shown, left_out = cut_text(text)
            lines = [shown] + ([f"… {left_out} more bytes"] if left_out else [])
            return _result(lines, dict.fromkeys(value, shown))
        if tool.is_paged:
            request, value = await self._smaller_page(request, value)
        part = fitted(value, tool.rows, request.limit)
        if part.is_whole:
            return _result([json_text(part.value)], part.value)
        note = _note(tool, part)
        whole = {**part.value, "truncated": note}
        return _result([json_text(part.value), note], whole)

    async def _smaller_page(self, request: ToolRequest, value: dict[str, Any]) -> tuple[ToolRequest, dict[str, Any]]:
        """Ask again for a smaller page until it fits, so that the token of the next page skips nothing."""
        while (size := size_of(value)) > MAX_TEXT and request.limit > 1:
            limit = max(1, min(request.limit // 2, request.limit * MAX_TEXT // size))
            request = replace(request, limit=limit, arguments={**request.arguments, LIMIT: limit})
            answer = await self.backend.call(request.operation, request.arguments, request.headers)
            if not answer.is_success:
                break
            value = answer.json()
        return request, value

    # ------------------------------------------------------------ resources

    async def _resources(self) -> list[Resource]:
        known = [resource for resource in RESOURCES if resource.operation in self.operations]
        scoped = [resource for resource in known if self._scope_of(resource) in self.scopes]
        return [resource for resource in scoped if await self._may(self.operations[resource.operation].action)]

    def _scope_of(self, resource: Resource) -> Scope:
        return "graph" if "{graph_id}" in self.operations[resource.operation].path else "server"

    async def _list_resources(self, _context: Any, _params: Any) -> protocol.ListResourcesResult:
        resources = [
            protocol.Resource(
                name=resource.name, uri=resource.uri, description=resource.description, mime_type=resource.mime_type
            )
            for resource in await self._resources()
        ]
        resources += [
            protocol.Resource(name=f"best-practices/{page}", uri=f"{PAGES_URI}{page}", mime_type=MARKDOWN)
            for page in ("index", *PAGES)
        ]
        return protocol.ListResourcesResult(resources=resources)

    async def _read_resource(
        self, _context: Any, params: protocol.ReadResourceRequestParams
    ) -> protocol.ReadResourceResult:
        uri = str(params.uri)
        if uri.startswith(PAGES_URI):
            try:
                return _contents(uri, page_text(uri.removeprefix(PAGES_URI)), MARKDOWN)
            except KeyError:
                raise _unknown_resource() from None
        for resource in await self._resources():
            if resource.uri == uri:
                answer = await self.backend.call(self.operations[resource.operation], {})
                if answer.is_success:
                    value = answer.json()
                    text = json_text(value) if resource.member is None else value[resource.member]
                    return _contents(uri, text, resource.mime_type)
        raise _unknown_resource()

    # ------------------------------------------------------------ prompts

    async def _prompts(self) -> list[Prompt]:
        """The prompts whose tools the caller may all use."""
        if "graph" not in self.scopes:
            return []
        known = {tool.name for tool in await self.tools()}
        return [prompt for prompt in PROMPTS if known.issuperset(prompt.tools)]

    async def _list_prompts(self, _context: Any, _params: Any) -> protocol.ListPromptsResult:
        return protocol.ListPromptsResult(
            prompts=[
                protocol.Prompt(
                    name=prompt.name,
                    description=prompt.description,
                    arguments=[
                        protocol.PromptArgument(name=name, description=description, required=True)
                        for name, description in prompt.arguments.items()
                    ],
                )
                for prompt in await self._prompts()
            ]
        )

    async def _get_prompt(self, _context: Any, params: protocol.GetPromptRequestParams) -> protocol.GetPromptResult:
        prompt = next((known for known in await self._prompts() if known.name == params.name), None)
        if prompt is None:
            raise MCPError(INVALID_PARAMS, "unknown prompt")
        try:
            text = prompt.text(params.arguments or {})
        except UsageError as error:
            raise MCPError(INVALID_PARAMS, error.message) from None
        content = protocol.TextContent(type="text", text=text)
        return protocol.GetPromptResult(
            description=prompt.description, messages=[protocol.PromptMessage(role="user", content=content)]
        )


def _described(tool: BoundTool) -> protocol.Tool:
    return protocol.Tool(
        name=tool.name,
        description=tool.description,
        input_schema=tool.input_schema,
        output_schema=tool.output_schema,
        annotations=protocol.ToolAnnotations(
            read_only_hint=tool.hint == "reads",
            destructive_hint=tool.hint.startswith("destroys"),
            idempotent_hint=tool.hint in ("reads", "destroys once"),
            open_world_hint=False,
        ),
    )


def _note(tool: BoundTool, part: Fitted) -> str:
    if part.left_out and tool.stored is not None:
        return (
            f"… {part.left_out} more {tool.rows} are not shown: raise limit (at most 64 KiB are shown), or ask for less"
        )
    if part.left_out:
        return (
            f"… {part.left_out} more {tool.rows} are not shown: raise limit (at most 64 KiB are shown), or page in the query "
            "with order, limit and offset"
        )
    return "… long texts are cut to fit 64 KiB: ask for less"


def _result(texts: list[str], value: dict[str, Any]) -> protocol.CallToolResult:
    content = [protocol.TextContent(type="text", text=text) for text in texts]
    return protocol.CallToolResult(content=list(content), structured_content=value)


def _failed(status: int, body: Mapping[str, Any], request_id: str | None) -> protocol.CallToolResult:
    """An error result: the error body of the server, with the status and the id of the request."""
    value = {**body, "status": status} | ({} if request_id is None else {"request_id": request_id})
    text = protocol.TextContent(type="text", text=json_text(fitted(value, None, 0).value))
    return protocol.CallToolResult(content=[text], is_error=True)


def _body_of(answer: OperationResult) -> Mapping[str, Any]:
    try:
        body = answer.json()
    except ValueError:
        body = None
    return body if isinstance(body, dict) else {"error": "the server did not answer in JSON", "code": "internal"}


def _error_body(error: OmnigraphError) -> Mapping[str, Any]:
    """An error body like those of the server, for arguments that are not sent to it."""
    members = error.to_json()
    problem = {"code": error.code, "retry": error.retry, "outcome": error.outcome}
    code = "bad_request" if isinstance(error, UsageError) else "internal"
    return {
        "error": error.message,
        "code": code,
        "problem": problem | ({"hint": members["hint"]} if error.hint else {}),
    }


def _unknown_tool() -> MCPError:
    return MCPError(INVALID_PARAMS, "unknown tool")


def _unknown_resource() -> MCPError:
    return MCPError(INVALID_PARAMS, "unknown resource")


def _contents(uri: str, text: str, mime_type: str) -> protocol.ReadResourceResult:
    contents = protocol.TextResourceContents(uri=uri, mime_type=mime_type, text=text)
    return protocol.ReadResourceResult(contents=[contents])
