"""cluster *, policy *: many graphs from one folder, and who may do what with them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import Spelled, command, group, together
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.cluster.applying import Operation
    from omnigraph.policy.bundle import Decision, Policy

group("cluster", "Manage many graphs, with their schemas, queries and policies, from one folder.")
group("policy", "Policies say who may do what: check them, try them out, explain their decisions.")

folder_option = click.option(
    "--cluster",
    "folder",
    cls=Spelled,
    also=["--config"],
    metavar="DIR",
    default=".",
    show_default=True,
    help="The folder with cluster.yaml.",
)
_PLANNER = click.option("--as", "actor", metavar="ACTOR", help="As for apply. A plan is the same whoever asks for it.")


@command("cluster plan", graph=False, writes=True, flags={"actor": _PLANNER})
@folder_option
@click.option("--offline", is_flag=True, help="Only check the cluster file and every file it names.")
def plan(settings: Settings, out: Output, folder: str, offline: bool) -> None:
    """Check the folder, and show what an apply would do. The schemas of the graphs are read; nothing is changed.

    \b
    omnigraph cluster plan ./company
    omnigraph cluster plan ./company --offline

    \b
    JSON: {name, config_digest, state_revision, state_cas, operations: [{address, operation, disposition, reason?,
           migration?, approvals_required?, binding_change?, metadata_change?}], converged}
    JSON with --offline: {ok, name, config_digest, resources: {address: digest}}
    """
    from omnigraph.cluster.applying import plan as make_plan
    from omnigraph.cluster.config import read_config

    config = read_config(folder)
    if offline:
        digests = {address: resource["digest"] for address, resource in config.resources.items()}
        value = {"ok": True, "name": config.name, "config_digest": config.digest, "resources": digests}
        counted = f"graphs: {len(config.graphs)}, policies: {len(config.policies)}, resources: {len(digests)}"
        out.done(value, f"cluster '{config.name}' is valid; {counted}")
        return
    planned = make_plan(config)
    ending = "nothing to do" if planned.converged else f"operations: {len(planned.operations)}"
    out.show(planned.to_json(), "\n".join([*_lines(planned.operations), ending]))


@command("cluster status", graph=False, writes=True)
@folder_option
@click.option(
    "--refresh",
    is_flag=True,
    help="Check every graph and every stored text, and record what differs from what was applied; exit code 1 if anything does.",
)
def status(settings: Settings, out: Output, folder: str, refresh: bool) -> None:
    """Show what was applied, and who holds the lock.

    \b
    omnigraph cluster status ./company
    omnigraph cluster status ./company --refresh

    \b
    JSON: {version, state_revision, state_cas, applied_revision: {config_digest, name, resources, server},
           resource_statuses, approval_records, recovery_records, observations, state_observations: {locked, lock_id},
           lock}
    JSON with --refresh: {state_revision, resource_statuses}
    """
    from omnigraph.cluster.applying import status as read_status
    from omnigraph.cluster.policies import books_of

    if refresh:
        _refresh(settings, out, folder)
        return
    shown = read_status(books_of(folder))
    lines = [f"revision {shown['state_revision']}" if shown["state_revision"] else "nothing was applied yet"]
    for address, state in shown["resource_statuses"].items():
        lines.append(f"{state['status']:8} {address}" + (f": {state['message']}" if "message" in state else ""))
    if shown["lock"]:
        lines.append(f"locked by '{shown['lock']['operation']}' since {shown['lock']['at']}: {shown['lock']['id']}")
    out.show(shown, "\n".join(lines))


def _refresh(settings: Settings, out: Output, folder: str) -> None:
    from omnigraph.cluster.applying import refresh
    from omnigraph.cluster.config import read_config

    ledger = refresh(read_config(folder), actor=settings.actor)
    odd = {address: status for address, status in ledger.statuses.items() if status["status"] != "applied"}
    lines = [f"{status['status']:8} {address}: {status['message']}" for address, status in odd.items()]
    value = {"state_revision": ledger.revision, "resource_statuses": dict(ledger.statuses)}
    out.show(value, "\n".join(lines) or "everything is as it was applied")
    if odd:
        raise click.exceptions.Exit(1)


@command("cluster apply", graph=False, writes=True)
@folder_option
@click.option(
    "--import", "only_import", is_flag=True, help="Only create the ledger, with the graphs that exist already."
)
def apply(settings: Settings, out: Output, folder: str, only_import: bool) -> None:
    """Apply the folder: create graphs, change schemas without loss of data, set queries and policies. Exit code 1 if
    something cannot be applied; the rest is. Graphs that exist already are taken over.

    \b
    omnigraph cluster apply ./company --as ada
    omnigraph cluster apply ./company --import

    \b
    JSON: {state_revision, state_cas, config_digest, operations: [{address, operation, disposition, reason?, migration?,
           approvals_required?, binding_change?, metadata_change?}], errors: [text], converged}
    JSON with --import: {state_revision, resources: [address]}
    """
    from omnigraph.cluster.applying import apply as apply_config, import_state
    from omnigraph.cluster.config import read_config

    if only_import:
        ledger = import_state(read_config(folder), actor=settings.actor)
        addresses = sorted(ledger.resources)
        value = {"state_revision": ledger.revision, "resources": addresses}
        out.done(value, f"imported {', '.join(addresses) or 'nothing'}")
        return
    done = apply_config(read_config(folder), actor=settings.actor)
    ending = "the cluster is as the folder says" if done.converged else "not everything could be applied"
    out.show(done.to_json(), "\n".join([*_lines(done.operations), f"{ending} (revision {done.ledger.revision})"]))
    if not done.converged:
        raise click.exceptions.Exit(1)


@command("cluster approve", graph=False, writes=True)
@click.argument("resource")
@folder_option
def approve(settings: Settings, out: Output, resource: str, folder: str) -> None:
    """Let the next apply remove a graph with its data. Any change before that makes the approval void.

    \b
    omnigraph cluster approve ./company graph.people --as ada

    \b
    JSON: {address, digest, actor, at}
    """
    from omnigraph.cluster.applying import approve as record_approval
    from omnigraph.cluster.config import read_config

    if settings.actor is None:
        raise UsageError("an approval needs an actor", hint="--as ACTOR")
    _, record = record_approval(read_config(folder), resource, settings.actor)
    out.done(dict(record), f"approved: the next apply removes {resource}")


@command("cluster force-unlock", graph=False)
@click.argument("lock_id")
@folder_option
def force_unlock(settings: Settings, out: Output, lock_id: str, folder: str) -> None:
    """Remove the lock of a dead process. If the process is still working, it only loses the race for the ledger.

    \b
    omnigraph cluster force-unlock ./company 01J...

    \b
    JSON: {unlocked}
    """
    from omnigraph.cluster.policies import books_of

    books_of(folder).unlock(lock_id)
    out.done({"unlocked": lock_id}, f"unlocked {lock_id}")


def _lines(operations: tuple[Operation, ...]) -> list[str]:
    lines = []
    for operation in operations:
        because = f" ({operation.reason})" if operation.reason else ""
        lines.append(f"{operation.operation} {operation.address}: {operation.disposition}{because}")
        lines += [f"  {step}" for step in operation.migration]
    return lines


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
policy_options = together(
    click.option(
        "--cluster", "folder", metavar="DIR|URI", help="A cluster: its folder as it is now, or its storage as applied."
    ),
    click.option("--graph", metavar="ID", help="The graph of the cluster."),
    click.option("--file", "files", metavar="FILE", multiple=True, help="A policy file, and Cedar files (.cedar)."),
    click.option(
        "--as-graph",
        metavar="ID",
        default="graph",
        show_default=True,
        help="The graph that --file applies to; 'cluster' for the server.",
    ),
)


def _policies(folder: str | None, graph: str | None, files: tuple[str, ...], as_graph: str) -> dict[str, Policy]:
    """The policies that the flags name, by name."""
    from omnigraph.cluster.policies import cluster_policies
    from omnigraph.policy.bundle import load_policy

    if (folder is None) == (not files):
        raise UsageError("name a cluster or a policy file", hint="--cluster DIR, or --file POLICY")
    if folder is not None:
        return cluster_policies(folder, graph)
    name = Path(files[0]).name.removesuffix(".yaml").removesuffix(".policy")
    return {name: load_policy(*files, graph=None if as_graph == "cluster" else as_graph)}


@command("policy starter", graph=False)
def starter(settings: Settings, out: Output) -> None:
    """Print a policy to start from: admins, writers, readers, and agents that may only run stored queries.

    \b
    omnigraph policy starter > people.policy.yaml

    \b
    JSON: {policy}
    """
    out.show({"policy": STARTER}, STARTER.rstrip())


@command("policy validate", graph=False)
@click.option("--tests", metavar="FILE", help="Cases, as YAML: also check each decision; exit code 1 if one differs.")
@click.option("--coverage", is_flag=True, help="With --tests: also name the rules that no case matched.")
@policy_options
def validate(settings: Settings, out: Output, tests: str | None, coverage: bool, **where: Any) -> None:
    """Check that policy files are valid and, with test cases, that they decide as expected.

    \b
    omnigraph policy validate ./company
    omnigraph policy validate --file people.policy.yaml --as-graph people
    omnigraph policy validate ./company --graph people --tests policy-tests.yaml --coverage

    \b
    JSON: {ok, bundles: [{name, actors: [actor]}]}
    JSON with --tests: {ok, cases, failures: [text], uncovered_rules?: [rule]}
    """
    policies = _policies(**where)
    if tests is not None:
        _try_cases(out, list(policies.values()), Path(tests), coverage=coverage)
        return
    bundles = [{"name": name, "actors": sorted(bundle.actors)} for name, bundle in policies.items()]
    lines = [f"policy valid: bundle '{bundle['name']}' [{len(bundle['actors'])} actors]" for bundle in bundles]
    out.show({"ok": True, "bundles": bundles}, "\n".join(lines))


def _try_cases(out: Output, policies: list[Policy], tests: Path, *, coverage: bool) -> None:
    from omnigraph.policy.simulate import read_cases, try_cases

    trial = try_cases(policies, read_cases(tests))
    failures = trial.failures
    value: dict[str, Any] = {"ok": not failures, "cases": len(trial.cases), "failures": failures}
    lines = ["policy tests failed:", *failures] if failures else [f"policy tests passed: {len(trial.cases)} cases"]
    if coverage:
        value["uncovered_rules"] = trial.unmatched(policies)
        lines += [f"no case matches rule '{rule}'" for rule in value["uncovered_rules"]]
    out.show(value, "\n".join(lines))
    if failures:
        raise click.exceptions.Exit(1)


@command("policy explain", graph=False)
@click.option("--actor", metavar="ACTOR", help="The actor.")
@click.option("--action", metavar="ACTION", help="The action to decide about.")
@click.option("--branch", metavar="BRANCH", help="The branch that is read or written.")
@click.option("--target-branch", metavar="BRANCH", help="The branch that is created, deleted, merged into or migrated.")
@click.option("--query", metavar="NAME", help="The stored query.")
@click.option("--matrix", is_flag=True, help="Show every actor and every action instead.")
@policy_options
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
    omnigraph policy explain ./company --actor ada --action change --branch main
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
