"""Mutations and schema changes."""

from __future__ import annotations

from omnigraph.errors import AlreadyExists
from omnigraph.server.calls import REPLAYED, Answer, Call
from omnigraph.server.handlers.binding import handles
from omnigraph.server.handlers.reads import check_text
from omnigraph.server.shapes import change_shape, schema_apply_shape


@handles("cluster_mutate", "cluster_mutate_if_graph_commit", "cluster_change")
def mutate(call: Call) -> Answer:
    return run_mutation(call, call.body["query"], call.body.get("name"))


def run_mutation(call: Call, text: str, name: str | None) -> Answer:
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
    affected = (receipt.affected_nodes, receipt.affected_edges)
    if receipt.repeated and receipt.commit is not None:
        affected = affected_by(call, receipt.commit.id)
    body = change_shape(branch, receipt.query_name or name or "", affected, call.actor_id, receipt.commit)
    commit = None if receipt.commit is None else receipt.commit.id
    if receipt.repeated:
        return Answer(body, commit=commit, headers=REPLAYED)
    return Answer(body, commit=commit, made=receipt.commit)


def affected_by(call: Call, commit_id: str) -> tuple[int, int]:
    """Nodes and edges that a commit changed."""
    nodes = edges = 0
    page_token = None
    while True:
        page = call.graph.commit_changes(commit_id, page_token=page_token, limit=8_192)
        nodes += sum(change.kind == "node" for change in page.changes)
        edges += sum(change.kind == "edge" for change in page.changes)
        page_token = page.next_page_token
        if page_token is None:
            return nodes, edges


@handles("cluster_applySchema")
def apply_schema(call: Call) -> Answer:
    if call.of_graph.is_in_cluster:
        raise AlreadyExists(
            f"the schema of graph '{call.of_graph.id}' belongs to a cluster file",
            hint="change it there, and run 'omnigraph cluster apply'",
        )
    graph = call.graph
    receipt = graph.apply_schema(
        call.body["schema_source"],
        allow_data_loss=call.body.get("allow_data_loss", False),
        message=call.message,
        if_commit=call.expected_head,
    )
    commit = receipt.commit or graph.commit()
    return Answer(schema_apply_shape(graph.uri, receipt, commit.ref.seq), commit=commit.id, made=receipt.commit)
