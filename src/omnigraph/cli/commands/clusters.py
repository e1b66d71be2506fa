"""cluster *, queries *: many graphs from one folder, and the queries that are stored for them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from omnigraph.cli.options import command
from omnigraph.cli.output import Output
from omnigraph.cli.settings import Settings
from omnigraph.errors import UsageError

if TYPE_CHECKING:
    from omnigraph.cluster.planning import Operation

_folder = click.option(
    "--config", "folder", metavar="DIR", default=".", show_default=True, help="The folder with cluster.yaml."
)
_cluster = click.option("--cluster", "folder", metavar="DIR", default=".", help="The folder with cluster.yaml.")
_graph = click.option("--graph", metavar="ID", help="Of this graph only.")
_planner = click.option("--as", "actor", metavar="ACTOR", help="As for apply. A plan is the same whoever asks for it.")


def register(cli: click.Group) -> None:
    @cli.group()
    def cluster() -> None:
        """Manage many graphs, with their schemas, queries and policies, from one folder.

        \b
        omnigraph cluster apply --config ./company
        """

    _register_reading(cluster)
    _register_changing(cluster)
    _register_queries(cli)


def _register_reading(cluster: click.Group) -> None:
    @command(cluster, "validate", graph=False)
    @_folder
    def validate(settings: Settings, out: Output, folder: str) -> None:
        """Check the cluster file and every file it names. Storage is not read.

        \b
        omnigraph cluster validate --config ./company

        \b
        JSON: {ok, name, config_digest, resources: {address: digest}}
        """
        from omnigraph.cluster.config import read_config

        config = read_config(folder)
        digests = {address: resource["digest"] for address, resource in config.resources.items()}
        value = {"ok": True, "name": config.name, "config_digest": config.digest, "resources": digests}
        counted = f"graphs: {len(config.graphs)}, policies: {len(config.policies)}, resources: {len(digests)}"
        out.done(value, f"cluster '{config.name}' is valid; {counted}")

    @command(cluster, "plan", graph=False, writes=True, flags={"actor": _planner})
    @_folder
    def plan(settings: Settings, out: Output, folder: str) -> None:
        """Show what an apply would do. The schemas of the graphs are read; nothing is changed.

        \b
        omnigraph cluster plan --config ./company

        \b
        JSON: {name, config_digest, state_revision, state_cas, operations: [{address, operation, disposition, reason?,
               migration?, approvals_required?, binding_change?, metadata_change?}], converged}
        """
        from omnigraph.cluster.config import read_config
        from omnigraph.cluster.planning import plan as make

        planned = make(read_config(folder))
        ending = "nothing to do" if planned.converged else f"operations: {len(planned.operations)}"
        out.show(planned.to_json(), "\n".join([*_lines(planned.operations), ending]))

    @command(cluster, "status", graph=False)
    @_folder
    def status(settings: Settings, out: Output, folder: str) -> None:
        """Show what was applied, and who holds the lock.

        \b
        omnigraph cluster status --config ./company

        \b
        JSON: {version, state_revision, state_cas, applied_revision: {config_digest, name, resources, server},
               resource_statuses, approval_records, recovery_records, observations, state_observations: {locked, lock_id},
               lock}
        """
        from omnigraph.cluster.applying import status as show
        from omnigraph.cluster.policies import books_of

        shown = show(books_of(folder))
        lines = [f"revision {shown['state_revision']}" if shown["state_revision"] else "nothing was applied yet"]
        for address, state in shown["resource_statuses"].items():
            lines.append(f"{state['status']:8} {address}" + (f": {state['message']}" if "message" in state else ""))
        if shown["lock"]:
            lines.append(f"locked by '{shown['lock']['operation']}' since {shown['lock']['at']}: {shown['lock']['id']}")
        out.show(shown, "\n".join(lines))


def _register_changing(cluster: click.Group) -> None:
    @command(cluster, "apply", graph=False, writes=True)
    @_folder
    def apply(settings: Settings, out: Output, folder: str) -> None:
        """Apply the folder: create graphs, change schemas without loss of data, set queries and policies. Exit code 1 if
        something cannot be applied; the rest is.

        \b
        omnigraph cluster apply --config ./company --as ada

        \b
        JSON: {state_revision, state_cas, config_digest, operations: [{address, operation, disposition, reason?, migration?,
               approvals_required?, binding_change?, metadata_change?}], errors: [text], converged}
        """
        from omnigraph.cluster.applying import apply as run
        from omnigraph.cluster.config import read_config

        done = run(read_config(folder), actor=settings.actor)
        ending = "the cluster is as the folder says" if done.converged else "not everything could be applied"
        out.show(done.to_json(), "\n".join([*_lines(done.operations), f"{ending} (revision {done.ledger.revision})"]))
        if not done.converged:
            raise click.exceptions.Exit(1)

    @command(cluster, "approve", graph=False, writes=True)
    @click.argument("resource")
    @_folder
    def approve(settings: Settings, out: Output, resource: str, folder: str) -> None:
        """Let the next apply remove a graph with its data. Any change before that makes the approval void.

        \b
        omnigraph cluster approve graph.people --config ./company --as ada

        \b
        JSON: {address, digest, actor, at}
        """
        from omnigraph.cluster.applying import approve as run
        from omnigraph.cluster.config import read_config

        if settings.actor is None:
            raise UsageError("an approval needs an actor", hint="--as ACTOR")
        _, record = run(read_config(folder), resource, settings.actor)
        out.done(dict(record), f"approved: the next apply removes {resource}")

    @command(cluster, "refresh", graph=False, writes=True)
    @_folder
    def refresh(settings: Settings, out: Output, folder: str) -> None:
        """Check every graph and every stored text, and record what differs from what was applied. Exit code 1 if anything does.

        \b
        omnigraph cluster refresh --config ./company

        \b
        JSON: {state_revision, resource_statuses}
        """
        from omnigraph.cluster.applying import refresh as run
        from omnigraph.cluster.config import read_config

        ledger = run(read_config(folder), actor=settings.actor)
        odd = {address: status for address, status in ledger.statuses.items() if status["status"] != "applied"}
        lines = [f"{status['status']:8} {address}: {status['message']}" for address, status in odd.items()]
        value = {"state_revision": ledger.revision, "resource_statuses": dict(ledger.statuses)}
        out.show(value, "\n".join(lines) or "everything is as it was applied")
        if odd:
            raise click.exceptions.Exit(1)

    @command(cluster, "import", graph=False, writes=True)
    @_folder
    def import_(settings: Settings, out: Output, folder: str) -> None:
        """Create the ledger, with the graphs that exist already. An apply does the same when it finds them.

        \b
        omnigraph cluster import --config ./company

        \b
        JSON: {state_revision, resources: [address]}
        """
        from omnigraph.cluster.applying import import_state
        from omnigraph.cluster.config import read_config

        ledger = import_state(read_config(folder), actor=settings.actor)
        addresses = sorted(ledger.resources)
        out.done(
            {"state_revision": ledger.revision, "resources": addresses}, f"imported {', '.join(addresses) or 'nothing'}"
        )

    @command(cluster, "force-unlock", graph=False)
    @click.argument("lock_id")
    @_folder
    def force_unlock(settings: Settings, out: Output, lock_id: str, folder: str) -> None:
        """Remove the lock of a dead process. If the process is still working, it only loses the race for the ledger.

        \b
        omnigraph cluster force-unlock 01J... --config ./company

        \b
        JSON: {unlocked}
        """
        from omnigraph.cluster.policies import books_of

        books_of(folder).unlock(lock_id)
        out.done({"unlocked": lock_id}, f"unlocked {lock_id}")


def _register_queries(cli: click.Group) -> None:
    @cli.group()
    def queries() -> None:
        """Stored queries of a cluster.

        \b
        omnigraph queries list --cluster ./company
        """

    @command(queries, "list", graph=False)
    @_cluster
    @_graph
    def list_queries(settings: Settings, out: Output, folder: str, graph: str | None) -> None:
        """List the stored queries of each graph in the folder.

        \b
        omnigraph queries list --cluster ./company --graph people

        \b
        JSON: {graphs: {id: [<reads.QueryJson>]}}
        """
        from omnigraph.api.reads import QueryJson
        from omnigraph.cluster.config import read_config
        from omnigraph.cluster.policies import stored_queries

        listed = stored_queries(read_config(folder), graph)
        rows = [
            {"graph": id, "query": query.name, "kind": "mutation" if query.is_mutation else "read", "file": query.file}
            for id, queries in listed.items()
            for query in queries.values()
        ]
        value = {
            "graphs": {
                id: [QueryJson.to_json(query.plan) for query in queries.values()] for id, queries in listed.items()
            }
        }
        out.table(rows, ["graph", "query", "kind", "file"], value=value)

    @command(queries, "validate", graph=False)
    @_cluster
    @_graph
    def validate(settings: Settings, out: Output, folder: str, graph: str | None) -> None:
        """Check that every stored query fits the schema that its graph has now. Exit code 1 if one does not.

        \b
        omnigraph queries validate --cluster ./company

        \b
        JSON: {ok, breakages: [{graph, query, message}], warnings: [text]}
        """
        from omnigraph.cluster.config import read_config
        from omnigraph.cluster.policies import broken_queries

        breakages, warnings = broken_queries(read_config(folder), graph)
        value: dict[str, Any] = {"ok": not breakages, "breakages": breakages, "warnings": warnings}
        lines = [f"{breakage['graph']}: query '{breakage['query']}': {breakage['message']}" for breakage in breakages]
        out.show(value, "\n".join([*lines, *(f"warning: {warning}" for warning in warnings)]) or "every query fits")
        if breakages:
            raise click.exceptions.Exit(1)


def _lines(operations: tuple[Operation, ...]) -> list[str]:
    lines = []
    for operation in operations:
        because = f" ({operation.reason})" if operation.reason else ""
        lines.append(f"{operation.operation} {operation.address}: {operation.disposition}{because}")
        lines += [f"  {step}" for step in operation.migration]
    return lines
