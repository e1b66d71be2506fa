"""Branches: list, make, delete, merge."""

from __future__ import annotations

import hashlib

from omnigraph.errors import PreconditionFailed
from omnigraph.server.calls import MAIN, Answer, Call
from omnigraph.server.handlers.binding import handles
from omnigraph.server.shapes import merge_shape


@handles("cluster_listBranches")
def list_branches(call: Call) -> Answer:
    branches = call.graph.branches.list()
    heads = "\n".join(f"{branch.name}\0{branch.head.id}" for branch in branches)
    etag = hashlib.sha256(heads.encode()).hexdigest()[:32]
    return Answer({"branches": sorted(branch.name for branch in branches)}, etag=etag)


def check_head(call: Call, revision: str) -> None:
    """PreconditionFailed unless the revision is at the commit that If-Match names. What comes in between is not noticed."""
    if call.expected_head is not None:
        found = call.graph.commit(revision).id
        if found != call.expected_head:
            raise PreconditionFailed(revision, call.expected_head, found)


@handles("cluster_createBranch")
def create_branch(call: Call) -> Answer:
    name, from_ = call.body["name"], call.body.get("from") or MAIN
    graph = call.graph
    check_head(call, from_)
    branch = graph.branches.create(name, from_)
    return Answer(
        {"uri": call.of_graph.uri, "name": name, "from": from_, "actor_id": call.actor_id}, commit=branch.head.id
    )


@handles("cluster_deleteBranch")
def delete_branch(call: Call) -> Answer:
    graph = call.graph
    check_head(call, call.existing_branch())
    graph.branches.delete(call.branch, force=True)
    return Answer({"uri": call.of_graph.uri, "name": call.branch, "actor_id": call.actor_id})


@handles("cluster_mergeBranches")
def merge_branches(call: Call) -> Answer:
    body = call.body
    check_head(call, body.get("target") or MAIN)
    result = call.graph.branches.merge(
        body["source"],
        body.get("target") or MAIN,
        delete_branch=body.get("delete_branch", False),
        message=call.message,
    )
    commit = None if result.commit is None else result.commit.id
    return Answer(merge_shape(result, call.actor_id), commit=commit, made=result.commit)
