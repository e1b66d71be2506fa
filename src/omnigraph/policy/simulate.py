"""Trying policies out before they are used: cases that a file lists, and a table of who may do what."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, cast

from omnigraph._internal.yaml_text import Diagnostics, Node, read_yaml, unknown_keys
from omnigraph.policy.ask import ACTIONS, AccessRequest, Action, ask_on
from omnigraph.policy.bundle import Decision, Policy

CODE = "invalid_policy_tests"
_MEMBERS = ("id", "actor", "action", "branch", "target_branch", "query", "expect")
Expected = Literal["allow", "deny"]
Extent = Literal["all", "none", "protected", "unprotected"]


@dataclass(frozen=True)
class Case:
    id: str
    actor: str
    ask: AccessRequest
    expect: Expected


@dataclass(frozen=True)
class Trial:
    """The results of the cases of a file."""

    cases: tuple[Case, ...]
    decisions: tuple[Decision, ...]

    @property
    def failures(self) -> list[str]:
        return [
            f"{case.id}: expected {case.expect.capitalize()} but got {'allow' if decision.allowed else 'deny'}"
            + (f" ({decision.rule})" if decision.rule else "")
            for case, decision in zip(self.cases, self.decisions, strict=True)
            if decision.allowed != (case.expect == "allow")
        ]

    def unmatched(self, policies: Iterable[Policy]) -> list[str]:
        """The rules that no case matched."""
        matched = {decision.rule for decision in self.decisions}
        return sorted({rule.id for policy in policies for rule in policy.file.rules} - matched)


def read_cases(path: Path) -> tuple[Case, ...]:
    """The cases of a file. ConfigurationError if it is not valid."""
    diagnostics = Diagnostics(str(path))
    root = read_yaml(path, diagnostics, missing=CODE, invalid=CODE, duplicate=CODE)
    diagnostics.raise_any()
    assert root is not None
    if root.keys().get("version", root).value != 1:
        diagnostics.add(CODE, "'version: 1' is missing", root)
    for key, node in unknown_keys(root, frozenset(["version", "cases"])):
        diagnostics.add(CODE, f"a file of policy tests has no member '{key}'; its members: version, cases", node)
    cases: dict[str, Case] = {}
    listed = root.keys().get("cases")
    if listed is None or not listed.items():
        diagnostics.add(CODE, "'cases' is missing or empty", listed or root)
    for node in () if listed is None else listed.items():
        case = _case(node, diagnostics)
        if case is not None:
            if case.id in cases:
                diagnostics.add(CODE, f"two cases have the id '{case.id}'", node)
            cases[case.id] = case
    diagnostics.raise_any()
    return tuple(cases.values())


def _case(node: Node, diagnostics: Diagnostics) -> Case | None:
    before = len(diagnostics.problems)
    parts = node.keys()
    for key, value in unknown_keys(node, frozenset(_MEMBERS)):
        diagnostics.add(CODE, f"a case has no member '{key}'; its members: {', '.join(_MEMBERS)}", value)
    for key in ("id", "actor", "action", "expect"):
        if key not in parts:
            diagnostics.add(CODE, f"a case has no '{key}'", node)
    for key, value in parts.items():
        if not isinstance(value.value, str):
            diagnostics.add(CODE, f"'{key}' of a case must be a text, not {value.kind()}", value)
    texts = {key: value.value for key, value in parts.items()}
    if texts.get("action") not in (*ACTIONS, None):
        diagnostics.add(
            CODE, f"'{texts['action']}' is not an action; the actions: {', '.join(ACTIONS)}", parts["action"]
        )
    if texts.get("expect") not in ("allow", "deny", None):
        diagnostics.add(CODE, "'expect' must be allow or deny", parts["expect"])
    if len(diagnostics.problems) > before:
        return None
    ask = ask_of(texts["action"], texts.get("branch"), texts.get("target_branch"), texts.get("query"))
    return Case(texts["id"], texts["actor"], ask, cast(Expected, texts["expect"]))


def ask_of(
    action: str, branch: str | None = None, target_branch: str | None = None, query: str | None = None
) -> AccessRequest:
    """An ask with the given members; a change or export touches no type in particular."""
    types: frozenset[str] | None = frozenset() if action in ("change", "export") else None
    return AccessRequest(
        cast(Action, action),
        None if branch is None else branch.strip(),
        None if target_branch is None else target_branch.strip(),
        query,
        types,
    )


def try_cases(policies: Sequence[Policy], cases: Sequence[Case]) -> Trial:
    """Decide each case by the policy that it concerns: that of the server, or that of a graph."""
    return Trial(tuple(cases), tuple(decide(policies, case.actor, case.ask) for case in cases))


def decide(policies: Sequence[Policy], actor: str, ask: AccessRequest) -> Decision:
    of_server = ACTIONS[ask.action] == "server"
    policy = next((candidate for candidate in policies if (candidate.graph is None) == of_server), policies[0])
    return policy.decide(actor, ask)


def extent(policy: Policy, actor: str, action: Action) -> Extent:
    """The branches on which a policy allows an action to an actor: all, none, the protected or the unprotected ones."""
    scope = ACTIONS[action]
    if scope in ("graph", "server"):
        return "all" if policy.decide(actor, ask_of(action)).allowed else "none"
    allowed = {
        is_protected: policy.decide(actor, ask_on(action, _example(policy, is_protected))).allowed
        for is_protected in (True, False)
    }
    match allowed[True], allowed[False]:
        case True, True:
            return "all"
        case True, False:
            return "protected"
        case False, True:
            return "unprotected"
    return "none"


def _extent_in_words(policy: Policy, actor: str, action: Action) -> str:
    """Like `extent`, but names the rules that allow it in some cases only: for certain branches, types or queries."""
    known = extent(policy, actor, action)
    if known != "none":
        return known
    limited = [rule.id for rule in policy.file.rules if action in rule.actions and policy.file.is_about(rule, actor)]
    return f"as {', '.join(sorted(limited))} says" if limited else "none"


def _example(policy: Policy, is_protected: bool) -> str:
    """A branch that is protected, or one that is not."""
    if is_protected:
        return min(policy.protected_branches, default="main")
    name = "some-branch"
    while name in policy.protected_branches:
        name += "-"
    return name


def matrix(policies: Sequence[Policy]) -> list[dict[str, str]]:
    """The branches on which each action is allowed, in a row for each actor and action of the policies."""
    return [
        {"actor": actor, "action": action, "branches": _extent_in_words(policy, actor, action)}
        for policy in policies
        for actor in sorted(policy.actors)
        for action, scope in ACTIONS.items()
        if (scope == "server") == (policy.graph is None)
    ]
