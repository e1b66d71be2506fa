"""A loaded policy, which decides about one graph or about the server."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omnigraph.errors import ConfigurationError, PolicyFailed, Problem
from omnigraph.policy import cedar as language
from omnigraph.policy.ask import ACTIONS, AccessRequest, described, refusal
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
        cedar = language.load_cedar()
        self.file = policy
        self.graph = graph
        self._has_cedar = bool(cedar_texts)
        """Cedar may name actors that the YAML file does not."""
        policies = dict(_policies(cedar, policy, graph, cedar_texts))
        self._is_authorized = cedar.is_authorized
        self._schema = cedar.Schema.from_str(language.SCHEMA)
        self._policies = language.policy_set(cedar, policies)
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
            "context": language.context(ask, self.protected_branches),
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
    compiled = list(language.compiled(policy, graph))
    text = "\n".join(text for _, text in compiled)
    yield from zip((id for id, _ in compiled), language.parsed(cedar, text, "the compiled policy"), strict=True)
    taken: set[str] = {id for id, _ in compiled}
    for file, own in cedar_texts.items():
        for number, parsed in enumerate(language.parsed(cedar, own, file), 1):
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
