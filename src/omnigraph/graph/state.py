"""What the parts of a graph share. A graph is one class; its methods are grouped by theme, one file each."""

from __future__ import annotations

import datetime as dt
from functools import cached_property
from typing import TYPE_CHECKING

from omnigraph.graph.access import GRAPH, Caller
from omnigraph.views import Repository, View

if TYPE_CHECKING:
    from omnigraph.write import GroupCommitter


class GraphState:
    """The state of an open graph that the methods of all themes use."""

    _asks = GRAPH

    def __init__(
        self, repository: Repository, caller: Caller | None = None, committer: GroupCommitter | None = None
    ) -> None:
        self._repository = repository
        self._caller = caller
        if committer is not None:
            self._committer = committer

    @cached_property
    def _committer(self) -> GroupCommitter:
        from omnigraph.write import GroupCommitter

        return GroupCommitter(self._repository)

    @property
    def uri(self) -> str:
        """The folder or address of the graph."""
        return self._repository.store.uri

    def _view(self, revision: str, as_of: str | dt.datetime | None) -> View:
        return self._repository.resolve(revision, as_of)
