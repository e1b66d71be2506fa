"""Policy files: what is refused, with its message and its line; what is allowed, as a plain model says it."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import omnigraph as og
from omnigraph.errors import ConfigurationError, PolicyDenied, PolicyFailed
from omnigraph.policy.ask import ACTIONS
from omnigraph.policy.bundle import policy_of
from omnigraph.policy.files import PolicyFile, PolicyRule, matches, parse_policy

POLICY = """
version: 1
groups: { devs: [act-ada, act-bo], agents: [act-bot] }
protected_branches: [main]
rules:
  - id: devs-write
    allow:
      actors: { group: devs }
      actions: [read, export, change]
      branch_scope: unprotected
  - id: devs-merge
    allow: { actors: { group: devs }, actions: [branch_create, branch_merge], target_branch_scope: any }
  - id: bots-ask
    allow: { actors: { group: agents }, actions: [invoke_query], queries: [find_person, near] }
  - id: cy-reviews
    allow: { actors: { actor: act-cy }, actions: [change], branches: ["review/*"], types: [Person] }
"""
START = "version: 1\ngroups: { devs: [ada] }\n"


def rule(allow: str, id: str = "r") -> str:
    return f"{START}rules:\n  - id: {id}\n    allow: {{ {allow} }}\n"


DEVS = "actors: { group: devs }"
REFUSED = {
    "not YAML": ("version: [", "not YAML", 1),
    "not a mapping": ("- 1", "a policy file is a mapping", 1),
    "an alias": ("version: 1\ngroups: {a: &x [ada], b: *x}", "aliases", 2),
    "too deep": ("[" * 40 + "]" * 40, "nested deeper", 1),
    "a key twice": ("version: 1\nversion: 1", "the key 'version' is there twice", 2),
    "no version": ("groups: {}", "'version: 1' is missing", 1),
    "another version": ("version: 2", "version 2 is not known", 1),
    "version as a text": ("version: '1'", "version 1 is not known", 1),
    "an unknown member": ("version: 1\nrule: []", "a policy file has no member 'rule'", 2),
    "an unknown kind": ("version: 1\nkind: cluster", "'kind' must be graph or server", 2),
    "another kind than its rules": (
        rule(f"{DEVS}, actions: [read]") + "kind: server\n",
        "the file is of kind 'server', and its rules are about the graph",
        6,
    ),
    "an empty group": ("version: 1\ngroups: { devs: [] }", "group 'devs' is empty", 2),
    "a blank member": ("version: 1\ngroups: { devs: [' '] }", "a member of group 'devs' is blank", 2),
    "a member with a line break": ('version: 1\ngroups: { devs: ["a\\nb"] }', "do not print", 2),
    "a number as a member": ("version: 1\ngroups: { devs: [7] }", "must be a text, not a whole number", 2),
    "groups as a list": ("version: 1\ngroups: [devs]", "'groups' must be a mapping", 2),
    "protected as a text": ("version: 1\nprotected_branches: main", "'protected_branches' must be a list", 2),
    "a rule without an id": (f"{START}rules: [{{ allow: {{ {DEVS}, actions: [read] }} }}]", "a rule has no 'id'", 3),
    "a blank id": (rule(f"{DEVS}, actions: [read]", "''"), "the id of a rule is blank", 4),
    "a rule that denies": (f"{START}rules:\n  - id: r\n    deny: {{}}", "there are no deny rules", 5),
    "a rule that says nothing": (f"{START}rules:\n  - id: r", "rule 'r' has no 'allow'", 4),
    "an unknown member of a rule": (rule(f"{DEVS}, actions: [read], scope: any"), "rule 'r' has no member 'scope'", 5),
    "the same id twice": (
        rule(f"{DEVS}, actions: [read]") + f"  - id: r\n    allow: {{ {DEVS}, actions: [export] }}",
        "two rules have the id 'r'",
        6,
    ),
    "an unknown group": (rule("actors: { group: ops }, actions: [read]"), "which is not among the groups", 5),
    "nobody": (rule("actions: [read]"), "rule 'r' must say who", 5),
    "a group and an actor": (rule("actors: { group: devs, actor: x }, actions: [read]"), "rule 'r' must say who", 5),
    "no action": (rule(f"{DEVS}, actions: []"), "'actions' of rule 'r' is empty", 5),
    "an unknown action": (rule(f"{DEVS}, actions: [write]"), "rule 'r' allows 'write', which is not an action", 5),
    "both scopes": (
        rule(f"{DEVS}, actions: [read], branch_scope: any, target_branch_scope: any"),
        "has both 'branch_scope' and 'target_branch_scope'",
        5,
    ),
    "an unknown scope": (rule(f"{DEVS}, actions: [read], branch_scope: main"), "must be any, protected or unpro", 5),
    "branch_scope of a target action": (
        rule(f"{DEVS}, actions: [read, branch_merge], branch_scope: any"),
        "'branch_scope' does not fit 'branch_merge'; it is for read, export, change",
        5,
    ),
    "target_branch_scope of a branch action": (
        rule(f"{DEVS}, actions: [change], target_branch_scope: any"),
        "'target_branch_scope' does not fit 'change'; it is for schema_apply, branch_create",
        5,
    ),
    "a scope on admin": (rule(f"{DEVS}, actions: [admin], branch_scope: any"), "does not fit 'admin'", 5),
    "a scope on invoke_query": (
        rule(f"{DEVS}, actions: [invoke_query], target_branch_scope: any"),
        "does not fit 'invoke_query'",
        5,
    ),
    "a scope on a server action": (
        rule(f"{DEVS}, actions: [graph_list], branch_scope: any"),
        "does not fit 'graph_list'",
        5,
    ),
    "branches of admin": (rule(f"{DEVS}, actions: [admin], branches: [main]"), "'branches' does not fit 'admin'", 5),
    "types of a read": (rule(f"{DEVS}, actions: [read], types: [P]"), "'types' does not fit 'read'", 5),
    "queries of an export": (rule(f"{DEVS}, actions: [export], queries: [q]"), "'queries' does not fit 'export'", 5),
    "no branches at all": (rule(f"{DEVS}, actions: [read], branches: []"), "'branches' of rule 'r' is empty", 5),
    "server and graph actions in a rule": (
        rule(f"{DEVS}, actions: [read, graph_list]"),
        "rule 'r' has actions of the server",
        5,
    ),
    "server and graph actions in a file": (
        rule(f"{DEVS}, actions: [read]") + f"  - id: s\n    allow: {{ {DEVS}, actions: [graph_list] }}",
        "write two files",
        4,
    ),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_file_is_refused_with_its_own_message_and_line(case: str) -> None:
    text, message, line = REFUSED[case]
    with pytest.raises(ConfigurationError) as refused:
        parse_policy(text, "p.yaml")
    problems = refused.value.problems
    assert any(message in problem.message and problem.line == line for problem in problems), problems
    assert all(problem.file == "p.yaml" for problem in problems)


def test_every_problem_of_a_file_is_told() -> None:
    with pytest.raises(ConfigurationError) as refused:
        parse_policy("version: 2\nrules:\n  - {id: a}\n  - {id: b, allow: {actors: {group: x}, actions: [fly]}}")
    assert [problem.line for problem in refused.value.problems] == [1, 3, 4, 4]


def test_a_file_is_read_as_it_says() -> None:
    policy = parse_policy(POLICY)
    assert policy.kind == "graph"
    assert policy.actors == {"act-ada", "act-bo", "act-bot", "act-cy"}
    assert policy.protected_branches == {"main"}
    assert policy.rules[0] == PolicyRule("devs-write", ("read", "export", "change"), "devs", None, "unprotected")
    assert parse_policy(f"{START}kind: server").kind == "server"


# ---------------------------------------------------------------- decisions

NAMES = st.sampled_from(["main", "review", "review/a", "prod"])
TYPES = st.sampled_from(["Person", "City"])
TOUCHED = (None, *map(frozenset, ([], ["Person"], ["City"], ["Person", "City"])))
ACTORS = ["ada", 'b"o\\', "cy", "nobody"]


KINDS = {
    "typed": ["change", "export"],
    "named": ["invoke_query", "read", "change"],
    "branch": ["read", "export", "change"],
    "target_branch": [action for action, scope in ACTIONS.items() if scope == "target_branch"],
    "graph": ["invoke_query", "admin"],
}


@st.composite
def rules(draw: st.DrawFn) -> PolicyRule:
    kind = draw(st.sampled_from(sorted(KINDS)))
    actions = draw(st.sets(st.sampled_from(KINDS[kind]), min_size=1, max_size=3))
    of_branches = all(ACTIONS[action] in ("branch", "target_branch") for action in actions)
    by_group = draw(st.booleans())
    return PolicyRule(
        draw(st.sampled_from(["r1", "r2", "r3", 'odd "id"'])),
        tuple(sorted(actions)),
        draw(st.sampled_from(["g1", "g 2"])) if by_group else None,
        None if by_group else draw(st.sampled_from(ACTORS[:3])),
        draw(st.sampled_from(["any", "protected", "unprotected"])) if of_branches else "any",
        tuple(draw(st.lists(st.sampled_from(["main", "review*", "*/a", 'x"']), max_size=2))) if of_branches else (),
        tuple(draw(st.sets(TYPES, min_size=1))) if kind == "typed" else (),
        ("near",) if kind == "named" else (),
    )


def model(policy: PolicyFile, actor: str, ask: og.AccessRequest) -> set[str]:
    """The rules that allow it, told from the words of the documentation."""
    matched = set()
    for rule in policy.rules:
        about = actor == rule.actor or (rule.group is not None and actor in policy.groups[rule.group])
        branch = ask.branch if ACTIONS[ask.action] == "branch" else ask.target_branch
        scoped = rule.scope == "any" or (
            branch is not None and (branch in policy.protected_branches) == (rule.scope == "protected")
        )
        named = not rule.branches or (branch is not None and any(matches(each, branch) for each in rule.branches))
        typed = not rule.types or (ask.types is not None and ask.types <= set(rule.types))
        queried = not rule.queries or ask.query in rule.queries
        if about and ask.action in rule.actions and scoped and named and typed and queried:
            matched.add(rule.id)
    return matched


@settings(deadline=None, max_examples=25)
@given(
    st.lists(rules(), max_size=4, unique_by=lambda rule: rule.id),
    st.frozensets(NAMES, max_size=2),
    st.sampled_from([None, "near", "far"]),
)
def test_cedar_decides_as_a_plain_model_does(
    rules: list[PolicyRule], protected: frozenset[str], query: str | None
) -> None:
    file = PolicyFile("graph", {"g1": ("ada", 'b"o\\'), "g 2": ("cy",)}, protected, tuple(rules))
    policy = og.Policy(file, 'a "graph"', {})
    for actor in ACTORS:
        for action, scope in ACTIONS.items():
            touched = TOUCHED if action in ("change", "export") else (None,)
            for name, types in itertools.product(("main", "review/a", None), touched):
                ask = og.AccessRequest(
                    action,
                    branch=name if scope == "branch" else None,
                    target_branch=name if scope == "target_branch" else None,
                    query=query,
                    types=types,
                )
                decision = policy.decide(actor, ask)
                matched = model(file, actor, ask)
                assert decision.allowed == bool(matched)
                assert decision.rule == min(matched, default=None)
                if not matched and any(action in rule.actions and file.is_about(rule, actor) for rule in rules):
                    assert decision.nearest is not None
                    assert " only o" in decision.nearest


def test_messages_name_action_branch_and_actor() -> None:
    policy = policy_of({"p.yaml": POLICY}, "people")
    allowed = policy.decide("act-ada", og.AccessRequest("read", branch="x"))
    assert (allowed.allowed, allowed.rule) == (True, "devs-write")
    assert allowed.message == "policy allowed action 'read' for actor 'act-ada'"
    denied = policy.decide("act-bo", og.AccessRequest("change", branch="main"))
    assert denied.message == "policy denied action 'change' on branch 'main' for actor 'act-bo'"
    assert denied.nearest == "devs-write allows change only on unprotected branches; 'main' is protected"
    unknown = policy.decide("act-x", og.AccessRequest("read"))
    assert unknown.message == "policy denied action 'read' for unknown actor 'act-x'"
    with pytest.raises(PolicyDenied) as refused:
        policy.check("act-bo", og.AccessRequest("branch_delete", target_branch="main"))
    assert refused.value.to_json()["details"] == {"action": "branch_delete", "target_branch": "main"}
    assert refused.value.code == "forbidden"
    assert "devs" not in str(refused.value.to_json())


def test_types_and_queries_limit_a_rule() -> None:
    policy = policy_of({"p.yaml": POLICY}, "people")
    assert policy.decide("act-bot", og.AccessRequest("invoke_query", query="near")).allowed
    assert not policy.decide("act-bot", og.AccessRequest("invoke_query", query="far")).allowed
    assert not policy.decide("act-bot", og.AccessRequest("invoke_query")).allowed
    change = og.AccessRequest("change", branch="review/7", types=frozenset(["Person"]))
    assert policy.decide("act-cy", change).allowed
    other = policy.decide("act-cy", og.AccessRequest("change", branch="review/7", types=frozenset(["Person", "City"])))
    assert other.nearest == "cy-reviews allows change only of 'Person'; this touches 'City'"
    assert policy.decide("act-cy", og.AccessRequest("change", branch="review", types=frozenset())).allowed is False


CEDAR = """
@id("everybody-reads")
permit(principal, action == Omnigraph::Action::"read", resource);
forbid(principal == Omnigraph::Actor::"act-bo", action, resource);
"""


def test_cedar_files_join_the_rules(tmp_path: Path) -> None:
    yaml, cedar = tmp_path / "p.yaml", tmp_path / "own.cedar"
    yaml.write_text(POLICY)
    cedar.write_text(CEDAR)
    policy = og.load_policy(yaml, cedar, graph="people")
    assert policy.decide("act-stranger", og.AccessRequest("read", branch="main")).rule == "everybody-reads"
    assert policy.decide("act-ada", og.AccessRequest("change", branch="x")).rule == "devs-write"
    denied = policy.decide("act-bo", og.AccessRequest("change", branch="x"))
    assert (denied.allowed, denied.rule) == (False, "own.cedar#2")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("permit(principal", "unexpected end of input"),
        ("permit(principal, action, resource) when { context.nope };", "`nope`"),
        ('permit(principal, action == Omnigraph::Action::"fly", resource);', "fly"),
        ("permit(principal == ?principal, action, resource);", "templates are not supported"),
        ('@id("devs-write:read") permit(principal, action, resource);', "two policies have the id"),
    ],
)
def test_cedar_that_does_not_fit_is_refused(text: str, message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        policy_of({"p.yaml": POLICY, "own.cedar": text}, "people")


def test_a_policy_that_cannot_be_evaluated_allows_nothing() -> None:
    broken = 'permit(principal, action == Omnigraph::Action::"read", resource) when { 9223372036854775807 + 1 == 0 };'
    policy = policy_of({"p.yaml": POLICY, "own.cedar": broken}, "people")
    with pytest.raises(PolicyFailed, match="overflow"):
        policy.check("act-ada", og.AccessRequest("read", branch="x"))


def test_a_policy_of_the_server_is_none_of_a_graph() -> None:
    server = f"{START}rules: [{{id: s, allow: {{ {DEVS}, actions: [graph_list] }}}}]"
    assert policy_of({"s.yaml": server}, None).decide("ada", og.AccessRequest("graph_list")).allowed
    with pytest.raises(ConfigurationError, match="of kind 'server'"):
        policy_of({"s.yaml": server}, "people")
    with pytest.raises(ConfigurationError, match="of kind 'graph'"):
        policy_of({"p.yaml": POLICY}, None)
    assert not policy_of({"p.yaml": POLICY}, "people").decide("act-ada", og.AccessRequest("graph_list")).allowed


@pytest.mark.parametrize("content", [None, b"\xff"])
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, content: bytes | None) -> None:
    file = tmp_path / "p.yaml"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(ConfigurationError) as refused:
        og.load_policy(file)
    assert refused.value.problems[0].file == str(file)


def test_what_callers_send_does_not_fill_the_memory() -> None:
    policy = policy_of({"p.yaml": POLICY}, "people")
    for number in range(10):
        assert policy.decide("act-ada", og.AccessRequest("read", branch=f"{number}" * 10_000)).allowed
        policy.decide("act-ada", og.AccessRequest("read", branch=f"short-{number % 2}"))
    assert policy._decided.cache_info().currsize == 2
