"""Mutations and schema changes."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from omnigraph.errors import AlreadyExists
from omnigraph.server.calls import REPLAYED, HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.reads import check_text
from omnigraph.server.shapes import change_detail, change_shape, optional_commit, schema_apply_shape

if TYPE_CHECKING:
    from omnigraph.write import TypeCounts


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
    body = change_shape(receipt, receipt.query_name or name or "", call.actor_id)
    body |= change_detail(receipt) if call.is_detailed else {}
    commit = None if receipt.commit is None else receipt.commit.id
    if receipt.repeated:
        return HandlerResult(body, commit=commit, headers=REPLAYED)
    return HandlerResult(body, commit=commit, new_commit=receipt.commit)


def counts_of(call: RouteCall, commit_id: str) -> dict[str, TypeCounts]:
    """What a commit changed, by table key."""
    from omnigraph.write import TypeCounts

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
    body = schema_apply_shape(graph.uri, receipt, commit.ref.seq)
    body |= {"commit": optional_commit(receipt.commit)} if call.is_detailed else {}
    return HandlerResult(body, commit=commit.id, new_commit=receipt.commit)
