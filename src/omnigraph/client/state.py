"""What the methods of a served graph share: the connection, the name of the graph, and cached schemas and commits."""

from __future__ import annotations

import datetime as dt
import inspect
import re
import secrets
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.api.history import ServedCommit
from omnigraph.client.connection import Connection, Reply, segment
from omnigraph.errors import CommitNotFound, UsageError
from omnigraph.graph.arguments import checked
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit
from omnigraph.history.write_keys import KeyName
from omnigraph.language.catalog import Catalog
from omnigraph.language.schema.compiler import compile_schema
from omnigraph.values.json_values import json_value

if TYPE_CHECKING:
    from omnigraph.history.write_keys import Once


# Checks of arguments, the same as for an open graph.

C = TypeVar("C", bound=type)


def checked_methods(public: C) -> C:
    """Decorates a class: the arguments of its public methods are checked before they are called."""
    for name, member in inspect.getmembers(public, inspect.isfunction):
        if not name.startswith("_"):
            setattr(public, name, checked(member))
    return public


# What a served graph does not do, and why. Every method of a graph is either served or in this table.

_STORAGE = "it works on storage: open the graph with og.open, or run the command with --store, where the storage can be reached"
_TRANSACTION = (
    "the statements of a transaction see each other, which needs storage: use mutate, whose statements are one commit"
)
_SPARK = "Spark reads and writes storage: open the graph with og.open"
_SQL = "SQL runs where the storage is: open the graph with og.open, or write the query in .gq"

REFUSED: Mapping[str, str] = {
    "transaction": _TRANSACTION,
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
    "push": _STORAGE,
    "pull": _STORAGE,
    "explain_load": "a server chooses where a load runs: the receipt of the load says where it did",
}

SCHEMA_REFUSED: Mapping[str, str] = {
    "plan": "schema.apply refuses what would lose data, and its receipt has the steps; to see them first, open the graph with og.open",
    "broken_queries": _STORAGE,
    "diff": _STORAGE,
}

MAINTENANCE_REFUSED: Mapping[str, str] = {
    "ensure_indexes": "use optimize, which brings the indexes up to date too",
    "verify": _STORAGE,
    "repair": _STORAGE,
}

PROPERTIES = frozenset({"id"})
"""The refused members that are properties."""


class Refusing:
    """A class whose members that are not served say why."""

    _refused: Mapping[str, str] = {}

    def __getattr__(self, name: str) -> Any:
        reason = self._refused.get(name)
        if reason is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        error = UsageError(f"a served graph has no '{name}'", hint=reason)
        if name in PROPERTIES:
            raise error

        def refused(*_arguments: Any, **_options: Any) -> Any:
            raise error

        return refused


def only_default(what: str, value: object, default: object, reason: str) -> None:
    """UsageError if an option that a served graph does not support is given."""
    if value != default:
        raise UsageError(f"a served graph takes no '{what}'", hint=reason)


def no_actor(actor: str | None) -> None:
    only_default("actor", actor, None, "the actor of a served graph is that of its token")


ENGINE = "the work is done by the server"


COMMIT_HEADER = "omnigraph-graph-commit"
_COMMIT_ID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")
_KEY = re.compile(r"[\x21-\x7e]{1,128}")
MAX_CATALOGS = 64
MAX_COMMITS = 1_024
"""How many are cached, each by commit id."""


class RemoteState:
    """One graph of a server."""

    def __init__(self, connection: Connection, graph: str) -> None:
        self.connection = connection
        self.graph = graph
        self.path = f"/graphs/{segment(graph)}"
        self._catalogs: OrderedDict[str, Catalog] = OrderedDict()
        self._commits: OrderedDict[str, Commit] = OrderedDict()

    @property
    def uri(self) -> str:
        return self.connection.url + self.path

    def get(self, path: str, **query: Any) -> Reply:
        return self.connection.send("GET", self.path + path, query=query)

    def read(self, path: str, body: dict[str, Any]) -> Reply:
        """A read whose request has a body."""
        return self.connection.send("POST", self.path + path, body=without_nulls(body))

    def write(self, path: str, body: dict[str, Any], once: Once | None, if_commit: str | None = None) -> Reply:
        """A write under the caller's key or a random one, so that it can be repeated."""
        headers = write_headers(once, if_commit)
        return self.connection.send("POST", self.path + path, body=without_nulls(body), headers=headers)

    def streamed(self, path: str, body: dict[str, Any]) -> Iterator[bytes]:
        """The pieces of an answer, as they arrive."""
        with self.connection.stream("POST", self.path + path, body=body) as pieces:
            yield from pieces

    # ------------------------------------------------------------ revisions and schemas

    def at(self, revision: str, as_of: str | dt.datetime | None) -> str | None:
        """A revision as a request names it; None for the head of main."""
        if as_of is not None:
            return self._head_at(revision, as_of)
        return None if revision == MAIN else revision

    def _head_at(self, branch: str, as_of: str | dt.datetime) -> str:
        until = as_of if isinstance(as_of, str) else _utc_text(as_of)
        page = self.get("/commits", branch=branch, until=until, limit=1).json()["commits"]
        if not page:
            raise CommitNotFound(f"branch '{branch}' has no commit at {until}")
        return str(page[0]["graph_commit_id"])

    def commit_id(self, revision: str, as_of: str | dt.datetime | None = None) -> str:
        """The commit that a revision names."""
        wanted = self.at(revision, as_of)
        if wanted is not None and _COMMIT_ID.fullmatch(wanted):
            return wanted
        return self._schema_reply(wanted).headers[COMMIT_HEADER]

    def commit(self, id: str) -> Commit:
        """A commit by its id. Cached: commits never change."""
        if id not in self._commits:
            self._commits[id] = ServedCommit.from_json(self.get(f"/commits/{segment(id)}").json())
            while len(self._commits) > MAX_COMMITS:
                self._commits.popitem(last=False)
        return self._commits[id]

    def catalog(self, revision: str, as_of: str | dt.datetime | None = None) -> Catalog:
        """The schema of a revision."""
        wanted = self.at(revision, as_of)
        known = None if wanted is None else self._catalogs.get(wanted)
        if known is not None:
            return known
        reply = self._schema_reply(wanted)
        return self._catalogs[reply.headers[COMMIT_HEADER]]

    def _schema_reply(self, revision: str | None) -> Reply:
        reply = self.get("/schema", snapshot=revision)
        commit = reply.headers[COMMIT_HEADER]
        if commit not in self._catalogs:
            value = reply.json()
            same = next((catalog for catalog in self._catalogs.values() if catalog.hash == value["hash"]), None)
            self._catalogs[commit] = same or replace(compile_schema(value["schema_source"]), hash=value["hash"])
            while len(self._catalogs) > MAX_CATALOGS:
                self._catalogs.popitem(last=False)
        return reply


def without_nulls(members: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in members.items() if value is not None}


def listed(words: Iterable[str] | None) -> list[str] | None:
    return None if words is None else list(words)


def params_json(params: Mapping[str, object] | None) -> dict[str, Any] | None:
    """Parameters as JSON. UsageError for a value that JSON cannot express."""
    if params is None:
        return None
    try:
        return {name: json_value(value) for name, value in params.items()}
    except TypeError as error:
        raise UsageError(f"a parameter cannot be sent as JSON: {error}") from None


def is_replayed(headers: Mapping[str, str]) -> bool:
    """Whether the server had made the write before."""
    return headers.get("idempotent-replayed") == "true"


def write_headers(once: Once | None, if_commit: str | None) -> dict[str, str]:
    """The headers of a write: its key, and the commit that its branch must be at. UsageError if that is not a commit id."""
    headers = {"Idempotency-Key": key_of(once)}
    if if_commit is not None:
        if _COMMIT_ID.fullmatch(if_commit) is None:
            raise UsageError(f"'{if_commit}' is not a commit id", hint="a served graph compares whole ids")
        headers["If-Match"] = f'"{if_commit}"'
    return headers


def key_of(once: Once | None) -> str:
    """The Idempotency-Key of a write."""
    if once is None:
        return secrets.token_hex(16)
    KeyName.of(once)  # UsageError if it is not a valid write key
    if not isinstance(once, str):
        raise UsageError("the write key of a served graph must be a text, not a sequence", hint='once="a-text"')
    if _KEY.fullmatch(once) is None:
        raise UsageError("the write key of a served graph is 1 to 128 visible ASCII characters")
    return once


def _utc_text(at: dt.datetime) -> str:
    zoned = at.replace(tzinfo=dt.UTC) if at.tzinfo is None else at.astimezone(dt.UTC)
    return zoned.isoformat()
