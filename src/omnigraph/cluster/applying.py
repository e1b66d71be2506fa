"""Applying a cluster file: the texts of the catalogue, then graphs and schemas, then one put of the ledger, then approved
removals.

Each step can be repeated: a graph that exists is adopted, a schema that is in place needs no step, a text is stored under its
digest. Only the ledger is authoritative. So an apply after a crash finishes the work.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any

from omnigraph.cluster.config import ClusterConfig, GraphConfig
from omnigraph.cluster.ledger import Ledger, LedgerStore, Record
from omnigraph.cluster.planning import Operation, Plan, is_there, ledger_store, plan
from omnigraph.errors import AlreadyExists, ClusterConflict, ConfigurationError, GraphNotFound, OmnigraphError
from omnigraph.graph.opening import init as init_graph, open as open_graph
from omnigraph.history.history import new_ulid
from omnigraph.storage.options import open_store

Clock = Callable[[], dt.datetime]


def utc_now() -> dt.datetime:
    return dt.datetime.now(dt.UTC)


@dataclass(frozen=True)
class Applying:
    """What an apply did. `converged` says that nothing is left to do."""

    ledger: Ledger
    operations: tuple[Operation, ...]
    errors: tuple[str, ...] = ()

    @property
    def converged(self) -> bool:
        done = all(operation.disposition in ("applied", "derived") for operation in self.operations)
        return done and not self.errors and not self.ledger.recoveries

    def to_json(self) -> dict[str, Any]:
        return {
            "state_revision": self.ledger.revision,
            "state_cas": self.ledger.token,
            "config_digest": self.ledger.config_digest,
            "operations": [operation.to_json() for operation in self.operations],
            "errors": list(self.errors),
            "converged": self.converged,
        }


@contextmanager
def locked(
    config: ClusterConfig, books: LedgerStore, operation: str, actor: str | None, clock: Clock
) -> Iterator[LedgerStore]:
    """The ledger's store, with the lock of the cluster held if it has one."""
    if not config.has_lock:
        yield books
        return
    id = new_ulid()
    books.lock(id, operation, actor, clock())
    try:
        yield books
    finally:
        with suppress(ClusterConflict):  # removed by force-unlock
            books.unlock(id)


def apply(
    config: ClusterConfig, *, actor: str | None = None, books: LedgerStore | None = None, clock: Clock = utc_now
) -> Applying:
    """Do what the plan says, except operations that are blocked. ClusterConflict if another apply is running."""
    with locked(config, books or ledger_store(config), "apply", actor, clock) as held:
        planned = plan(config, _with_removals_finished(held, held.read()))
        if planned.converged and planned.ledger.is_there:
            return Applying(planned.ledger, ())
        work = _Apply(planned, held, actor)
        work.run()
        ledger = _with_removals_finished(held, work.published(clock))
        return Applying(ledger, tuple(work.done), tuple(work.errors))


def _with_removals_finished(books: LedgerStore, ledger: Ledger) -> Ledger:
    """Remove the files of graphs that are no longer in the ledger, including those that an earlier apply left."""
    if not ledger.recoveries:
        return ledger
    in_use = {record["uri"] for address, record in ledger.resources.items() if address.startswith("graph.")}
    for record in ledger.recoveries:
        if record["uri"] not in in_use:
            open_store(record["uri"]).delete_prefix("")
    return books.publish(replace(ledger, recoveries=()))


class _Apply:
    """A running apply. What was done is recorded in `resources`, which the ledger gets in the end."""

    def __init__(self, planned: Plan, books: LedgerStore, actor: str | None) -> None:
        self.config, self.ledger, self.books, self.actor = planned.config, planned.ledger, books, actor
        self.operations = planned.operations
        self.resources: dict[str, Record] = dict(planned.ledger.resources)
        self.recoveries: list[Record] = list(planned.ledger.recoveries)
        self.done: list[Operation] = []
        self.errors: list[str] = []
        self.failed: set[str] = set()
        """The graphs for which an operation failed."""

    def run(self) -> None:
        for digest, text in self.config.payloads.items():
            self.books.keep(digest, text)
        for operation in self.operations:
            self.done.append(self._step(operation))

    def _step(self, operation: Operation) -> Operation:
        if operation.disposition in ("blocked", "deferred"):
            return operation
        kind, _, name = operation.address.partition(".")
        graph = name.partition(".")[0]
        if kind in ("schema", "query") and graph in self.failed and operation.operation != "delete":
            return replace(operation, disposition="deferred", reason="apply_dependency_blocked")
        try:
            if operation.operation == "delete":
                self._forget(operation.address)
            elif kind == "graph":
                self._make(self.config.graphs[name])
            elif kind == "schema" and operation.disposition != "derived":
                self._migrate(self.config.graphs[name])
        except OmnigraphError as error:
            self.failed.add(graph)
            code = "schema_apply_failed" if kind == "schema" else "graph_create_failed"
            self.errors.append(f"{operation.address}: {error.message}")
            return replace(operation, disposition="blocked", reason=f"{code}: {error.message}")
        if operation.operation != "delete":
            self.resources[operation.address] = self.config.resources[operation.address]
        return operation

    def _make(self, graph: GraphConfig) -> None:
        try:
            init_graph(graph.uri, graph.schema_text, actor=self.actor)
        except AlreadyExists:
            open_graph(graph.uri)  # a graph that cannot be opened is not adopted

    def _migrate(self, graph: GraphConfig) -> None:
        open_graph(graph.uri).schema.apply(graph.schema_text, actor=self.actor, message="cluster apply")

    def _forget(self, address: str) -> None:
        record = self.resources.pop(address)
        if address.startswith("graph.") and not record["is_elsewhere"]:
            self.recoveries.append({"kind": "graph_delete", "address": address, "uri": record["uri"]})

    def published(self, clock: Clock) -> Ledger:
        """Publish the ledger with everything that was done. It records removals, which are carried out afterwards."""
        gone = {operation.address for operation in self.done if operation.operation == "delete"}
        blocked = {op.address: op.reason for op in self.done if op.disposition in ("blocked", "deferred")}
        statuses: dict[str, Record] = {address: {"status": "applied"} for address in self.resources}
        for address, reason in blocked.items():
            statuses[address] = {"status": "blocked", "message": reason}
        return self.books.publish(
            replace(
                self.ledger,
                config_digest=self.config.digest,
                name=self.config.name,
                resources=self.resources,
                server=self.config.server,
                statuses=statuses,
                approvals=tuple(
                    approval for approval in self.ledger.approvals if approval["address"] not in gone - set(blocked)
                ),
                recoveries=tuple(self.recoveries),
                observed_at=clock().isoformat(),
            )
        )


# Approval of operations that destroy data, bound to exactly what exists.


def approve(
    config: ClusterConfig, address: str, actor: str, *, books: LedgerStore | None = None, clock: Clock = utc_now
) -> tuple[Ledger, Record]:
    """Let the next apply remove a graph. Any change of the folder, or of what was applied, makes the approval stale."""
    with locked(config, books or ledger_store(config), "approve", actor, clock) as held:
        current_plan = plan(config, held.read())
        operation = next((planned for planned in current_plan.operations if planned.address == address), None)
        if operation is None or operation.approval is None:
            raise ClusterConflict(
                "approval_not_required",
                f"nothing that the plan does to '{address}' needs an approval",
                hint="'omnigraph cluster plan' shows what does",
            )
        record = {"address": address, "digest": operation.approval, "actor": actor, "at": clock().isoformat()}
        others = tuple(approval for approval in current_plan.ledger.approvals if approval["address"] != address)
        return held.publish(replace(current_plan.ledger, approvals=(*others, record))), record


# The actual state of a cluster: its ledger shown, checked against graphs and catalogue, or made from existing graphs.


def status(books: LedgerStore) -> dict[str, Any]:
    """The ledger and the holder of the lock, whose id is also in `state_observations`, where drivers of clusters look for it."""
    ledger, holder = books.read(), books.holder()
    observed = {"locked": holder is not None, "lock_id": holder and holder["id"]}
    return {**ledger.to_json(), "state_cas": ledger.token, "state_observations": observed, "lock": holder}


def refresh(
    config: ClusterConfig, *, actor: str | None = None, books: LedgerStore | None = None, clock: Clock = utc_now
) -> Ledger:
    """Check every graph and every text of the catalogue, and record what is not as it was applied."""
    with locked(config, books or ledger_store(config), "refresh", actor, clock) as held:
        ledger = _required(held.read())
        statuses = {address: _observed(held, ledger, address) for address in ledger.resources}
        return held.publish(replace(ledger, statuses=statuses, observed_at=clock().isoformat()))


def _observed(books: LedgerStore, ledger: Ledger, address: str) -> Record:
    record = ledger.resources[address]
    kind, _, name = address.partition(".")
    try:
        for digest in _payloads(kind, record):
            books.payload(digest)
        if kind == "graph":
            open_graph(record["uri"])
        elif kind == "schema":
            text = books.payload(record["digest"])
            steps = open_graph(ledger.resources[f"graph.{name}"]["uri"]).schema.plan(text).lines()
            if steps:
                return {"status": "drifted", "message": f"schema_mismatch: {'; '.join(steps)}"}
    except GraphNotFound:
        return {"status": "drifted", "message": "graph_missing: there is no graph"}
    except ConfigurationError as error:
        return {"status": "error", "message": f"{error.problems[0].code}: {error.problems[0].message}"}
    except OmnigraphError as error:
        return {"status": "error", "message": f"graph_observation_error: {error.message}"}
    return {"status": "applied"}


def _payloads(kind: str, record: Record) -> Iterator[str]:
    if kind in ("schema", "query"):
        yield record["digest"]
    elif kind == "policy":
        yield from record["files"].values()


def import_state(
    config: ClusterConfig, *, actor: str | None = None, books: LedgerStore | None = None, clock: Clock = utc_now
) -> Ledger:
    """Create the first ledger, with those graphs of the folder that exist already."""
    with locked(config, books or ledger_store(config), "import", actor, clock) as held:
        if held.read().is_there:
            raise ClusterConflict(
                "state_already_exists", "the cluster has a ledger already", hint="'omnigraph cluster status' shows it"
            )
        resources: dict[str, Record] = {}
        for graph in config.graphs.values():
            if is_there(graph.uri):
                resources[f"graph.{graph.id}"] = config.resources[f"graph.{graph.id}"]
                if open_graph(graph.uri).schema.plan(graph.schema_text).is_empty:
                    resources[f"schema.{graph.id}"] = config.resources[f"schema.{graph.id}"]
                    held.keep(resources[f"schema.{graph.id}"]["digest"], graph.schema_text)
        return held.publish(
            Ledger(
                name=config.name,
                resources=resources,
                statuses={address: {"status": "applied"} for address in resources},
                observed_at=clock().isoformat(),
            )
        )


def _required(ledger: Ledger) -> Ledger:
    if not ledger.is_there:
        raise ClusterConflict("state_missing", "nothing was applied yet", hint="run 'omnigraph cluster apply' first")
    return ledger
