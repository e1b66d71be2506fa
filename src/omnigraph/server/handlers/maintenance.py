"""Maintenance: what is stored, compaction, cleanup, prepared writes; and what the caller may do."""

from __future__ import annotations

from omnigraph.api.history import PreparedJson, ServedCommit
from omnigraph.api.maintenance import CleanupJson, ServedOptimize, ServedStorage
from omnigraph.policy.ask import ACTIONS, AccessRequest, Action, Authorizer, ask_on, denied, is_allowed
from omnigraph.server.calls import HandlerResult, RouteCall
from omnigraph.server.handlers.binding import handles

_ORDINARY_BRANCH = "any-branch-that-no-rule-names"


@handles("getStorage")
def get_storage(call: RouteCall) -> HandlerResult:
    graph, branch = call.graph, call.existing_branch()
    commit = graph.show(branch)
    report = graph.maintenance.storage(branch)
    branches, tags = call.known_branches(), call.known_tags()
    known = {*(f"branch {branch.name}" for branch in branches), *(f"tag {tag.name}" for tag in tags)}
    kept = [kept for kept in report.kept if kept.name in known]
    numbers = {"branches": len(branches), "tags": len(tags), "commits": commit.ref.seq + 1}
    return HandlerResult(ServedStorage.to_json(report, kept=kept, **numbers), commit=commit.id)


@handles("optimizeGraph")
def optimize(call: RouteCall) -> HandlerResult:
    dry_run = call.body.get("dry_run", False)
    report = call.graph.maintenance.optimize(call.branch, dry_run=dry_run)
    body = ServedOptimize.to_json(report, uri=call.of_graph.uri, branch=call.branch, dry_run=dry_run)
    return HandlerResult(body, commit=None if report.commit is None else report.commit.id)


@handles("cleanUpGraph")
def clean_up(call: RouteCall) -> HandlerResult:
    """Nothing is removed unless the caller confirms it."""
    body = call.body
    report = call.graph.maintenance.cleanup(
        keep=body.get("keep"),
        older_than=body.get("older_than"),
        branches=body.get("branches"),
        dry_run=not body.get("confirm", False),
    )
    return HandlerResult(CleanupJson.to_json(report))


@handles("listPrepared")
def list_prepared(call: RouteCall) -> HandlerResult:
    return HandlerResult({"prepared": [PreparedJson.to_json(prepared) for prepared in call.graph.recovery.list()]})


@handles("resumePrepared")
def resume_prepared(call: RouteCall) -> HandlerResult:
    commit = call.graph.recovery.resume(call.path["commit_id"], actor=call.actor_id)
    return HandlerResult({"commit": ServedCommit.to_json(commit)}, commit=commit.id)


@handles("discardPrepared")
def discard_prepared(call: RouteCall) -> HandlerResult:
    call.graph.recovery.discard(call.path["commit_id"])
    return HandlerResult({"graph_commit_id": call.path["commit_id"]})


@handles("getRights")
def rights(call: RouteCall) -> HandlerResult:
    """What to show and what to grey out; the gate is asked again when something is done."""
    gate, actor = call.of_graph.gate, call.actor_id
    protected: frozenset[str] = getattr(gate, "protected_branches", frozenset())
    actions = {
        action: "all" if gate is None else _scope(gate, actor, action, scope, protected)
        for action, scope in ACTIONS.items()
        if scope != "server"
    }
    if set(actions.values()) == {"none"} and not any(map(call.may_invoke, call.of_graph.queries)):
        raise denied(actor, AccessRequest("read"))
    return HandlerResult({"actor_id": actor, "actions": actions, "protected_branches": sorted(protected)})


def _scope(gate: Authorizer, actor: str | None, action: Action, scope: str, protected: frozenset[str]) -> str:
    if scope == "graph":
        return "all" if is_allowed(gate, actor, AccessRequest(action)) else "none"

    def on(branch: str) -> bool:
        return is_allowed(gate, actor, ask_on(action, branch))

    on_protected = any(map(on, sorted(protected)))
    on_others = on(_ORDINARY_BRANCH)
    if on_others:
        return "all" if on_protected or not protected else "unprotected"
    return "protected" if on_protected else "none"
