"""The state that a load stands on."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.errors import BranchNotFound, UsageError
from omnigraph.history import Commit, Entry, WriteKey
from omnigraph.views import Repository, View


@dataclass(frozen=True)
class LoadBase:
    """What a load stands on: the head of its branch, or where the branch will start that its commit makes (`opening`).

    `entry` is that head or that opening. Its commit has the id of the opening, and `source` is the revision that the branch is made from.
    """

    view: View
    branch: str
    incarnation: str
    commit_id: str
    entry: Entry
    opening: Entry | None = None
    new_branch: bool = False
    source: str | None = None

    @classmethod
    def of(cls, repository: Repository, branch: str, from_: str | None = None, new_branch: bool = False) -> LoadBase:
        history = repository.history
        if new_branch and from_ is None:
            raise UsageError("a new branch needs a revision to start from", hint="from_='main' (--from main)")
        newest = history.chain.newest(branch)
        if newest is not None and newest.alive and not new_branch:
            return cls.at_head(repository, newest)
        if from_ is None:
            raise BranchNotFound(
                f"branch '{branch}' does not exist",
                hint="see 'omnigraph branch list'; from_='main' (--from main) makes the branch with the load",
            )
        opening = history.branches.opening(branch, history.revisions.entry(from_), history.new_id())
        history.tags.check_no_tag(branch)
        view = repository.view(opening.before)
        return cls(view, branch, opening.incarnation, opening.id, opening, opening, new_branch, from_)

    @classmethod
    def at_head(cls, repository: Repository, head: Entry) -> LoadBase:
        view, commit_id = repository.view(head.head), repository.history.new_id()
        return cls(view, head.branch, head.incarnation, commit_id, head)

    def committed(self, repository: Repository, key: WriteKey | None) -> Commit | None:
        """The commit that was made under a write key before; a branch starts with the keys of where it starts."""
        return None if key is None else repository.history.keys.committed(key, self.entry)
