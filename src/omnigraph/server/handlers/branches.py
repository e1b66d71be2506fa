"""Branches: list, make, delete, merge."""

from __future__ import annotations

import hashlib

from omnigraph.server.calls import MAIN, Answer, Call
from omnigraph.server.handlers.binding import handles
from omnigraph.server.shapes import merge_shape


@handles("cluster_listBranches")
def list_branches(call: Call) -> Answer:
    branches = call.graph.branches.list()
    heads = "\n".join(f"{branch.name}\0{branch.head.id}" for branch in branches)
    etag = hashlib.sha256(heads.encode()).hexdigest()[:32]
    return Answer({"branches": sorted(branch.name for branch in branches)}, etag=etag)


@handles("cluster_createBranch")
def create_branch(call: Call) -> Answer:
    name, from_ = call.body["name"], call.body.get("from") or MAIN
    branch = call.graph.branches.create(name, from_)
    return Answer(
        {"uri": call.of_graph.uri, "name": name, "from": from_, "actor_id": call.actor_id}, commit=branch.head.id
    )


@handles("cluster_deleteBranch")
def delete_branch(call: Call) -> Answer:
    call.graph.branches.delete(call.branch, force=True)
    return Answer({"uri": call.of_graph.uri, "name": call.branch, "actor_id": call.actor_id})


@handles("cluster_mergeBranches")
def merge_branches(call: Call) -> Answer:
    body = call.body
    result = call.graph.branches.merge(
        body["source"],
        body.get("target") or MAIN,
        delete_branch=body.get("delete_branch", False),
        message=call.message,
    )
    commit = None if result.commit is None else result.commit.id
    return Answer(merge_shape(result, call.actor_id), commit=commit)
