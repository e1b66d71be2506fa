"""What a server serves: the applied revision, with its texts, as one value."""

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
    """The provider that embeds its texts, as the cluster file declares it."""


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
    """Where a cluster's ledger is: a folder with a cluster file says it; an address of storage is it."""
    return place if "://" in place else read_root(place)


def books_of(place: str) -> LedgerStore:
    """The ledger of a cluster."""
    return LedgerStore(open_store(root_of(place)))


def read_applied(root: str) -> Applied:
    """The newest revision. ConfigurationError when nothing was applied, or a text is not as it was."""
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
    """By what they apply to: name and record."""
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
