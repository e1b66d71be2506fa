"""What the parts of a graph share. A graph is one class; its methods are written by theme, a file each."""

from __future__ import annotations

import datetime as dt

from omnigraph.views import Repository, View
from omnigraph.write import GroupCommitter


class GraphState:
    """The state of an open graph, and what every theme needs of it."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._committer = GroupCommitter(repository)

    @property
    def uri(self) -> str:
        """The folder or address of the graph."""
        return self._repository.store.uri

    def _view(self, revision: str, as_of: str | dt.datetime | None) -> View:
        return self._repository.resolve(revision, as_of)
