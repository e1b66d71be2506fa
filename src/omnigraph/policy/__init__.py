"""Who may do what: the question that is asked before anything is done, and the gate that answers it."""

from omnigraph.policy.ask import ACTIONS, Action, Ask, Gate, Scope, ask_on, check_gate, denied, is_allowed
from omnigraph.policy.bundle import Decision, Policy, load_policy, policy_of

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
