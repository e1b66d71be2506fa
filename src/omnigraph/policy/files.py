"""Policy files: YAML, read strictly. Anything unknown is refused, with its position."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, cast

from omnigraph._internal.yaml_text import Diagnostics, Node, parse_yaml, unknown_keys
from omnigraph.policy.ask import ACTIONS, AccessRequest, Action, Scope

# Rules of a policy file, as values.

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

    def obstacle(self, ask: AccessRequest, protected: frozenset[str]) -> str | None:
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


CODE = "invalid_policy"
SCOPES = ("any", "protected", "unprotected")
_BRANCH_SCOPES: dict[str, Scope] = {"branch_scope": "branch", "target_branch_scope": "target_branch"}
_OF_SCOPE = {
    scope: ", ".join(action for action, its in ACTIONS.items() if its == scope) for scope in set(ACTIONS.values())
}


def parse_policy(text: str, file: str = "policy.yaml") -> PolicyFile:
    """The policy of a text; `file` is its name in messages. ConfigurationError, with every problem, if it is not valid."""
    diagnostics = Diagnostics(file)
    root = parse_yaml(text, diagnostics, invalid=CODE, duplicate=CODE)
    diagnostics.raise_any()
    assert root is not None
    reader = _PolicyFileReader(diagnostics)
    policy = reader.policy(root)
    diagnostics.raise_any()
    return policy


class _PolicyFileReader:
    """Reads the parts of a policy file; problems are collected, and reading continues."""

    def __init__(self, diagnostics: Diagnostics) -> None:
        self.diagnostics = diagnostics

    def refuse(self, message: str, node: Node) -> None:
        self.diagnostics.add(CODE, message, node)

    def policy(self, root: Node) -> PolicyFile:
        if not isinstance(root.value, dict):
            self.refuse(f"a policy file is a mapping with 'version', 'groups' and 'rules', not {root.kind()}", root)
            return PolicyFile("graph")
        self.known(root, ("version", "kind", "groups", "protected_branches", "rules"), "a policy file")
        parts = root.keys()
        version = parts.get("version")
        if version is None:
            self.refuse("'version: 1' is missing", root)
        elif version.value != 1 or isinstance(version.value, bool):
            self.refuse(f"version {version.value} is not known: this omnigraph reads version 1", version)
        groups = self.groups(parts.get("groups"))
        protected = frozenset(self.texts(parts.get("protected_branches"), "'protected_branches'"))
        rules = self.rules(parts.get("rules"), groups)
        return PolicyFile(self.kind(parts.get("kind"), rules, parts.get("rules")), groups, protected, rules)

    def known(self, node: Node, names: Iterable[str], what: str) -> None:
        for key, value in unknown_keys(node, frozenset(names)):
            self.refuse(f"{what} has no member '{key}'; its members: {', '.join(names)}", value)

    def texts(self, node: Node | None, what: str, *, required: bool = False) -> tuple[str, ...]:
        """A list of texts, none of them blank."""
        if node is None:
            return ()
        if not isinstance(node.value, tuple):
            self.refuse(f"{what} must be a list, not {node.kind()}", node)
            return ()
        if required and not node.value:
            self.refuse(f"{what} is empty", node)
        return tuple(text for item in node.items() if (text := self.text(item, f"a member of {what}")) is not None)

    def text(self, node: Node, what: str) -> str | None:
        if not isinstance(node.value, str):
            self.refuse(f"{what} must be a text, not {node.kind()}", node)
        elif not node.value.strip():
            self.refuse(f"{what} is blank", node)
        elif not node.value.isprintable() or node.value != node.value.strip():
            self.refuse(f"{what} has characters that do not print, or spaces around it", node)
        else:
            return node.value
        return None

    def groups(self, node: Node | None) -> dict[str, tuple[str, ...]]:
        if node is None:
            return {}
        if not isinstance(node.value, dict):
            self.refuse(f"'groups' must be a mapping from names to actors, not {node.kind()}", node)
            return {}
        groups = {}
        for name, members in node.keys().items():
            if not name.strip():
                self.refuse("the name of a group is blank", members)
            groups[name] = self.texts(members, f"group '{name}'", required=True)
        return groups

    def rules(self, node: Node | None, groups: dict[str, tuple[str, ...]]) -> tuple[PolicyRule, ...]:
        if node is None:
            return ()
        if not isinstance(node.value, tuple):
            self.refuse(f"'rules' must be a list, not {node.kind()}", node)
            return ()
        rules: dict[str, PolicyRule] = {}
        for item in node.items():
            rule = self.rule(item, groups)
            if rule is not None:
                if rule.id in rules:
                    self.refuse(f"two rules have the id '{rule.id}'", item)
                rules[rule.id] = rule
        return tuple(rules.values())

    def rule(self, node: Node, groups: dict[str, tuple[str, ...]]) -> PolicyRule | None:
        if not isinstance(node.value, dict):
            self.refuse(f"a rule is a mapping with 'id' and 'allow', not {node.kind()}", node)
            return None
        if "deny" in node.value:
            self.refuse("there are no deny rules: what no rule allows is denied", node.value["deny"])
            return None
        self.known(node, ("id", "allow"), "a rule")
        id_node, allow = node.keys().get("id"), node.keys().get("allow")
        rule_id = None if id_node is None else self.text(id_node, "the id of a rule")
        if id_node is None:
            self.refuse("a rule has no 'id'", node)
        if allow is None or not isinstance(allow.value, dict):
            self.refuse(f"rule '{rule_id}' has no 'allow' with actors and actions", allow or node)
            return None
        return None if rule_id is None else self.allowed(rule_id, allow, groups)

    def allowed(self, rule_id: str, allow: Node, groups: dict[str, tuple[str, ...]]) -> PolicyRule | None:
        what = f"rule '{rule_id}'"
        names = ("actors", "actions", "branch_scope", "target_branch_scope", "branches", "types", "queries")
        self.known(allow, names, what)
        group, actor = self.actors(what, allow, groups)
        actions = self.actions(what, allow)
        parts = allow.keys()
        scope = self.scope(what, parts, actions, allow)
        limits = {name: self.texts(parts.get(name), f"'{name}' of {what}", required=True) for name in names[4:]}
        self.check_limits(what, parts, actions)
        if not actions or (group is None and actor is None):
            return None
        return PolicyRule(rule_id, actions, group, actor, scope, limits["branches"], limits["types"], limits["queries"])

    def actors(self, what: str, allow: Node, groups: dict[str, tuple[str, ...]]) -> tuple[str | None, str | None]:
        node = allow.keys().get("actors")
        if node is None or not isinstance(node.value, dict) or len(node.value) != 1:
            self.refuse(f"{what} must say who: 'actors: {{group: NAME}}' or 'actors: {{actor: NAME}}'", node or allow)
            return None, None
        ((key, value),) = node.keys().items()
        if key not in ("group", "actor"):
            self.refuse(f"'actors' of {what} has no member '{key}'; its members: group, actor", value)
            return None, None
        name = self.text(value, f"the {key} of {what}")
        if key == "actor":
            return None, name
        if name is not None and name not in groups:
            self.refuse(f"{what} is about group '{name}', which is not among the groups", value)
            return None, None
        return name, None

    def actions(self, what: str, allow: Node) -> tuple[Action, ...]:
        node = allow.keys().get("actions")
        if node is None:
            self.refuse(f"{what} has no 'actions'", allow)
            return ()
        names = self.texts(node, f"'actions' of {what}", required=True)
        for name, item in zip(names, node.items(), strict=False):
            if name not in ACTIONS:
                self.refuse(f"{what} allows '{name}', which is not an action; the actions: {', '.join(ACTIONS)}", item)
        actions = cast(tuple[Action, ...], tuple(dict.fromkeys(name for name in names if name in ACTIONS)))
        if len({ACTIONS[action] == "server" for action in actions}) > 1:
            self.refuse(f"{what} has actions of the server ({_OF_SCOPE['server']}) and actions of graphs", node)
        return actions

    def scope(self, what: str, parts: Any, actions: tuple[Action, ...], allow: Node) -> BranchScope:
        named = [key for key in _BRANCH_SCOPES if key in parts]
        if len(named) > 1:
            self.refuse(f"{what} has both 'branch_scope' and 'target_branch_scope'; write two rules", allow)
        value: BranchScope = "any"
        for key in named:
            node = parts[key]
            if node.value not in SCOPES:
                self.refuse(f"'{key}' of {what} must be {', '.join(SCOPES[:-1])} or {SCOPES[-1]}", node)
            else:
                value = node.value
            of = _BRANCH_SCOPES[key]
            for action in actions:
                if ACTIONS[action] != of:
                    self.refuse(f"{what}: '{key}' does not fit '{action}'; it is for {_OF_SCOPE[of]}", node)
        return value

    def check_limits(self, what: str, parts: Any, actions: tuple[Action, ...]) -> None:
        fitting: dict[str, list[str]] = {
            "branches": [action for action, scope in ACTIONS.items() if scope in ("branch", "target_branch")],
            "types": ["change", "export"],
            "queries": ["invoke_query", "read", "change"],
        }
        for key, fit in fitting.items():
            for action in actions:
                if key in parts and action not in fit:
                    self.refuse(f"{what}: '{key}' does not fit '{action}'; it is for {', '.join(fit)}", parts[key])

    def kind(self, node: Node | None, rules: tuple[PolicyRule, ...], at: Node | None) -> Kind:
        """What the policy is for, as `kind` or, without it, the actions of its rules say."""
        of_server = {ACTIONS[action] == "server" for rule in rules for action in rule.actions}
        if len(of_server) > 1 and at is not None:
            self.refuse("the file has rules about the server and rules about graphs: write two files", at)
        actual: Kind = "server" if True in of_server else "graph"
        if node is None:
            return actual
        if node.value not in ("graph", "server"):
            self.refuse("'kind' must be graph or server", node)
        elif of_server and node.value != actual:
            self.refuse(f"the file is of kind '{node.value}', and its rules are about the {actual}", node)
        return cast(Kind, node.value)
