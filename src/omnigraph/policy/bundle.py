"""A loaded policy, which decides about one graph or about the server. Its rules are Cedar policies: the schema that every policy is
checked against, and one `permit` for each action of each rule."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import ConfigurationError, MissingExtra, PolicyFailed, Problem
from omnigraph.policy.ask import ACTIONS, AccessRequest, Action, described, refusal
from omnigraph.policy.files import CODE, Kind, PolicyFile, PolicyRule, parse_policy

MAX_DECISIONS = 4_096
MAX_REMEMBERED = 1_024
"""Longer asks, in characters, are not cached with their answers: what callers send must not fill the memory."""


@dataclass(frozen=True)
class Decision:
    """The answer of a policy to one ask, in words, and the rule that decided it, if one did.

    >>> assert said.message == "policy denied action 'change' on branch 'main' for actor 'ada'"
    """

    actor: str
    ask: AccessRequest
    allowed: bool
    message: str
    rule: str | None = None
    nearest: str | None = None
    """For a denial: the rule that comes closest, and why it does not apply."""


class Policy:
    """A gate made from files: YAML, whose rules only allow, and Cedar, which can also forbid. What nothing allows is denied.

    It decides about the graph with the name `graph`, or about the server if that is None.

    >>> assert og.load_policy("policy.yaml").actors == {"ada"}
    """

    def __init__(self, policy: PolicyFile, graph: str | None, cedar_texts: Mapping[str, str]) -> None:
        cedar = load_cedar()
        self.file = policy
        self.graph = graph
        self._has_cedar = bool(cedar_texts)
        """Cedar may name actors that the YAML file does not."""
        policies = dict(_policies(cedar, policy, graph, cedar_texts))
        self._is_authorized = cedar.is_authorized
        self._schema = cedar.Schema.from_str(SCHEMA)
        self._policies = policy_set(cedar, policies)
        self._entities = cedar.Entities.from_json_str(json.dumps(list(_entities(policy))), self._schema)
        self._decided = functools.lru_cache(MAX_DECISIONS)(self._decide)

    def __repr__(self) -> str:
        place = "the server" if self.graph is None else f"graph '{self.graph}'"
        return f"<Policy of {place}: {len(self.file.rules)} rules>"

    @property
    def actors(self) -> frozenset[str]:
        """The actors that the YAML file names."""
        return self.file.actors

    @property
    def protected_branches(self) -> frozenset[str]:
        """The branches that the policy calls protected."""
        return self.file.protected_branches

    def check(self, actor: str | None, ask: AccessRequest, /) -> None:
        """Raises PolicyDenied unless the actor may do this."""
        decision = self.decide("" if actor is None else actor, ask)
        if not decision.allowed:
            raise refusal(decision.message, ask, why=decision.rule or decision.nearest)

    def decide(self, actor: str, ask: AccessRequest) -> Decision:
        """The answer of the policy, and why.

        >>> said = og.load_policy("policy.yaml").decide("ada", og.AccessRequest("change", branch="main"))
        >>> assert (said.allowed, said.nearest) == (False, "no rule allows change to 'ada'")
        """
        texts = (actor, ask.branch, ask.target_branch, ask.query, *(ask.types or ()))
        is_short = sum(len(text) for text in texts if text is not None) <= MAX_REMEMBERED
        return self._decided(actor, ask) if is_short else self._decide(actor, ask)

    def _decide(self, actor: str, ask: AccessRequest) -> Decision:
        if actor not in self.actors and not self._has_cedar:
            message = f"policy denied action '{ask.action}' for unknown actor '{actor}'"
            return Decision(actor, ask, False, message)
        if (ACTIONS[ask.action] == "server") != (self.graph is None):
            about = "the server" if self.graph is None else "graphs"
            return Decision(
                actor,
                ask,
                False,
                f"policy denied {described(ask)} for actor '{actor}'",
                nearest=f"the policy is about {about}",
            )
        answer = self._is_authorized(self._request(actor, ask), self._policies, self._entities, self._schema)
        if answer.diagnostics.errors:
            raise PolicyFailed(
                f"the policy cannot decide about {described(ask)}: {answer.diagnostics.errors[0]}",
                hint="correct the Cedar file; 'omnigraph policy explain' tries it",
            )
        rules = sorted(reason.rpartition(":")[0] or reason for reason in answer.diagnostics.reasons)
        rule = rules[0] if rules else None
        if answer.allowed:
            return Decision(actor, ask, True, f"policy allowed action '{ask.action}' for actor '{actor}'", rule)
        message = f"policy denied {described(ask)} for actor '{actor}'"
        return Decision(actor, ask, False, message, rule, self._nearest(actor, ask))

    def _request(self, actor: str, ask: AccessRequest) -> dict[str, Any]:
        resource = ("Server", "root") if self.graph is None else ("Graph", self.graph)
        return {
            "principal": {"type": "Omnigraph::Actor", "id": actor},
            "action": {"type": "Omnigraph::Action", "id": ask.action},
            "resource": {"type": f"Omnigraph::{resource[0]}", "id": resource[1]},
            "context": context(ask, self.protected_branches),
        }

    def _nearest(self, actor: str, ask: AccessRequest) -> str | None:
        for rule in self._rules_about(actor):
            if ask.action in rule.actions:
                obstacle = rule.obstacle(ask, self.protected_branches)
                if obstacle is not None:
                    return f"{rule.id} allows {ask.action} {obstacle}"
        return f"no rule allows {ask.action} to '{actor}'"

    def _rules_about(self, actor: str) -> list[PolicyRule]:
        return sorted((rule for rule in self.file.rules if self.file.is_about(rule, actor)), key=lambda rule: rule.id)


def _policies(
    cedar: Any, policy: PolicyFile, graph: str | None, cedar_texts: Mapping[str, str]
) -> Iterator[tuple[str, Any]]:
    compiled = list(compile_rules(policy, graph))
    text = "\n".join(text for _, text in compiled)
    yield from zip((id for id, _ in compiled), parse_policies(cedar, text, "the compiled policy"), strict=True)
    taken: set[str] = {id for id, _ in compiled}
    for file, own in cedar_texts.items():
        for number, parsed in enumerate(parse_policies(cedar, own, file), 1):
            id = (parsed.get("annotations") or {}).get("id") or f"{Path(file).name}#{number}"
            if id in taken:
                raise ConfigurationError([Problem(CODE, f"two policies have the id '{id}'", file)])
            taken.add(id)
            yield id, parsed


def _entities(policy: PolicyFile) -> Iterator[dict[str, Any]]:
    def entity(kind: str, id: str, parents: Sequence[str] = ()) -> dict[str, Any]:
        above = [{"type": "Omnigraph::Group", "id": group} for group in parents]
        return {"uid": {"type": f"Omnigraph::{kind}", "id": id}, "attrs": {}, "parents": above}

    for actor in sorted(policy.actors):
        yield entity("Actor", actor, sorted(group for group, members in policy.groups.items() if actor in members))
    for group in sorted(policy.groups):
        yield entity("Group", group)


def policy_of(texts: Mapping[str, str], graph: str | None) -> Policy:
    """The policy of texts by file name: at most one YAML file, and any number of Cedar files (`.cedar`)."""
    cedar_texts = {file: text for file, text in texts.items() if file.endswith(".cedar")}
    yaml_texts = {file: text for file, text in texts.items() if file not in cedar_texts}
    if len(yaml_texts) > 1:
        raise ConfigurationError([Problem(CODE, f"only one policy file in YAML, not {', '.join(yaml_texts)}")])
    kind: Kind = "server" if graph is None else "graph"
    policy = PolicyFile(kind)
    for file, text in yaml_texts.items():
        policy = parse_policy(text, file)
        if policy.rules and policy.kind != kind:
            wanted = "a policy of the cluster" if graph is None else "a policy of graphs"
            raise ConfigurationError(
                [Problem(CODE, f"the file is of kind '{policy.kind}', and {wanted} is asked for", file)]
            )
    return Policy(policy, graph, cedar_texts)


def load_policy(*files: str | Path, graph: str | None = "graph") -> Policy:
    """Load a policy from a YAML file, from Cedar files (`.cedar`), or from both, as a gate for `og.open(..., policy=...)`.
    `graph` is the name of the graph in Cedar. ConfigurationError, with every problem and its position, if a file is not valid.

    >>> Path("policy.yaml").write_text('''
    ... version: 1
    ... groups: {readers: [ada]}
    ... rules: [{id: readers-read, allow: {actors: {group: readers}, actions: [read]}}]
    ... ''')
    >>> guarded = og.open("./people", policy=og.load_policy("policy.yaml"))
    >>> assert guarded.as_("ada").entity("Person", "Ada") is not None
    """
    if not files:
        raise ConfigurationError([Problem(CODE, "no policy file was named")])
    texts: dict[str, str] = {}
    for file in files:
        try:
            texts[str(file)] = Path(file).read_bytes().decode()
        except OSError as error:
            raise ConfigurationError([Problem(CODE, f"cannot read the file: {error.strerror}", str(file))]) from None
        except ValueError:
            raise ConfigurationError([Problem(CODE, "the file is not UTF-8", str(file))]) from None
    return policy_of(texts, graph)


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


def compile_rules(policy: PolicyFile, graph: str | None) -> Iterator[tuple[str, str]]:
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


def parse_policies(cedar: Any, text: str, file: str) -> list[Any]:
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
