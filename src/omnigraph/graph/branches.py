"""Branches: creating, listing, deleting and merging them."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from omnigraph.errors import PolicyDenied
from omnigraph.graph.access import BRANCHES, TAGS, Caller, public_api
from omnigraph.graph.arguments import Distance, distance_between
from omnigraph.history.chain import MAIN
from omnigraph.history.values import Commit
from omnigraph.policy.ask import AccessRequest
from omnigraph.snapshot import Repository
from omnigraph.tasks.engines import Engine, make_workers

if TYPE_CHECKING:
    from omnigraph.language.schema.merging import Strategy
    from omnigraph.merge.resolutions import Resolution
    from omnigraph.merge.three_way import By, MergeResult


# Tags: names for commits.


@dataclass(frozen=True)
class Tag:
    """A tag and the commit it names.

    >>> tag = g.tags.create("v2")
    >>> assert (tag.name, tag.head) == ("v2", g.head())
    """

    name: str
    head: Commit

    def __repr__(self) -> str:
        return f"<Tag {self.name} at {self.head.id}>"

    @property
    def at(self) -> dt.datetime:
        """When the tagged commit was made."""
        return self.head.at


@public_api
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
        >>> assert g.query(Path("people.gq"), name="everyone", revision="v1").commit == tag.head
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


@dataclass(frozen=True)
class Branch:
    """A branch and its newest commit.

    >>> main, *others = g.branches.list()
    >>> assert (main.name, main.head, main.at) == ("main", g.head(), g.head().at)
    """

    name: str
    head: Commit

    def __repr__(self) -> str:
        return f"<Branch {self.name} at {self.head.id}>"

    @property
    def at(self) -> dt.datetime:
        """When its newest commit was made."""
        return self.head.at


@public_api
class GraphBranches:
    """The branches of a graph.

    >>> assert g.branches.list()[0].name == "main"
    """

    _asks = BRANCHES

    def __init__(self, repository: Repository, caller: Caller | None = None) -> None:
        self._repository = repository
        self._caller = caller

    def __repr__(self) -> str:
        return f"<branches of {self._repository.store.uri}>"

    def create(self, name: str, revision: str = MAIN, *, as_of: str | dt.datetime | None = None) -> Branch:
        """Create a branch at any revision: another branch's head, a tag, a commit, `branch~N`, a time. Writes one object.

        >>> review = g.branches.create("review", "main~1")
        >>> assert review.head == g.show("main~1")
        """
        history = self._repository.history
        return Branch(name, history.branches.create(name, history.revisions.entry(revision, as_of)).head.commit)

    def list(self) -> list[Branch]:
        """The branches, main first, then by name.

        >>> assert [branch.name for branch in g.branches.list()] == ["main", "inbox", "review"]
        """
        return [Branch(entry.branch, entry.head.commit) for entry in self._repository.history.branches.list()]

    def distances(self) -> dict[str, Distance]:
        """By branch: how many commits it has that main does not have, and the reverse.

        >>> assert g.branches.distances()["main"] == og.types.Distance(ahead=0, behind=0)
        """
        history = self._repository.history
        entries = history.branches.list()
        main = next(entry for entry in entries if entry.branch == MAIN)
        return {entry.branch: distance_between(history, entry, main) for entry in entries}

    def delete(self, name: str, *, force: bool = False) -> None:
        """Delete a branch. BranchNotMerged if it has commits that no other branch or tag reaches, unless `force`.

        Until cleanup removes them, the commits of a deleted branch can be found by their ids.

        >>> g.branches.delete("inbox", force=True)
        >>> assert not g.branches.exists("inbox")
        """
        self._repository.history.branches.delete(name, force=force)

    def exists(self, name: str) -> bool:
        """Whether there is such a branch now.

        >>> assert g.branches.exists("review")
        """
        newest = self._repository.history.chain.newest(name)
        return newest is not None and newest.alive

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
        """Bring a branch's changes into another, as one commit with two parents.

        MergeConflicts, with every conflict, when the branches contradict each other; nothing is published then. Strategy
        "ours" lets the target win, "theirs" the source; `by="property"` merges an entity property by property. With an
        engine on Spark, rows are compared by Spark's workers, which suits branches with very many changes.

        `resolutions` settle conflicts entity by entity (`conflict.resolve(...)`), before any strategy; StaleResolution if the
        values have changed since one was made. The commit's message names them. `expect` are the commit ids of the
        source's and the target's head that were reviewed: PreconditionFailed when either branch has moved.

        >>> g.mutate(Path("people.gq"), {"name": "Ada", "age": 37}, name="grow", branch="review")
        >>> merged = g.branches.merge("review", actor="ada")
        >>> assert merged.outcome == "merged"
        """
        from omnigraph.merge.merge import MergeOptions, merge_branches

        refusal = self._refuses_deletion(source, actor) if delete_branch else None
        result = merge_branches(
            self._repository,
            source,
            into,
            MergeOptions(strategy, by, dry_run, actor, message, resolutions),
            delete_branch=delete_branch and refusal is None,
            expect=expect,
            workers=make_workers(engine, self._repository.store.uri),
        )
        if refusal is None or dry_run:
            return result
        return replace(result, branch_deleted=False, branch_delete_error=refusal.message)

    def _refuses_deletion(self, branch: str, actor: str | None) -> PolicyDenied | None:
        """Why the policy does not let a merge delete its source, if so; the merge itself goes ahead."""
        if self._caller is None:
            return None
        try:
            self._caller.ask(AccessRequest("branch_delete", target_branch=branch.strip()), actor)
        except PolicyDenied as refusal:
            return refusal
        return None
