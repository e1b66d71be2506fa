"""Policies: the question that is asked before each call, and the gate that answers it."""

from typing import TYPE_CHECKING

from omnigraph.lazy_names import names_of

if TYPE_CHECKING:
    from omnigraph.policy.ask import ACTIONS, Action, Ask, Gate, Scope, ask_on, check_gate, denied, is_allowed
    from omnigraph.policy.bundle import Decision, Policy, load_policy, policy_of

_HOMES = {
    "omnigraph.policy.ask": (
        "ACTIONS",
        "Action",
        "Ask",
        "Gate",
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
    "Action",
    "Ask",
    "Decision",
    "Gate",
    "Policy",
    "Scope",
    "ask_on",
    "check_gate",
    "denied",
    "is_allowed",
    "load_policy",
    "policy_of",
]

__getattr__ = names_of(__name__, _HOMES)
