"""Stored queries: the list, and running one by its name."""

from __future__ import annotations

from functools import partial

from omnigraph.errors import NotFound, UsageError
from omnigraph.graph.stored_queries import StoredQuery
from omnigraph.policy import ask_on
from omnigraph.server.calls import MAIN, HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.reads import run_query
from omnigraph.server.handlers.writes import run_mutation
from omnigraph.wire.queries import query_json


@handles("cluster_list_queries")
def list_queries(call: RouteCall) -> HandlerResult:
    """Whoever may read main sees them; who may invoke only some of them sees those."""
    queries = call.of_graph.queries
    allowed = {name: stored for name, stored in queries.items() if call.may_invoke(name)}
    commit = call.graph.head().id if call.may_read(MAIN) or not allowed else None
    shown = [query_json(stored.plan) for stored in (allowed or queries).values()]
    return HandlerResult({"queries": shown}, commit=commit)


@handles("cluster_invoke_query", "cluster_invoke_query_if_graph_commit")
async def invoke_query(call: RouteCall) -> HandlerResult:
    stored = _invoked(call)
    _check_kind(call, stored)
    call.through = stored.name
    if not stored.is_mutation:
        return await call.run("read", partial(run_query, call, stored.text, stored.name))
    gate = call.of_graph.gate
    if gate is not None:
        gate.check(call.actor_id, ask_on("change", call.branch, stored.name))
    call.admit(0)
    return await call.run("write", partial(run_mutation, call, stored.text, stored.name))


def _invoked(call: RouteCall) -> StoredQuery:
    """The query; one that the caller may not invoke is as unknown as one that is not there."""
    name = call.path["name"]
    stored = call.of_graph.queries.get(name)
    if stored is None or not call.may_invoke(name):
        raise NotFound(f"stored query '{name}' not found")
    return stored


def _check_kind(call: RouteCall, stored: StoredQuery) -> None:
    expected = call.body.get("expect_mutation")
    if expected is not None and expected != stored.is_mutation:
        raise UsageError(f"'{stored.name}' is a {'mutation' if stored.is_mutation else 'read'}")
    if not stored.is_mutation and call.route.needs_head:
        raise UsageError(f"'{stored.name}' is a read, and changes nothing", hint="invoke it without a condition")
    if stored.is_mutation and "snapshot" in call.body:
        raise UsageError(f"'{stored.name}' is a mutation, and a snapshot never changes", hint="name a branch")
