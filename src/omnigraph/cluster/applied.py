"""The applied revision of a cluster, with its texts: what a server serves."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.cluster.config import CLUSTER_SCOPE, read_root
from omnigraph.cluster.ledger import Ledger, LedgerStore, Record
from omnigraph.errors import ConfigurationError, Problem
from omnigraph.storage import open_store


@dataclass(frozen=True)
class AppliedGraph:
    """A graph with its stored queries by file, and the files of its policy, if it has one."""

    id: str
    uri: str
    queries: Mapping[str, str] = field(default_factory=dict)
    policy: Mapping[str, str] | None = None
    policy_name: str | None = None
    embedding: Mapping[str, str] | None = None
    """The settings of its embedding provider, as the cluster file declares them."""


@dataclass(frozen=True)
class Applied:
    """One revision of a cluster."""

    graphs: Mapping[str, AppliedGraph]
    policy: Mapping[str, str] | None
    """The files of the policy of the cluster itself."""
    policy_name: str | None
    server: Mapping[str, Any]
    digest: str
    revision: int
    token: str


def root_of(place: str) -> str:
    """Where a cluster's ledger is: `place` is the address of the storage, or a folder whose cluster file names it."""
    return place if "://" in place else read_root(place)


def books_of(place: str) -> LedgerStore:
    """The ledger of a cluster."""
    return LedgerStore(open_store(root_of(place)))


def read_applied(root: str) -> Applied:
    """The newest revision. ConfigurationError if nothing was applied, or a text is missing or damaged."""
    held = LedgerStore(open_store(root))
    ledger = held.read()
    if not ledger.is_there:
        raise ConfigurationError(
            [Problem("cluster_state_missing", f"nothing was applied to the cluster at {root}")],
            hint="'omnigraph cluster apply DIR' first",
        )
    graphs = {
        address.partition(".")[2]: record
        for address, record in ledger.resources.items()
        if address.startswith("graph.")
    }
    if not graphs:
        raise ConfigurationError([Problem("cluster_empty", "the cluster has no graphs")])
    policies = _policies(ledger)
    texts = {scope: _texts(held, record) for scope, (_, record) in policies.items()}
    names = {scope: name for scope, (name, _) in policies.items()}
    return Applied(
        {
            id: AppliedGraph(
                id, record["uri"], _queries(held, ledger, id), texts.get(id), names.get(id), _embedding(ledger, record)
            )
            for id, record in graphs.items()
        },
        texts.get(CLUSTER_SCOPE),
        names.get(CLUSTER_SCOPE),
        ledger.server,
        ledger.config_digest,
        ledger.revision,
        ledger.token,
    )


def _embedding(ledger: Ledger, graph: Record) -> Mapping[str, str] | None:
    name = graph.get("settings", {}).get("embedding_provider")
    provider = ledger.resources.get(f"provider.embedding.{name}")
    return None if provider is None else provider["settings"]


def _policies(ledger: Ledger) -> dict[str, tuple[str, Record]]:
    """The name and the record of each policy, by what it applies to."""
    return {
        scope: (address.partition(".")[2], record)
        for address, record in ledger.resources.items()
        if address.startswith("policy.")
        for scope in record["applies_to"]
    }


def _texts(books: LedgerStore, record: Record) -> dict[str, str]:
    return {file: books.payload(digest) for file, digest in record["files"].items()}


def _queries(books: LedgerStore, ledger: Ledger, id: str) -> dict[str, str]:
    files = {
        record["file"]: record["digest"]
        for address, record in ledger.resources.items()
        if address.startswith(f"query.{id}.")
    }
    return {file: books.payload(digest) for file, digest in sorted(files.items())}
