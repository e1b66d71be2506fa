"""What an apply would do (the folder compared with the ledger, and with the graphs themselves), and doing it: the texts of the catalogue, then graphs and schemas, then one put of the ledger, then approved
removals.

Each step can be repeated: a graph that exists is adopted, a schema that is in place needs no step, a text is stored under its
digest. Only the ledger is authoritative. So an apply after a crash finishes the work.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import Any, Literal

from omnigraph.cluster.config import ClusterConfig, GraphConfig, digest_of
from omnigraph.cluster.ledger import Ledger, LedgerStore, Record
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


Change = Literal["create", "update", "delete"]
Disposition = Literal["applied", "derived", "deferred", "blocked"]
_ORDER = {"graph": 0, "schema": 1, "provider": 2, "query": 3, "policy": 4}


@dataclass(frozen=True)
class Operation:
    """One resource that would change. Applied: the apply does it. Derived: it follows from another operation. Blocked: the reason
    says why. Deferred: it waits for an operation that is blocked."""

    address: str
    operation: Change
    disposition: Disposition = "applied"
    reason: str | None = None
    migration: tuple[str, ...] = ()
    """The steps, for a schema."""
    approval: str | None = None
    """The digest that an approval must be bound to."""
    binding_change: bool = False
    """Whether a policy applies to other graphs than before."""

    def to_json(self) -> dict[str, Any]:
        value: dict[str, Any] = {
            "address": self.address,
            "operation": self.operation,
            "disposition": self.disposition,
        }
        if self.reason is not None:
            value["reason"] = self.reason
        if self.migration:
            value["migration"] = list(self.migration)
        if self.approval is not None:
            value["approvals_required"] = [{"address": self.address, "digest": self.approval}]
        if self.binding_change:
            value |= {"binding_change": True, "metadata_change": "policy_bindings"}
        return value


@dataclass(frozen=True)
class Plan:
    """The operations, in the order in which they are done."""

    config: ClusterConfig
    ledger: Ledger
    operations: tuple[Operation, ...]

    @property
    def converged(self) -> bool:
        """Whether there is nothing to do."""
        is_same = self.ledger.config_digest == self.config.digest
        return is_same and not self.operations and not self.ledger.recoveries

    def to_json(self) -> dict[str, Any]:
        return {
            "name": self.config.name,
            "config_digest": self.config.digest,
            "state_revision": self.ledger.revision,
            "state_cas": self.ledger.token,
            "operations": [operation.to_json() for operation in self.operations],
            "converged": self.converged,
        }


def ledger_store(config: ClusterConfig) -> LedgerStore:
    return LedgerStore(open_store(config.root))


def plan(config: ClusterConfig, ledger: Ledger | None = None) -> Plan:
    """What an apply would do. Reads the schemas of existing graphs; changes nothing."""
    current = ledger_store(config).read() if ledger is None else ledger
    operations = sorted(_operations(config, current), key=_rank)
    return Plan(config, current, tuple(_with_waiting(operations, current)))


def _rank(operation: Operation) -> tuple[bool, int, str]:
    return operation.operation == "delete", _ORDER[operation.address.partition(".")[0]], operation.address


def _operations(config: ClusterConfig, ledger: Ledger) -> Iterator[Operation]:
    wanted, applied = config.resources, ledger.resources
    for address in sorted({*wanted, *applied}):
        before = applied.get(address, {}).get("digest")
        after = wanted.get(address, {}).get("digest")
        kind, _, name = address.partition(".")
        if kind == "schema" and after is not None:
            yield from _schema(config, name, before, after)
        elif before == after:
            continue
        elif kind == "graph":
            yield _graph(config, ledger, name, before, after)
        elif after is None:
            yield Operation(address, "delete", *_following(address, wanted))
        else:
            bound = kind == "policy" and before is not None
            bindings = [side.get(address, {}).get("applies_to") for side in (applied, wanted)]
            change: Change = "create" if before is None else "update"
            yield Operation(address, change, binding_change=bound and bindings[0] != bindings[1])


def _following(address: str, wanted: Mapping[str, Any]) -> tuple[Disposition, str | None]:
    """The disposition of a removal: what belongs to a graph is removed with it."""
    kind, _, name = address.partition(".")
    graph = f"graph.{name.partition('.')[0]}"
    if kind in ("schema", "query") and graph not in wanted:
        return "derived", f"removed with {graph}"
    return "applied", None


def _graph(config: ClusterConfig, ledger: Ledger, id: str, before: str | None, after: str | None) -> Operation:
    address = f"graph.{id}"
    if after is None:
        record = ledger.resources[address]
        if record["is_elsewhere"]:
            return Operation(address, "delete", reason="it is no longer part of the cluster; its files stay")
        required = approval_digest(address, config, ledger)
        if any(approval["address"] == address and approval["digest"] == required for approval in ledger.approvals):
            return Operation(address, "delete", reason="approved")
        stale = any(approval["address"] == address for approval in ledger.approvals)
        reason = "approval_stale: the configuration has changed since" if stale else "approval_required"
        return Operation(address, "delete", "blocked", reason, approval=required)
    graph = config.graphs[id]
    if before is not None:
        moved = ledger.resources[address]["uri"] != graph.uri
        if moved and not is_there(graph.uri):
            return Operation(address, "update", "blocked", f"graph_missing: there is no graph at {graph.uri}")
        return Operation(address, "update")
    if is_there(graph.uri):
        return Operation(address, "create", reason="the graph exists and is adopted")
    if graph.is_elsewhere:
        return Operation(address, "create", "blocked", f"graph_missing: there is no graph at {graph.uri}")
    return Operation(address, "create")


def _schema(config: ClusterConfig, id: str, before: str | None, after: str) -> Iterator[Operation]:
    """A schema is compared with the one that the graph has now, not with the one that was applied."""
    graph, address = config.graphs[id], f"schema.{id}"
    change: Change = "create" if before is None else "update"
    try:
        migration = open_graph(graph.uri).schema.plan(graph.schema_text)
    except GraphNotFound:
        if before is not None:
            yield Operation(address, "update", "blocked", f"graph_missing: there is no graph at {graph.uri}")
        else:
            yield Operation(address, "create", "derived", "made with the graph")
        return
    except OmnigraphError as error:
        yield Operation(address, change, "blocked", f"schema_preview_unavailable: {error.message}")
        return
    lines = tuple(migration.lines())
    if not migration.supported:
        yield Operation(address, change, "blocked", "apply_unsupported_change", lines)
    elif lines or before != after:
        yield Operation(address, change, migration=lines)


def _with_waiting(operations: list[Operation], ledger: Ledger) -> Iterator[Operation]:
    """Schema and queries of a graph are deferred if its own change is blocked. If a removal of a graph lacks approval, everything
    that belongs to it stays too, above all its policy, without which more people could access it."""
    blocked = {
        (operation.address.partition(".")[2], operation.operation == "delete")
        for operation in operations
        if operation.disposition == "blocked"
    }
    for operation in operations:
        kind, _, name = operation.address.partition(".")
        is_deleted = operation.operation == "delete"
        if kind in ("schema", "query"):
            waits = (name.partition(".")[0], is_deleted) in blocked
        else:
            bound = ledger.resources.get(operation.address, {}).get("applies_to", ()) if kind == "policy" else ()
            waits = any((graph, True) in blocked for graph in bound)
        if waits and operation.disposition != "blocked":
            yield Operation(operation.address, operation.operation, "deferred", "apply_dependency_blocked")
        else:
            yield operation


def approval_digest(address: str, config: ClusterConfig, ledger: Ledger) -> str:
    """What an approval is bound to: the resource as it was applied, and the whole configuration of the folder."""
    return digest_of([address, ledger.resources[address]["digest"], config.digest])


def is_there(uri: str) -> bool:
    try:
        open_graph(uri)
    except GraphNotFound:
        return False
    return True
