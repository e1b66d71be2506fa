"""Branches: list, make, delete, merge."""

from __future__ import annotations

import hashlib

from omnigraph.api.history import ServedCommit
from omnigraph.api.structs import JsonObject
from omnigraph.api.writes import MergeReview, ServedMerge
from omnigraph.errors import PreconditionFailed, UsageError
from omnigraph.graph.arguments import Distance
from omnigraph.graph.branches import Branch
from omnigraph.server.calls import MAIN, HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles


@handles("cluster_listBranches")
def list_branches(call: RouteCall) -> HandlerResult:
    branches = call.known_branches()
    heads = "\n".join(f"{branch.name}\0{branch.head.id}" for branch in branches)
    etag = hashlib.sha256(heads.encode()).hexdigest()[:32]
    body: JsonObject = {"branches": sorted(branch.name for branch in branches)}
    if call.query.get("detail"):
        body["details"] = _details(call, branches)
    return HandlerResult(body, etag=etag)


def _details(call: RouteCall, branches: list[Branch]) -> list[JsonObject]:
    """How many commits a branch has that main has not, and the other way round."""
    protected: frozenset[str] = getattr(call.of_graph.gate, "protected_branches", frozenset())
    distances = call.graph.branches.distances()
    details = []
    for branch in branches:
        apart = distances.get(branch.name, Distance(0, 0))
        details.append(
            {
                "name": branch.name,
                "head": ServedCommit.to_json(branch.head),
                "ahead": apart.ahead,
                "behind": apart.behind,
                "protected": branch.name in protected,
            }
        )
    return details


def check_head(call: RouteCall, revision: str) -> None:
    """PreconditionFailed unless the revision is at the commit that If-Match names. What comes in between is not noticed."""
    if call.expected_head is not None:
        head = call.graph.show(revision).id
        if head != call.expected_head:
            raise PreconditionFailed(revision, call.expected_head, head)


@handles("cluster_createBranch")
def create_branch(call: RouteCall) -> HandlerResult:
    name, from_ = call.body["name"], call.body.get("from") or MAIN
    graph = call.graph
    check_head(call, from_)
    branch = graph.branches.create(name, from_)
    return HandlerResult(
        {"uri": call.of_graph.uri, "name": name, "from": from_, "actor_id": call.actor_id}, commit=branch.head.id
    )


@handles("cluster_deleteBranch")
def delete_branch(call: RouteCall) -> HandlerResult:
    graph = call.graph
    check_head(call, call.existing_branch())
    graph.branches.delete(call.branch, force=call.query.get("force", True))
    return HandlerResult({"uri": call.of_graph.uri, "name": call.branch, "actor_id": call.actor_id})


@handles("cluster_mergeBranches")
def merge_branches(call: RouteCall) -> HandlerResult:
    from omnigraph.merge.resolutions import Resolution

    body = call.body
    dry_run, expect = body.get("dry_run", False), body.get("expect")
    if call.expected_head is not None:
        expect = expect or {"source": call.graph.show(body["source"]).id, "target": call.expected_head}
        if expect["target"] != call.expected_head:
            raise UsageError("If-Match and 'expect' name different commits of the target")
    result = call.graph.branches.merge(
        body["source"],
        body.get("target") or MAIN,
        strategy=body.get("strategy", "fail"),
        by=body.get("by", "row"),
        dry_run=dry_run,
        delete_branch=body.get("delete_branch", False),
        message=call.message,
        resolutions=[Resolution.from_json(resolution) for resolution in body.get("resolutions", ())],
        expect=None if expect is None else (expect["source"], expect["target"]),
    )
    if dry_run:
        return HandlerResult(MergeReview.to_json(result, dry_run=True), commit=result.target_commit)
    commit = None if result.commit is None else result.commit.id
    detail = {} if call.is_detailed else dict.fromkeys(ServedMerge.DETAIL)
    answered = ServedMerge.to_json(result, actor_id=call.actor_id, **detail)
    return HandlerResult(answered, commit=commit, new_commit=result.commit)
