"""What an apply would do: the folder compared with the ledger, and with the graphs themselves."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from omnigraph.cluster.config import ClusterConfig, digest_of
from omnigraph.cluster.ledger import Ledger, LedgerStore
from omnigraph.errors import GraphNotFound, OmnigraphError
from omnigraph.graph.opening import open as open_graph
from omnigraph.storage.options import open_store

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
