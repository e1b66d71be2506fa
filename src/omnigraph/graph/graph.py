"""A graph: the class that `init` and `open` return."""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

from omnigraph.graph.access import Caller
from omnigraph.graph.boundary import names_damage
from omnigraph.graph.branches import GraphBranches
from omnigraph.graph.copies import CopyMethods
from omnigraph.graph.history import HistoryMethods
from omnigraph.graph.reading import ReadMethods
from omnigraph.graph.recovery import GraphRecovery
from omnigraph.graph.schemas import SchemaMethods
from omnigraph.graph.tags import GraphTags
from omnigraph.graph.undoing import UndoMethods
from omnigraph.graph.upkeep import UpkeepMethods
from omnigraph.graph.writing import WriteMethods
from omnigraph.history import MAIN

if TYPE_CHECKING:
    from omnigraph.language.catalog import Catalog


@names_damage
class Graph(WriteMethods, UndoMethods, UpkeepMethods, CopyMethods, ReadMethods, SchemaMethods, HistoryMethods):
    """An open graph. Safe to share between threads; any number of processes may have it open.

    A read takes a `revision`: a branch, a tag, a commit id or a unique beginning of one, or `branch~N`, N commits before
    the branch's head. With `as_of`, a time, it reads that branch as it was then. A write takes a `branch`. Times are UTC.

    >>> g = og.open("./people")
    >>> assert g.schema.edges["Knows"].target == "Person"
    """

    def __repr__(self) -> str:
        return f"<Graph {self.uri}>"

    def __enter__(self) -> Graph:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Nothing is pending: a commit is durable when the call that made it returns."""
        self.close()

    def close(self) -> None:
        """Drop what is cached of the graph in memory. The graph can still be used: it then reads from storage.

        >>> cities = og.open("./cities")
        >>> cities.close()
        """
        self._repository.close()

    def as_(self, actor: str, *, query: str | None = None) -> Graph:
        """The same graph, used by an actor: writes are recorded under that name, and the policy is asked about it.

        `query` is for a server of stored queries: the policy is asked for each call as part of the stored query of this name.

        >>> assert g.as_("bo").branches.exists("main")
        """
        return Graph(self._repository, (self._caller or Caller(None, None)).named(actor, query), self._committer)

    @property
    def id(self) -> str:
        """The graph's id, given when it was created; copies have the same one."""
        return self._repository.history.identity.graph_id

    @property
    def schema(self) -> Catalog:
        """The schema at the head of main; `g.snapshot(revision).schema` for any other."""
        return self._repository.head(MAIN)[1].catalog

    @property
    def branches(self) -> GraphBranches:
        """Create, list, delete and merge branches."""
        return GraphBranches(self._repository, self._caller)

    @property
    def tags(self) -> GraphTags:
        """Names for commits."""
        return GraphTags(self._repository, self._caller)

    @property
    def recovery(self) -> GraphRecovery:
        """Writes that were interrupted between staging and publishing."""
        return GraphRecovery(self._repository, self._caller)
