"""Policies: the question that is asked before each call, and the gate that answers it."""

from typing import TYPE_CHECKING

from omnigraph._internal.lazy_imports import lazy_attributes

if TYPE_CHECKING:
    from omnigraph.policy.ask import (
        ACTIONS,
        AccessRequest,
        Action,
        Authorizer,
        Scope,
        ask_on,
        check_gate,
        denied,
        is_allowed,
    )
    from omnigraph.policy.bundle import Decision, Policy, load_policy, policy_of

_EXPORTS = {
    "omnigraph.policy.ask": (
        "ACTIONS",
        "Action",
        "AccessRequest",
        "Authorizer",
        "Scope",
        "ask_on",
        "check_gate",
        "denied",
        "is_allowed",
    ),
    "omnigraph.policy.bundle": ("Decision", "Policy", "load_policy", "policy_of"),
}

__all__ = [
    "ACTIONS",
    "AccessRequest",
    "Action",
    "Authorizer",
    "Decision",
    "Policy",
    "Scope",
    "ask_on",
    "check_gate",
    "denied",
    "is_allowed",
    "load_policy",
    "policy_of",
]

__getattr__ = lazy_attributes(__name__, _EXPORTS)
