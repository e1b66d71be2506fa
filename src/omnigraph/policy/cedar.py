"""Rules as Cedar policies: the schema that every policy is checked against, and one `permit` for each action of each rule."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from omnigraph.errors import ConfigurationError, MissingExtra, Problem
from omnigraph.policy.ask import ACTIONS, AccessRequest, Action
from omnigraph.policy.files import PolicyFile, PolicyRule

SCHEMA = (
    """namespace Omnigraph {
  type Asked = {
    has_branch: Bool, branch: String, branch_is_protected: Bool,
    has_target_branch: Bool, target_branch: String, target_branch_is_protected: Bool,
    query?: String, types?: Set<String>, mode?: String, allow_data_loss?: Bool
  };
  entity Group;
  entity Actor in [Group];
  entity Graph;
  entity Server;
"""
    + "".join(
        f'  action "{action}" appliesTo {{ principal: Actor, resource: {"Server" if scope == "server" else "Graph"}, '
        "context: Asked };\n"
        for action, scope in ACTIONS.items()
    )
    + "}\n"
)


def load_cedar() -> Any:
    """Import the Cedar engine. MissingExtra if it is not installed."""
    try:
        import cedarpy
    except ModuleNotFoundError:
        raise MissingExtra(
            "policies need cedarpy, which is not installed", hint="pip install 'omnigraph[policy]'"
        ) from None
    return cedarpy


def compiled(policy: PolicyFile, graph: str | None) -> Iterator[tuple[str, str]]:
    """The policies of a file for one graph, or for the server if `graph` is None: id and text."""
    resource = 'Omnigraph::Server::"root"' if graph is None else f"Omnigraph::Graph::{quoted(graph)}"
    for rule in policy.rules:
        for action in rule.actions:
            yield f"{rule.id}:{action}", _permit(rule, action, resource)


def _permit(rule: PolicyRule, action: Action, resource: str) -> str:
    if rule.group is not None:
        principal = f"principal in Omnigraph::Group::{quoted(rule.group)}"
    else:
        principal = f"principal == Omnigraph::Actor::{quoted(str(rule.actor))}"
    head = f'permit({principal}, action == Omnigraph::Action::"{action}", resource == {resource})'
    conditions = list(_conditions(rule, action))
    return f"{head} when {{ {' && '.join(conditions)} }};" if conditions else f"{head};"


def _conditions(rule: PolicyRule, action: Action) -> Iterator[str]:
    branch = ACTIONS[action]
    if rule.scope == "protected":
        yield f"context.has_{branch} && context.{branch}_is_protected"
    elif rule.scope == "unprotected":
        yield f"context.has_{branch} && context.{branch}_is_protected == false"
    if rule.branches:
        patterns = " || ".join(f"context.{branch} like {quoted(pattern)}" for pattern in rule.branches)
        yield f"context.has_{branch} && ({patterns})"
    if rule.types:
        yield f"context has types && {_list(rule.types)}.containsAll(context.types)"
    if rule.queries:
        yield f"context has query && {_list(rule.queries)}.contains(context.query)"


def quoted(text: str) -> str:
    """A text as a Cedar literal. In a pattern of `like`, `*` stands for any text, as in policy files."""
    return f'"{_escaped(text)}"'


def _escaped(text: str) -> str:
    return "".join(c if c.isprintable() and c not in '"\\' else f"\\u{{{ord(c):x}}}" for c in text)


def _list(texts: Sequence[str]) -> str:
    return f"[{', '.join(map(quoted, texts))}]"


def policy_set(cedar: Any, policies: Mapping[str, Any]) -> Any:
    """Parsed policies under the given ids; Cedar itself only numbers them."""
    return cedar.PolicySet.from_json_str(
        json.dumps({"staticPolicies": dict(policies), "templates": {}, "templateLinks": []})
    )


def check(cedar: Any, text: str, file: str) -> None:
    """ConfigurationError unless the text is Cedar that fits the schema."""
    try:
        result = cedar.validate_policies(text, SCHEMA)
    except ValueError as error:
        raise ConfigurationError([Problem("invalid_policy", f"not Cedar: {error}", file)]) from None
    if not result.validation_passed:
        raise ConfigurationError([Problem("invalid_policy", str(error.error), file) for error in result.errors])


def parsed(cedar: Any, text: str, file: str) -> list[Any]:
    """The policies of a text, in order, as JSON. ConfigurationError unless they fit the schema."""
    check(cedar, text, file)
    policies = json.loads(cedar.policies_to_json_str(text))
    if policies.get("templates"):
        raise ConfigurationError([Problem("invalid_policy", "templates are not supported", file)])
    return [policy for _, policy in sorted(policies["staticPolicies"].items(), key=lambda item: _number(item[0]))]


def _number(key: str) -> int:
    return int(key.removeprefix("policy") or 0)


def context(ask: AccessRequest, protected: frozenset[str]) -> dict[str, Any]:
    """An ask as the context of a Cedar request."""
    known: dict[str, Any] = {
        "has_branch": ask.branch is not None,
        "branch": ask.branch or "",
        "branch_is_protected": ask.branch in protected,
        "has_target_branch": ask.target_branch is not None,
        "target_branch": ask.target_branch or "",
        "target_branch_is_protected": ask.target_branch in protected,
    }
    if ask.query is not None:
        known["query"] = ask.query
    if ask.types is not None:
        known["types"] = sorted(ask.types)
    if ask.mode is not None:
        known["mode"] = ask.mode
    if ask.allow_data_loss is not None:
        known["allow_data_loss"] = ask.allow_data_loss
    return known
