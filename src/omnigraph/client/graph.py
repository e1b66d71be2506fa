"""A graph of a server: the methods of an open graph, over HTTP."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from omnigraph.api.history import ServedCommit
from omnigraph.api.reads import ColumnJson
from omnigraph.client import decoding
from omnigraph.client.connection import ARROW, Connection, segment
from omnigraph.client.histories import RemoteHistoryMethods
from omnigraph.client.maintenance import RemoteMaintenance, RemoteRecovery
from omnigraph.client.reading import RemoteReadMethods, stored_result
from omnigraph.client.state import (
    COMMIT_HEADER,
    ENGINE,
    REFUSED,
    Refusing,
    RemoteState,
    checked_methods,
    is_replayed,
    no_actor,
    only_default,
    params_json,
    without_nulls,
    write_headers,
)
from omnigraph.client.writing import RemoteSchema, RemoteWriteMethods
from omnigraph.errors import MergeConflicts
from omnigraph.graph.arguments import Distance, checked
from omnigraph.graph.branches import Branch, Tag
from omnigraph.history.chain import MAIN
from omnigraph.history.write_keys import Once
from omnigraph.language.query.plan import ResultColumn

if TYPE_CHECKING:
    from omnigraph.language.schema.merging import Strategy
    from omnigraph.merge.resolutions import Resolution
    from omnigraph.merge.three_way import By, MergeResult
    from omnigraph.read.result import Result
    from omnigraph.tasks.engines import Engine
    from omnigraph.write.receipt import Receipt


# The branches and tags of a served graph.


@checked_methods
class RemoteBranches:
    """The branches of a served graph.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served.branches, og.types.RemoteBranches)
    """

    def __init__(self, state: RemoteState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<branches of {self._state.uri}>"

    def create(self, name: str, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Branch:
        """Create a branch at any revision: another branch's head, a tag, a commit, `branch~N`, a time."""
        body = without_nulls({"name": name, "from": self._state.at(revision, as_of)})
        reply = self._state.connection.send("POST", f"{self._state.path}/branches", body=body, repeat="unsent")
        return Branch(name, self._state.commit(reply.headers[COMMIT_HEADER]))

    def list(self) -> list[Branch]:
        """The branches, main first, then by name."""
        details = self._state.get("/branches", detail=True).json()["details"]
        branches = [Branch(detail["name"], ServedCommit.from_json(detail["head"])) for detail in details]
        return sorted(branches, key=lambda branch: (branch.name != MAIN, branch.name))

    def distances(self) -> dict[str, Distance]:
        """By branch: how many commits it has that main does not have, and the reverse."""
        details = self._state.get("/branches", detail=True).json()["details"]
        return {detail["name"]: Distance(detail["ahead"], detail["behind"]) for detail in details}

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a branch. BranchNotMerged if it has commits that no other branch or tag reaches, unless `force`."""
        path = f"{self._state.path}/branches/{segment(name)}"
        self._state.connection.send("DELETE", path, query={"force": force}, repeat="unsent")

    def exists(self, name: str) -> bool:
        """Whether there is such a branch now."""
        return name in self._state.get("/branches").json()["branches"]

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        strategy: Strategy = "fail",
        by: By = "row",
        dry_run: bool = False,
        delete_branch: bool = False,
        actor: str | None = None,
        message: str | None = None,
        resolutions: Sequence[Resolution] = (),
        expect: tuple[str, str] | None = None,
        engine: Engine = "local",
    ) -> MergeResult:
        """Bring a branch's changes into another, as one commit with two parents. MergeConflicts, with every conflict, if the
        branches contradict each other."""
        from omnigraph.merge.resolutions import check_resolutions

        no_actor(actor)
        only_default("engine", engine, "local", ENGINE)
        body = {
            "source": source,
            "target": into,
            "strategy": strategy,
            "by": by,
            "dry_run": dry_run,
            "delete_branch": delete_branch,
            "message": message,
            "resolutions": [check_resolution.to_json() for check_resolution in check_resolutions(resolutions)] or None,
            "expect": None if expect is None else {"source": expect[0], "target": expect[1]},
        }
        path = f"{self._state.path}/branches/merge"
        try:
            value = self._state.connection.send("POST", path, body=without_nulls(body), repeat="unsent").json()
        except MergeConflicts as error:
            self._type_values(error, into)
            raise
        has_values = any(conflict.get("properties") for conflict in value.get("conflicts", ()))
        return decoding.merge_result(value, self._state.catalog(into) if has_values else None)

    def _type_values(self, error: MergeConflicts, target: str) -> None:
        """Convert the values in conflict to the types that the target's schema declares."""
        if any(conflict.properties for conflict in error.conflicts):
            catalog = self._state.catalog(target)
            error.conflicts = tuple(
                decoding.merge_conflict(conflict.to_json(), catalog) for conflict in error.conflicts
            )


@checked_methods
class RemoteTags:
    """The tags of a served graph.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served.tags, og.types.RemoteTags)
    """

    def __init__(self, state: RemoteState) -> None:
        self._state = state

    def __repr__(self) -> str:
        return f"<tags of {self._state.uri}>"

    def create(self, name: str, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Tag:
        """Name the commit of a revision. AlreadyExists if a branch or another tag has the name."""
        body = {"name": name, "at": self._state.at(revision, as_of) or MAIN}
        reply = self._state.connection.send("POST", f"{self._state.path}/tags", body=body, repeat="unsent")
        return self._tag(reply.json())

    def list(self) -> list[Tag]:
        """The tags, by name."""
        return [self._tag(tag) for tag in self._state.get("/tags").json()["tags"]]

    def delete(self, name: str) -> None:
        """Remove a tag; its commit stays."""
        self._state.connection.send("DELETE", f"{self._state.path}/tags/{segment(name)}", repeat="unsent")

    def _tag(self, value: dict[str, Any]) -> Tag:
        return Tag(value["name"], self._state.commit(value["graph_commit_id"]))


# The stored queries of a served graph: listed, and run by their names.


@dataclass(frozen=True)
class ServedQuery:
    """A stored query of a server, with its parameters.

    >>> query = og.types.ServedQuery("everyone", is_mutation=False, parameters=())
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
    >>> assert isinstance(served.stored_queries, og.types.RemoteStoredQueries)
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
                tuple(ColumnJson.from_json(parameter) for parameter in query["params"]),
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


@checked
def connect(url: str, *, graph: str, token: str | None = None, timeout: float = 120.0) -> RemoteGraph:
    """A graph of a server. Nothing is sent before the first call.

    `token` says who you are; without it, the server must be open. `timeout` is how many seconds the server may take to answer a
    request. A served graph has the methods of `Graph`; [client](client.md) says which, and what is different.

    >>> served = og.connect("http://localhost:8080", graph="people", token="a-token")
    >>> assert served.uri == "http://localhost:8080/graphs/people"
    """
    return RemoteGraph(Connection(url, token, timeout=timeout), graph)


@checked_methods
class RemoteGraph(RemoteWriteMethods, RemoteReadMethods, RemoteHistoryMethods, Refusing):
    """A graph of a server. Safe to share between threads.

    It has the methods of an open graph, returns the same values and raises the same errors; methods that need direct access to
    storage raise UsageError. Reads are repeated if the server does not answer; so are writes, which carry a key under which the
    server makes them only once. The actor of writes is that of the token.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served, og.RemoteGraph)
    """

    _refused = REFUSED

    def __init__(self, connection: Connection, graph: str) -> None:
        self._state = RemoteState(connection, graph)

    def __repr__(self) -> str:
        return f"<RemoteGraph {self.uri}>"

    def __enter__(self) -> RemoteGraph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections to the server."""
        self._state.connection.close()

    @property
    def uri(self) -> str:
        """The address of the graph on its server."""
        return self._state.uri

    @property
    def schema(self) -> RemoteSchema:
        """The schema: look at it, change it."""
        return RemoteSchema(self._state)

    @property
    def maintenance(self) -> RemoteMaintenance:
        """Compact and clean up; how much space the graph takes."""
        return RemoteMaintenance(self._state)

    @property
    def recovery(self) -> RemoteRecovery:
        """Writes that were prepared and not published."""
        return RemoteRecovery(self._state)

    @property
    def branches(self) -> RemoteBranches:
        """Create, list, delete and merge branches."""
        return RemoteBranches(self._state)

    @property
    def tags(self) -> RemoteTags:
        """Names for commits."""
        return RemoteTags(self._state)

    @property
    def stored_queries(self) -> RemoteStoredQueries:
        """The stored queries of the server: list them, and run one by name."""
        return RemoteStoredQueries(self._state)
