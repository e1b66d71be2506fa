"""Rules of a policy file, as values."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from omnigraph.policy.ask import ACTIONS, Action, Ask

BranchScope = Literal["any", "protected", "unprotected"]
Kind = Literal["graph", "server"]


@dataclass(frozen=True)
class PolicyRule:
    """Who may do what, and where. All conditions that are given must hold."""

    id: str
    actions: tuple[Action, ...]
    group: str | None = None
    actor: str | None = None
    scope: BranchScope = "any"
    """Which branches the rule applies to: `branch` or `target_branch` of the ask, whichever is the scope of the action."""
    branches: tuple[str, ...] = ()
    types: tuple[str, ...] = ()
    queries: tuple[str, ...] = ()

    def obstacle(self, ask: Ask, protected: frozenset[str]) -> str | None:
        """Why the rule does not allow this to its actors, in words; None if it does."""
        branch = ask.branch if ACTIONS[ask.action] == "branch" else ask.target_branch
        if self.scope != "any":
            if branch is None:
                return f"only on {self.scope} branches; no branch was named"
            if (branch in protected) != (self.scope == "protected"):
                is_protected = "is protected" if branch in protected else "is not protected"
                return f"only on {self.scope} branches; '{branch}' {is_protected}"
        if self.branches and (branch is None or not any(matches(pattern, branch) for pattern in self.branches)):
            named = "no branch was named" if branch is None else f"not on '{branch}'"
            return f"only on {_listed(self.branches)}; {named}"
        if self.types and (ask.types is None or not ask.types <= set(self.types)):
            other = "other types" if ask.types is None else _listed(tuple(sorted(ask.types - set(self.types))))
            return f"only of {_listed(self.types)}; this touches {other}"
        if self.queries and ask.query not in self.queries:
            named = "no query was named" if ask.query is None else f"not '{ask.query}'"
            return f"only of {_listed(self.queries)}; {named}"
        return None


@dataclass(frozen=True)
class PolicyFile:
    """The content of a policy file."""

    kind: Kind
    groups: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    protected_branches: frozenset[str] = frozenset()
    rules: tuple[PolicyRule, ...] = ()

    @property
    def actors(self) -> frozenset[str]:
        """The actors that the file names."""
        named = {rule.actor for rule in self.rules if rule.actor is not None}
        return frozenset(named.union(*self.groups.values()))

    def is_about(self, rule: PolicyRule, actor: str) -> bool:
        return actor == rule.actor or (rule.group is not None and actor in self.groups[rule.group])


def matches(pattern: str, branch: str) -> bool:
    """Whether a branch matches a pattern, in which `*` stands for any text."""
    return re.fullmatch(".*".join(map(re.escape, pattern.split("*"))), branch, re.DOTALL) is not None


def _listed(names: tuple[str, ...]) -> str:
    return ", ".join(f"'{name}'" for name in names)
