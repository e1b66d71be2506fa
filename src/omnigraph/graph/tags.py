"""Tags: names for commits."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass

from omnigraph.graph.access import TAGS, Caller
from omnigraph.graph.boundary import names_damage
from omnigraph.history import MAIN, Commit
from omnigraph.views import Repository


@dataclass(frozen=True)
class Tag:
    """A tag and the commit it names.

    >>> tag = g.tags.create("v2")
    >>> assert (tag.name, tag.head) == ("v2", g.commit())
    """

    name: str
    head: Commit

    def __repr__(self) -> str:
        return f"<Tag {self.name} at {self.head.id}>"

    @property
    def at(self) -> dt.datetime:
        """When the tagged commit was made."""
        return self.head.at


@names_damage
class GraphTags:
    """Names for commits; a tagged commit is kept by cleanup.

    >>> assert g.tags.list() == []
    """

    _asks = TAGS

    def __init__(self, repository: Repository, caller: Caller | None = None) -> None:
        self._repository = repository
        self._caller = caller

    def __repr__(self) -> str:
        return f"<tags of {self._repository.store.uri}>"

    def create(self, name: str, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Tag:
        """Name the commit of a revision. AlreadyExists if a branch or another tag has the name.

        >>> tag = g.tags.create("v1", "main~1")
        >>> assert g.query("people.gq", name="everyone", revision="v1").commit == tag.head
        """
        commit = self._repository.resolve(revision, as_of).snapshot.commit
        self._repository.history.tags.create(name, commit.ref)
        return Tag(name, commit)

    def list(self) -> list[Tag]:
        """The tags, by name.

        >>> assert [tag.name for tag in g.tags.list()] == ["v1"]
        """
        history = self._repository.history
        return [Tag(name, history.revisions.snapshot(ref).commit) for name, ref in history.tags.list().items()]

    def delete(self, name: str) -> None:
        """Remove a tag; its commit stays.

        >>> g.tags.delete("v1")
        """
        self._repository.history.tags.delete(name)
