"""policy *: checks policies, tries them out, and explains their decisions."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import command
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.policy.bundle import Decision, Policy

STARTER = """version: 1
groups:
  admins: [act-admin]
  writers: [act-writer]
  readers: [act-reader]
  agents: [act-agent]
protected_branches: [main]
rules:
  - id: admins-everything
    allow:
      actors: {group: admins}
      actions: [read, export, change, schema_apply, branch_create, branch_delete, branch_merge, tag_create, tag_delete,
                invoke_query, admin]
  - id: writers-read
    allow: {actors: {group: writers}, actions: [read, export]}
  - id: writers-change
    allow: {actors: {group: writers}, actions: [change], branch_scope: unprotected}
  - id: writers-branches
    allow: {actors: {group: writers}, actions: [branch_create, branch_merge], target_branch_scope: unprotected}
  - id: readers-read
    allow: {actors: {group: readers}, actions: [read, export]}
  # An agent reads through these stored queries and in no other way: no schema, no text of its own.
  - id: agents-ask
    allow: {actors: {group: agents}, actions: [invoke_query, read], queries: [find_person]}
"""
_OPTIONS: tuple[Callable[..., Any], ...] = (
    click.option("--cluster", metavar="DIR|URI", help="A cluster: its folder as it is now, or its storage as applied."),
    click.option("--graph", metavar="ID", help="The graph of the cluster."),
    click.option("--file", "files", metavar="FILE", multiple=True, help="A policy file, and Cedar files (.cedar)."),
    click.option("--as-graph", metavar="ID", default="graph", show_default=True, help="The graph that --file applies to; 'cluster' for the server."),
)  # fmt: skip


def _policy_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_OPTIONS):
        function = option(function)
    return function


def _policies(cluster: str | None, graph: str | None, files: tuple[str, ...], as_graph: str) -> dict[str, Policy]:
    """The policies that the flags name, by name."""
    from omnigraph.cluster.policies import cluster_policies
    from omnigraph.policy.bundle import load_policy

    if (cluster is None) == (not files):
        raise UsageError("name a cluster or a policy file", hint="--cluster DIR, or --file POLICY")
    if cluster is not None:
        return cluster_policies(cluster, graph)
    name = Path(files[0]).name.removesuffix(".yaml").removesuffix(".policy")
    return {name: load_policy(*files, graph=None if as_graph == "cluster" else as_graph)}


def register(cli: click.Group) -> None:
    @cli.group()
    def policy() -> None:
        """Policies say who may do what: check them, try them out, explain their decisions.

        \b
        omnigraph policy validate --cluster ./company
        """

    @command(policy, "starter", graph=False)
    def starter(settings: Settings, out: Output) -> None:
        """Print a policy to start from: admins, writers, readers, and agents that may only run stored queries.

        \b
        omnigraph policy starter > people.policy.yaml

        \b
        JSON: {policy}
        """
        out.show({"policy": STARTER}, STARTER.rstrip())

    @command(policy, "validate", graph=False)
    @_policy_options
    def validate(settings: Settings, out: Output, **where: Any) -> None:
        """Check that policy files are valid.

        \b
        omnigraph policy validate --cluster ./company
        omnigraph policy validate --file people.policy.yaml --as-graph people

        \b
        JSON: {ok, bundles: [{name, actors: [actor]}]}
        """
        policies = _policies(**where)
        bundles = [{"name": name, "actors": sorted(bundle.actors)} for name, bundle in policies.items()]
        lines = [f"policy valid: bundle '{name}' [{len(bundle.actors)} actors]" for name, bundle in policies.items()]
        out.show({"ok": True, "bundles": bundles}, "\n".join(lines))

    @command(policy, "test", graph=False)
    @click.option("--tests", metavar="FILE", required=True, help="The cases, as YAML.")
    @click.option("--coverage", is_flag=True, help="Also name the rules that no case matched.")
    @_policy_options
    def test(settings: Settings, out: Output, tests: str, coverage: bool, **where: Any) -> None:
        """Run the test cases of a file against the policy. Exit code 1 if a decision differs from the expected one.

        \b
        omnigraph policy test --cluster ./company --graph people --tests policy-tests.yaml --coverage

        \b
        JSON: {ok, cases, failures: [text], uncovered_rules?: [rule]}
        """
        from omnigraph.policy.simulate import read_cases, try_cases

        policies = list(_policies(**where).values())
        trial = try_cases(policies, read_cases(Path(tests)))
        failures, uncovered = trial.failures, trial.unmatched(policies)
        value: dict[str, Any] = {"ok": not failures, "cases": len(trial.cases), "failures": failures}
        lines = ["policy tests failed:", *failures] if failures else [f"policy tests passed: {len(trial.cases)} cases"]
        if coverage:
            value["uncovered_rules"] = uncovered
            lines += [f"no case matches rule '{rule}'" for rule in uncovered]
        out.show(value, "\n".join(lines))
        if failures:
            raise click.exceptions.Exit(1)

    @command(policy, "explain", graph=False)
    @click.option("--actor", metavar="ACTOR", help="The actor.")
    @click.option("--action", metavar="ACTION", help="The action to decide about.")
    @click.option("--branch", metavar="BRANCH", help="The branch that is read or written.")
    @click.option(
        "--target-branch", metavar="BRANCH", help="The branch that is created, deleted, merged into or migrated."
    )
    @click.option("--query", metavar="NAME", help="The stored query.")
    @click.option("--matrix", is_flag=True, help="Show every actor and every action instead.")
    @_policy_options
    def explain(
        settings: Settings,
        out: Output,
        actor: str | None,
        action: str | None,
        branch: str | None,
        target_branch: str | None,
        query: str | None,
        matrix: bool,
        **where: Any,
    ) -> None:
        """Show what the policy decides, and why: the rule that allows it, or the nearest rule and what is missing.

        \b
        omnigraph policy explain --cluster ./company --actor ada --action change --branch main
        omnigraph policy explain --file people.policy.yaml --matrix

        \b
        JSON: {decision?, actor?, action?, branch?, target_branch?, matched_rule?, message?, nearest_rule?,
               matrix?: [{actor, action, branches}]}
        """
        from omnigraph.policy.ask import ACTIONS
        from omnigraph.policy.simulate import ask_of, decide, matrix as matrix_of

        policies = list(_policies(**where).values())
        if matrix:
            rows = matrix_of(policies)
            out.table(rows, ["actor", "action", "branches"], value={"matrix": rows})
            return
        if actor is None or action is None:
            raise UsageError("no actor or no action was named", hint="--actor and --action, or --matrix")
        if action not in ACTIONS:
            raise UsageError(f"'{action}' is not an action", hint=f"the actions: {', '.join(ACTIONS)}")
        members = _decision_json(decide(policies, actor, ask_of(action, branch, target_branch, query)))
        out.show(members, "\n".join(f"{name}: {value}" for name, value in members.items()))


def _decision_json(decision: Decision) -> dict[str, str]:
    members = {
        "decision": "allow" if decision.allowed else "deny",
        "actor": decision.actor,
        "action": decision.ask.action,
        "branch": decision.ask.branch,
        "target_branch": decision.ask.target_branch,
        "matched_rule": decision.rule,
        "message": decision.message,
        "nearest_rule": decision.nearest,
    }
    return {name: value for name, value in members.items() if value is not None}
