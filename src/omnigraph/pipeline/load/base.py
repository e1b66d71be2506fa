"""The state that a load is based on."""

from __future__ import annotations

from dataclasses import dataclass, replace

from omnigraph.errors import BranchNotFound, UsageError
from omnigraph.history import Commit, Entry, WriteKey
from omnigraph.history.chain import PROBE_WINDOW_S
from omnigraph.views import Repository, View


class TrialView(View):
    """A state in which types without rows get their tables in a temporary folder of the load. A table in its final place could not be
    removed again, because others may write to it by then."""

    def __init__(self, view: View, folder: str) -> None:
        super().__init__(view.repository, view.snapshot)
        self._folder = folder

    def path(self, key: str) -> str:
        path = super().path(key)
        return path if self.state(key) is not None else f"{self._folder}/{path}"


@dataclass(frozen=True)
class LoadBase:
    """The state that a load is based on: the head of its branch, or the start of the branch that its commit creates (`opening`).

    `entry` is that head or opening. The commit has the id of the opening, and `source` is the revision that the branch starts from.
    """

    view: View
    branch: str
    incarnation: str
    commit_id: str
    entry: Entry
    opening: Entry | None = None
    new_branch: bool = False
    source: str | None = None
    since: float = 0.0
    """When the load began, before it read anything, by the clock of history."""
    start: Entry | None = None
    start_protected: frozenset[str] | None = None
    """The entry that the branch will start from, and what protects it from cleanup (`Branches.protection`)."""

    @classmethod
    def of(cls, repository: Repository, branch: str, from_: str | None = None, new_branch: bool = False) -> LoadBase:
        history = repository.history
        since = history.clock()
        if new_branch and from_ is None:
            raise UsageError("a new branch needs a revision to start from", hint="from_='main' (--from main)")
        newest = history.chain.newest(branch)
        if newest is not None and newest.alive and not new_branch:
            return cls.at_head(repository, newest, since)
        if from_ is None:
            raise BranchNotFound(
                f"branch '{branch}' does not exist",
                hint="see 'omnigraph branch list'; from_='main' (--from main) makes the branch with the load",
            )
        source = history.revisions.entry(from_)
        protected = history.branches.protection(source)
        opening = history.branches.opening(branch, source, history.new_id())
        history.tags.check_no_tag(branch)
        view = repository.view(opening.before)
        return cls(
            view,
            branch,
            opening.incarnation,
            opening.id,
            opening,
            opening,
            new_branch,
            from_,
            since,
            source,
            protected,
        )

    @classmethod
    def at_head(cls, repository: Repository, head: Entry, since: float) -> LoadBase:
        commit_id = repository.history.new_id()
        return cls(repository.view(head.head), head.branch, head.incarnation, commit_id, head, since=since)

    @property
    def folder(self) -> str:
        """The folder for files that are needed only while the load runs."""
        return f"staging/{self.commit_id}"

    def for_trial(self) -> LoadBase:
        """The base of a dry run, which publishes nothing."""
        return replace(self, view=TrialView(self.view, self.folder))

    def committed(self, repository: Repository, key: WriteKey | None) -> Commit | None:
        """The earlier commit under a write key. A new branch inherits the keys of its starting point."""
        return None if key is None else repository.history.keys.committed(key, self.entry)

    def check_protected(self, repository: Repository) -> None:
        """Called after the plan was stored: raises HistoryGap if cleanup may have removed the state that the branch starts from."""
        history = repository.history
        is_late = history.clock() - self.since >= PROBE_WINDOW_S
        if self.start is not None and (is_late or self.start_protected is not None):
            history.branches.check_protected(self.start, self.start_protected or frozenset())
