"""The tools in one table: their names, the operations that they call, and their descriptions for agents.

Arguments, their schemas and the schema of the answer are those of the operation.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol
from urllib.parse import quote

from omnigraph.errors import UsageError

if TYPE_CHECKING:
    import httpx


# What a tool calls: an operation of the server, and the backend that carries it out.
#
# Tools know operations only. The server carries them out itself, `omnigraph mcp --store` with a server in its own process,
# `omnigraph mcp --server` over the network; so a tool answers, refuses and fails exactly as its route does.

Schema = Mapping[str, Any]
"""A JSON schema."""


@dataclass(frozen=True)
class ToolOperation:
    """A route as tools see it. `members` are the schemas of its arguments, by name, wherever they are in the request."""

    id: str
    method: str
    path: str
    action: str | None
    """The action that a policy must allow; None if everybody may do it."""
    in_path: tuple[str, ...] = ()
    in_query: tuple[str, ...] = ()
    in_body: tuple[str, ...] = ()
    members: Mapping[str, Schema] = field(default_factory=dict)
    required: frozenset[str] = frozenset()
    repeated: frozenset[str] = frozenset()
    takes_key: bool = False
    """Whether it accepts an Idempotency-Key."""
    answer: Schema | None = None
    """The self-contained schema of its JSON answer."""


@dataclass(frozen=True)
class OperationResult:
    """The answer to an operation."""

    status: int
    headers: Mapping[str, str]
    data: bytes

    @property
    def is_success(self) -> bool:
        return 200 <= self.status < 300

    def json(self) -> Any:
        return json.loads(self.data)


class Backend(Protocol):
    """Carries out operations on behalf of one caller, on one graph."""

    async def call(
        self, operation: ToolOperation, arguments: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> OperationResult: ...

    async def may(self, action: str) -> bool:
        """Whether the caller may do this on any branch."""

    async def stored_queries(self) -> list[Mapping[str, Any]]:
        """The stored queries that the caller may run, as the server lists them."""


# Operations carried out by a server: over the network, or in this process.


@dataclass(frozen=True)
class HttpBackend:
    """Calls operations on one graph of a server, on behalf of the caller whom the headers name.

    Permissions are left to subclasses.
    """

    client: httpx.AsyncClient
    operations: Mapping[str, ToolOperation]
    graph: str | None
    headers: Mapping[str, str] = field(repr=False)

    async def call(
        self, operation: ToolOperation, arguments: Mapping[str, Any], headers: Mapping[str, str] | None = None
    ) -> OperationResult:
        response = await self.client.request(
            operation.method,
            self._path(operation, arguments),
            params=[pair for name in operation.in_query for pair in _pairs(name, arguments.get(name))],
            json={name: arguments[name] for name in operation.in_body if name in arguments}
            if operation.in_body
            else None,
            headers={**self.headers, **(headers or {})},
        )
        return OperationResult(response.status_code, dict(response.headers), response.content)

    def _path(self, operation: ToolOperation, arguments: Mapping[str, Any]) -> str:
        path = operation.path.replace("{graph_id}", quote(self.graph or "", safe=""))
        for name in operation.in_path:
            value = arguments.get(name)
            if not isinstance(value, str) or not value or value in (".", ".."):
                raise UsageError(f"'{name}' must be a non-empty name")
            path = path.replace(f"{{{name}}}", quote(value, safe=""))
        return path


def _pairs(name: str, value: Any) -> list[tuple[str, str]]:
    if value is None:
        return []
    values = value if isinstance(value, list) else [value]
    return [(name, _text(item)) for item in values]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return value if isinstance(value, str) else str(value)


# A tool for each stored query: its parameters are the tool's arguments.

_SCALARS: Mapping[str, Schema] = {
    "string": {"type": "string"},
    "bool": {"type": "boolean"},
    "int": {"type": "integer"},
    "bigint": {"type": "string", "pattern": r"^-?\d+$"},
    "float": {"type": "number"},
    "date": {"type": "string", "format": "date"},
    "datetime": {"type": "string", "format": "date-time"},
    "blob": {"type": "string", "contentEncoding": "base64"},
}
_BASE64 = "base64:"
PLACES = ("branch", "snapshot")
"""Arguments in addition to the parameters, unless a parameter has the name."""


@dataclass(frozen=True)
class StoredTool:
    """One stored query under the name of its tool."""

    name: str
    query: str
    is_mutation: bool
    description: str
    parameters: tuple[Mapping[str, Any], ...]

    @property
    def places(self) -> tuple[str, ...]:
        """The arguments that say where it runs: for a mutation, a branch only."""
        taken = {parameter["name"] for parameter in self.parameters}
        return tuple(name for name in PLACES[: 1 if self.is_mutation else 2] if name not in taken)

    def input_schemas(self) -> dict[str, Schema]:
        """The schemas of the parameters, by name."""
        return {parameter["name"]: parameter_schema(parameter) for parameter in self.parameters}

    @property
    def required(self) -> list[str]:
        return [parameter["name"] for parameter in self.parameters if not parameter["nullable"]]

    def values(self, arguments: Mapping[str, Any]) -> dict[str, Any]:
        """The values of the parameters, as the query takes them."""
        kinds = {parameter["name"]: parameter for parameter in self.parameters}
        return {name: _value(kinds[name], value) for name, value in arguments.items() if name in kinds}


def stored_tools(queries: Sequence[Mapping[str, Any]], taken: Collection[str]) -> list[StoredTool]:
    """A tool for each stored query; one with the name of another tool is called `q_<name>`."""
    used = set(taken) | {query["name"] for query in queries if query["name"] not in taken}
    tools = []
    for stored in sorted(queries, key=lambda query: str(query["name"])):
        name = stored["name"]
        if name in taken:
            while name in used:
                name = f"q_{name}"
            used.add(name)
        texts = [stored.get("description"), stored.get("instruction")]
        description = "\n\n".join(text for text in texts if text)
        default = f"The stored {'mutation' if stored['mutation'] else 'query'} '{stored['name']}'."
        tools.append(
            StoredTool(name, stored["name"], stored["mutation"], description or default, tuple(stored["params"]))
        )
    return tools


def parameter_schema(parameter: Mapping[str, Any]) -> Schema:
    """The JSON schema of the values that a parameter takes."""
    kind = parameter["kind"]
    if kind == "vector":
        length = parameter["vector_dim"]
        schema: Schema = {"type": "array", "items": {"type": "number"}, "minItems": length, "maxItems": length}
    elif kind == "list":
        schema = {"type": "array", "items": _SCALARS[parameter["item_kind"]]}
    else:
        schema = _SCALARS[kind]
    return {**schema, "type": [schema["type"], "null"]} if parameter["nullable"] else schema


def _value(parameter: Mapping[str, Any], value: Any) -> Any:
    """The value of a parameter. A tool takes bytes as plain base64; a query needs the prefix that says so."""
    if "blob" not in (parameter["kind"], parameter.get("item_kind")):
        return value
    if isinstance(value, list):
        return [_value(parameter, item) for item in value]
    is_bare = isinstance(value, str) and not value.startswith(_BASE64)
    return _BASE64 + value if is_bare else value


Hint = Literal["reads", "writes", "destroys", "destroys once"]
"""What a call does: changes nothing; adds; may overwrite or remove; the same, but idempotent."""
Scope = Literal["server", "graph"]


@dataclass(frozen=True)
class ToolFacts:
    name: str
    operation: str
    """The operationId of its route."""
    description: str
    hint: Hint = "reads"
    scope: Scope = "graph"
    arguments: tuple[str, ...] = ()
    """The arguments of the operation that it offers."""
    renamed: Mapping[str, str] = field(default_factory=dict)
    """Arguments that have another name in the operation."""
    fixed: Mapping[str, Any] = field(default_factory=dict)
    """Arguments that are always passed to the operation."""
    rows: str | None = None
    """The list in the answer that is shortened to `limit`."""
    is_paged: bool = False
    """Whether the operation itself applies `limit`, and returns a token for the next page."""
    is_text: bool = False
    """Whether the answer is one text, which is returned unchanged."""
    if_commit: str | None = None
    """The operation to call if `if_graph_commit` is given."""
    takes_text: bool = False
    """Whether it takes the text of a query, which a server may disallow."""


_FILTERS = ("kind", "type", "op", "page_token")

TOOLS: tuple[ToolFacts, ...] = (
    ToolFacts("health", "health", "Whether the server answers, and its version.", scope="server"),
    ToolFacts("graphs_list", "listGraphs", "The graphs of the server.", scope="server", rows="graphs"),
    ToolFacts(
        "snapshot",
        "cluster_getSnapshot",
        "What a branch holds: its commit, and the number of entities of each type.",
        arguments=("branch",),
    ),
    ToolFacts(
        "query",
        "cluster_query",
        "Run a read query (.gq text) against a branch or a commit. Give values as params, never by building text; a ranking "
        "needs a limit in the query.",
        arguments=("query", "name", "params", "branch", "snapshot"),
        rows="rows",
        takes_text=True,
    ),
    ToolFacts("schema_get", "cluster_getSchema", "The schema (.pg text). Read it before you write a query.",
              arguments=("branch", "snapshot"), is_text=True),
    ToolFacts("branches_list", "cluster_listBranches", "The names of the branches.", rows="branches"),
    ToolFacts("commits_list", "cluster_listCommits", "The commits of a branch, newest first.",
              arguments=("branch", "page_token"), rows="commits", is_paged=True),
    ToolFacts("commits_get", "cluster_getCommit", "One commit: who, when, what kind, its parents.",
              arguments=("commit_id",)),
    ToolFacts(
        "commits_changes",
        "cluster_getCommitChanges",
        "What a commit changed, entity by entity, with the values before and after; a page at a time.",
        arguments=("commit_id", *_FILTERS),
        rows="changes",
        is_paged=True,
    ),
    ToolFacts(
        "changes_poll",
        "cluster_pollChanges",
        "What the commits of a branch changed, in order: after a cursor, or from a start (now, beginning, after:COMMIT). Keep "
        "the cursor of the last page for the next call.",
        arguments=("branch", "cursor", "start", *_FILTERS),
        rows="blocks",
        is_paged=True,
    ),
    ToolFacts(
        "mutate",
        "cluster_mutate",
        "Run a mutation (.gq text) as one commit, or nothing. No commit in the answer: nothing changed. With if_graph_commit it "
        "is done only if the branch is at that commit.",
        hint="destroys",
        arguments=("query", "name", "params", "branch", "message"),
        if_commit="cluster_mutate_if_graph_commit",
        takes_text=True,
    ),
    ToolFacts(
        "load",
        "cluster_load",
        'Load records as one commit, or nothing: JSON lines such as {"type":"Person","data":{...}} and '
        '{"edge":"Knows","from":"a","to":"b","data":{...}}. With from, a branch that is not there is made.',
        hint="destroys",
        arguments=("branch", "from", "mode", "data", "message"),
    ),
    ToolFacts("branches_create", "cluster_createBranch", "Make a branch at the head of another one (main).",
              hint="writes", arguments=("name", "from")),
    ToolFacts("branches_delete", "cluster_deleteBranch", "Delete a branch.", hint="destroys once",
              arguments=("name",), renamed={"name": "branch"}),
    ToolFacts(
        "branches_merge",
        "cluster_mergeBranches",
        "Bring a branch's changes into another one (main) as one commit, or say what contradicts.",
        hint="destroys once",
        arguments=("source", "target", "message"),
    ),
    ToolFacts(
        "merge_preview",
        "cluster_mergeBranches",
        "What branches_merge would do: its outcome, what it would change, and every conflict. Nothing is changed.",
        arguments=("source", "target"),
        fixed={"dry_run": True},
        rows="conflicts",
    ),
    ToolFacts("diff", "getDiff", "What changed from one revision (branch, tag, commit, branch~N) to another; with summary, the numbers only.",
              arguments=("from", "to", "kind", "type", "op", "summary", "page_token"), rows="changes", is_paged=True),
    ToolFacts("entity_get", "getEntity", "One node or edge by its type and id.", arguments=("type", "id", "rev")),
    ToolFacts("entity_history", "getEntityHistory", "The versions of one entity, newest first, each with its commit.",
              arguments=("type", "id", "branch", "page_token"), rows="versions", is_paged=True),
    ToolFacts("neighbours", "getNeighbours", "The edges of one node and the nodes at their other ends; all of them are counted.",
              arguments=("type", "id", "rev", "edge", "direction", "page_token"), rows="edges", is_paged=True),
    ToolFacts("explain", "explainQuery", "How a read query would run, without running it.",
              arguments=("query", "name", "params", "branch"), takes_text=True),
    ToolFacts("lint", "lintText", "Mistakes in queries (.gq) or in a schema (.pg), and advice, with their places.",
              arguments=("query", "schema"), rows="diagnostics", takes_text=True),
    ToolFacts("tags_list", "listTags", "The tags and their commits.", rows="tags"),
    ToolFacts("tags_create", "createTag", "Name the commit of a revision, which keeps it.", hint="writes", arguments=("name", "at")),
)  # fmt: skip
"""Names follow those of other MCP servers for databases, where there are any."""

MAX_ROWS = 200
"""How many rows, commits or changes an answer has at most, unless `limit` is given."""
