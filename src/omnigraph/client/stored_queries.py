"""The stored queries of a served graph: listed, and run by their names."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from omnigraph.client import decoding
from omnigraph.client.calling import checked_methods
from omnigraph.client.connection import ARROW, segment
from omnigraph.client.results import stored_result
from omnigraph.client.state import RemoteState, is_replayed, params_json, without_nulls, write_headers
from omnigraph.history import MAIN, Once
from omnigraph.language.query.plan import ResultColumn

if TYPE_CHECKING:
    from omnigraph.read import Result
    from omnigraph.write import Receipt


@dataclass(frozen=True)
class ServedQuery:
    """A stored query of a server, with its parameters.

    >>> query = og.ServedQuery("everyone", is_mutation=False, parameters=())
    >>> assert query.description is None
    """

    name: str
    is_mutation: bool
    parameters: tuple[ResultColumn, ...]
    description: str | None = None
    instruction: str | None = None


@checked_methods
class RemoteStoredQueries:
    """The stored queries of a served graph that the caller may run.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served.stored_queries, og.RemoteStoredQueries)
    """

    def __init__(self, state: RemoteState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<stored queries of {self._state.uri}>"

    def list(self) -> list[ServedQuery]:
        """The stored queries, by name."""
        return [
            ServedQuery(
                query["name"],
                query["mutation"],
                tuple(ResultColumn(**parameter) for parameter in query["params"]),
                query.get("description"),
                query.get("instruction"),
            )
            for query in self._state.get("/queries").json()["queries"]
        ]

    def query(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        revision: str = MAIN,
        as_of: str | dt.datetime | None = None,
        timeout: float | None = None,
    ) -> Result:
        """Run a stored read against one immutable snapshot; after `timeout` seconds it ends with QueryTimeout."""
        at = self._state.at(revision, as_of)
        body = without_nulls({"params": params_json(params), "snapshot": at, "expect_mutation": False})
        started = perf_counter()
        reply = self._state.connection.send("POST", self._path(name), body=body, accept=ARROW, timeout=timeout)
        return stored_result(self._state, reply, perf_counter() - started)

    def mutate(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        message: str | None = None,
        if_commit: str | None = None,
        once: Once | None = None,
    ) -> Receipt:
        """Run a stored mutation as one commit; the receipt names it, or None if nothing changed."""
        body = {"params": params_json(params), "branch": branch, "message": message, "expect_mutation": True}
        headers, path = write_headers(once, None), self._path(name)
        if if_commit is not None:
            headers["Omnigraph-If-Graph-Commit"] = write_headers(once, if_commit)["If-Match"].strip('"')
            path += "/if-graph-commit"
        reply = self._state.connection.send("POST", path, body=without_nulls(body), headers=headers)
        return decoding.receipt(reply.json(), repeated=once is not None and is_replayed(reply.headers))

    def _path(self, name: str) -> str:
        return f"{self._state.path}/queries/{segment(name)}"
