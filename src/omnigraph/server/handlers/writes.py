"""Mutations, schema changes, and stored queries."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

from omnigraph.api.history import ServedCommit
from omnigraph.api.reads import QueryJson
from omnigraph.api.writes import ServedReceipt, ServedSchemaReceipt
from omnigraph.errors import AlreadyExists, NotFound, UsageError
from omnigraph.graph.stored_queries import StoredQuery
from omnigraph.policy.ask import ask_on
from omnigraph.server.calls import MAIN, REPLAYED, HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.reads import check_text, run_query

if TYPE_CHECKING:
    from omnigraph.write.receipt import TypeCounts


@handles("cluster_mutate", "cluster_mutate_if_graph_commit", "cluster_change")
def mutate(call: RouteCall) -> HandlerResult:
    return run_mutation(call, call.body["query"], call.body.get("name"))


def run_mutation(call: RouteCall, text: str, name: str | None) -> HandlerResult:
    """One mutation as one commit on the branch, and its receipt."""
    check_text(call, text)
    graph, branch = call.graph, call.branch
    with call.timed("run"):
        receipt = graph.mutate(
            text,
            call.body.get("params"),
            name=name,
            branch=branch,
            message=call.message,
            if_commit=call.expected_head,
            once=call.write_key(branch),
        )
    if receipt.repeated and receipt.commit is not None:
        receipt = replace(receipt, types=counts_of(call, receipt.commit.id))
    detail = {} if call.is_detailed else {"types": None}
    body = ServedReceipt.to_json(receipt, query_name=receipt.query_name or name or "", actor_id=call.actor_id, **detail)
    commit = None if receipt.commit is None else receipt.commit.id
    if receipt.repeated:
        return HandlerResult(body, commit=commit, headers=REPLAYED)
    return HandlerResult(body, commit=commit, new_commit=receipt.commit)


def counts_of(call: RouteCall, commit_id: str) -> dict[str, TypeCounts]:
    """What a commit changed, by table key."""
    from omnigraph.write.receipt import TypeCounts

    counts: dict[str, Counter[str]] = {}
    page_token = None
    while True:
        page = call.graph.commit_changes(commit_id, page_token=page_token, limit=8_192)
        for change in page.changes:
            counts.setdefault(f"{change.kind}:{change.type_name}", Counter())[change.op] += 1
        page_token = page.next_page_token
        if page_token is None:
            return {key: TypeCounts(ops["insert"], ops["update"], ops["delete"]) for key, ops in counts.items()}


@handles("cluster_applySchema")
def apply_schema(call: RouteCall) -> HandlerResult:
    if call.of_graph.is_in_cluster:
        raise AlreadyExists(
            f"the schema of graph '{call.of_graph.id}' belongs to a cluster file",
            hint="change it there, and run 'omnigraph cluster apply'",
        )
    graph = call.graph
    receipt = graph.schema.apply(
        call.body["schema_source"],
        allow_data_loss=call.body.get("allow_data_loss", False),
        message=call.message,
        if_commit=call.expected_head,
    )
    commit = receipt.commit or graph.head()
    body = ServedSchemaReceipt.to_json(receipt, uri=graph.uri, graph_manifest_version=commit.ref.seq, commit=None)
    if call.is_detailed:
        body["commit"] = None if receipt.commit is None else ServedCommit.to_json(receipt.commit)
    return HandlerResult(body, commit=commit.id, new_commit=receipt.commit)


# Stored queries: the list, and running one by its name.


@handles("cluster_list_queries")
def list_queries(call: RouteCall) -> HandlerResult:
    """Whoever may read main sees them; who may invoke only some of them sees those."""
    queries = call.of_graph.queries
    allowed = {name: stored for name, stored in queries.items() if call.may_invoke(name)}
    commit = call.graph.head().id if call.may_read(MAIN) or not allowed else None
    shown = [QueryJson.to_json(stored.plan) for stored in (allowed or queries).values()]
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
