"""A request that has passed its checks, and the answer to it."""

from __future__ import annotations

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from starlette.requests import Request

from omnigraph._internal.deadlines import Cancellation
from omnigraph.api.structs import JsonObject
from omnigraph.errors import BranchNotFound, UsageError
from omnigraph.history.write_keys import KeyOfChange
from omnigraph.metering import Meter
from omnigraph.policy.ask import AccessRequest, ask_on, is_allowed
from omnigraph.server.auth import Actor
from omnigraph.server.headers import accepts
from omnigraph.server.registry import Served, ServedGraph
from omnigraph.server.route import JSON, Pool, Route

if TYPE_CHECKING:
    from omnigraph.graph.branches import Branch, Tag
    from omnigraph.graph.graph import Graph
    from omnigraph.history.values import Commit
    from omnigraph.server.service import Service

T = TypeVar("T")

MAIN = "main"
DETAILED = "application/vnd.omnigraph+json"
"""The media type of bodies with what the contract does not have beside what it has."""
REPLAYED = {"Idempotent-Replayed": "true"}
"""On the answer to a write that was made before."""


WATCHED_AFTER_S = 0.1
"""A read that takes longer is worth looking whether its client is still there."""


@dataclass
class RouteCall:
    """The input of a handler. `headers` and `timings` are added to the response."""

    service: Service
    served: Served
    route: Route
    request: Request
    request_id: str
    actor: Actor | None = None
    target: ServedGraph | None = None
    path: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, Any] = field(default_factory=dict)
    body: Mapping[str, Any] = field(default_factory=dict)
    message: str | None = None
    """What the commit is to say."""
    expected_head: str | None = None
    """The commit that the branch must be at."""
    idempotency_key: str | None = None
    size: int = 0
    """Bytes of the body: what the request says, and then what was read."""
    through: str | None = None
    """The stored query through which the graph is used."""
    cancellation: Cancellation = field(default_factory=Cancellation)
    """Cancelled when the client goes away."""
    timings: dict[str, tuple[float, float]] = field(default_factory=dict)
    """Parts of the work, each with its start and end in seconds since 1970."""
    meter: Meter = field(default_factory=Meter)
    """Counts what the request asks of the store."""
    held: ExitStack = field(default_factory=ExitStack)
    """What the request holds until its answer is complete."""

    @property
    def body_limit(self) -> int:
        """Bytes that the body may have."""
        limits = self.service.settings.limits
        return limits.load_body_bytes if self.route.takes_large_body else limits.body_bytes

    @property
    def actor_id(self) -> str | None:
        return None if self.actor is None else self.actor.id

    @property
    def of_graph(self) -> ServedGraph:
        assert self.target is not None, "a route below a graph"
        return self.target

    @property
    def graph(self) -> Graph:
        """The graph, as the caller may use it."""
        graph = self.of_graph.graph
        return graph if self.actor is None else graph.as_(self.actor.id, query=self.through)

    def write_key(self, branch: str) -> str | None:
        """The write key of a request with an idempotency key: the same only for the same actor, graph, branch and route.

        A write that changes nothing leaves no commit, so it may run again.
        """
        if self.idempotency_key is None:
            return None
        parts = (self.actor_id or "", self.of_graph.id, branch, self.route.operation_id, self.idempotency_key)
        return KeyOfChange(hashlib.sha256("\0".join(parts).encode()).hexdigest())

    def value(self, name: str) -> Any:
        """A value by its name, from the path, the body or the query string; None if it is missing."""
        for values in (self.path, self.body, self.query):
            if name in values:
                return values[name]
        return None

    @property
    def is_detailed(self) -> bool:
        """Whether the client requests full details; the bodies of the contract do not change."""
        return accepts(self.request.headers, DETAILED)

    @property
    def branch(self) -> str:
        """The branch that the request names, or main."""
        return self.value("branch") or MAIN

    def revision(self) -> str:
        """The branch or the snapshot to read. Raises UsageError if both are given, BranchNotFound for an unknown branch."""
        snapshot = self.value("snapshot")
        if snapshot is not None:
            if self.value("branch") is not None:
                raise UsageError("branch and snapshot exclude each other")
            return str(snapshot)
        return self.existing_branch()

    def existing_branch(self) -> str:
        """The branch; other revisions are refused."""
        if self.branch != MAIN and not self.graph.branches.exists(self.branch):
            raise BranchNotFound(f"branch '{self.branch}' not found")
        return self.branch

    @property
    def digest(self) -> str:
        """A digest of the request, to distinguish a repetition from a different request under the same key."""
        request = json.dumps([self.path, self.query, self.body], sort_keys=True, default=list)
        return hashlib.sha256(request.encode("utf-8", "surrogatepass")).hexdigest()

    def ask_graph(self) -> None:
        """Ask the policy before a write takes a slot, so that a forbidden write takes none. The graph asks again with more details."""
        gate = self.of_graph.gate
        if gate is None:
            return
        action: Any = self.route.action
        branch = self.value(self.route.branch_from) or MAIN
        ask = ask_on(action, branch)
        with self.timed("policy"):
            gate.check(self.actor_id, ask)

    def may_read(self, branch: str) -> bool:
        """Whether the caller may read a branch, and so may know of it."""
        gate = self.of_graph.gate
        return gate is None or is_allowed(gate, self.actor_id, ask_on("read", branch))

    def known_branches(self) -> list[Branch]:
        """The branches that the caller may read."""
        return [branch for branch in self.graph.branches.list() if self.may_read(branch.name)]

    def known_tags(self) -> list[Tag]:
        """The tags of commits that the caller may read."""
        return [tag for tag in self.graph.tags.list() if self.may_read(tag.head.ref.branch)]

    def may_invoke(self, query: str) -> bool:
        """Whether the caller may run a stored query, and so may know of it."""
        gate = self.of_graph.gate
        return gate is None or is_allowed(gate, self.actor_id, AccessRequest("invoke_query", query=query))

    def admit(self, size: int) -> None:
        """Take one of the actor's write slots until the response is complete. Raises TooManyRequests if none is free."""
        self.held.enter_context(self.service.admission.admitted(self.actor_id or "", size))

    async def run(self, pool: Pool, work: Callable[[], T]) -> T:
        """Run work in a pool. A read takes one of the actor's slots, and is cancelled if the client disconnects; a write that has begun is
        completed."""
        owner, work = self.actor_id or "", partial(self.meter.run, work)
        if pool != "read":
            return await self.service.pools.run(pool, work, owner)
        watchers: list[asyncio.Task[None]] = []
        begin = asyncio.get_running_loop().call_later(
            WATCHED_AFTER_S, lambda: watchers.append(asyncio.ensure_future(self.gone()))
        )
        try:
            with self.service.admission.reading(owner):
                return await self.service.pools.run(pool, work, owner)
        finally:
            begin.cancel()
            for watcher in watchers:
                watcher.cancel()

    async def gone(self) -> None:
        """Waits until the client disconnects, then cancels its work."""
        message = await self.request.receive()
        if message["type"] == "http.disconnect":
            self.cancellation.cancel()

    @contextmanager
    def timed(self, name: str) -> Iterator[None]:
        """Measures a part of the work, for Server-Timing and for traces."""
        started = time.time()
        try:
            yield
        finally:
            self.timings[name] = (started, time.time())


@dataclass(frozen=True)
class HandlerResult:
    """The result of a handler. A body is a JSON object, bytes, or an iterator of bytes, which is consumed in the route's pool."""

    body: JsonObject | bytes | Iterator[bytes] | AsyncIterator[bytes]
    status: int = 200
    media_type: str = JSON
    headers: Mapping[str, str] = field(default_factory=dict)
    commit: str | None = None
    """The commit that was read or made."""
    etag: str | None = None
    """What If-None-Match is compared with; a branch's head is its commit id."""
    rows: int | None = None
    """For the log."""
    new_commit: Commit | None = None
    """The commit that this request has made, for the metrics."""


def encoded(value: JsonObject) -> bytes:
    """The encoded JSON body."""
    return json_bytes(value)


def json_bytes(value: Any) -> bytes:
    """A JSON value in UTF-8, without spaces."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode("utf-8", "replace")
