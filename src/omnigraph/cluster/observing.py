"""The actual state of a cluster: its ledger shown, checked against graphs and catalogue, or made from existing graphs."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from omnigraph.cluster.applying import Clock, locked, utc_now
from omnigraph.cluster.config import ClusterConfig
from omnigraph.cluster.ledger import Ledger, LedgerStore, Record
from omnigraph.cluster.planning import is_there, ledger_store
from omnigraph.errors import ClusterConflict, ConfigurationError, GraphNotFound, OmnigraphError
from omnigraph.graph import open as open_graph


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
            steps = open_graph(ledger.resources[f"graph.{name}"]["uri"]).plan_schema(text).lines()
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
                if open_graph(graph.uri).plan_schema(graph.schema_text).is_empty:
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
