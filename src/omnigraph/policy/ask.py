"""What a policy is asked, and the gate that answers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, Protocol

from omnigraph.errors import PolicyDenied, UsageError

Action = Literal[
    "read",
    "export",
    "change",
    "schema_apply",
    "branch_create",
    "branch_delete",
    "branch_merge",
    "tag_create",
    "tag_delete",
    "invoke_query",
    "admin",
    "graph_list",
    "config_manage",
    "metrics_read",
]
Scope = Literal["branch", "target_branch", "graph", "server"]

ACTIONS: Mapping[Action, Scope] = MappingProxyType(
    {
        "read": "branch",
        "export": "branch",
        "change": "branch",
        "schema_apply": "target_branch",
        "branch_create": "target_branch",
        "branch_delete": "target_branch",
        "branch_merge": "target_branch",
        "tag_create": "target_branch",
        "tag_delete": "target_branch",
        "invoke_query": "graph",
        "admin": "graph",
        "graph_list": "server",
        "config_manage": "server",
        "metrics_read": "server",
    }
)
"""Every action and its scope: a branch whose content is used, a branch that is itself the target, a whole graph, or the server."""


@dataclass(frozen=True, slots=True)
class AccessRequest:
    """One question: may the actor do this?

    `branch` is the branch that is read or written, `target_branch` the one that is created, deleted, merged into or given another
    schema. `query` is the name of the stored query that is invoked, or that the call is part of. `types` are the types that are
    touched, as far as they are known; `mode` is that of a load.

    >>> ask = og.AccessRequest("change", branch="main", types=frozenset(["Person"]))
    >>> assert ask.target_branch is None
    """

    action: Action
    branch: str | None = None
    target_branch: str | None = None
    query: str | None = None
    types: frozenset[str] | None = None
    mode: str | None = None
    allow_data_loss: bool | None = None


def ask_on(action: Action, branch: str | None, query: str | None = None) -> AccessRequest:
    """The question whether an action is allowed on a branch, or through a stored query, at all: types are asked for once they are
    known."""
    types: frozenset[str] | None = frozenset() if action in ("change", "export") else None
    match ACTIONS[action]:
        case "branch":
            return AccessRequest(action, branch=branch, query=query, types=types)
        case "target_branch":
            return AccessRequest(action, target_branch=branch, query=query)
    return AccessRequest(action, query=query)


class Authorizer(Protocol):
    """Answers asks. `og.open(..., policy=gate)` asks it before every call.

    >>> class OnlyReads:
    ...     def check(self, actor: str | None, ask: og.AccessRequest) -> None:
    ...         if ask.action != "read":
    ...             raise og.errors.PolicyDenied(f"'{actor}' may only read", action=ask.action)
    >>> guarded = og.open("./people", policy=OnlyReads())
    >>> assert guarded.as_("ada").entity("Person", "Ada")["name"] == "Ada"
    """

    def check(self, actor: str | None, ask: AccessRequest, /) -> None:
        """Raises PolicyDenied unless the actor may do this."""


def is_allowed(gate: Authorizer, actor: str | None, ask: AccessRequest) -> bool:
    """Whether the gate lets the actor do it."""
    try:
        gate.check(actor, ask)
    except PolicyDenied:
        return False
    return True


def denied(actor: str | None, ask: AccessRequest, *, hint: str | None = None) -> PolicyDenied:
    """The refusal of an ask."""
    who = "a caller without a name" if actor is None else f"actor '{actor}'"
    return refusal(f"policy denied {described(ask)} for {who}", ask, hint)


def refusal(message: str, ask: AccessRequest, hint: str | None = None, why: str | None = None) -> PolicyDenied:
    return PolicyDenied(
        message, action=ask.action, branch=ask.branch, target_branch=ask.target_branch, why=why, hint=hint
    )


def described(ask: AccessRequest) -> str:
    """The action and the branches that it is about, in words."""
    words = f"action '{ask.action}'"
    if ask.branch is not None:
        words += f" on branch '{ask.branch}'"
    if ask.target_branch is not None:
        words += f"{' on' if ask.branch is None else ' to'} target branch '{ask.target_branch}'"
    return words


def check_gate(gate: Any) -> Authorizer | None:
    """The gate that a caller passed. UsageError if it is not one."""
    if gate is not None and not callable(getattr(gate, "check", None)):
        raise UsageError(
            f"expected a gate, got {type(gate).__name__}",
            hint="og.load_policy(file), or an object with check(actor, ask)",
        )
    return gate  # type: ignore[no-any-return]  # whatever has a check is a gate
