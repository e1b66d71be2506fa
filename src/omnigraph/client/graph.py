"""A graph of a server: the methods of an open graph, over HTTP."""

from __future__ import annotations

from types import TracebackType
from typing import Any

from omnigraph.client.branches import RemoteBranches, RemoteTags
from omnigraph.client.calling import checked_methods
from omnigraph.client.connection import Connection
from omnigraph.client.histories import RemoteHistoryMethods
from omnigraph.client.reading import RemoteReadMethods
from omnigraph.client.refusals import PROPERTIES, REFUSED, not_served
from omnigraph.client.state import RemoteState
from omnigraph.client.stored_queries import RemoteStoredQueries
from omnigraph.client.upkeep import RemoteUpkeepMethods
from omnigraph.client.writing import RemoteWriteMethods
from omnigraph.graph.arguments import checked
from omnigraph.history import MAIN
from omnigraph.language.catalog import Catalog


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
class RemoteGraph(RemoteWriteMethods, RemoteReadMethods, RemoteHistoryMethods, RemoteUpkeepMethods):
    """A graph of a server. Safe to share between threads.

    It has the methods of an open graph, returns the same values and raises the same errors; methods that need direct access to
    storage raise UsageError. Reads are repeated if the server does not answer; so are writes, which carry a key under which the
    server makes them only once. The actor of writes is that of the token.

    >>> served = og.connect("http://localhost:8080", graph="people")
    >>> assert isinstance(served, og.RemoteGraph)
    """

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

    def __getattr__(self, name: str) -> Any:
        reason = REFUSED.get(name)
        if reason is None:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        if name in PROPERTIES:
            raise not_served(name, reason)

        def refused(*_arguments: Any, **_options: Any) -> Any:
            raise not_served(name, reason)

        return refused

    def close(self) -> None:
        """Close the connections to the server."""
        self._state.connection.close()

    @property
    def uri(self) -> str:
        """The address of the graph on its server."""
        return self._state.uri

    @property
    def schema(self) -> Catalog:
        """The schema at the head of main."""
        return self._state.catalog(MAIN)

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
