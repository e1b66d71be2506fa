"""What a served graph does not do, and why. Every method of a graph is either served or in this table."""

from __future__ import annotations

from collections.abc import Mapping

from omnigraph.errors import UsageError

_STORAGE = "it works on storage: open the graph with og.open, or run the command with --store, where the storage can be reached"
_TRANSACTION = (
    "the statements of a transaction see each other, which needs storage: use mutate, whose statements are one commit"
)
_SPARK = "Spark reads and writes storage: open the graph with og.open"
_SQL = "SQL runs where the storage is: open the graph with og.open, or write the query in .gq"

REFUSED: Mapping[str, str] = {
    "transaction": _TRANSACTION,
    "begin": _TRANSACTION,
    "stream_into": _SPARK,
    "spark": _SPARK,
    "as_": "the actor of a served graph is that of its token",
    "id": "a server names its graphs; only storage has the graph's own id",
    "embed": _STORAGE,
    "picture": _STORAGE,
    "algorithms": _STORAGE,
    "sql": _SQL,
    "duckdb": _SQL,
    "blame": "a server has the versions of an entity: use history",
    "distance": "a server has the commits of a branch: use commits",
    "revert": _STORAGE,
    "reset": _STORAGE,
    "ensure_indexes": "use optimize, which brings the indexes up to date too",
    "verify": _STORAGE,
    "repair": _STORAGE,
    "push": _STORAGE,
    "pull": _STORAGE,
    "plan_schema": "apply_schema refuses what would lose data, and its receipt has the steps; to see them first, open the graph with og.open",
    "broken_queries": _STORAGE,
    "diff_schema": _STORAGE,
    "explain_load": "a server chooses where a load runs: the receipt of the load says where it did",
}

PROPERTIES = frozenset({"id"})
"""The refused members that are properties."""


def not_served(what: str, reason: str) -> UsageError:
    return UsageError(f"a served graph has no '{what}'", hint=reason)


def only_default(what: str, value: object, default: object, reason: str) -> None:
    """UsageError if an option that a served graph does not support is given."""
    if value != default:
        raise UsageError(f"a served graph takes no '{what}'", hint=reason)


def no_actor(actor: str | None) -> None:
    only_default("actor", actor, None, "the actor of a served graph is that of its token")


ENGINE = "the work is done by the server"
