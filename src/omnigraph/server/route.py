"""One route as a record: its input, its responses, the policy action, and its limits."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal
from urllib.parse import unquote_to_bytes

from omnigraph.api.structs import TEXT, Schema
from omnigraph.errors import MethodNotAllowed, RouteNotFound, UsageError

JSON = "application/json"
NDJSON = "application/x-ndjson"
BYTES = "application/octet-stream"
PLAIN = "text/plain"
EVENTS = "text/event-stream"
NOTHING = ""
"""The media type of an answer without a body."""

Pool = Literal["none", "read", "write", "bulk"]
"""Where a handler runs: on the event loop (it waits for nothing), or in one of the pools of threads."""

PATH_PATTERNS: Mapping[str, str] = {
    "graph_id": r"^[a-zA-Z0-9-]{1,64}$",
    "commit_id": r"^[0-9A-HJKMNP-TV-Z]{26}$",
    "job_id": r"^[0-9A-HJKMNP-TV-Z]{26}$",
    "branch": r"^[^\x00-\x1f\x7f]{1,255}$",
    "tag": r"^[^\x00-\x1f\x7f]{1,255}$",
    "name": r"^[A-Za-z_][A-Za-z0-9_]{0,254}$",
    "type": r"^[A-Za-z_:][A-Za-z0-9_:]{0,254}$",
    "file": r"^[A-Za-z0-9_.-]{1,100}$",
    "revision": r"^[1-9][0-9]{0,11}$",
}
"""What the parameters of paths look like: nothing else exists."""

TARGET_ACTIONS = frozenset(
    {"schema_apply", "branch_create", "branch_delete", "branch_merge", "tag_create", "tag_delete"}
)
"""Actions that are judged by the branch they change; the others, by the branch they are about."""


@dataclass(frozen=True)
class RequestParameter:
    """A query parameter or a header of a request."""

    name: str
    schema: Schema = field(default_factory=lambda: TEXT)
    required: bool = False
    repeated: bool = False
    place: Literal["query", "header"] = "query"
    description: str = ""


@dataclass(frozen=True)
class Body:
    """The body of a request: the component that validates it, or bytes of another media type."""

    component: str | None
    is_required: bool = True
    media_type: str = JSON
    aliases: Mapping[str, str] = field(default_factory=dict)
    """Other spellings of members."""


@dataclass(frozen=True)
class Response:
    """A successful response: a component as JSON, or a stream of a media type."""

    component: str | None
    description: str
    media_type: str = JSON


@dataclass(frozen=True)
class Route:
    method: str
    path: str
    """From the root; `{graph_id}` and the other names in braces are one percent-encoded segment each."""
    operation_id: str
    summary: str
    action: str | None
    """What a policy is asked; None for what everybody may."""
    responses: Mapping[int, Response]
    errors: tuple[int, ...] = ()
    """Statuses of its own; those that every route has are added by `statuses`."""
    body: Body | None = None
    parameters: tuple[RequestParameter, ...] = ()
    pool: Pool = "read"
    branch_from: str = "branch"
    """The member, parameter or path segment that names the branch a policy is asked for; main when it is not given."""
    branch_names: tuple[str, ...] = ("branch", "from", "source", "target")
    """Members and parameters that are names of branches: space around them is cut off before anything looks at them."""
    is_open: bool = False
    """Answers without a token."""
    is_write: bool = False
    """Takes a place among the writes of its actor, and the headers of writes."""
    remembers_answers: bool = False
    """A write without a commit that could be found by its idempotency key: the process remembers its answer."""
    takes_large_body: bool = False
    is_streamed_in: bool = False
    """The handler reads the body itself; what refuses a request does so before its first byte."""
    refuses_unknown_parameters: bool = False
    needs_head: bool = False
    """The header Omnigraph-If-Graph-Commit is required; every other route refuses it."""
    successor: str | None = None
    """The route that replaces this deprecated one: a path below the graph."""
    tag: str = "contract"

    @property
    def is_of_graph(self) -> bool:
        return self.path.startswith("/graphs/{graph_id}")

    @property
    def takes_write_headers(self) -> bool:
        """Whether Idempotency-Key and Omnigraph-Message apply; a stored query may be a mutation."""
        return self.is_write or self.action == "invoke_query"

    @property
    def target_branch(self) -> bool:
        return self.action in TARGET_ACTIONS

    @property
    def statuses(self) -> tuple[int, ...]:
        """All error statuses."""
        common = {500} if self.is_open else {401, 403, 500, 503}
        common |= {429} if self.is_write else set()
        common |= {404} if self.is_of_graph else set()
        if self.body is not None:
            common |= {400, 413, 415}
        if self.parameters or self.is_write:
            common |= {400}
        if self.is_write:
            common |= {409, 412, 422}
        return tuple(sorted(common | set(self.errors)))


def of_graph(path: str) -> str:
    """A path below a graph."""
    return f"/graphs/{{graph_id}}{path}"


def json_answer(component: str, description: str) -> dict[int, Response]:
    return {200: Response(component, description)}


# Finds the route for a method and a path. Segments are split before they are decoded: `review%2F1` is one segment.

_NAME = "{}"
"""In the tree: any segment."""


@dataclass
class _Node:
    below: dict[str, _Node] = field(default_factory=dict)
    routes: dict[str, Route] = field(default_factory=dict)


class Router:
    def __init__(self, routes: Sequence[Route]) -> None:
        self._root = _Node()
        for route in routes:
            node = self._root
            for segment in route.path.strip("/").split("/"):
                node = node.below.setdefault(_NAME if segment.startswith("{") else segment, _Node())
            if route.method in node.routes:
                raise ValueError(f"two routes for {route.method} {route.path}")
            node.routes[route.method] = route

    def find(self, method: str, raw_path: bytes) -> tuple[Route, Mapping[str, str]]:
        """The route, and the values of its path parameters. Raises RouteNotFound or MethodNotAllowed."""
        segments = [_decoded(segment) for segment in raw_path.partition(b"?")[0].removeprefix(b"/").split(b"/")]
        nodes = self._nodes(self._root, segments)
        allowed: list[str] = []
        for node in nodes:
            route = node.routes.get(method)
            if route is None:
                allowed += node.routes
                continue
            named = zip(route.path.strip("/").split("/"), segments, strict=True)
            values = {name[1:-1]: value for name, value in named if name.startswith("{")}
            # What is a name of its own (`jobs/load`) is no parameter (`jobs/{job_id}`) that does not look like one.
            if len(nodes) == 1 or all(re.match(PATH_PATTERNS[name], value) for name, value in values.items()):
                return route, values
        if allowed:
            raise MethodNotAllowed(method, sorted(set(allowed)))
        raise RouteNotFound("there is nothing at this path")

    def _nodes(self, node: _Node, segments: Sequence[str]) -> list[_Node]:
        """All nodes that match the segments; exact names come before parameters."""
        nodes = [node]
        for segment in segments:
            exact = [node.below[segment] for node in nodes if segment in node.below and segment != _NAME]
            any_name = [node.below[_NAME] for node in nodes if _NAME in node.below and segment]
            nodes = [*exact, *any_name]
        return [node for node in nodes if node.routes]


def _decoded(segment: bytes) -> str:
    try:
        return unquote_to_bytes(segment).decode("utf-8")
    except UnicodeDecodeError:
        raise UsageError("the path is not UTF-8") from None
